"""What belongs to a trace: tags, links, its expiry; and that deleting leaves none of it."""

from __future__ import annotations

import random

import pytest

from mlflow_dynamodbstore.shared.policies import TRACE_RETENTION
from mlflow_dynamodbstore.traces import retention
from mlflow_dynamodbstore.traces.retention import Renewal
from tests.stores import everything_in, refused
from tests.traces.making import NOON, feedback, make_info, make_prompt, make_spans, trace_id

TRACE = trace_id(1)
NOISE = random.Random(0).randbytes(9000).hex()
DAY = 24 * 60 * 60


@pytest.fixture
def whole(store, experiment):
    """A trace with one of everything."""
    metadata = {"mlflow.trace.session": "s"}
    store.log_spans(experiment, make_spans(TRACE))
    store.log_spans(experiment, make_spans(TRACE, 12)[10:])
    store.start_trace(make_info(TRACE, experiment, metadata=metadata))
    store.set_trace_tag(TRACE, "short", "1")
    store.set_trace_tag(TRACE, "long", "x" * 5000)
    store.create_assessment(feedback(TRACE, "a", 1, metadata=metadata, rationale=NOISE))
    prompts = [make_prompt("greeting", 3)]
    store.link_prompts_to_trace(TRACE, prompts)
    store.link_traces_to_run([TRACE, "tr-none"], "a" * 32)
    return experiment


def items_of(store, trace):
    return [item for item in everything_in(store.table) if trace in str(item)]


def test_every_item_of_a_trace_expires_with_it(store, other, whole, time):
    kinds = {(i["PK"].split("#")[0], *i["SK"].split("#")[2:3]) for i in items_of(store, TRACE)}
    assert kinds == {("EXP",), ("EXP", "TAG"), ("EXP", "SPANS"), ("EXP", "ASSESS"), ("TRACE",)}
    assert {item.get("ttl") for item in items_of(store, TRACE)} == {int(time()) + 30 * DAY}
    time.now += 30 * DAY
    assert other.search_traces([whole])[0] == []
    with refused("RESOURCE_DOES_NOT_EXIST", "not found"):
        other.get_trace_info(TRACE)
    other.start_trace(make_info(TRACE, whole, name="again"))
    assert other.get_trace_info(TRACE).tags["mlflow.traceName"] == "again"
    assert "short" not in other.get_trace_info(TRACE).tags


def test_without_a_retention_nothing_expires(store, experiment):
    store.policies.set(TRACE_RETENTION, 0)
    store.log_spans(experiment, make_spans(TRACE))
    store.set_trace_tag(TRACE, "a", "b")
    assert not [item for item in items_of(store, TRACE) if "ttl" in item]


@pytest.mark.parametrize("days", [0, 7, 90])
def test_a_changed_retention_prolongs_traces_that_are_there(store, other, whole, time, days):
    """All that belongs to a trace lives longer with it, or for good; nothing goes earlier."""
    store.start_trace(make_info(trace_id(2), whole))
    created, changed = int(time()), 0 if days == 7 else 2
    time.now += 5 * DAY
    store.policies.set(TRACE_RETENTION, days)
    seen: list[Renewal] = []
    assert store.trace_retention.renew([whole], seen.append) == Renewal(2, changed)
    assert seen == [Renewal(2, changed)]
    expected = {0: None, 7: created + 30 * DAY, 90: created + 90 * DAY}[days]
    for trace in (TRACE, trace_id(2)):
        assert {item.get("ttl") for item in items_of(store, trace)} == {expected}
    assert store.trace_retention.renew([whole]) == Renewal(2, 0)
    time.now += 30 * DAY
    assert len(other.search_traces([whole])[0]) == (0 if days == 7 else 2)


def test_a_trace_without_expiry_keeps_none(store, experiment):
    store.policies.set(TRACE_RETENTION, 0)
    store.log_spans(experiment, make_spans(TRACE))
    store.policies.set(TRACE_RETENTION, 30)
    assert store.trace_retention.renew([experiment]) == Renewal(1, 0)
    assert not [item for item in items_of(store, TRACE) if "ttl" in item]


