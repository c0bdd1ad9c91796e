"""Links to traces that are not stored yet, as clients that export in the background send them."""

from __future__ import annotations

from itertools import count

import pytest

from mlflow_dynamodbstore.keys.traces import trace_locator_key
from mlflow_dynamodbstore.traces import creation, links
from tests.interleaving import interleaved, two_stores
from tests.stores import everything_in
from tests.traces.making import make_info, make_spans, trace_id

TRACE = trace_id(1)
DAY = 24 * 60 * 60
RUNS = ["a" * 32, "b" * 32]
BEGIN = {
    "info": lambda store, where, trace=TRACE: store.start_trace(make_info(trace, where)),
    "spans": lambda store, where, trace=TRACE: store.log_spans(where, make_spans(trace, 3)),
}


def linked_runs(store, experiment, trace=TRACE):
    """The runs by which a search finds a trace."""
    return [run_id for run_id in RUNS if trace in found_by(store, experiment, run_id)]


def found_by(store, experiment, run_id):
    traces, _ = store.search_traces([experiment], f"attribute.run_id = '{run_id}'")
    return [trace.trace_id for trace in traces]


@pytest.mark.parametrize("begin", BEGIN.values(), ids=BEGIN)
def test_a_link_may_come_before_its_trace(store, other, experiment, begin):
    for run_id in RUNS:
        store.link_traces_to_run([TRACE], run_id)
    assert linked_runs(other, experiment) == []
    begin(other, experiment)
    assert linked_runs(store, experiment) == RUNS


@pytest.mark.parametrize("begin", BEGIN.values(), ids=BEGIN)
def test_an_early_link_can_be_taken_back(store, experiment, begin):
    for run_id in RUNS:
        store.link_traces_to_run([TRACE], run_id)
    store.unlink_traces_from_run([TRACE], RUNS[0])
    begin(store, experiment)
    assert linked_runs(store, experiment) == RUNS[1:]
    store.unlink_traces_from_run([TRACE], RUNS[1])
    assert linked_runs(store, experiment) == []


def test_unlinking_a_trace_that_never_was_leaves_nothing(store):
    before = everything_in(store.table)
    store.unlink_traces_from_run([TRACE], RUNS[0])
    assert everything_in(store.table) == before


def test_early_links_expire_as_traces_do(store, time):
    store.link_traces_to_run([TRACE], RUNS[0])
    assert store.table.get(trace_locator_key(TRACE))["ttl"] == int(time()) + 30 * DAY


@pytest.mark.parametrize("begin", BEGIN.values(), ids=BEGIN)
def test_an_early_link_that_has_expired_is_not_taken_over(store, other, experiment, time, begin):
    store.link_traces_to_run([TRACE], RUNS[0])
    time.now += 31 * DAY
    begin(other, experiment)
    assert linked_runs(store, experiment) == []


@pytest.mark.parametrize("begin", BEGIN.values(), ids=BEGIN)
def test_a_link_to_a_trace_that_has_expired_waits_for_the_next(
    store, other, experiment, time, begin
):
    begin(store, experiment)
    store.link_traces_to_run([TRACE], RUNS[0])
    time.now += 31 * DAY
    store.link_traces_to_run([TRACE], RUNS[1])
    assert linked_runs(other, experiment) == []
    begin(other, experiment)
    assert linked_runs(other, experiment) == RUNS[1:]


def test_a_trace_with_early_links_only_is_not_there(store, experiment):
    store.link_traces_to_run([TRACE], RUNS[0])
    assert store.batch_get_trace_infos([TRACE]) == []
    assert store.batch_get_traces([TRACE]) == []
    assert store.delete_traces(experiment, trace_ids=[TRACE]) == 0


@pytest.mark.parametrize("swapped", [False, True], ids=["begin first", "link first"])
@pytest.mark.parametrize("begin", BEGIN.values(), ids=BEGIN)
def test_no_link_is_lost_when_its_trace_begins_at_the_same_moment(
    tmp_path, monkeypatch, begin, swapped
):
    """Here a call that begins a trace always looks again, since the other cannot wait for it."""
    monkeypatch.setattr(creation, "LATE_SECONDS", 0)
    monkeypatch.setattr(links, "WAIT_SECONDS", 0)
    two = two_stores(tmp_path)
    experiment = two.first.create_experiment("traced")
    numbers = count(1)

    def linked_trace():
        trace = trace_id(next(numbers))
        two.second.link_traces_to_run([trace], RUNS[0])
        return trace

    operations = [
        lambda store, trace: begin(store, experiment, trace),
        lambda store, trace: store.link_traces_to_run([trace], RUNS[1]),
    ]
    one, other = reversed(operations) if swapped else operations
    ends = [
        end
        for _, end, _ in interleaved(
            two,
            linked_trace,
            one,
            other,
            lambda trace: tuple(linked_runs(two.second, experiment, trace)),
        )
    ]
    assert ends
    assert {(end.of_one, end.of_other, end.state) for end in ends} == {(None, None, tuple(RUNS))}
