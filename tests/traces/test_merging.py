"""Infos and spans of one trace, in either order, in batches, from several writers."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from mlflow.entities.trace_state import TraceState
from mlflow.exceptions import MlflowException
from opentelemetry.sdk.resources import Resource

from mlflow_dynamodbstore.table.sizes import item_size
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.faults import CrashingEngine, SimulatedCrash
from tests.stores import everything_in, refused
from tests.traces.making import (
    NOON,
    client_metadata,
    make_info,
    make_span,
    make_spans,
    trace_id,
    usage,
)

TRACE = trace_id(1)


def span_ids(spans):
    return {span.span_id for span in spans}


def test_spans_can_be_logged_from_an_event_loop(store, experiment):
    """As the server's OTLP endpoint does; releases before 3.17 leave it to each store."""
    spans = make_spans(TRACE, 2)
    logged = asyncio.run(store.log_spans_async(experiment, spans))
    assert span_ids(logged) == span_ids(store.get_trace(TRACE).data.spans) == span_ids(spans)
    with pytest.raises(MlflowException, match="No Experiment with id=404"):
        asyncio.run(store.log_spans_async("404", make_spans(trace_id(2), 1)))


def test_a_trace_is_found_by_its_id_the_moment_it_was_written(store, other, experiment):
    store.start_trace(make_info(TRACE, experiment))
    assert other.get_trace_info(TRACE).trace_id == TRACE
    store.log_spans(experiment, make_spans(trace_id(2)))
    assert len(other.get_trace(trace_id(2)).data.spans) == 10


@pytest.mark.parametrize("spans_first", [True, False])
def test_either_call_may_come_first_and_the_info_has_the_last_word(
    store, other, experiment, spans_first
):
    spans = make_spans(TRACE, start=NOON + 100)
    info = make_info(TRACE, experiment, metadata=client_metadata())
    if spans_first:
        store.log_spans(experiment, spans)
        other.start_trace(info)
    else:
        store.start_trace(info)
        other.log_spans(experiment, spans)
    trace = other.get_trace(TRACE)
    assert (trace.info.request_time, trace.info.execution_duration) == (NOON, 29)
    assert trace.info.tags["mlflow.traceName"] == "predict"
    assert trace.info.tags["mlflow.trace.spansLocation"] == "TRACKING_STORE"
    assert trace.info.tags["mlflow.artifactLocation"].endswith(f"traces/{TRACE}/artifacts")
    assert json.loads(trace.info.trace_metadata["mlflow.trace.tokenUsage"]) == {
        "input_tokens": 13 + 16 + 19,
        "output_tokens": 15,
        "total_tokens": 63,
    }
    assert span_ids(trace.data.spans) == span_ids(spans)
    assert [s.name for s in trace.data.spans] == [s.name for s in spans]


def test_spans_alone_make_a_trace_that_lasts_from_the_first_to_the_last(store, experiment):
    store.log_spans(experiment, [make_span(TRACE, 5, start=NOON, lasting=10)])
    info = store.get_trace_info(TRACE)
    assert (info.state, info.request_time) == (TraceState.IN_PROGRESS, NOON + 5)
    store.log_spans(experiment, [make_span(TRACE, 0, start=NOON, lasting=100, failed=True)])
    info = store.get_trace_info(TRACE)
    assert (info.state, info.request_time, info.execution_duration) == (
        TraceState.ERROR,
        NOON,
        100,
    )


def test_a_trace_with_a_span_that_has_not_ended_takes_more_spans(store, other, experiment):
    """A client may send a span when it begins, and again when it ends."""
    store.log_spans(experiment, [make_span(TRACE, 0, lasting=None)])
    assert other.get_trace(TRACE, allow_partial=True).data.spans[0].end_time_ns is None
    other.log_spans(experiment, [make_span(TRACE, 1), make_span(TRACE, 0)])
    ended = {span.span_id: span.end_time_ns for span in store.get_trace(TRACE).data.spans}
    assert len(ended) == 2
    assert None not in ended.values()