def test_a_renewal_that_was_stopped_can_be_run_again(store, experiment, time, monkeypatch):
    """What was done is kept, the rest follows; an expired trace does not come back."""
    monkeypatch.setattr(retention, "AT_ONCE", 2)
    store.start_trace(make_info(trace_id(9), experiment))
    time.now += 29 * DAY
    for n in range(5):
        store.start_trace(make_info(trace_id(n), experiment))
    time.now += 2 * DAY

    def stop(done: Renewal) -> None:
        if done.looked_at == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.trace_retention.renew([experiment], stop, days=60)
    assert store.trace_retention.renew([experiment], days=60) == Renewal(5, 1)
    assert store.trace_retention.renew([experiment], days=60) == Renewal(5, 0)


def test_deleting_a_trace_leaves_nothing_of_it(store, other, whole):
    assert other.delete_traces(whole, trace_ids=[TRACE, "tr-none"]) == 1
    assert items_of(store, TRACE) == []
    with refused("RESOURCE_DOES_NOT_EXIST", "not found"):
        store.get_trace_info(TRACE)
    store.log_spans(whole, make_spans(TRACE))  # the store has cached the deleted trace
    assert len(other.get_trace(TRACE).data.spans) == 10


def test_deleting_by_time_takes_the_oldest_first_up_to_and_with_that_time(store, experiment):
    for n in range(6):
        store.start_trace(make_info(trace_id(n), experiment, start=NOON + n))
    elsewhere = store.create_experiment("elsewhere")
    store.start_trace(make_info(trace_id(9), elsewhere, start=NOON))
    assert store.delete_traces(experiment, max_timestamp_millis=NOON + 4, max_traces=2) == 2
    assert store.delete_traces(experiment, max_timestamp_millis=NOON + 3) == 2
    left, _ = store.search_traces([experiment, elsewhere], order_by=["timestamp ASC"])
    assert {info.trace_id for info in left} == {trace_id(4), trace_id(5), trace_id(9)}


def test_tags_of_any_length_are_set_found_and_deleted(store, other, experiment):
    store.start_trace(make_info(TRACE, experiment, tags={"a": "x" * 4000, "b": "1"}))
    for key, value in (("a", "short"), ("b", "y" * 4000), ("a b/c:d.e", "é" * 700)):
        store.set_trace_tag(TRACE, key, value)
        assert other.get_trace_info(TRACE).tags[key] == value
        found, _ = other.search_traces([experiment], f"tags.`{key}` = '{value}'")
        assert len(found) == 1
    for key in ("a", "b", "a b/c:d.e", "mlflow.artifactLocation"):
        other.delete_trace_tag(TRACE, key)
        assert key not in store.get_trace_info(TRACE).tags
        with refused("RESOURCE_DOES_NOT_EXIST", "No trace tag with key"):
            store.delete_trace_tag(TRACE, key)
    assert not [item for item in everything_in(store.table) if "#TAG#" in item["SK"]]


def test_the_name_is_a_tag_that_can_be_changed(store, other, experiment):
    store.start_trace(make_info(TRACE, experiment))
    other.set_trace_tag(TRACE, "mlflow.traceName", "renamed")
    found, _ = store.search_traces([experiment], "name = 'renamed'")
    assert [info.tags["mlflow.traceName"] for info in found] == ["renamed"]
    other.delete_trace_tag(TRACE, "mlflow.traceName")
    assert store.search_traces([experiment], "name = 'renamed'")[0] == []


def test_links_are_found_and_can_be_taken_back(store, other, whole):
    run = "a" * 32
    assert len(other.search_traces([whole], f"run_id = '{run}'")[0]) == 1
    assert len(other.search_traces([whole], "prompt = 'greeting/3'")[0]) == 1
    assert not other.search_traces([whole], "prompt = 'greeting/4'")[0]
    store.unlink_traces_from_run([TRACE], run)
    assert not other.search_traces([whole], f"run_id = '{run}'")[0]
    with refused("INVALID_PARAMETER_VALUE", "Cannot link more than 100 traces"):
        store.link_traces_to_run([trace_id(n) for n in range(101)], run)
