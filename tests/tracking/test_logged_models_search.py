"""Searching logged models: the answers of MLflow's SQL store, page by page, reading little."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import LoggedModelParameter, LoggedModelStatus, LoggedModelTag, Metric
from mlflow.store.tracking import sqlalchemy_store
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

from mlflow_dynamodbstore.table.contract import Page, Query
from mlflow_dynamodbstore.tracking import logged_models
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.places import partitions
from tests.sql import empty_database
from tests.stores import open_tracking_store, refused
from tests.table.fakes import FakeTime

DATASETS = [None, ("d1", "x"), ("d1", "y"), ("d2", "x")]
LONG = "v" * 3000


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DynamoDBTrackingStore]:
    times = itertools.count(1000)
    monkeypatch.setattr(logged_models, "get_current_time_millis", lambda: next(times))
    store = open_tracking_store(tmp_path, FakeTime())
    yield store
    store.table.close()


def names(models: list[Any]) -> list[str]:
    return [model.name for model in models]


def every_page(store: Any, size: int, *args: Any, **kwargs: Any) -> list[str]:
    found: list[str] = []
    token = None
    while True:
        page = store.search_logged_models(*args, **kwargs, max_results=size, page_token=token)
        found += names(page)
        token = page.token
        if token is None:
            return found
        assert len(page) == size


# --- the same answers as SQL ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """Our store and MLflow's, with the same models made at the same moments."""
    folder = tmp_path_factory.mktemp("both")
    ours = open_tracking_store(folder, FakeTime())
    theirs = SqlAlchemyStore(empty_database(folder), str(folder))
    with pytest.MonkeyPatch.context() as patch:
        now = [1000]
        patch.setattr(logged_models, "get_current_time_millis", lambda: now[0])
        patch.setattr(sqlalchemy_store, "get_current_time_millis", lambda: now[0])
        for store in (ours, theirs):
            populate(store, now)
    yield ours, theirs
    ours.table.close()


def populate(store: Any, now: list[int]) -> None:
    rng = random.Random(7)
    experiments = ["0", store.create_experiment("second")]
    runs = [store.create_run(e, "u", 0, [], "r").info.run_id for e in experiments]
    for n in range(40):
        now[0] = 1000 + n
        some = [v for v in ("a", "B", "c%d", LONG) if rng.random() < 0.5]
        made = store.create_logged_model(
            experiments[n % 2],
            f"model {n % 7} {n}",
            runs[n % 2] if n % 3 else None,
            [LoggedModelTag(f"t{k}", value) for k, value in enumerate(some)],
            [LoggedModelParameter("p", rng.choice(["x", "X", "xy", LONG]))] if n % 4 else [],
            rng.choice([None, "agent", "Agent"]),
        )
        metrics = []
        for step in range(rng.choice([0, 0, 1, 4])):
            name, digest = rng.choice(DATASETS) or (None, None)
            metrics.append(
                Metric(
                    key=rng.choice(["auc", "loss"]),
                    value=rng.choice([0.0, 0.5, 0.75, 1.0, -2.0]),
                    timestamp=rng.choice([1, 2]),
                    step=step,
                    model_id=made.model_id,
                    dataset_name=name,
                    dataset_digest=digest,
                )
            )
        if metrics:
            store.log_batch(runs[n % 2], metrics, [], [])
        now[0] = 2000 - n % 5
        if n % 6 == 1:
            store.finalize_logged_model(made.model_id, LoggedModelStatus.READY)
        if n % 11 == 5:
            store.delete_logged_model(made.model_id)