def test_a_span_that_is_sent_again_replaces_itself(store, other, experiment):
    store.log_spans(experiment, [make_span(TRACE, 0, name="first", attributes=usage(3, 4))])
    other.log_spans(experiment, [make_span(TRACE, 0, name="second", attributes=usage(30, 40))])
    trace = store.get_trace(TRACE)
    assert [span.name for span in trace.data.spans] == ["second"]
    assert json.loads(trace.info.trace_metadata["mlflow.trace.tokenUsage"])["total_tokens"] == 70
    found, _ = store.search_traces([experiment], "span.name = 'first'")
    assert not found


def test_usage_that_a_parent_has_summed_up_counts_once_across_batches(store, other, experiment):
    store.log_spans(experiment, [make_span(TRACE, 1, parent=0, attributes=usage(3, 4))])
    other.log_spans(experiment, [make_span(TRACE, 2, parent=0, attributes=usage(5, 6))])
    store.log_spans(experiment, [make_span(TRACE, 0, attributes=usage(8, 10))])
    found = json.loads(store.get_trace_info(TRACE).trace_metadata["mlflow.trace.tokenUsage"])
    assert found["total_tokens"] == 18


def test_writers_at_the_same_time_lose_nothing(store, other, experiment):
    """Batches of spans, the info, tags and links of one trace, from two processes at once."""
    count = 24
    jobs: list[Callable[[], object]] = [
        partial((store if n % 2 else other).log_spans, experiment, [make_span(TRACE, n)])
        for n in range(count)
    ]
    store.log_spans(experiment, [make_span(TRACE, 100)])
    jobs.insert(5, lambda: other.start_trace(make_info(TRACE, experiment, tags={"a": "1"})))
    jobs.insert(7, lambda: store.set_trace_tag(TRACE, "b", "2"))
    jobs.insert(11, lambda: other.set_trace_tag(TRACE, "c", "x" * 4000))
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(job) for job in jobs]:
            done.result()
    trace = other.get_trace(TRACE)
    assert len(trace.data.spans) == count + 1
    assert {"a": "1", "b": "2", "c": "x" * 4000}.items() <= trace.info.tags.items()
    assert (trace.info.request_time, trace.info.execution_duration) == (NOON, 29)
    found, _ = store.search_traces([experiment], "span.name = 'step-17'")
    assert [info.trace_id for info in found] == [TRACE]


def test_two_processes_may_begin_a_trace_at_once(store, other, experiment):
    """As a service and its caller do, each with an experiment of its own."""
    second = store.create_experiment("second")
    store.get_experiment(second)
    for n in range(10):
        trace = trace_id(n)
        with ThreadPoolExecutor(2) as pool:
            one = pool.submit(store.log_spans, experiment, [make_span(trace, 1)])
            two = pool.submit(other.log_spans, second, [make_span(trace, 2)])
            one.result()
            two.result()
        whole = store.get_trace(trace)
        assert len(whole.data.spans) == 2
        found, _ = store.search_traces([experiment, second], f"request_id = '{trace}'")
        assert len(found) == 1


def test_a_trace_follows_its_info_to_another_experiment(store, other, experiment):
    second = store.create_experiment("second")
    store.log_spans(experiment, make_spans(TRACE))
    store.set_trace_tag(TRACE, "long", "x" * 3000)
    other.start_trace(make_info(TRACE, second, metadata=client_metadata()))
    assert store.search_traces([experiment])[0] == []
    trace = store.get_trace(TRACE)
    assert trace.info.experiment_id == second
    assert trace.info.tags["long"] == "x" * 3000
    assert len(trace.data.spans) == 10


def test_what_a_program_says_about_itself_becomes_tags(store, experiment):
    resource = Resource({"service.name": "shop", "telemetry.sdk.name": "x", "mlflow.x": "y"})
    root = make_span(
        TRACE,
        0,
        resource=resource,
        attributes={"mlflow.traceTag.team": "search", "mlflow.user": "ada"},
    )
    store.log_spans(experiment, [root])
    tags = store.get_trace_info(TRACE).tags
    assert tags["service.name"] == "shop"
    assert tags["team"] == "search"
    assert not {"telemetry.sdk.name", "mlflow.x"} & set(tags)


