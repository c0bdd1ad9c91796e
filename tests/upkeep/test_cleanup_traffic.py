"""Cleanup beside live traffic: nothing that is needed is taken, whatever the writers do."""

from __future__ import annotations

import random
import secrets
import threading
import time
from pathlib import Path

import pytest
from hypothesis import settings
from mlflow.entities import ExperimentTag, Metric, Param, RunStatus, RunTag, ViewType

from mlflow_dynamodbstore.shared.policies import TEXT_FIELDS
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.tracking.run_search.search import forced_path
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup
from tests.stores import ARTIFACTS

SECONDS = settings().max_examples / 20  # `make fuzz` takes longer
WRITERS = 3
FIELD = {"levels": ["word"], "complete": True}

pytestmark = pytest.mark.hypothesis


class Writer(threading.Thread):
    """Creates, writes, ends, reopens, deletes and restores runs; remembers what each must hold."""

    def __init__(self, store: DynamoDBTrackingStore, seed: int, until: float):
        super().__init__()
        self.store = store
        self.until = until
        self.rng = random.Random(seed)
        self.metrics: dict[str, float] = {}
        self.params: dict[str, dict[str, str]] = {}
        self.experiments: dict[str, str] = {}
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while time.monotonic() < self.until:
                self._create()
                self._change()
                self._rename()
        except BaseException as error:  # noqa: BLE001 - told to the test
            self.error = error

    def _create(self) -> None:
        run = self.store.create_run("0", "ada", 1_000, [RunTag("team", "blue")], "night owl")
        run_id = str(run.info.run_id)
        # Some runs have a summary too large for one item.
        many = self.rng.random() < 0.05
        params = {
            f"p{n}": secrets.token_hex(3_000 if many else 4) for n in range(100 if many else 2)
        }
        self.store.log_batch(run_id, [], [Param(k, v) for k, v in params.items()], [])
        self.params[run_id] = params
        self._measure(run_id)

    def _change(self) -> None:
        run_id = self.rng.choice(list(self.params))
        if self.rng.random() < 0.5:
            self._measure(run_id)
        else:
            self.store.delete_run(run_id)
            self.store.restore_run(run_id)

    def _measure(self, run_id: str) -> None:
        """A value out of few, so that ranks that were true once become true again."""
        value = float(self.rng.randrange(4))
        step = int(time.time() * 1_000_000)
        self.store.log_metric(run_id, Metric("loss", value, 1_000, step))
        self.store.update_run_info(run_id, RunStatus.FINISHED, 2_000, None)
        self.metrics[run_id] = value

    def _rename(self) -> None:
        name = f"{self.rng.choice(['owl', 'bird', 'train'])} {secrets.token_hex(4)}"
        if len(self.experiments) < 5:
            number = self.store.create_experiment(name, tags=[ExperimentTag("team", "blue")])
        else:
            number = self.rng.choice(list(self.experiments))
            self.store.rename_experiment(number, name)
        self.experiments[number] = name


@pytest.mark.parametrize("options", ["", "&index_lag=0.3"], ids=["", "lagging"])
def test_nothing_is_lost_while_cleanup_runs_again_and_again(tmp_path: Path, options: str):
    uri = f"dynamodb:///{tmp_path / 'mlflow.ddb'}?synchronous=NORMAL{options}"
    tables = [Table(open_engine(uri)) for _ in range(WRITERS + 1)]
    stores = [DynamoDBTrackingStore("", ARTIFACTS, table=table) for table in tables]
    stores[0].policies.set(TEXT_FIELDS, {"run.name": FIELD, "experiment.name": FIELD})
    for store in stores:
        store.policies.all()
    until = time.monotonic() + SECONDS
    writers = [Writer(store, seed, until) for seed, store in enumerate(stores[1:])]
    for writer in writers:
        writer.start()
    passes = 0
    while time.monotonic() < until:
        Cleanup(tables[0], grace=1.0).run(restart=True)
        passes += 1
    for writer in writers:
        writer.join()
        assert writer.error is None, writer.error
    assert passes > 1
    _check(stores[0], writers)
    for table in tables:
        table.close()


def _check(store: DynamoDBTrackingStore, writers: list[Writer]) -> None:
    metrics = {run: value for writer in writers for run, value in writer.metrics.items()}
    for writer in writers:
        for run_id, params in writer.params.items():
            data = store.get_run(run_id).data
            assert (data.params, data.metrics["loss"]) == (params, metrics[run_id])
            assert data.tags["team"] == "blue"
        for number, name in writer.experiments.items():
            experiment = store.get_experiment(number)
            assert (experiment.name, experiment.tags["team"]) == (name, "blue")
            found = store.search_experiments(filter_string=f"name LIKE '% {name.split()[1]}'")
            assert [e.experiment_id for e in found] == [number]
    for value in range(4):
        expected = {run for run, own in metrics.items() if own == value}
        filter_string = f"metrics.loss = {value}"
        assert _found(store, filter_string, "ByMetric") == expected
    assert _found(store, "attributes.run_name LIKE 'night %'", "ByText") == metrics.keys()


def _found(store: DynamoDBTrackingStore, filter_string: str, path: str) -> set[str]:
    token = forced_path.set(path)
    try:
        runs, _ = store._search_runs(
            ["0"], filter_string, ViewType.ACTIVE_ONLY, 50_000, ["metrics.loss ASC"], None
        )
    finally:
        forced_path.reset(token)
    return {run.info.run_id for run in runs}