FILTERS = [
    None,
    "name = 'model 3 3'",
    "name LIKE 'model 1%'",
    "name ILIKE 'MODEL 1 %'",
    "name IN ('model 1 1', 'model 2 2')",
    "name NOT IN ('model 1 1', 'model 2 2')",
    "name != 'model 1 1'",
    "creation_timestamp > 1020",
    "creation_time <= 1020 AND creation_timestamp >= 1004",
    "last_updated_timestamp = 1999",
    "status = '2'",
    "status != '1'",
    "experiment_id = '0'",
    "model_type = 'agent'",
    "model_type != 'agent'",
    "model_type ILIKE 'AGENT'",
    "attributes.source_run_id = 'none'",
    "tags.t0 = 'a'",
    "tags.t0 != 'a'",
    "tags.t1 LIKE 'c%'",
    f"tags.t1 = '{LONG}'",
    "params.p = 'x'",
    "params.p ILIKE 'X%'",
    f"params.p = '{LONG}' AND tags.t0 = 'a'",
    "metrics.auc > 0.5",
    "metrics.auc = 0.5",
    "metrics.auc != 0.5",
    "metrics.auc >= 0 AND metrics.loss <= 0.75",
    "metrics.nothing > 0",
    "metrics.loss < 1 AND params.p = 'x' AND name LIKE 'model%'",
]
ORDERS: list[Any] = [
    None,
    [{"field_name": "name"}],
    [{"field_name": "name", "ascending": False}],
    [{"field_name": "creation_timestamp"}],
    [{"field_name": "creation_time", "ascending": False}],
    [{"field_name": "last_updated_timestamp"}, {"field_name": "name", "ascending": False}],
    [{"field_name": "model_type", "ascending": False}],
    [{"field_name": "status"}, {"field_name": "experiment_id", "ascending": False}],
    [{"field_name": "source_run_id"}, {"field_name": "creation_timestamp"}],
    [{"field_name": "metrics.auc"}],
    [{"field_name": "metrics.auc", "ascending": False}, {"field_name": "metrics.loss"}],
    [{"field_name": "metrics.auc", "dataset_name": "d1"}],
    [{"field_name": "metrics.auc", "dataset_digest": "x", "ascending": False}],
    [{"field_name": "metrics.loss", "dataset_name": "d1", "dataset_digest": "x"}],
]
ON_DATASETS: list[Any] = [
    None,
    [{"dataset_name": "d1"}],
    [{"dataset_name": "d1", "dataset_digest": "x"}],
    [{"dataset_name": "d1", "dataset_digest": "y"}, {"dataset_name": "d2"}],
    [{"dataset_name": "d3"}],
]


def comparable(order_by: Any) -> bool:
    """Whether both stores have the same values there: ids of runs differ."""
    return all(clause["field_name"] != "source_run_id" for clause in order_by or [])


@pytest.mark.parametrize("filter_string", FILTERS, ids=lambda f: str(f)[:40])
def test_filters_and_orders_give_what_sql_gives(both, filter_string):
    ours, theirs = both
    combinations = list(itertools.product(filter(comparable, ORDERS), ON_DATASETS))
    for order_by, datasets in random.Random(str(filter_string)).sample(combinations, 15):
        request: Any = (["0", "1"], filter_string, datasets)
        expected = names(theirs.search_logged_models(*request, order_by=order_by))
        assert names(ours.search_logged_models(*request, order_by=order_by)) == expected


@pytest.mark.parametrize("order_by", ORDERS, ids=str)
def test_pages_of_any_size_make_up_the_whole(both, order_by):
    ours, _ = both
    for filter_string in (None, "metrics.auc >= 0", "params.p != 'x'"):
        whole = names(ours.search_logged_models(["1", "0"], filter_string, order_by=order_by))
        for size in (1, 3, 7, 100):
            assert every_page(ours, size, ["1", "0"], filter_string, order_by=order_by) == whole


def test_models_are_shown_whole(both):
    ours, _ = both
    mine, other = (store.search_logged_models(["0", "1"], max_results=50) for store in both)
    for model, same in zip(mine, other, strict=True):
        assert (model.tags, model.params) == (same.tags, same.params)
        assert (model.status, model.model_type) == (same.status, same.model_type)
        values = [
            sorted((m.key, m.step, m.value, m.dataset_name or "") for m in one.metrics or [])
            for one in (model, same)
        ]
        assert values[0] == values[1]
        assert model.to_dictionary() == ours.get_logged_model(model.model_id).to_dictionary()


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"filter_string": "Foo"}, "Invalid filter string"),
        ({"filter_string": "foo.bar = 'a'"}, "Invalid entity type"),
        ({"filter_string": "foo = 'a'"}, "Invalid attribute"),
        ({"filter_string": "name > 'a'"}, "Invalid comparison operator"),
        ({"order_by": [{"field_name": "foo"}]}, "Invalid order by field name: foo"),
        ({"order_by": [{"field_name": "params.p"}]}, "Only metrics are supported"),
        ({"datasets": [{"dataset_digest": "x"}]}, "must be specified"),
        ({"page_token": "nonsense"}, "Invalid page token"),
        ({"page_token": "e30="}, "Invalid page token"),
        ({"page_token": "xyz"}, "Invalid page token"),
    ],
)
def test_what_makes_no_sense_is_refused(store, arguments, message):
    with refused("INVALID_PARAMETER_VALUE", message):
        store.search_logged_models(["0"], **arguments)


