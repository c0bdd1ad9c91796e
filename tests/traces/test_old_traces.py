"""Traces of version 1, which LSI1 does not list: found, changed and upgraded."""

from __future__ import annotations

import pytest

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.shared.experiment_items import OLD_TRACES
from mlflow_dynamodbstore.table.contract import Put
from tests.places import items_in, trace_place
from tests.stores import everything_in
from tests.traces.making import NOON, feedback, make_info, make_spans, trace_id

NEWEST_FIRST = [trace_id(n) for n in (3, 2, 1, 0)]


def as_it_was(store):
    """Rewrite all items as they were before LSI1 listed traces."""
    for item in everything_in(store.table):
        if item["SK"] == experiment_keys.EXPERIMENT_META:
            store.table.engine.apply(Put({**item, "v": 1}))
        elif item["SK"].startswith("T#") and "lsi1sk" in item:
            old = {name: item[name] for name in item if name not in ("v", "lsi1sk")}
            store.table.engine.apply(Put(old))


def stored(store, trace):
    return store.table.engine.get(trace_place(store.table, trace).key)


def meta(store, experiment):
    return store.table.engine.get(experiment_keys.experiment_key(experiment))


def found(store, experiment, **search):
    return [info.trace_id for info in store.search_traces([experiment], **search)[0]]


@pytest.fixture
def old(store, experiment):
    """An experiment with three old traces, and a new one among them."""
    for n in (0, 1, 3):
        store.log_spans(experiment, make_spans(trace_id(n), start=NOON + n))
        store.start_trace(make_info(trace_id(n), experiment, start=NOON + n, tags={"n": str(n)}))
    as_it_was(store)
    assert "lsi1sk" not in stored(store, trace_id(0))
    store.start_trace(make_info(trace_id(2), experiment, start=NOON + 2, tags={"n": "2"}))
    assert stored(store, trace_id(2))["v"] == 2
    return experiment


def test_old_traces_are_found_among_new_ones(other, old):
    """In their order, by tag, in pages, by status and by id."""
    assert found(other, old) == NEWEST_FIRST
    assert found(other, old, filter_string="tags.n = '1'") == [trace_id(1)]
    assert found(other, old, filter_string="status = 'OK'") == NEWEST_FIRST
    assert found(other, old, filter_string="status = 'ERROR'") == []
    first, token = other.search_traces([old], max_results=3)
    rest, _ = other.search_traces([old], max_results=3, page_token=token)
    assert [info.trace_id for info in (*first, *rest)] == NEWEST_FIRST
    assert len(other.get_trace(trace_id(0)).data.spans) == 10


@pytest.mark.parametrize(
    "write",
    [
        lambda s, e: s.start_trace(make_info(trace_id(0), e, start=NOON)),
        lambda s, e: s.log_spans(e, make_spans(trace_id(0), 12, start=NOON)[10:]),
        lambda s, e: s.delete_trace_tag(trace_id(0), "n"),
    ],
)
def test_a_write_brings_an_old_trace_to_the_newest_form(other, old, write):
    """LSI1 lists it then."""
    write(other, old)
    item = stored(other, trace_id(0))
    assert item["v"] == 2
    assert item["lsi1sk"] == index_keys.lsi1_trace(trace_id(0), NOON)
    assert found(other, old) == NEWEST_FIRST


def test_writes_that_do_not_look_leave_the_form_alone(other, old):
    """Setting one attribute does not upgrade the others."""
    other.set_trace_tag(trace_id(0), "seen", "yes")
    other.create_assessment(feedback(trace_id(0), "good", 1))
    other.link_traces_to_run([trace_id(0)], "a" * 32)
    assert "lsi1sk" in (other.table.get(trace_place(other.table, trace_id(0)).key) or {})
    assert found(other, old, filter_string="tags.seen = 'yes'") == [trace_id(0)]
    assert found(other, old) == NEWEST_FIRST


def test_deleting_by_time_finds_old_traces(other, old):
    assert other.delete_traces(old, max_timestamp_millis=NOON + 1) == 2
    assert found(other, old) == [trace_id(3), trace_id(2)]


def test_a_write_brings_an_old_experiment_to_the_newest_form(other, old):
    """It then says that it may hold old traces; searches still find them."""
    other.rename_experiment(old, "renamed")
    assert (meta(other, old)["v"], meta(other, old)[OLD_TRACES]) == (3, True)
    assert found(other, old) == NEWEST_FIRST


def test_a_renewal_brings_all_traces_to_the_newest_form(other, old):
    """Then searches read them whole from LSI1, in this process and in others."""
    other.trace_retention.renew([old])
    assert meta(other, old)["v"] == 3
    assert OLD_TRACES not in meta(other, old)
    assert len(items_in(other.table, old, index_keys.traces_by_time(), "LSI1")) == 4
    assert other.trace_time_indexes.of([old]) == {old: "LSI1"}
    assert found(other, old) == NEWEST_FIRST


def test_a_new_experiment_has_no_old_traces(store, experiment):
    assert meta(store, experiment)["v"] == 3
    assert store.trace_time_indexes.of([experiment]) == {experiment: "LSI1"}
