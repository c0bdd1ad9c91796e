"""How often a call waits for DynamoDB, one request after another: what a user waits for on AWS."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import pytest
from mlflow.entities import Metric, Param, RunStatus, RunTag, ViewType
from mlflow.entities.trace_info import TraceInfo
from mlflow.entities.trace_location import TraceLocation
from mlflow.entities.trace_state import TraceState

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.chains import counted_chain
from tests.engines import moto_server
from tests.traces.making import make_spans, trace_id

_numbers = itertools.count(1)

Call = Callable[[DynamoDBTrackingStore, str], object]


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with moto_server() as host:
        yield f"dynamodb://{host}/store-chains"


@pytest.fixture(scope="module")
def store(uri: str) -> DynamoDBTrackingStore:
    return new_process(uri)


def new_process(uri: str) -> DynamoDBTrackingStore:
    """A store that has read nothing yet."""
    return DynamoDBTrackingStore(uri, "/a", table=Table(open_engine(uri)))


def begin(store: DynamoDBTrackingStore, experiment_id: str = "0") -> str:
    tags = [RunTag(f"t{n}", "v") for n in range(10)]
    return str(store.create_run(experiment_id, "u", 1, tags, "n").info.run_id)


def metrics(step: int) -> list[Metric]:
    return [Metric(f"m{n}", 0.5 * step, step, step) for n in range(10)]


def log(store: DynamoDBTrackingStore, run_id: str) -> None:
    store.log_batch(run_id, metrics(1), [Param(f"p{n}", "v") for n in range(20)], [])


def logged(store: DynamoDBTrackingStore) -> str:
    run_id = begin(store)
    log(store, run_id)
    return run_id


def ended(store: DynamoDBTrackingStore) -> str:
    run_id = logged(store)
    store.update_run_info(run_id, RunStatus.FINISHED, 9, None)
    return run_id


def deleted(store: DynamoDBTrackingStore) -> str:
    run_id = ended(store)
    store.delete_run(run_id)
    return run_id


def searched(store: DynamoDBTrackingStore) -> str:
    """An experiment of ended runs."""
    experiment_id = str(store.create_experiment(f"e{len(store.search_experiments())}"))
    for n in range(3):
        run_id = begin(store, experiment_id)
        store.log_batch(run_id, metrics(n + 1), [], [])
        store.update_run_info(run_id, RunStatus.FINISHED, 9, None)
    return experiment_id


def start_trace(store: DynamoDBTrackingStore, run_id: str) -> None:
    place = TraceLocation.from_experiment_id("0")
    store.start_trace(
        TraceInfo(f"tr-{run_id}", place, 1, TraceState.OK, execution_duration=1, tags={"t": "v"})
    )


def log_spans(store: DynamoDBTrackingStore, _: str = "") -> str:
    new = trace_id(next(_numbers))
    store.log_spans("0", make_spans(new))
    return new


CHAINS: dict[str, tuple[Callable[[DynamoDBTrackingStore], str], Call, int]] = {
    "create_run": (begin, lambda store, _: begin(store), 2),
    "log_batch of 20 params and 10 metrics": (begin, log, 3),
    "log_batch of 10 metrics": (logged, lambda s, r: s.log_batch(r, metrics(2), [], []), 2),
    "log_metric": (logged, lambda s, r: s.log_metric(r, Metric("m", 1.0, 3, 3)), 2),
    "end of a run": (logged, lambda s, r: s.update_run_info(r, RunStatus.FINISHED, 9, None), 4),
    "delete_run": (ended, lambda store, run_id: store.delete_run(run_id), 4),
    "restore_run": (deleted, lambda store, run_id: store.restore_run(run_id), 3),
    "get_run": (ended, lambda store, run_id: store.get_run(run_id), 1),
    "get_run while it is live": (logged, lambda store, run_id: store.get_run(run_id), 2),
    "search of ended runs": (
        searched,
        lambda store, found: store.search_runs([found], "", ViewType.ACTIVE_ONLY, 100),
        1,
    ),
    "search of ended runs by a metric": (
        searched,
        lambda s, found: s.search_runs([found], "metrics.m1 > 0", ViewType.ACTIVE_ONLY, 100),
        2,
    ),
    "search in the order of a metric": (
        searched,
        lambda s, found: s.search_runs([found], "", ViewType.ACTIVE_ONLY, 1, ["metrics.m1 DESC"]),
        2,
    ),
    "a trace": (begin, start_trace, 2),
    "a trace begun by its spans": (log_spans, log_spans, 2),
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_call_waits_no_longer_than_it_must(store, name):
    prepare, call, most = CHAINS[name]
    given = prepare(store)
    with counted_chain(store.table.engine) as chain:
        call(store, given)
    assert chain.length <= most, f"{name}: {chain}"


@pytest.mark.parametrize("workspaces", ["false", "true"])
@pytest.mark.parametrize("name", CHAINS)
def test_the_first_call_of_a_process_waits_once_more_at_most(
    store, uri, name, workspaces, monkeypatch
):
    """It reads settings, the workspace, and what the call is about, at the same time."""
    prepare, call, most = CHAINS[name]
    given, first = prepare(store), new_process(uri)
    monkeypatch.setenv("MLFLOW_ENABLE_WORKSPACES", workspaces)
    monkeypatch.setenv("MLFLOW_WORKSPACE", "default")
    with counted_chain(first.table.engine) as chain:
        call(first, given)
    assert chain.length <= most + 1, f"{name}: {chain}"


@pytest.mark.parametrize("name", ["log_batch of 10 metrics", "log_metric"])
def test_a_loop_with_a_call_every_half_minute_waits_no_longer(store, name, monkeypatch):
    """The run was seen to be active with the call before."""
    prepare, call, most = CHAINS[name]
    given = prepare(store)
    call(store, given)
    later = lambda: time.monotonic() + 30  # noqa: E731 - a clock
    monkeypatch.setattr(store.run_admission._admitted, "_clock", later)
    with counted_chain(store.table.engine) as chain:
        call(store, given)
    assert chain.length <= most, f"{name}: {chain}"
