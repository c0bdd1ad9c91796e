"""Operations of traces, measured as those of tracking are."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from mlflow.entities import Span, TraceInfo

from bench.tracking import Bench, Operation
from tests.traces.making import NOON, client_metadata, make_info, make_spans, trace_id

_numbers = itertools.count(1)


class Made(NamedTuple):
    """A trace as MLflow's client sends it: ten spans, then the info."""

    trace: str
    spans: list[Span]
    info: TraceInfo


def make(bench: Bench) -> Made:
    trace = trace_id(next(_numbers))
    info = make_info(trace, bench.experiment, metadata=client_metadata())
    return Made(trace, make_spans(trace), info)


def write(bench: Bench, made: Made) -> None:
    bench.store.log_spans(bench.experiment, made.spans)
    bench.store.start_trace(made.info)


def _written(bench: Bench) -> str:
    made = make(bench)
    write(bench, made)
    # What another worker of the server sees: ours has not kept where this trace is.
    forget = getattr(bench.store, "_forget_trace", None)
    if forget is not None:
        forget(made.trace)
    return made.trace


def _tagged(bench: Bench) -> str:
    """An experiment with 250 traces, half of them with the tag that is searched for."""
    if "traces" not in bench.state:
        place = bench.store.create_experiment("traces to search")
        for n in range(250):
            tags = {"team": "red" if n % 2 else "blue"}
            new = trace_id(10**6 + n)
            bench.store.start_trace(make_info(new, place, start=NOON + n, tags=tags))
        bench.state["traces"] = place
    experiment: str = bench.state["traces"]
    return experiment


OPERATIONS = (
    Operation("write a trace of 10 spans", make, write),
    Operation(
        "search_traces, tag filter, 100 results",
        _tagged,
        lambda b, place: b.store.search_traces([place], "tags.team = 'red'", max_results=100),
        10,
    ),
    Operation("get_trace", _written, lambda b, trace: b.store.get_trace(trace)),
)
