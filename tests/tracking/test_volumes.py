"""An experiment has as many volumes as it needs; nobody sees where one ends."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import pytest
from mlflow.entities import Metric, Param, RunStatus, RunTag, ViewType
from mlflow.entities.trace_info import TraceInfo
from mlflow.entities.trace_location import TraceLocation
from mlflow.entities.trace_state import TraceState
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.shared import volumes as volumes_module
from mlflow_dynamodbstore.shared.places import run_place_of, trace_place_of
from mlflow_dynamodbstore.shared.volume_states import VOLUMES, Volume, states_in
from mlflow_dynamodbstore.shared.volumes import KNOWN_SECONDS, Volumes
from mlflow_dynamodbstore.table.contract import Page, Query
from mlflow_dynamodbstore.table.errors import Throttled, Unavailable
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine
from mlflow_dynamodbstore.tracking.sealing import REST_BEFORE_SEALING
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup
from tests.stores import everything_in, open_tracking_store, refused, uri_on
from tests.table.fakes import FakeTime

pytestmark = pytest.mark.one_volume(reason="each test opens the volumes that it is about")

SMALL = 120_000
LIMITED = f"synchronous=NORMAL&collection_limit={SMALL}"
THREE = "synchronous=NORMAL&spread=3"


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def limited(tmp_path: Path, time: FakeTime) -> DynamoDBTrackingStore:
    """A store whose partitions hold 120 KB each."""
    return open_tracking_store(tmp_path, time, options=LIMITED)


@pytest.fixture
def three(tmp_path: Path, time: FakeTime) -> DynamoDBTrackingStore:
    """A store with three volumes from the start."""
    return open_tracking_store(tmp_path, time, options=THREE)


def begin_run(store: DynamoDBTrackingStore, start: int = 1, *, params: int = 0) -> str:
    run_id = str(store.create_run("0", "u", start, [RunTag("t", "v")], f"run {start}").info.run_id)
    if params:
        given = [Param(f"p{n}", os.urandom(100).hex()) for n in range(params)]
        store.log_batch(run_id, [Metric("m", float(start), 1, 1)], given, [])
    return run_id


def begin_trace(store: DynamoDBTrackingStore, number: int, text: str = "v") -> str:
    trace_id = f"tr-{number:032x}"
    store.start_trace(
        TraceInfo(
            trace_id,
            TraceLocation.from_experiment_id("0"),
            1_000 + number,
            TraceState.OK,
            execution_duration=5,
            trace_metadata={"text": text},
        )
    )
    return trace_id


def all_runs(store: DynamoDBTrackingStore, filter_string: str = "", size: int = 7) -> list[str]:
    """The ids of all runs, page by page."""
    return list(chain.from_iterable(pages(store, filter_string, size)))


def pages(store: DynamoDBTrackingStore, filter_string: str, size: int) -> Iterator[list[str]]:
    token = None
    while True:
        page = store.search_runs(["0"], filter_string, ViewType.ALL, size, page_token=token)
        yield [run.info.run_id for run in page]
        token = page.token
        if not token:
            return


def volume_of(store: DynamoDBTrackingStore, run_id: str) -> int:
    return run_place_of(store.run_lookup.get(run_id)).volume


# --- ids and places -------------------------------------------------------------------------------


@pytest.mark.parametrize("volume", [1, 7, ids.MOST_VOLUMES - 1])
@pytest.mark.parametrize("experiment_id", ["0", "17", str(2**28 - 1)])
def test_an_id_names_the_volume(experiment_id, volume):
    made = ids.new_id(experiment_id, volume=volume)
    assert ids.homes_of(made)[0] == (experiment_id, volume)


def test_an_id_of_the_first_volume_is_as_before():
    made = ids.new_id("17")
    assert ids.homes_of(made) == [("17", 0)]
    assert ids.homes_of(ids.new_id(str(2**28 + 5)))[-1] == (str(2**28 + 5), 0)


def test_a_large_experiment_id_leaves_no_room_for_a_volume():
    assert ids.homes_of(ids.new_id(str(2**28), volume=1)) == []


def test_runs_and_traces_spread_and_are_found_by_their_ids(three, tmp_path, time):
    runs = [begin_run(three, n) for n in range(30)]
    traces = [begin_trace(three, n) for n in range(30)]
    other = open_tracking_store(tmp_path, time, options=THREE)
    assert {volume_of(other, run_id) for run_id in runs} == {0, 1, 2}
    places = [trace_place_of(other.trace_lookup.get(trace_id)) for trace_id in traces]
    assert {place.volume for place in places} == {0, 1, 2}
    assert all_runs(other) == runs[::-1]
    found, _ = other.search_traces(locations=["0"], max_results=100)
    assert [trace.trace_id for trace in found] == traces[::-1]


def test_what_an_experiment_has_once_is_in_the_first_volume(three):
    for n in range(12):
        run_id = begin_run(three, n, params=1)
        three.update_run_info(run_id, RunStatus.FINISHED, 9, None)
    for item in everything_in(three.table):
        if str(item["PK"]).startswith("EXP#0#"):
            assert str(item["SK"]).split("#")[0] != "E", item["SK"]


# --- opening and closing --------------------------------------------------------------------------


def test_volumes_open_by_themselves_and_everything_is_found(limited):
    """Pages are walked while volumes open; each run is seen once, in order."""
    runs = [begin_run(limited, n, params=20) for n in range(20)]
    walked: list[str] = []
    for n, page in enumerate(pages(limited, "", 1)):
        walked += page
        begin_run(limited, 1_000 + n, params=20)  # newer: they come before what is walked
    assert walked == runs[::-1]
    states = states_in(limited.experiment_lookup.get("0"))
    assert len(states) >= 3
    assert [state.closed is None for state in states].count(True) in (1, 2)
    assert len(all_runs(limited)) == 40
    assert len(all_runs(limited, "metrics.m >= 1000")) == 20


def test_a_volume_closes_before_it_is_full(limited):
    for n in range(40):
        begin_run(limited, n, params=20)
    for volume in limited.experiment_lookup.volumes.of(["0"]):
        share = limited.table.collection_share(volume.pk)
        assert share is not None
        assert share < 0.9


def test_a_call_that_meets_a_full_volume_succeeds_in_the_next(limited, monkeypatch):
    """Nothing of it is left in the full one."""
    monkeypatch.setattr(volumes_module, "ANNOUNCED_WHEN_FULL", 2.0)  # nothing opens beforehand
    runs = [begin_run(limited, 0)]
    while volume_of(limited, runs[-1]) == 0:
        runs.append(begin_run(limited, len(runs)))
        assert len(runs) < 1_000
    assert all_runs(limited, size=1000) == runs[::-1]
    left = [i for i in everything_in(limited.table) if i["PK"] == "EXP#0" and "R#" in i["SK"]]
    assert {str(item["SK"]).split("#")[1] for item in left} == set(runs[:-1])


def test_a_trace_that_meets_a_full_volume_begins_in_the_next(limited, monkeypatch):
    monkeypatch.setattr(volumes_module, "ANNOUNCED_WHEN_FULL", 2.0)
    traces = [begin_trace(limited, n, os.urandom(400).hex()) for n in range(400)]
    found: list[str] = []
    token = None
    while True:
        page, token = limited.search_traces(locations=["0"], max_results=90, page_token=token)
        found += [trace.trace_id for trace in page]
        if not token:
            break
    assert found == traces[::-1]
    assert len(limited.experiment_lookup.volumes.of(["0"])) > 1


def test_a_run_that_cannot_grow_says_so_and_can_still_be_ended(limited):
    """Nothing is half written, and ending and deleting make room."""
    run_id = begin_run(limited, params=2)
    before = len(limited.get_run(run_id).data.params)
    with refused("RESOURCE_LIMIT_EXCEEDED", "full. Begin a new run"):
        for n in range(200):
            given = [Param(f"p{n}_{k}", "x" * 5_000) for k in range(10)]
            limited.log_batch(run_id, [Metric("steps", 1.0, n, n)], given, [])
            before += 10
    assert len(limited.get_run(run_id).data.params) == before
    assert len(limited.get_metric_history(run_id, "steps")) == before // 10
    limited.update_run_info(run_id, RunStatus.FINISHED, 9, None)
    limited.delete_run(run_id)
    limited.restore_run(run_id)
    limited.delete_run(run_id)
    limited.runs.hard_delete_run(run_id)


def test_runs_of_a_partition_without_a_byte_left_can_be_ended_and_deleted(limited):
    ended, live = begin_run(limited, params=20), begin_run(limited, params=2)
    limited.update_run_info(ended, RunStatus.FINISHED, 9, None)
    for size in (5_000, 1_000, 100, 10, 1):
        with suppress(MlflowException):
            for n in range(100):
                limited.log_param(live, Param(f"x{size}_{n}", "x" * size))
    logged = limited.get_run(live).data.params
    limited.delete_run(ended)
    limited.update_run_info(live, RunStatus.FINISHED, 9, None)
    found = limited.get_run(live)
    assert (found.info.status, found.data.params) == ("FINISHED", logged)
    limited.delete_run(live)
    assert limited.search_runs(["0"], "", ViewType.ACTIVE_ONLY, 10) == []
    limited.runs.hard_delete_run(live)
    limited.restore_run(ended)
    for wanted in ("attributes.status = 'FINISHED'", "attributes.run_name = 'run 1'"):
        assert all_runs(limited, wanted) == [ended]


def test_spread_opens_as_many_as_asked_for_once(tmp_path, time):
    store = open_tracking_store(tmp_path, time)
    volumes = Volumes(store.table)
    assert [state.number for state in volumes.spread("0", 4)] == [0, 1, 2, 3]
    assert [state.number for state in volumes.spread("0", 4)] == [0, 1, 2, 3]
    assert {volume_of(store, begin_run(store, n)) for n in range(60)} == {0, 1, 2, 3}


def test_an_experiment_that_is_throttled_for_long_gets_more_volumes(tmp_path, time, monkeypatch):
    """The open ones double, and have time to help before they double again."""
    store = open_tracking_store(tmp_path, time)
    heat = {"EXP#0": 5.0}
    monkeypatch.setattr(store.table, "throttled_seconds", lambda pk: heat.get(pk, 0.0))
    volumes = store.experiment_lookup.volumes
    begin_run(store)
    assert len(volumes.of(["0"])) == 1
    heat["EXP#0"] = 15.0
    begin_run(store)
    assert len(volumes.of(["0"])) == 2
    heat["EXP#0#1"] = 15.0
    for n in range(20):
        begin_run(store, n)
    assert len(volumes.of(["0"])) == 2
    time.sleep(300)
    begin_run(store)
    assert len(volumes.of(["0"])) == 4


def test_a_volume_that_is_too_hot_for_any_run_gets_another_beside_it(tmp_path, time, monkeypatch):
    store = open_tracking_store(tmp_path, time)
    begin_run(store)

    def refuse(*_args: object) -> None:
        raise Throttled("slow down")

    monkeypatch.setattr(store.table, "throttled_seconds", lambda pk: 15.0)
    monkeypatch.setattr(store.table, "write", refuse)
    with refused("TEMPORARILY_UNAVAILABLE", "slow down"):
        begin_run(store)
    assert len(store.experiment_lookup.volumes.of(["0"])) == 2


def test_as_many_volumes_stay_open_as_an_operator_asked_for(tmp_path, time):
    """They fill at the same time, and each is replaced before it closes."""
    store = open_tracking_store(tmp_path, time, options=LIMITED)
    volumes = store.experiment_lookup.volumes
    volumes.spread("0", 3)
    for n in range(120):
        begin_run(store, n, params=20)
        states = volumes._states("0")
        assert sum(state.closed is None for state in states) >= 3
    assert sum(state.closed is not None for state in states) >= 3
    assert sum(state.closed is None for state in states) <= 4
    assert len(all_runs(store, size=1000)) == 120


def test_a_call_that_has_succeeded_does_not_fail_since_no_volume_opens(limited, monkeypatch):
    """Otherwise a client would send it again, and begin another run."""

    def refuse(*_args: object) -> None:
        raise Unavailable("no answer")

    monkeypatch.setattr(limited.experiment_lookup.volumes, "_write", refuse)
    runs = [begin_run(limited, n, params=20) for n in range(8)]
    share = limited.table.collection_share("EXP#0")
    assert share is not None
    assert share > volumes_module.ANNOUNCED_WHEN_FULL
    assert all_runs(limited) == runs[::-1]


def test_an_experiment_with_one_volume_does_not_list_it(tmp_path, time):
    store = open_tracking_store(tmp_path, time)
    run_id = begin_run(store, params=3)
    store.update_run_info(run_id, RunStatus.FINISHED, 9, None)
    assert VOLUMES not in (store.table.get(experiment_keys.experiment_key("0")) or {})


def test_a_file_that_was_spread_is_read_without_the_option(tmp_path, time, three):
    runs = {begin_run(three, n) for n in range(30)}
    assert {volume_of(three, run_id) for run_id in runs} == {0, 1, 2}
    again = open_tracking_store(tmp_path, time)
    assert set(all_runs(again)) == runs


def test_a_file_of_single_volumes_is_read_with_the_option(tmp_path, time):
    store = open_tracking_store(tmp_path, time)
    run_id = begin_run(store)
    spread = open_tracking_store(tmp_path, time, options=THREE)
    other = begin_run(spread, 2)
    assert set(all_runs(spread)) == set(all_runs(store)) == {run_id, other}


# --- searches by time put closed volumes off ------------------------------------------------------


class Asked(WrappedEngine):
    """Notes which partitions are asked."""

    def __init__(self, inner) -> None:
        super().__init__(inner)
        self.partitions: list[str] = []

    def query(self, query: Query) -> Page:
        self.partitions.append(query.partition)
        return self.inner.query(query)

    def volumes(self) -> set[int]:
        asked = {one for one in self.partitions if one.startswith("EXP#")}
        return {experiment_keys.volume_of(one) for one in asked}


def grown(folder: Path, time: FakeTime) -> tuple[DynamoDBTrackingStore, Asked]:
    """A store with three closed volumes, whose spans are known, and an open one."""
    store = open_tracking_store(folder, time)
    volumes = Volumes(store.table)
    for volume in range(3):
        for n in range(4):
            begin_run(store, 1_000 * volume + n)
            begin_trace(store, 1_000 * volume + n)
        volumes.close("0", volume)
        time.sleep(120)
    volumes.measure("0")
    begin_run(store, 9_000)
    begin_trace(store, 9_000)
    engine = Asked(open_engine(f"dynamodb:///{folder / 'mlflow.ddb'}?synchronous=NORMAL"))
    return DynamoDBTrackingStore("dynamodb:///x", "/a", table=Table(engine, clock=time)), engine


@pytest.mark.parametrize(
    ("size", "asked"),
    [(1, {3, 2}), (4, {3, 2}), (6, {3, 2, 1})],
)
def test_a_closed_volume_is_asked_when_its_time_comes(tmp_path, time, size, asked):
    store, engine = grown(tmp_path, time)
    store.search_runs(["0"], "", ViewType.ACTIVE_ONLY, size)
    assert engine.volumes() == asked
    engine.partitions.clear()
    store.search_traces(locations=["0"], max_results=size)
    assert engine.volumes() == asked


def test_the_logs_of_many_live_runs_take_a_request_a_volume(tmp_path, time):
    engine = Asked(open_engine(f"dynamodb:///{tmp_path / 'mlflow.ddb'}?{THREE}"))
    store = DynamoDBTrackingStore("dynamodb:///x", "/a", table=Table(engine, clock=time))
    runs = [begin_run(store, n, params=1) for n in range(20)]
    time.sleep(REST_BEFORE_SEALING + 1)
    assert all_runs(store, size=30) == runs[::-1]  # a reader summarises them
    time.sleep(REST_BEFORE_SEALING + 1)
    engine.partitions.clear()
    assert all_runs(store, size=30) == runs[::-1]
    of_volumes = Counter(one for one in engine.partitions if one.startswith("EXP#"))
    assert set(of_volumes.values()) == {2}  # by time, and the logs


def test_what_has_passed_is_not_asked_again(tmp_path, time):
    store, engine = grown(tmp_path, time)
    page = store.search_runs(["0"], "", ViewType.ACTIVE_ONLY, 10)
    engine.partitions.clear()
    rest = store.search_runs(["0"], "", ViewType.ACTIVE_ONLY, 10, page_token=page.token)
    assert len(page) + len(rest) == 13
    assert engine.volumes() == {0, 3}


@pytest.mark.parametrize("order_by", [["start_time ASC"], ["start_time DESC"], ["metrics.m DESC"]])
@pytest.mark.parametrize("size", [1, 3, 100])
def test_every_order_shows_all_runs(tmp_path, time, order_by, size):
    store, _ = grown(tmp_path, time)
    found: list[int] = []
    token = None
    while True:
        page = store.search_runs(["0"], "", ViewType.ALL, size, order_by, page_token=token)
        found += [run.info.start_time for run in page]
        token = page.token
        if not token:
            break
    wanted = [*(1_000 * volume + n for volume in range(3) for n in range(4)), 9_000]
    assert found == (wanted if order_by == ["start_time ASC"] else wanted[::-1])


def test_a_trace_that_gets_another_time_widens_the_span(tmp_path, time):
    store, _ = grown(tmp_path, time)
    info = store.get_trace_info(f"tr-{1:032x}")
    info.request_time = 500_000
    store.start_trace(info)
    page, _ = store.search_traces(locations=["0"], max_results=1)
    assert [trace.trace_id for trace in page] == [info.trace_id]


def test_cleanup_forgets_volumes_that_hold_nothing(tmp_path, time):
    store, _ = grown(tmp_path, time)
    for run_id in all_runs(store):
        if volume_of(store, run_id) == 1:
            store.delete_run(run_id)
            store.runs.hard_delete_run(run_id)
    store.delete_traces("0", trace_ids=[f"tr-{1_000 + n:032x}" for n in range(4)])
    Cleanup(store.table, sleep=time.sleep).run()
    assert [volume.number for volume in Volumes(store.table).of(["0"])] == [0, 2, 3]
    assert len(all_runs(store)) == 9


# --- several processes ----------------------------------------------------------------------------


def test_a_volume_is_used_when_every_process_knows_it(tmp_path):
    """On DynamoDB a process relies on the list of volumes that it has read a few seconds ago."""
    time = FakeTime()
    with uri_on("dynoxide", tmp_path) as uri:
        one, other = (
            DynamoDBTrackingStore(uri, "/a", table=Table(open_engine(uri), clock=time))
            for _ in range(2)
        )
        assert all_runs(other) == []
        Volumes(one.table).spread("0", 4)
        one.experiment_lookup.get("0")
        assert {volume_of(one, begin_run(one, n)) for n in range(12)} == {0}
        time.sleep(KNOWN_SECONDS * 3)
        made = [begin_run(one, 100 + n) for n in range(12)]
        assert len({volume_of(one, run_id) for run_id in made}) > 1
        other.experiment_lookup.volumes._known.clear()  # a few seconds later
        assert len(all_runs(other)) == 24


def test_all_items_of_a_volume_belong_to_something(limited):
    for n in range(12):
        run_id = begin_run(limited, n, params=20)
        limited.update_run_info(run_id, RunStatus.FINISHED, 9, None)
        begin_trace(limited, n, "x" * 3_000)
    assert len(limited.experiment_lookup.volumes.of(["0"])) > 1
    assert Cleanup(limited.table, dry_run=True).run().found == {}


def test_an_experiment_is_removed_with_all_its_volumes(three):
    experiment_id = three.create_experiment("x")
    for n in range(9):
        three.create_run(experiment_id, "u", n, [], "n")
    three.delete_experiment(experiment_id)
    assert len(three.runs.get_deleted_runs()) == 9
    three.restore_experiment(experiment_id)
    assert len(three.search_runs([experiment_id], "", ViewType.ACTIVE_ONLY, 100)) == 9
    three.delete_experiment(experiment_id)
    three.experiment_deletion.hard_delete_experiment(experiment_id)
    assert not [i for i in everything_in(three.table) if i["PK"].startswith(f"EXP#{experiment_id}")]
    assert Volume(experiment_id).pk == f"EXP#{experiment_id}"


# --- every kind of search, while volumes open -----------------------------------------------------

Walk: TypeAlias = Callable[[DynamoDBTrackingStore, str | None], tuple[list[int], str | None]]
"""A page of a search as numbers, and the token of the next page."""


def runs_by(*order: str, where: str = "") -> Walk:
    def page(store: DynamoDBTrackingStore, token: str | None) -> tuple[list[int], str | None]:
        found = store.search_runs(["0"], where, ViewType.ALL, 3, list(order), page_token=token)
        return [run.info.start_time for run in found], found.token

    return page


def traces_by(*order: str, where: str | None = None) -> Walk:
    def page(store: DynamoDBTrackingStore, token: str | None) -> tuple[list[int], str | None]:
        found, after = store.search_traces(None, where, 3, list(order), token, locations=["0"])
        return [trace.request_time for trace in found], after

    return page


def models_by(name: str, *, ascending: bool) -> Walk:
    def page(store: DynamoDBTrackingStore, token: str | None) -> tuple[list[int], str | None]:
        order = [{"field_name": name, "ascending": ascending}]
        found = store.search_logged_models(["0"], None, None, 3, order, token)
        return [int(model.name) for model in found], found.token

    return page


WALKS: dict[str, tuple[Walk, bool]] = {
    "runs, newest first": (runs_by("start_time DESC"), True),
    "runs, oldest first": (runs_by("start_time ASC"), False),
    "runs by a metric": (runs_by("metrics.m DESC"), True),
    "runs by name": (runs_by("attributes.run_name ASC"), False),
    "runs by a param": (runs_by("params.p DESC"), True),
    "runs with a metric": (runs_by(where="metrics.m > 0"), True),
    "runs with a status": (runs_by(where="attributes.status = 'FINISHED'"), True),
    "traces, newest first": (traces_by(), True),
    "traces by duration": (traces_by("execution_time_ms ASC"), False),
    "traces by name": (traces_by("name DESC"), True),
    "traces with a tag": (traces_by(where="tags.t = 'v'"), True),
    "models by name": (models_by("name", ascending=True), False),
}


def add_one_of_each(store: DynamoDBTrackingStore, number: int) -> None:
    name = f"{number:04d}"
    run_id = store.create_run("0", "u", number, [], name).info.run_id
    params = [Param(f"x{n}", os.urandom(100).hex()) for n in range(10)]
    store.log_batch(run_id, [Metric("m", float(number), 1, 1)], [Param("p", name), *params], [])
    store.update_run_info(run_id, RunStatus.FINISHED, 9, None)
    where = TraceLocation.from_experiment_id("0")
    tags = {"t": "v", "mlflow.traceName": name}
    made = TraceInfo(f"tr-{number:032x}", where, number, TraceState.OK, tags=tags)
    made.execution_duration = number
    store.start_trace(made)
    store.create_logged_model("0", name, run_id)


def test_pages_of_every_search_hold_while_volumes_open(limited, time):
    """What was there is seen once and in order, whatever comes between two pages."""
    for number in range(1, 31):
        add_one_of_each(limited, number)
        time.sleep(40)
    seen: dict[str, list[int]] = {name: [] for name in WALKS}
    tokens: dict[str, str | None] = dict.fromkeys(WALKS)
    volumes = limited.experiment_lookup.volumes
    before = len(volumes.of(["0"]))
    for number in range(31, 200):
        found = {name: WALKS[name][0](limited, token) for name, token in tokens.items()}
        for name, (numbers, _) in found.items():
            seen[name] += numbers
        tokens = {name: token for name, (_, token) in found.items() if token}
        if not tokens:
            break
        if number < 50:
            add_one_of_each(limited, number)
            time.sleep(40)
            volumes.measure("0")
    assert len(volumes.of(["0"])) > before > 2
    for name, numbers in seen.items():
        descending = WALKS[name][1]
        assert numbers == sorted(set(numbers), reverse=descending), name
        assert set(range(1, 31)) <= set(numbers), name
