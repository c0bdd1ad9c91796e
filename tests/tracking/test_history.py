"""The history of a metric: whole, in pages, in samples; in order, and each point once."""

from __future__ import annotations

import math
import random
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Metric, RunStatus
from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES
from mlflow.store.entities.paged_list import PagedList
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.shared.policies import DAY
from mlflow_dynamodbstore.table.contract import Page, Put, Query
from mlflow_dynamodbstore.tracking import series
from mlflow_dynamodbstore.tracking.points import Point, history_item, order, points_of
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.stores import open_tracking_store, refused
from tests.table.fakes import FakeTime

KEY = "loss"
NAN = math.nan


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def store(tmp_path: Path, time: FakeTime) -> Iterator[DynamoDBTrackingStore]:
    store = open_tracking_store(tmp_path, time)
    yield store
    store.table.close()


@pytest.fixture
def run_id(store: DynamoDBTrackingStore) -> str:
    return new_run(store)


def new_run(store: DynamoDBTrackingStore) -> str:
    return str(store.create_run("0", "user", 0, [], "run").info.run_id)


@pytest.fixture(params=["as they are", "tiny"])
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once with the real limits, and once so small that a few points are a long history."""
    if request.param == "tiny":
        small = {"CHUNK_POINTS": 5, "FIRST_PAGE": 2, "BLOCK_POINTS": 4, "HELD_POINTS": 6}
        for name, value in small.items():
            monkeypatch.setattr(series, name, value)


Points = Sequence[tuple[int, int, float]]


def log(store: DynamoDBTrackingStore, run_id: str, points: Points) -> None:
    """One call with these (step, timestamp, value) points."""
    metrics = [Metric(KEY, value, timestamp, step) for step, timestamp, value in points]
    if len(metrics) == 1:
        store.log_metric(run_id, metrics[0])
    else:
        store.log_batch(run_id, metrics, [], [])


def shown(metrics: Sequence[Metric]) -> list[tuple[int, int, str]]:
    """Metrics as something that compares bit by bit."""
    return [(m.step, m.timestamp, struct.pack(">d", m.value).hex()) for m in metrics]


def pages(store: DynamoDBTrackingStore, run_id: str, size: int) -> list[Metric]:
    found: list[Metric] = []
    token = None
    while True:
        page = store.get_metric_history(run_id, KEY, size, token)
        assert len(page) <= size
        found += page
        token = page.token
        if token is None:
            return found
        assert len(page) == size


class Oracle:
    """What MLflow's SQL store would answer, by its primary key and its window functions."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:")
        self.db.execute("CREATE TABLE m (step, ts, value, nan, PRIMARY KEY (step, ts, value, nan))")

    def log(self, points: Points) -> None:
        rows = [order(Point(*point)) for point in points]
        self.db.executemany("INSERT OR IGNORE INTO m VALUES (?, ?, ?, ?)", rows)

    def history(self) -> list[Metric]:
        return self._metrics("SELECT * FROM m ORDER BY ts, step, value, nan")

    def sample(self, size: int, first: int | None, last: int | None) -> list[Metric]:
        within = "1" if first is None else f"step BETWEEN {first} AND {last}"
        by = "ORDER BY step, ts, value, nan"
        buckets = f"SELECT *, NTILE({size}) OVER ({by}) AS b FROM m WHERE {within}"
        ranked = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY b {by}) AS n FROM ({buckets})"
        rows = self._metrics(f"SELECT step, ts, value, nan FROM ({ranked}) WHERE n = 1 {by}")
        ends = self._metrics(f"SELECT * FROM m WHERE {within} {by}")[-1:]
        if shown(rows[-1:]) == shown(ends):
            return rows
        return [*rows[: size - 1], *ends]

    def of_steps(self, steps: Sequence[int], size: int) -> list[Metric]:
        among = ",".join(map(str, steps))
        by = "ORDER BY step, ts, value, nan"
        return self._metrics(f"SELECT * FROM m WHERE step IN ({among}) {by} LIMIT {size}")

    def _metrics(self, sql: str) -> list[Metric]:
        rows = self.db.execute(sql)
        return [Metric(KEY, NAN if nan else value, ts, step) for step, ts, value, nan in rows]