def test_a_page_token_belongs_to_its_search(store):
    for _ in range(3):
        store.create_logged_model("0")
    token = store.search_logged_models(["0"], max_results=1).token
    for arguments, message in (
        ({"experiment_ids": ["1"]}, "Experiment IDs in the page token do not match"),
        ({"filter_string": "name = 'a'"}, "Filter string in the page token does not match"),
        ({"order_by": [{"field_name": "name"}]}, "Order by in the page token does not match"),
    ):
        with refused("INVALID_PARAMETER_VALUE", message):
            store.search_logged_models(**{"experiment_ids": ["0"], **arguments}, page_token=token)


def test_a_status_is_known_by_its_name(store):
    model = store.create_logged_model("0")
    store.create_logged_model("0")
    store.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
    found = store.search_logged_models(["0"], "status = 'READY'")
    assert names(found) == [model.name]


def test_an_attribute_goes_by_all_its_names(store):
    model = store.create_logged_model("0")
    for name in ("creation_time", "creation_timestamp", "attributes.creation_timestamp"):
        assert names(store.search_logged_models(["0"], f"{name} > 0")) == [model.name]


def test_a_metric_that_is_no_number_comes_after_the_numbers_and_before_none(store):
    run_id = store.create_run("0", "u", 0, [], "r").info.run_id
    for name, value in (("nan", math.nan), ("one", 1.0), ("inf", math.inf), ("none", None)):
        model_id = store.create_logged_model("0", name).model_id
        if value is not None:
            store.log_metric(run_id, Metric("m", value, 1, 0, model_id))
    for ascending, expected in (
        (True, ["one", "inf", "nan", "none"]),
        (False, ["inf", "one", "nan", "none"]),
    ):
        order_by = [{"field_name": "metrics.m", "ascending": ascending}]
        assert every_page(store, 1, ["0"], order_by=order_by) == expected


# --- pages while models come and go ---------------------------------------------------------------


def test_models_made_between_pages_move_no_other(store):
    made = [store.create_logged_model("0", f"m{n}").name for n in range(6)]
    first = store.search_logged_models(["0"], max_results=3)
    for n in range(4):
        store.create_logged_model("0", f"new{n}")
    rest = store.search_logged_models(["0"], max_results=10, page_token=first.token)
    assert names(first) + names(rest) == made[::-1]


def test_models_of_one_moment_are_in_the_order_of_their_ids(store, monkeypatch):
    monkeypatch.setattr(logged_models, "get_current_time_millis", lambda: 5)
    made = [store.create_logged_model("0", f"m{n}").name for n in range(9)]
    for size in (1, 2, 4, 20):
        assert every_page(store, size, ["0"]) == made


# --- what is read ---------------------------------------------------------------------------------


def counted(store: DynamoDBTrackingStore, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many items each query brings."""
    query, brought = store.table.engine.query, []

    def recorded(request: Query) -> Page:
        page = query(request)
        brought.append(len(page.items))
        return page

    monkeypatch.setattr(store.table.engine, "query", recorded)
    return brought


def test_the_latest_models_are_read_alone(store, monkeypatch):
    for n in range(60):
        store.create_logged_model("0", f"m{n}", tags=[LoggedModelTag("t", str(n))])
    brought = counted(store, monkeypatch)
    assert len(store.search_logged_models(["0"], max_results=5)) == 5
    # Of each volume one more tells that there is another page, one more that it is no tie.
    assert brought == [7] * len(partitions(store.table, "0"))


@pytest.mark.one_volume(reason="counts what one partition brings")
def test_metrics_are_read_of_the_models_that_have_some(store, monkeypatch):
    run_id = store.create_run("0", "u", 0, [], "r").info.run_id
    models = [store.create_logged_model("0", f"m{n}").model_id for n in range(20)]
    for model_id in models[:3]:
        store.log_metric(run_id, Metric("auc", 0.5, 1, 0, model_id))
    brought = counted(store, monkeypatch)
    assert len(store.search_logged_models(["0"], "metrics.auc > 0")) == 3
    assert brought == [20, 1, 1, 1]
