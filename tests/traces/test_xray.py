"""X-Ray as a source of spans: fetched when there are none here, kept, and served from here."""

from __future__ import annotations

import json

import boto3
import pytest
from botocore.exceptions import ClientError
from mlflow.entities import SpanStatusCode
from mlflow.exceptions import MlflowTracingException
from moto import mock_aws

from mlflow_dynamodbstore.shared.policies import XRAY_REGION
from mlflow_dynamodbstore.traces.xray import spans_from, xray_id
from mlflow_dynamodbstore.traces.xray_cache import XRAY_VARIABLE, CacheProgress
from tests.stores import refused
from tests.traces.making import make_info, make_spans

REGION = "eu-central-1"
SECONDS = 1_700_000_000
DAY = 24 * 60 * 60


def trace_number(n: int) -> str:
    return f"tr-{SECONDS:08x}{n:024x}"


def document(trace: str, **rest: object) -> dict[str, object]:
    return {
        "trace_id": xray_id(trace),
        "id": "a" * 16,
        "name": "chat",
        "start_time": SECONDS + 0.25,
        "end_time": SECONDS + 1.5,
        "annotations": {"mlflow_spanType": '"AGENT"', "city": "Rome"},
        "metadata": {"default": {"mlflow.spanInputs": '{"q": 1}', "mlflow.spanOutputs": {"a": 2}}},
        "subsegments": [
            {
                "id": "b" * 16,
                "name": "search",
                "start_time": SECONDS + 0.5,
                "end_time": SECONDS + 0.75,
                "fault": True,
                "cause": {"exceptions": [{"type": "KeyError", "message": "no such city"}]},
                "http": {"request": {"method": "GET"}},
            }
        ],
        **rest,
    }