def in_order(rng: random.Random, count: int) -> list[tuple[int, int, float]]:
    """Points whose steps and times never go back."""
    step, time, points = -5, 100, []
    for _ in range(count):
        step, time = step + rng.choice([0, 0, 1, 3]), time + rng.choice([0, 1, 7])
        points.append((step, time, rng.choice([NAN, 0.0, 0.5, -1.0, 7.25])))
    return points


def in_calls(
    rng: random.Random, points: list[tuple[int, int, float]]
) -> list[list[tuple[int, int, float]]]:
    """Points cut into calls of one or a few."""
    calls, start = [], 0
    while start < len(points):
        size = rng.choice([1, 1, 1, 2, 5, 9])
        calls.append(points[start : start + size])
        start += size
    return calls


def some_calls(seed: int) -> list[list[tuple[int, int, float]]]:
    rng = random.Random(seed)
    points = in_order(rng, 60)
    if seed % 3 == 0:
        return in_calls(rng, points)
    if seed % 3 == 1:
        # Two writers whose calls interleave, and who both send some of the points.
        one, other = in_calls(rng, points), in_calls(rng, points[10:50])
        return [call for pair in zip(one, other, strict=False) for call in pair]
    rng.shuffle(points)
    return in_calls(rng, points)


# --- the same answers as SQL ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_any_calls_give_what_sql_gives(store, run_id, limits, seed):
    """Histories in order, interleaved and shuffled, with repeats and NaN."""
    oracle, rng = Oracle(), random.Random(seed)
    for call in some_calls(seed):
        log(store, run_id, call)
        oracle.log(call)
    whole = shown(oracle.history())
    assert shown(store.get_metric_history(run_id, KEY)) == whole
    for size in (1, 2, 7, 25, 59, 60, 61, 1000):
        assert shown(pages(store, run_id, size)) == whole
        sample = store.get_metric_history_bulk_interval([run_id], KEY, size, None, None)
        assert shown(sample) == shown(oracle.sample(size, None, None))
    for _ in range(20):
        size, first = rng.randint(1, 70), rng.randint(-8, 80)
        last = first + rng.randint(0, 60)
        sample = store.get_metric_history_bulk_interval([run_id], KEY, size, first, last)
        assert shown(sample) == shown(oracle.sample(size, first, last))
        steps = rng.choices(range(-8, 80), k=rng.randint(1, 9))
        found = store.get_metric_history_bulk_interval_from_steps(run_id, KEY, steps, size)
        assert shown(found) == shown(oracle.of_steps(steps, size))


