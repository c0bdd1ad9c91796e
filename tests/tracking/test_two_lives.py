"""A run is live while it is written and sealed once it ends; answers are right at every moment."""

from __future__ import annotations

import itertools
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Metric, Param, Run, RunStatus, RunTag, ViewType
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.keys import metric_log as log_keys
from mlflow_dynamodbstore.keys import ranks as rank_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys.base import Range, value_parts
from mlflow_dynamodbstore.table.contract import Query, Write
from mlflow_dynamodbstore.table.errors import AccessDenied
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine
from mlflow_dynamodbstore.tracking import sealing
from mlflow_dynamodbstore.tracking.records import LIVE, LOGGING, SEALED
from mlflow_dynamodbstore.tracking.run_search.search import forced_path
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.faults import CrashingEngine, SimulatedCrash
from tests.places import items_in, run_place

EXPERIMENT = "0"
PATHS = ("ByTime", "ByMetric", "ByParam")


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"dynamodb:///{tmp_path}/mlflow.ddb?synchronous=NORMAL"


@pytest.fixture
def clock() -> Clock:
    return Clock()


def opened(uri: str, clock: Clock, **crash: Any) -> DynamoDBTrackingStore:
    engine = open_engine(uri)
    return DynamoDBTrackingStore(
        uri, "/tmp", table=Table(CrashingEngine(engine, **crash) if crash else engine, clock=clock)
    )


@pytest.fixture
def store(uri: str, clock: Clock) -> DynamoDBTrackingStore:
    return opened(uri, clock)


def ended_run(store: Any) -> str:
    run_id: str = store.create_run(EXPERIMENT, "u", 1, [RunTag("t", "1")], "n").info.run_id
    store.log_batch(run_id, [Metric("m", 1.0, 1, 1)], [Param("p", "x")], [RunTag("u", "2")])
    store.update_run_info(run_id, RunStatus.FINISHED, 9, None)
    return run_id


