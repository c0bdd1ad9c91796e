"""Traces under throttling, lost answers and conflicts: nothing lost, nothing doubled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from mlflow.entities import SpanStatusCode

from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.stores import ARTIFACTS
from tests.storms import THREADS, in_threads, stormy_table
from tests.traces.making import NOON, client_metadata, feedback, make_info, make_spans, trace_id

EACH = 4
SPANS = 5


def test_traces_in_a_storm(tmp_path: Path) -> None:
    """Every trace is there once, with all its spans, tags and assessments; deleted ones are not."""
    with stormy_table(tmp_path) as table:
        store = DynamoDBTrackingStore(table.engine.uri, ARTIFACTS, table=table)
        experiment = store.create_experiment("e")

        def work(thread: int) -> None:
            for n in range(EACH):
                trace = trace_id(100 * thread + n)
                at, metadata = NOON + 100 * thread + n, client_metadata(SPANS)
                info = make_info(trace, experiment, start=at, metadata=metadata)
                store.log_spans(experiment, make_spans(trace, SPANS))
                store.start_trace(info)
                store.set_trace_tag(trace, "thread", str(thread))
                store.create_assessment(feedback(trace, "correct", n))
            store.delete_traces(experiment, trace_ids=[trace_id(100 * thread)])

        in_threads(work)

        found, token = store.search_traces([experiment], max_results=500)
        assert token is None
        wanted = {trace_id(100 * t + n) for t in range(THREADS) for n in range(1, EACH)}
        assert Counter(one.trace_id for one in found) == Counter(wanted)
        for info in found:
            thread = int(info.trace_id.removeprefix("tr-"), 16) // 100
            assert info.tags["thread"] == str(thread)
            trace = store.get_trace(info.trace_id)
            assert len(trace.data.spans) == SPANS
            assert all(s.status.status_code == SpanStatusCode.OK for s in trace.data.spans)
            assert len(trace.info.assessments) == 1
