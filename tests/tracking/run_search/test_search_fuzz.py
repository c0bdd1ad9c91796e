"""Searches give the same runs in the same order as MLflow's SqlAlchemyStore, on every path."""

from __future__ import annotations

import os
import random
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from mlflow.exceptions import MlflowException
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

from mlflow_dynamodbstore.shared.policies import PRIMARY_METRIC
from mlflow_dynamodbstore.tracking.run_search import path_choice
from mlflow_dynamodbstore.tracking.run_search.experiment_runs import (
    ExperimentRuns,
)
from mlflow_dynamodbstore.tracking.run_search.search import forced_path, parse_run_query
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.upkeep.primary_metric import PrimaryMetric
from tests.tracking.run_search.populations import (
    TwoStores,
    random_filter,
    random_order,
    random_view,
)

pytestmark = pytest.mark.hypothesis  # so that `make fuzz` runs it too

RUNS = 120
SEARCHES = int(os.environ.get("SEARCH_FUZZ", "150"))
PATHS = {"ByTime", "ByMetric", "ByPrimaryMetric", "ByParam", "ByName", "ByStatus", "ByPartition"}


@pytest.fixture(scope="module", params=[1, 2])
def stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TwoStores:
    folder: Path = tmp_path_factory.mktemp("fuzz")
    ours = DynamoDBTrackingStore(f"dynamodb:///{folder}/ours.ddb?synchronous=NORMAL", str(folder))
    theirs = SqlAlchemyStore(f"sqlite:///{folder}/theirs.db", str(folder))
    two = TwoStores(ours, theirs, random.Random(request.param))
    for name in ("one", "two", "three"):
        two.experiment(name)
    for _ in range(RUNS):
        two.run()
    # Searches by one metric read LSI5, and those by the others RANK.
    ours.policies.set(PRIMARY_METRIC, "acc")
    backfill(ours)
    return two


def backfill(store: Any) -> None:
    """Order LSI5 by the metric wished for, with a clock that need not be waited for."""
    table, now = copy(store.table), [store.table.clock()]
    table.clock = lambda: now[0]
    PrimaryMetric(table, store.policies, sleep=lambda s: now.append(now.pop() + s)).backfill()


def walk(store: Any, page_size: int, *search: Any) -> list[str] | str:
    """The ids a search gives, page after page, or the words it is refused with."""
    experiments, filter_string, view, order_by = search
    token, ids = None, []
    while True:
        try:
            found = store.search_runs(experiments, filter_string, view, page_size, order_by, token)
        except MlflowException as error:
            return f"{error.error_code}: {error.message}"
        ids += [run.info.run_id for run in found]
        token = found.token
        if not token:
            return ids


@pytest.mark.parametrize("wavering", [False, True])
def test_random_searches_agree_with_mlflow_page_by_page(
    stores: TwoStores, wavering: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is asked, in pages of whatever size, the ids and their order are MLflow's.

    Also when paths are begun that need not be, and given up anywhere.
    """
    rng = random.Random(stores.rng.random())
    mind, given_up = random.Random(0), []  # of its own, so that the searches stay the same

    def gives_up(runs: ExperimentRuns) -> bool:
        given_up.append(runs.give_up_after is not None and mind.random() < 0.9)
        return given_up[-1]

    if wavering:
        monkeypatch.setattr(path_choice, "FEW", 0)
        monkeypatch.setattr(path_choice, "LIKELY", 1.0)
        monkeypatch.setattr(ExperimentRuns, "_is_too_expensive", gives_up)
    for _ in range(SEARCHES // 2):
        experiments = rng.sample(stores.experiments, rng.choice((1, 1, 2, 3)))
        search = (
            experiments,
            random_filter(rng, stores.run_ids),
            random_view(rng),
            random_order(rng),
        )
        theirs = walk(stores.theirs, 1000, *search)
        assert walk(stores.ours, rng.choice((1, 3, 7, 50)), *search) == theirs, search
    # A third of these runs is so few that no path is begun that need not be.
    assert any(given_up) or not wavering or stores.ours.table.engine.capabilities.spread > 1


def test_every_path_able_to_answer_gives_the_same_answer(stores: TwoStores) -> None:
    """The choice of a path changes what is read, never what is found."""
    rng = random.Random(stores.rng.random())
    used: set[str] = set()
    for n in range(3 * SEARCHES):
        if n >= SEARCHES // 3 and used >= PATHS:
            break  # parsers of older releases refuse more, so more searches are needed
        search = (
            stores.experiments[:2],
            random_filter(rng, stores.run_ids),
            random_view(rng),
            random_order(rng),
        )
        expected = walk(stores.ours, 1000, *search)
        if isinstance(expected, str):
            continue
        parsed = parse_run_query(search[1], search[3], search[2])
        query = stores.ours.run_search._with_indexes(parsed)
        for name in {path.name for path in query.plans().all()}:
            token = forced_path.set(name)
            try:
                assert walk(stores.ours, 20, *search) == expected, (name, search)
            finally:
                forced_path.reset(token)
            used.add(name)
    assert used >= PATHS