def item(store: Any, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = store.table.get(run_place(run_id).key)
    return found


def sort_keys(store: Any, within: Range) -> list[str]:
    return [found["SK"] for found in items_in(store.table, EXPERIMENT, within)]


RANKS = Range("RANK#", "RANK$")


def found_by(store: Any, path: str, filter_string: str, order: list[str]) -> list[Run]:
    token = forced_path.set(path)
    try:
        return list(store.search_runs([EXPERIMENT], filter_string, ViewType.ACTIVE_ONLY, 50, order))
    finally:
        forced_path.reset(token)


def check_every_path_agrees(store: Any, run_id: str) -> None:
    """Each way to the run shows what ``get_run`` shows."""
    run = store.get_run(run_id)
    if run.info.lifecycle_stage != "active":
        return
    expected = run.data.to_dictionary()
    searches: list[tuple[str, str, list[str]]] = [("ByTime", "", [])]
    searches += [("ByMetric", f"metrics.{k} = {v}", []) for k, v in run.data.metrics.items()]
    searches += [("ByMetric", "", [f"metrics.{k} DESC"]) for k in run.data.metrics]
    searches += [("ByParam", f"params.{k} = '{v}'", []) for k, v in run.data.params.items()]
    for path, filter_string, order in searches:
        rows = found_by(store, path, filter_string, order)
        assert [r.data.to_dictionary() for r in rows if r.info.run_id == run_id] == [expected], path


# --- the two lives ------------------------------------------------------------------------------


def test_a_live_run_keeps_each_thing_in_an_item_of_its_own(store: Any) -> None:
    """Live items are named as the schema says, and no index is maintained for them."""
    run_id = store.create_run(EXPERIMENT, "u", 1, [RunTag("t", "1")], "n").info.run_id
    store.log_batch(run_id, [Metric("m", 1.0, 5, 1)], [Param("p", "x")], [])
    kinds = [
        sk.removeprefix(f"R#{run_id}") for sk in sort_keys(store, run_keys.run_and_children(run_id))
    ]
    assert kinds == ["", "#PARAM#p", "#TAG#mlflow.runName", "#TAG#t"]
    assert len(sort_keys(store, log_keys.run_log(run_id))) == 1
    assert item(store, run_id)["state"] == LIVE
    assert sort_keys(store, RANKS) == []
    store.update_run_info(run_id, RunStatus.FINISHED, 9, None)
    kinds = [
        sk.removeprefix(f"R#{run_id}") for sk in sort_keys(store, run_keys.run_and_children(run_id))
    ]
    assert kinds[:2] == ["", "#METRIC#m"]
    assert kinds[2].startswith("#MHIST#m#8000000000000001#8000000000000005#")
    assert kinds[3:] == ["#PARAM#p", "#TAG#mlflow.runName", "#TAG#t"]


def test_ending_a_run_seals_it(store: Any) -> None:
    """One item then carries everything, and RANK items lead to it."""
    run_id = ended_run(store)
    own = item(store, run_id)
    assert (own["state"], own["status"]) == (SEALED, "FINISHED")
    assert own["lsi5sk"].startswith("M#m#")
    assert sort_keys(store, RANKS) == [
        rank_keys.metric_rank("m", 1.0, run_id),
        rank_keys.param_rank("p", "x", run_id),
    ]
    assert store.get_run(run_id).data.to_dictionary() == {
        "metrics": {"m": 1.0},
        "params": {"p": "x"},
        "tags": {"t": "1", "u": "2", "mlflow.runName": "n"},
    }


def test_a_late_write_makes_a_sealed_run_live_again(store: Any) -> None:
    """Logging to a finished run is allowed and seen at once, on every path."""
    run_id = ended_run(store)
    store.log_metric(run_id, Metric("m", 2.0, 2, 2))
    assert item(store, run_id)["state"] == LOGGING
    assert store.get_run(run_id).data.metrics == {"m": 2.0}
    check_every_path_agrees(store, run_id)


def test_a_reader_seals_what_was_left_live_and_removes_stale_ranks(
    store: Any, clock: Clock
) -> None:
    """A run that rests is sealed by the next search; ranks of its old values go."""
    run_id = ended_run(store)
    store.log_metric(run_id, Metric("m", 2.0, 2, 2))
    found_by(store, "ByTime", "", [])
    assert item(store, run_id)["state"] == LOGGING, "it has not rested yet"
    clock.now += sealing.REST_BEFORE_SEALING + 1
    found_by(store, "ByTime", "", [])
    assert item(store, run_id)["state"] == SEALED
    assert rank_keys.metric_rank("m", 1.0, run_id) not in sort_keys(store, RANKS)
    check_every_path_agrees(store, run_id)


def test_whoever_may_only_read_searches_all_the_same(uri: str, clock: Clock, store: Any) -> None:
    """Sealing on the way is a favour to others, and no reason for a search to fail."""
    run_id = store.create_run(EXPERIMENT, "u", 1, [], "n").info.run_id
    clock.now += sealing.IDLE_BEFORE_SEALING + 1
    reader = DynamoDBTrackingStore(
        uri, "/tmp", table=Table(ReadOnly(open_engine(uri)), clock=clock)
    )
    assert [run.info.run_id for run in found_by(reader, "ByTime", "", [])] == [run_id]
    assert item(store, run_id)["state"] == LIVE


class ReadOnly(WrappedEngine):
    """A table that credentials may only read."""

    def apply(self, write: Write) -> Item | None:
        raise AccessDenied(f"not allowed: {type(write).__name__}")


def test_a_run_that_nobody_ended_is_sealed_after_a_while(store: Any, clock: Clock) -> None:
    """Crashed jobs leave runs RUNNING forever: they must not slow every search down."""
    run_id = store.create_run(EXPERIMENT, "u", 1, [], "n").info.run_id
    clock.now += sealing.IDLE_BEFORE_SEALING + 1
    found_by(store, "ByTime", "", [])
    own = item(store, run_id)
    assert (own["state"], own["status"]) == (SEALED, "RUNNING")
    store.log_metric(run_id, Metric("m", 1.0, 1, 1))
    assert store.get_run(run_id).data.metrics == {"m": 1.0}


def test_a_summary_too_large_for_an_item_is_split_and_read_back(store: Any) -> None:
    """Many long params: the summary spills into parts, and a second sealing removes the old."""
    run_id = store.create_run(EXPERIMENT, "u", 1, [], "n").info.run_id
    texts = {
        f"p{n}": "".join(chr(33 + (n * 7 + k * k) % 90) for k in range(5000)) for n in range(300)
    }
    for chunk in (list(texts.items())[n : n + 100] for n in range(0, 300, 100)):
        store.log_batch(run_id, [], [Param(k, v) for k, v in chunk], [])
    store.update_run_info(run_id, RunStatus.FINISHED, 9, None)
    assert store.get_run(run_id).data.params == texts
    store.set_tag(run_id, RunTag("late", "1"))
    store.update_run_info(run_id, RunStatus.FINISHED, 9, None)
    assert store.get_run(run_id).data.tags["late"] == "1"
    parts = sort_keys(store, value_parts(run_keys.run(run_id)))
    assert len({sk.split("#")[3] for sk in parts}) <= 1, "parts of one generation only"


def test_deleting_dates_every_item_and_restoring_undates_it(store: Any, clock: Clock) -> None:
    """All items of a deleted run carry its ttl, and no search shows it; restore undoes both."""
    run_id = ended_run(store)
    store.delete_run(run_id)
    everything = Query(run_place(run_id).pk, run_keys.run_and_children(run_id).on())
    due = {
        found.get("ttl") for found in store.table.items(everything) if "#MHIST#" not in found["SK"]
    }
    assert due == {int(clock.now) + 90 * 86400}
    for path, order in (("ByTime", []), ("ByMetric", ["metrics.m DESC"])):
        assert found_by(store, path, "", order) == []
    store.restore_run(run_id)
    assert not any("ttl" in f for f in store.table.items(everything) if "#MHIST#" not in f["SK"])
    check_every_path_agrees(store, run_id)


def test_a_deleted_run_is_gone_the_second_its_ttl_comes(store: Any, clock: Clock) -> None:
    run_id = ended_run(store)
    store.delete_run(run_id)
    clock.now += 90 * 86400
    with pytest.raises(MlflowException, match=f"Run with id={run_id} not found"):
        store.get_run(run_id)


def test_hard_deleting_leaves_nothing_behind(store: Any) -> None:
    """``mlflow gc`` removes a run with all its items, history and ranks."""
    before = items_in(store.table, EXPERIMENT)
    run_id = ended_run(store)
    store.delete_run(run_id)
    store._hard_delete_run(run_id)
    assert items_in(store.table, EXPERIMENT) == before


def test_a_loop_that_outlives_a_deletion_elsewhere_writes_nothing(
    uri: str, clock: Clock, store: Any
) -> None:
    """A process that was admitted a moment ago finds the run deleted and takes its points back."""
    run_id = store.create_run(EXPERIMENT, "u", 1, [], "n").info.run_id
    store.log_metric(run_id, Metric("m", 1.0, 1, 1))
    opened(uri, clock).delete_run(run_id)
    with pytest.raises(MlflowException, match="must be in the 'active' state"):
        store.log_metric(run_id, Metric("m", 2.0, 2, 2))
    store.restore_run(run_id)
    assert store.get_run(run_id).data.metrics == {"m": 1.0}
    assert [p.value for p in store.get_metric_history(run_id, "m")] == [1.0]


# --- crashes ------------------------------------------------------------------------------------


def steps(run_id: str) -> list[tuple[str, tuple[Any, ...]]]:
    """A life of a run, call by call."""
    return [
        ("log_batch", (run_id, [Metric("m", 1.0, 1, 1), Metric("n", 5.0, 1, 1)], [], [])),
        ("log_batch", (run_id, [], [Param("p", "x"), Param("q", "y")], [RunTag("a", "1")])),
        ("update_run_info", (run_id, RunStatus.FINISHED, 9, None)),
        ("log_metric", (run_id, Metric("m", 2.0, 2, 2))),
        ("set_tag", (run_id, RunTag("a", "2"))),
        ("update_run_info", (run_id, RunStatus.FINISHED, 10, "renamed")),
        ("delete_run", (run_id,)),
        ("restore_run", (run_id,)),
        ("log_param", (run_id, Param("r", "z"))),
    ]


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_crash_at_any_point_loses_nothing_that_was_acknowledged(
    tmp_path: Path, clock: Clock, when: str
) -> None:
    """Die at every write request in turn: what returned is there, and the call can be repeated."""
    for at in itertools.count(1):
        uri = f"dynamodb:///{tmp_path}/{at}.ddb?synchronous=NORMAL"
        run_id = (
            opened(uri, clock).create_run(EXPERIMENT, "u", 1, [RunTag("t", "1")], "n").info.run_id
        )
        # The default experiment is there already, so that opening writes nothing more.
        crashing, crashed = opened(uri, clock, at=at, when=when), False
        model = opened(f"dynamodb:///{tmp_path}/{at}-model.ddb?synchronous=NORMAL", clock)
        twin = model.create_run(EXPERIMENT, "u", 1, [RunTag("t", "1")], "n").info.run_id
        for (method, arguments), (_, same) in zip(steps(run_id), steps(twin), strict=True):
            try:
                getattr(crashing, method)(*arguments)
            except SimulatedCrash:
                crashed = True
                survivor = opened(uri, clock)
                check_every_path_agrees(survivor, run_id)
                check_holds_at_least(survivor.get_run(run_id), model.get_run(twin))
                getattr(survivor, method)(*arguments)  # repeating the call mends everything
                crashing = survivor
            getattr(model, method)(*same)
            check_same(crashing.get_run(run_id), model.get_run(twin))
            check_every_path_agrees(crashing, run_id)
        if not crashed:
            assert at > 10, "the walk must have met many write requests"
            return


def check_holds_at_least(run: Run, acknowledged: Run) -> None:
    assert acknowledged.data.params.items() <= run.data.params.items()
    assert acknowledged.data.tags.keys() <= run.data.tags.keys()
    assert acknowledged.data.metrics.keys() <= run.data.metrics.keys()


def check_same(run: Run, other: Run) -> None:
    assert run.data.to_dictionary() == other.data.to_dictionary()
    assert (run.info.status, run.info.lifecycle_stage, run.info.run_name, run.info.end_time) == (
        other.info.status,
        other.info.lifecycle_stage,
        other.info.run_name,
        other.info.end_time,
    )


def test_a_crash_while_creating_leaves_no_half_run(tmp_path: Path, clock: Clock) -> None:
    """A run is there with all its tags, or it is not there."""
    for at, when in itertools.product(range(1, 4), ("before", "during", "after")):
        uri = f"dynamodb:///{tmp_path}/{at}{when}.ddb?synchronous=NORMAL"
        opened(uri, clock)
        tags = [RunTag(f"t{n}", "v") for n in range(30)]
        with suppress(SimulatedCrash):
            opened(uri, clock, at=at, when=when).create_run(EXPERIMENT, "u", 1, tags, "n")
        for run in found_by(opened(uri, clock), "ByTime", "", []):
            assert len(run.data.tags) == 31


# --- at once ------------------------------------------------------------------------------------


def test_writers_enders_and_readers_at_once_lose_nothing(uri: str) -> None:
    """Several handles write, end and search one run; every acknowledged value is there at last."""
    stores = [DynamoDBTrackingStore(uri, "/tmp", table=Table(open_engine(uri))) for _ in range(4)]
    run_id = stores[0].create_run(EXPERIMENT, "u", 1, [], "n").info.run_id
    stop = threading.Event()
    errors: list[BaseException] = []

    def guarded(work: Any) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told to the main thread
            errors.append(error)

    def write(store: Any, name: str) -> None:
        for n in range(40):
            store.log_batch(run_id, [Metric(name, n, n, n)], [Param(f"{name}{n}", "v")], [])

    def end() -> None:
        while not stop.is_set():
            stores[2].update_run_info(run_id, RunStatus.FINISHED, 9, None)

    def read() -> None:
        while not stop.is_set():
            check = stores[3].search_runs([EXPERIMENT], "", ViewType.ACTIVE_ONLY, 10)
            assert len(check) == 1

    writers = [
        threading.Thread(target=guarded, args=(lambda s=stores[n], k=name: write(s, k),))
        for n, name in enumerate(("a", "b"))
    ]
    others = [threading.Thread(target=guarded, args=(work,)) for work in (end, read)]
    for thread in (*writers, *others):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in others:
        thread.join()
    assert errors == []
    data = stores[0].get_run(run_id).data
    assert data.metrics == {"a": 39.0, "b": 39.0}
    assert len(data.params) == 80
    stores[0].update_run_info(run_id, RunStatus.FINISHED, 9, None)
    assert item(stores[0], run_id)["state"] == SEALED
    check_every_path_agrees(stores[1], run_id)
