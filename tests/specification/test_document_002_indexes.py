"""Document 002, access patterns: traces, full-text search and lookups by index, a test a row."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from mlflow_dynamodbstore.table.values import Key
from tests.specification.logged import Logged, logged
from tests.traces.making import make_info, make_spans, trace_id

__all__ = ["logged"]

CLIENT = """
import mlflow

mlflow.set_experiment("traced by the client")

@mlflow.trace
def answer(n):
    with mlflow.start_span("search"):
        return n + 1

for n in range(20):
    answer(n)
mlflow.flush_trace_async_logging()
"""


def pk_of(experiment: str) -> str:
    return f"EXP#{experiment}"


class TestTraces:
    """The rows on traces."""

    @pytest.mark.parametrize("first", ["spans", "info"])
    def test_create_trace_and_spans(self, logged: Logged, first: str):
        """T#<trace_id> and T#<trace_id>#SPANS, whichever comes first; begun by a transaction."""
        experiment = logged.tracking.create_experiment(f"created {first} first")
        trace = trace_id(1 if first == "spans" else 2)
        calls: list[Callable[[], object]] = [
            lambda: logged.tracking.log_spans(experiment, make_spans(trace)),
            lambda: logged.tracking.start_trace(make_info(trace, experiment)),
        ]
        with logged.requests() as made:
            for call in calls if first == "spans" else reversed(calls):
                call()
        assert made[-1].operation == "Write"
        assert [one.operation for one in made if one.operation == "TransactWriteItems"]
        found = logged.sort_keys(f"^{pk_of(experiment)}$", f"^T#{trace}")
        assert found == [f"T#{trace}", f"T#{trace}#SPANS"]

    def test_get_trace_spans(self, logged: Logged):
        """T#<trace_id>#SPANS holds the first batch of spans, numbered items the later ones."""
        experiment = logged.tracking.create_experiment("batches")
        trace, spans = trace_id(3), make_spans(trace_id(3))
        logged.tracking.start_trace(make_info(trace, experiment))
        for n in range(3):
            logged.tracking.log_spans(experiment, spans[n : n + 1])
        assert logged.sort_keys(f"^{pk_of(experiment)}$", "#SPANS") == [
            f"T#{trace}#SPANS",
            f"T#{trace}#SPANS#0001",
            f"T#{trace}#SPANS#0002",
        ]
        item = logged.table.get(Key(pk_of(experiment), f"T#{trace}#SPANS"))
        assert item is not None
        logged.tracking.trace_lookup.forget(trace)
        with logged.requests() as made:
            found = logged.tracking.get_trace(trace, allow_partial=True).data.spans
        assert len(found) == 3
        assert [one.operation for one in made] == ["GetItem", "Query"]

    def test_get_trace_spans_as_mlflows_client_sends_them(self, logged: Logged):
        """Every trace of a program has its first spans in #SPANS, although infos often overtake."""
        subprocess.run(
            [sys.executable, "-c", CLIENT],
            check=True,
            timeout=180,
            env={**os.environ, "MLFLOW_TRACKING_URI": logged.uri},
        )
        found = logged.tracking.get_experiment_by_name("traced by the client")
        assert found is not None
        own = f"^{pk_of(found.experiment_id)}$"
        traces = logged.sort_keys(own, "^T#[^#]*$")
        assert len(traces) == 20
        assert set(logged.sort_keys(own, "#SPANS$")) == {f"{trace}#SPANS" for trace in traces}