@pytest.mark.parametrize("count", range(1, 9))
def test_a_sample_is_the_first_of_each_bucket_and_the_last_point(count):
    total = 23
    sizes = [total // count + (n < total % count) for n in range(count)]
    firsts = [sum(sizes[:n]) for n in range(count)]
    assert list(series.sampled(total, count)) == [*firsts[:-1], total - 1]
    assert list(series.sampled(count, count)) == list(range(count))
    assert list(series.sampled(0, count)) == []


# --- pages ----------------------------------------------------------------------------------------


def test_a_page_says_whether_there_is_more(store, run_id):
    log(store, run_id, [(n, n, 0.0) for n in range(6)])
    first = store.get_metric_history(run_id, KEY, max_results=4)
    assert isinstance(first, PagedList)
    assert [m.step for m in first] == [0, 1, 2, 3]
    rest = store.get_metric_history(run_id, KEY, page_token=first.token)
    assert [m.step for m in rest] == [4, 5]
    assert rest.token is None
    assert store.get_metric_history(run_id, KEY, max_results=6).token is None


def test_no_results_asked_for_are_none(store, run_id):
    log(store, run_id, [(0, 0, 1.0)])
    page = store.get_metric_history(run_id, KEY, max_results=0)
    assert (page, page.token) == ([], None)


@pytest.mark.parametrize("token", ["nonsense", "e30=", "W10=", "eyJhZnRlciI6IDF9"])
def test_a_token_that_is_none_of_ours_is_refused(store, run_id, token):
    with refused("INVALID_PARAMETER_VALUE", "Invalid page token"):
        store.get_metric_history(run_id, KEY, page_token=token)


@pytest.mark.parametrize("size", [1, 3, 10])
def test_points_logged_between_pages_are_neither_lost_nor_repeated(store, run_id, size):
    """A token stays valid while the training goes on."""
    log(store, run_id, [(n, n, 0.5) for n in range(20)])
    found: list[Metric] = []
    token, logged = None, 20
    while True:
        page = store.get_metric_history(run_id, KEY, size, token)
        found += page
        token = page.token
        if token is None:
            break
        if logged < 40:
            log(store, run_id, [(logged, logged, 0.5), (logged + 1, logged + 1, 0.5)])
            logged += 2
    assert [m.step for m in found] == list(range(logged))


def test_a_point_logged_out_of_order_between_pages_moves_no_other(store, run_id):
    log(store, run_id, [(n, n, 0.5) for n in range(10)])
    first = store.get_metric_history(run_id, KEY, 5)
    log(store, run_id, [(2, 100, 0.5), (7, 100, 0.5)])
    rest = store.get_metric_history(run_id, KEY, 50, first.token)
    steps = [m.step for m in [*first, *rest] if m.timestamp < 100]
    assert steps == list(range(10))


def test_a_token_of_points_out_of_order_goes_on_by_time(store, run_id):
    times = [5, 3, 9, 1, 7, 2, 8, 0, 6, 4]
    log(store, run_id, [(step, time, 0.5) for step, time in enumerate(times)])
    first = store.get_metric_history(run_id, KEY, 4)
    rest = store.get_metric_history(run_id, KEY, page_token=first.token)
    assert [m.timestamp for m in [*first, *rest]] == list(range(10))


# --- what is read ---------------------------------------------------------------------------------


class Reads:
    """The items that queries and batch reads brought, those of which only keys came apart."""

    def __init__(self, store: DynamoDBTrackingStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.whole = self.keys = self.requests = 0
        query, get_many = store.table.engine.query, store.table.engine.get_many

        def counted_query(request: Query) -> Page:
            page = query(request)
            self.requests += 1
            if request.keys_only:
                self.keys += len(page.items)
            else:
                self.whole += len(page.items)
            return page

        def counted_get_many(wanted: Any, **options: Any) -> Any:
            self.requests += 1
            self.whole += len(wanted)
            return get_many(wanted, **options)

        monkeypatch.setattr(store.table.engine, "query", counted_query)
        monkeypatch.setattr(store.table.engine, "get_many", counted_get_many)


def put_packs(store: DynamoDBTrackingStore, run_id: str, packs: int, size: int) -> None:
    """A long history as if logged in calls of ``size`` points, which hardly compress."""
    rng = random.Random(0)
    log(store, run_id, [(packs * size, packs * size, 0.5)])
    store.update_run_info(run_id, RunStatus.FINISHED, 9, None)  # folds its log
    place = store.run_lookup.find_place(run_id)
    assert place is not None
    points = [
        [Point(n, n, rng.random()) for n in range(p * size, (p + 1) * size)] for p in range(packs)
    ]
    store.table.write([Put(history_item(place, KEY, some, None)) for some in points])


def test_a_page_in_the_middle_of_a_long_history_reads_its_own_items_only(
    store, run_id, monkeypatch
):
    put_packs(store, run_id, packs=100, size=1000)
    token = store.get_metric_history(run_id, KEY, 50_000).token
    reads = Reads(store, monkeypatch)
    page = store.get_metric_history(run_id, KEY, 3_000, token)
    assert [m.step for m in page] == list(range(50_000, 53_000))
    assert reads.requests == 2  # the log of the run, and the page
    assert reads.whole <= 8


def test_pages_of_lone_points_are_two_requests_each(store, run_id, monkeypatch):
    put_packs(store, run_id, packs=500, size=1)
    token = store.get_metric_history(run_id, KEY, 100).token
    reads = Reads(store, monkeypatch)
    page = store.get_metric_history(run_id, KEY, 100, token)
    assert [m.step for m in page] == list(range(100, 200))
    assert reads.requests == 2  # the log of the run, and the page
    assert reads.whole <= 105


def test_a_sample_of_a_long_history_reads_only_the_items_of_its_points(store, run_id, monkeypatch):
    monkeypatch.setattr(series, "HELD_ITEMS", 20)
    put_packs(store, run_id, packs=400, size=1000)
    reads = Reads(store, monkeypatch)
    sample = store.get_metric_history_bulk_interval([run_id], KEY, 20, None, None)
    assert [m.step for m in sample] == [*(n * 20_000 + (n > 0) for n in range(19)), 400_000]
    assert reads.keys == 401
    assert reads.whole < 200  # the first answer, which told that there are too many, and 20 packs


def test_a_range_of_steps_is_read_without_what_lies_before_and_after(store, run_id, monkeypatch):
    put_packs(store, run_id, packs=200, size=100)
    reads = Reads(store, monkeypatch)
    sample = store.get_metric_history_bulk_interval([run_id], KEY, 9, 10_050, 10_349)
    assert [m.step for m in sample][::8] == [10_050, 10_349]
    assert reads.whole <= 6


def test_the_last_point_of_a_run_is_the_log_and_one_item(store, run_id, monkeypatch):
    put_packs(store, run_id, packs=10, size=100)
    reads = Reads(store, monkeypatch)
    (last,) = store.get_metric_history_bulk_interval([run_id], KEY, 1, None, None)
    assert last.step == 1000
    assert reads.requests == 1
    assert reads.whole <= 2


def test_a_long_history_is_sampled_in_little_memory(store, run_id, monkeypatch):
    """No more than one answer and one block are held, whatever the length."""
    monkeypatch.setattr(series, "HELD_POINTS", 10_000)
    put_packs(store, run_id, packs=100, size=1000)
    most = 0
    unpack = points_of

    def counted(item: Any, span: Any) -> list[Point]:
        nonlocal most
        points = unpack(item, span)
        most += len(points)
        return points

    monkeypatch.setattr(series, "points_of", counted)
    assert len(store.get_metric_history_bulk_interval([run_id], KEY, 10, None, None)) == 10
    assert most == 10 * 1000 - 1000 + 1  # nine packs and the lone last point


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [math.inf, -math.inf, NAN, 1e300, 5e-324, -0.0, 1.7976931348623157e308]
)
def test_every_double_comes_back_as_it_was_logged(store, run_id, value):
    log(store, run_id, [(0, 0, value)])
    log(store, run_id, [(1, 1, value), (2, 2, value)])
    bits = struct.pack(">d", value)
    for metrics in (
        store.get_metric_history(run_id, KEY),
        store.get_metric_history(run_id, KEY, 10),
        store.get_metric_history_bulk_interval([run_id], KEY, 10, None, None),
    ):
        assert [struct.pack(">d", m.value) for m in metrics] == [bits] * 3


def test_extreme_steps_and_times_are_in_order(store, run_id):
    low, high = -(2**63), 2**63 - 1
    log(store, run_id, [(high, high, 1.0), (low, 0, 2.0), (0, 5, 3.0)])
    log(store, run_id, [(high, high, 4.0)])
    history = store.get_metric_history(run_id, KEY)
    assert [(m.step, m.timestamp, m.value) for m in history] == [
        (low, 0, 2.0),
        (0, 5, 3.0),
        (high, high, 1.0),
        (high, high, 4.0),
    ]
    (last,) = store.get_metric_history_bulk_interval([run_id], KEY, 1, 0, high)
    assert last.value == 4.0


def test_a_point_logged_twice_comes_once(store, run_id):
    batch = [(1, 1, 0.5), (2, 2, NAN), (3, 3, 0.5)]
    log(store, run_id, batch)
    log(store, run_id, batch)
    log(store, run_id, batch[1:])
    for point in batch:
        log(store, run_id, [point])
    assert [m.step for m in store.get_metric_history(run_id, KEY)] == [1, 2, 3]
    assert [m.step for m in pages(store, run_id, 2)] == [1, 2, 3]


@pytest.mark.parametrize("key", ["a/b", "val loss", "a.b:c", "é" * 250, "漢" * 250])
def test_a_key_has_its_own_history(store, run_id, key):
    for n, name in enumerate([key, key[:-1] + "x"]):
        store.log_metric(run_id, Metric(name, float(n), 1, 1))
        store.log_batch(run_id, [Metric(name, n + 0.5, t, 2) for t in (2, 3)], [], [])
    history = store.get_metric_history(run_id, key)
    assert [(m.key, m.value) for m in history] == [(key, 0.0), (key, 0.5), (key, 0.5)]


def test_points_expire_after_their_time_and_count_no_more(store, run_id, time, limits):
    """A sample is counted by keys, which must not count what has expired."""
    log(store, run_id, [(n, n, 0.5) for n in range(30)])
    time.now += 200 * DAY
    log(store, run_id, [(n, n, 0.5) for n in range(30, 60)])
    store.update_run_info(run_id, RunStatus.FINISHED, 9, None)
    time.now += 200 * DAY
    sample = store.get_metric_history_bulk_interval([run_id], KEY, 3, None, None)
    assert [m.step for m in sample] == [30, 40, 59]
    assert [m.step for m in pages(store, run_id, 7)] == list(range(30, 60))


# --- many runs, and none --------------------------------------------------------------------------


def test_the_histories_of_many_runs_come_in_the_order_of_their_ids(store):
    run_ids = [new_run(store) for _ in range(20)]
    for n, run_id in enumerate(run_ids):
        log(store, run_id, [(0, 2, n + 0.5), (1, 1, float(n))])
    asked = [*reversed(run_ids), "0" * 32, run_ids[0]]
    found = store.get_metric_history_bulk(asked, KEY, 1000)
    expected = [(r, v) for n, r in enumerate(sorted(run_ids)) for v in (float(n), n + 0.5)]
    assert [(m.run_id, m.value) for m in found] == expected
    few = store.get_metric_history_bulk(asked, KEY, 7)
    assert [(m.run_id, m.value) for m in few] == expected[:7]


def test_samples_come_run_by_run_as_asked(store):
    run_ids = [new_run(store) for _ in range(3)]
    for run_id in run_ids:
        log(store, run_id, [(n, n, 0.5) for n in range(10)])
    asked = [run_ids[2], run_ids[0]]
    found = store.get_metric_history_bulk_interval(asked, KEY, 2, None, None)
    assert [(m.run_id, m.step) for m in found] == [(r, s) for r in asked for s in (0, 9)]


def test_both_ends_of_a_range_are_asked_for_or_none(store, run_id):
    for ends in ((1, None), (None, 1)):
        with refused("INVALID_PARAMETER_VALUE", "must be specified together"):
            store.get_metric_history_bulk_interval([run_id], KEY, 10, *ends)
    assert store.get_metric_history_bulk_interval([run_id], KEY, 10, 5, 1) == []


@pytest.mark.parametrize("steps", [[-7, -3], [0, 4], [4, 9, 2]])
def test_the_greatest_step_is_known(store, run_id, steps):
    assert store.get_max_step_for_metric(run_id, KEY) == 0
    for n, step in enumerate(steps):
        log(store, run_id, [(step, n, 0.5)])
    assert store.get_max_step_for_metric(run_id, KEY) == max(steps)


def reads(store: DynamoDBTrackingStore, run_id: str) -> list[Any]:
    """Every way to read a history, as calls."""
    return [
        lambda: store.get_metric_history(run_id, KEY),
        lambda: store.get_metric_history(run_id, KEY, 10),
        lambda: store.get_metric_history(run_id, KEY, 0),
        lambda: store.get_metric_history_bulk_interval([run_id], KEY, 10, None, None),
        lambda: store.get_metric_history_bulk_interval_from_steps(run_id, KEY, [0], 10),
        lambda: store.get_max_step_for_metric(run_id, KEY),
    ]


def test_without_workspaces_an_unknown_run_has_no_history(store):
    for call in reads(store, "0" * 32):
        assert call() in ([], 0)


def test_with_workspaces_a_run_of_another_is_as_unknown_as_one_that_is_not(
    tmp_path, time, monkeypatch
):
    monkeypatch.setenv(MLFLOW_ENABLE_WORKSPACES.name, "true")
    with WorkspaceContext("default"):
        store = open_tracking_store(tmp_path, time)
        run_id = new_run(store)
        log(store, run_id, [(0, 0, 1.0)])
        assert len(store.get_metric_history(run_id, KEY)) == 1
    with WorkspaceContext("team"):
        for unknown in (run_id, "0" * 32):
            for call in reads(store, unknown):
                with refused("RESOURCE_DOES_NOT_EXIST", f"Run with id={unknown} not found"):
                    call()
            assert store.get_metric_history_bulk([unknown], KEY, 10) == []
    store.table.close()
