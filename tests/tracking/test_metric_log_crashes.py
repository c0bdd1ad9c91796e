"""A process dies at each write of appending, folding and sealing, or its answers get lost.

On every engine, each acknowledged point is read back once. ``tests/tracking/test_metric_log.py``
does the same on files with more ways to read.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Metric, RunStatus, ViewType
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.shared.policies import Policies
from mlflow_dynamodbstore.table.contract import Engine
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.tracking import metric_log, sealing
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.engines import dynoxide_server, find_dynoxide, moto_server
from tests.faults import CrashingEngine, FaultyEngine, SimulatedCrash, When
from tests.stores import ARTIFACTS
from tests.table.fakes import FakeTime, patient_retry

_numbers = itertools.count(1)
WALKED: list[tuple[str, When]] = [
    ("embedded", "during"),
    ("lagging", "after"),
    ("moto", "during"),
    ("moto", "after"),
    ("dynoxide", "during"),
    ("dynoxide", "after"),
]
ENGINES = ("embedded", "lagging", "moto", "dynoxide")


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with moto_server() as address:
        yield address


@pytest.fixture(scope="module")
def dynoxide() -> Iterator[str]:
    if find_dynoxide() is None:
        pytest.skip("dynoxide is not installed: tools/install_dynoxide.sh")
    with dynoxide_server() as address:
        yield address


class Home:
    """A table that processes come and go to, with one clock.

    moto does not fetch whole items through a local index of keys, so runs are not searched there.
    """

    def __init__(self, uri: str, *, can_search: bool = True):
        self.uri = uri
        self.can_search = can_search
        self.time = FakeTime()
        self.store = self.process()

    def process(self, wrap: Callable[[Engine], Engine] = lambda engine: engine) -> Any:
        table = Table(wrap(open_engine(self.uri)), clock=self.time, retry=patient_retry(self.time))
        return DynamoDBTrackingStore(self.uri, ARTIFACTS, table=table)

    def new_run(self) -> tuple[str, str]:
        home = self.store.create_experiment(f"e{next(_numbers)}")
        return home, self.store.create_run(home, "u", 1, [], "n").info.run_id


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setattr(metric_log, "SEGMENT_BYTES", 60)
    monkeypatch.setattr(metric_log, "SEGMENTS_BEFORE_FOLDING", 2)
    engine = str(request.param)
    if engine in ("moto", "dynoxide"):
        return Home(
            f"dynamodb://{request.getfixturevalue(engine)}/log", can_search=engine != "moto"
        )
    lag = "&index_lag=3600" if engine == "lagging" else ""
    return Home(f"dynamodb:///{tmp_path}/mlflow.ddb?synchronous=NORMAL{lag}")


def log(store: Any, run_id: str, step: int) -> None:
    points = [Metric("m", float(step), 100 + step, step), Metric("loss", -float(step), 5, step)]
    store.log_batch(run_id, points, [], [])


def end(store: Any, run_id: str) -> None:
    store.update_run_info(run_id, RunStatus.FINISHED, 9, None)


def check(home: Home, run: tuple[str, str], steps: list[int]) -> None:
    """To a new process, the histories have these points once, and the run shows the latest."""
    experiment_id, run_id = run
    store = home.process()
    for key in ("m", "loss"):
        assert [point.step for point in store.get_metric_history(run_id, key)] == steps
    latest = {"m": float(steps[-1]), "loss": -float(steps[-1])} if steps else {}
    assert store.get_run(run_id).data.metrics == latest
    if not home.can_search:
        return
    filter_string = f"metrics.m = {steps[-1]}" if steps else ""
    found = store.search_runs([experiment_id], filter_string, ViewType.ALL, 9)
    assert [one.data.metrics for one in found] == [latest]


@pytest.mark.parametrize(("home", "when"), WALKED, indirect=["home"])
def test_a_writer_that_dies_loses_no_acknowledged_point(home: Home, when: When) -> None:
    for at in itertools.count(1):
        run = _, run_id = home.new_run()
        dying = home.process(partial(CrashingEngine, at=at, when=when))
        done: list[int] = []
        try:
            for step in range(6):
                log(dying, run_id, step)
                done.append(step)
            end(dying, run_id)
            log(dying, run_id, 6)
            done.append(6)
            end(dying, run_id)
        except SimulatedCrash:
            survivor = home.process()
            found = [point.step for point in survivor.get_metric_history(run_id, "m")]
            assert found in (done, [*done, len(done)])
            if found == done:
                check(home, run, done)
            log(survivor, run_id, len(done))  # the client tries again
            end(survivor, run_id)
            check(home, run, [*done, len(done)])
        else:
            assert at > 12, "the walk must have met many writes"
            return


@pytest.mark.parametrize(("home", "when"), WALKED, indirect=["home"])
@pytest.mark.parametrize("pause", [sealing.REST_BEFORE_SEALING, sealing.IDLE_BEFORE_SEALING])
def test_a_reader_that_dies_while_it_folds_or_seals_loses_nothing(
    home: Home, when: When, pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader summarises, folds a long log, or seals a run that has rested for an hour."""
    monkeypatch.setattr(sealing, "LONG_LOG", 1)
    rules = Policies(home.store.table).sealing_rules()
    for at in itertools.count(1):
        run = _, run_id = home.new_run()
        writer = home.process()
        for step in range(5):
            log(writer, run_id, step)
        home.time.now += pause + 1
        dying = home.process(partial(CrashingEngine, at=at, when=when))
        try:
            for _ in range(3):
                item = home.store.run_lookup.get(run_id)
                (found,) = sealing.read_all(dying.table, [item], rules=rules)  # as a search does
                assert found.contents.metrics["m"][0] == 4.0
        except SimulatedCrash:
            check(home, run, list(range(5)))
        else:
            assert at > 3, "the walk must have met several writes"
            return
        for step in range(5, 8):
            log(writer, run_id, step)
        check(home, run, list(range(8)))
        end(writer, run_id)
        check(home, run, list(range(8)))


@pytest.mark.parametrize("home", ENGINES, indirect=True)
@pytest.mark.parametrize("seed", range(2))
def test_lost_answers_and_throttling_lose_and_double_nothing(home: Home, seed: int) -> None:
    rng = random.Random(seed)
    run = _, run_id = home.new_run()
    engines: list[FaultyEngine] = []

    def faulty(engine: Engine) -> Engine:
        made = FaultyEngine(engine, timeout_before=0.15, timeout_after=0.15, rng=rng)
        engines.append(made)
        return made

    stores = [home.process(faulty) for _ in range(2)]
    sure: set[int] = set()
    for step in range(30):
        try:
            log(rng.choice(stores), run_id, step)
            sure.add(step)
            if step % 11 == 10:
                end(rng.choice(stores), run_id)
        except MlflowException:
            continue
    assert sum(sum(engine.injected.values()) for engine in engines) > 20
    found = [point.step for point in home.store.get_metric_history(run_id, "m")]
    assert sure <= set(found)
    check(home, run, sorted(set(found)))
    end(home.store, run_id)
    check(home, run, sorted(set(found)))