def test_a_trace_of_twenty_megabytes_works(store, other, experiment):
    noise = random.Random(0)
    spans = [
        make_span(TRACE, n, attributes={"payload": noise.randbytes(500_000).hex()})
        for n in range(20)
    ]
    store.log_spans(experiment, spans)
    other.start_trace(make_info(TRACE, experiment, metadata=client_metadata(20)))
    trace = other.get_trace(TRACE)
    assert [s.get_attribute("payload") for s in trace.data.spans] == [
        s.get_attribute("payload") for s in spans
    ]
    assert len(other.batch_get_traces([TRACE])) == 1
    store.delete_traces(experiment, trace_ids=[TRACE])
    assert not left_of(store, TRACE)


def test_many_small_spans_stay_out_of_what_searches_read(store, experiment):
    """The own item of a trace stays small however many spans it has."""
    store.log_spans(experiment, [make_span(TRACE, n, name=f"n{n * n}") for n in range(3000)])
    store.log_spans(experiment, [make_span(TRACE, 5000, name="late")])
    assert item_size(store.trace_lookup.get(TRACE)) < 4096
    assert len(store.get_trace(TRACE).data.spans) == 3001
    for name in ("n8994001", "late"):
        assert store.search_traces([experiment], f"span.name = '{name}'")[0]


def test_an_unknown_trace_is_refused_in_mlflows_words(store, experiment):
    with refused("RESOURCE_DOES_NOT_EXIST", "Trace with ID 'tr-none' not found."):
        store.get_trace_info("tr-none")
    with refused("RESOURCE_DOES_NOT_EXIST", "Trace with ID tr-none is not found."):
        store.get_trace("tr-none")
    with refused("RESOURCE_DOES_NOT_EXIST", "not found"):
        store.set_trace_tag("tr-none", "a", "b")


def test_an_incomplete_trace_can_be_read_only_when_that_is_allowed(store, experiment, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    store.log_spans(experiment, make_spans(TRACE, 3))
    store.start_trace(make_info(TRACE, experiment, metadata=client_metadata(10)))
    with refused("RESOURCE_DOES_NOT_EXIST", "not fully exported yet"):
        store.get_trace(TRACE)
    assert len(store.get_trace(TRACE, allow_partial=True).data.spans) == 3
    assert store.batch_get_traces([TRACE]) == []


@pytest.mark.parametrize("when", ["before", "during", "after"])
@pytest.mark.parametrize("spans_first", [True, False])
def test_an_interrupted_writer_can_send_it_again(store, other, experiment, when, spans_first):
    """A process dies at each of its requests; another sends the same, and nothing is missing."""
    for n in range(1, 9):
        trace = trace_id(n)
        engine = CrashingEngine(store.table.engine)
        table = Table(engine, clock=store.table.clock)
        dying = DynamoDBTrackingStore(table.engine.uri, "s3://bucket/root", table=table)
        engine._at, engine._when = engine.writes + n, when
        try:
            write(dying, trace, experiment, spans_first=spans_first)
        except SimulatedCrash:
            assert n <= 4
        else:
            assert n > 2
        write(other, trace, experiment, spans_first=spans_first)
        whole = other.get_trace(trace)
        assert len(whole.data.spans) == 10
        assert whole.info.execution_duration == 29
        usage_found = json.loads(whole.info.trace_metadata["mlflow.trace.tokenUsage"])
        assert usage_found["total_tokens"] == 63


def write(store, trace, experiment, *, spans_first):
    info = make_info(trace, experiment, metadata=client_metadata())
    if not spans_first:
        store.start_trace(info)
    store.log_spans(experiment, make_spans(trace))
    if spans_first:
        store.start_trace(info)


def left_of(store, trace):
    return [item for item in everything_in(store.table) if trace in str(item)]


def test_a_deleted_experiment_takes_no_new_traces(store, other, experiment):
    store.delete_experiment(experiment)
    with pytest.raises(MlflowException, match="must be in the 'active' state"):
        other.start_trace(make_info(TRACE, experiment))