@pytest.fixture
def xray(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        yield boto3.client("xray", region_name=REGION)


def send(xray, trace, **rest):
    xray.put_trace_segments(TraceSegmentDocuments=[json.dumps(document(trace, **rest))])


@pytest.fixture
def switched_on(store):
    store.policies.set(XRAY_REGION, REGION)


def test_ids_are_the_same_128_bits():
    assert xray_id("tr-65521100" + "0" * 23 + "7") == "1-65521100-" + "0" * 23 + "7"
    assert xray_id("tr-short") is None
    assert xray_id("5f3a" * 8) is None


def test_segments_become_spans():
    trace = trace_number(1)
    root, child = spans_from(trace, [document(trace)])
    assert (root.name, root.parent_id, root.span_type) == ("chat", None, "AGENT")
    assert (root.start_time_ns, root.end_time_ns) == (
        SECONDS * 10**9 + 250_000_000,
        (SECONDS + 1) * 10**9 + 500_000_000,
    )
    assert (root.inputs, root.outputs) == ({"q": 1}, {"a": 2})
    assert root.get_attribute("city") == "Rome"
    assert root.trace_id == trace
    assert (child.parent_id, child.status.status_code) == (root.span_id, SpanStatusCode.ERROR)
    assert child.status.description == "no such city"
    assert child.events[0].attributes["exception.type"] == "KeyError"
    assert child.get_attribute("aws.xray.http") == {"request": {"method": "GET"}}


def test_it_is_off_unless_configured(store, experiment, xray):
    trace = trace_number(1)
    send(xray, trace)
    store.start_trace(make_info(trace, experiment))
    with pytest.raises(MlflowTracingException):
        store.get_trace(trace)
    assert store.xray_spans._xray() is None


@pytest.mark.parametrize("by_variable", [True, False])
def test_spans_are_fetched_once_and_then_served_from_here(
    store, other, experiment, xray, monkeypatch, by_variable
):
    if by_variable:
        monkeypatch.setenv(XRAY_VARIABLE, REGION)
    else:
        store.policies.set(XRAY_REGION, REGION)
    trace = trace_number(1)
    send(xray, trace)
    store.start_trace(make_info(trace, experiment))
    assert [span.name for span in store.get_trace(trace).data.spans] == ["chat", "search"]
    monkeypatch.setattr(other.xray_spans, "_xray", lambda: pytest.fail("it is stored here"))
    assert len(other.get_trace(trace).data.spans) == 2
    assert len(other.batch_get_traces([trace])) == 1
    spans = store.trace_lookup.find_place(trace).spans
    assert store.table.get(spans)["ttl"] == store.trace_lookup.get(trace)["ttl"]
    assert other.search_traces([experiment], "span.name = 'search'")[0]


def test_many_are_fetched_in_as_few_requests_as_xray_allows(store, experiment, xray, switched_on):
    traces = [trace_number(n) for n in range(12)]
    for trace in traces:
        send(xray, trace)
        store.start_trace(make_info(trace, experiment))
    assert len(store.batch_get_traces(traces)) == 12


def test_the_cache_is_filled_ahead_of_time_and_can_be_filled_again(
    store, other, experiment, xray, switched_on, time
):
    now_ms = int(time() * 1000)
    for n in range(9):
        days_ago = 40 if n == 8 else n
        info = make_info(trace_number(n), experiment, start=now_ms - days_ago * DAY * 1000)
        store.start_trace(info)
        if n != 3:
            send(xray, trace_number(n))
    store.log_spans(experiment, make_spans(trace_number(0)))
    seen: list[CacheProgress] = []
    first = store.xray_spans.fill_cache([experiment], days=30, progress=seen.append)
    assert first == CacheProgress(looked_at=8, stored_already=1, cached=6, not_in_xray=1)
    assert seen[-1] == first
    assert len(seen) == 2
    again = other.xray_spans.fill_cache(None, days=30)
    assert again == CacheProgress(looked_at=8, stored_already=7, cached=0, not_in_xray=1)
    assert [s.name for s in other.get_trace(trace_number(7)).data.spans] == ["chat", "search"]


def test_an_interrupted_filling_goes_on_where_it_was(
    store, other, experiment, xray, switched_on, time
):
    for n in range(12):
        start = int(time() * 1000) - n
        store.start_trace(make_info(trace_number(n), experiment, start=start))
        send(xray, trace_number(n))

    class Interrupted(Exception):
        pass

    def interrupt(reached):
        if reached.cached >= 10:
            raise Interrupted

    with pytest.raises(Interrupted):
        store.xray_spans.fill_cache([experiment], progress=interrupt)
    assert other.xray_spans.fill_cache([experiment]) == CacheProgress(12, 10, 2, 0)


def test_an_xray_that_refuses_is_named(store, experiment, xray, switched_on, monkeypatch):
    def refuse(**_):
        raise ClientError({"Error": {"Code": "AccessDenied"}}, "BatchGetTraces")

    store.start_trace(make_info(trace_number(1), experiment))
    monkeypatch.setattr(store.xray_spans._xray()._client, "batch_get_traces", refuse)
    with refused("TEMPORARILY_UNAVAILABLE", "AWS X-Ray did not return"):
        store.get_trace(trace_number(1))


def test_spans_that_arrive_during_a_fetch_stay(store, other, experiment):
    """The fetched ones join them; fetched by two processes at once, they are stored once."""
    trace = trace_number(1)
    store.start_trace(make_info(trace, experiment))
    before = store.trace_lookup.get(trace)
    other.log_spans(experiment, make_spans(trace))
    fetched = spans_from(trace, [document(trace)])
    assert store.xray_spans._store(before, fetched)
    assert len(store.get_trace(trace).data.spans) == 12
    second = trace_number(2)
    store.start_trace(make_info(second, experiment))
    before = store.trace_lookup.get(second)
    fetched = spans_from(second, [document(second)])
    assert store.xray_spans._store(before, fetched)
    assert other.xray_spans._store(before, fetched)
    assert "batches" not in store.trace_lookup.get(second)
    assert len(store.get_trace(second).data.spans) == 2
