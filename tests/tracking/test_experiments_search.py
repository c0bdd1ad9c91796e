"""Searching experiments: answers as of MLflow's SQL store, page by page, with few reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from mlflow.entities import ExperimentTag, ViewType
from mlflow.exceptions import MlflowException
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.tracking import experiment_deletion, experiments
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.releases import needs
from tests.sql import empty_database
from tests.stores import open_tracking_store, refused
from tests.table.fakes import FakeTime

NAMES = [
    "a",
    "A",
    "ab",
    "aB",
    "a_c",
    "a%c",
    "b",
    "Ba",
    "é",
    "É",
    "a b",
    "abc\ndef",
    "~",
    "\U0001f600",
]
TAGS = [
    {},
    {"k": "v"},
    {"k": "V", "other": "x"},
    {"k": "value with 50%", "k 1": ""},
    {"other": "v" * 3_000},
]
FILTERS = [
    None,
    "",
    "name = 'a'",
    "name != 'a'",
    "attribute.name = 'A'",
    "name = 'nobody'",
    "name LIKE 'a%'",
    "name LIKE 'a_%'",
    "name LIKE '%b'",
    "name LIKE '_b'",
    "name LIKE '%c' AND name LIKE '%a%'",
    "name LIKE '%é'",
    "name LIKE '%😀'",
    "name LIKE '%\ndef'",
    "name LIKE 'a%c'",
    "name LIKE '%'",
    "name LIKE ''",
    "name LIKE '_'",
    "name ILIKE 'a%'",
    "name ILIKE 'É'",
    "name ILIKE '%B%'",
    "name LIKE 'a%' AND name LIKE 'ab%'",
    "name LIKE 'a%' AND name != 'ab'",
    "name LIKE 'abc%def'",
    *(
        pytest.param(text, marks=needs("filters by experiment id"))
        for text in (
            "experiment_id = '3'",
            "experiment_id != '3'",
            "experiment_id IN ('3', '5', '99')",
            "experiment_id NOT IN ('3', '5', '99')",
            "experiment_id IN ('3', '5') AND name LIKE 'a%'",
        )
    ),
    "creation_time > 1003",
    "creation_time <= 1003 AND name ILIKE 'a%'",
    "creation_time != 1003",
    "last_update_time >= 1005",
    "last_update_time = 1002",
    "tags.k = 'v'",
    "tag.k != 'v'",
    "tags.k LIKE 'v%'",
    "tags.k ILIKE 'v%'",
    "tags.`k 1` = ''",
    "tags.k IS NULL",
    "tags.k IS NOT NULL AND name LIKE 'a%'",
    "tags.other LIKE 'vvv%'",
    "tags.other IS NULL AND tags.k IS NULL",
    "tags.K = 'v'",
]
ORDERS = [
    None,
    ["name"],
    ["name DESC"],
    ["experiment_id"],
    ["experiment_id DESC"],
    ["last_update_time", "name DESC"],
    ["last_update_time DESC"],
    ["attribute.creation_time ASC"],
]
REFUSED = [
    "name > 'a'",
    "name IN ('a')",
    "name like 'a%'",
    "name IS NULL",
    "creation_time LIKE '1'",
    "creation_time = 'x'",
    pytest.param("creation_time = 1.5", marks=needs("numbers in filters")),
    "experiment_id LIKE '3'",
    "experiment_id = 'x'",
    "tags.k > 'v'",
    "tags.k IN ('v')",
    "params.k = 'v'",
    "name = 'a' OR name = 'b'",
    "nonsense",
    "name = a b",
]


def fill(store: Any) -> None:
    """The same experiments at the same times: some share one, some are deleted or renamed."""
    for n, name in enumerate(NAMES):
        tags = [ExperimentTag(key, value) for key, value in TAGS[n % len(TAGS)].items()]
        with clock_at(1000 + n // 2):
            store.create_experiment(name, tags=tags)
    with clock_at(1004):
        for n in range(1, len(NAMES), 4):
            store.delete_experiment(str(n))
        store.rename_experiment("3", "ab renamed")
        store.restore_experiment("5")


@contextmanager
def clock_at(milliseconds: int) -> Iterator[None]:
    """Let both stores see the same time."""
    with ExitStack() as stack:
        for module in (
            experiments.__name__,
            experiment_deletion.__name__,
            SqlAlchemyStore.__module__,
        ):
            clock = f"{module}.get_current_time_millis"
            stack.enter_context(mock.patch(clock, return_value=milliseconds))
        yield


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DynamoDBTrackingStore]:
    with clock_at(999):
        store = open_tracking_store(tmp_path_factory.mktemp("ours"), FakeTime())
    fill(store)
    yield store
    store.table.close()


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlAlchemyStore]:
    folder: Path = tmp_path_factory.mktemp("theirs")
    with clock_at(999):
        store = SqlAlchemyStore(empty_database(folder), "s3://bucket/root")
    fill(store)
    yield store
    store._dispose_engine()


def listed(store: Any, **arguments: Any) -> list[tuple[Any, ...]]:
    """All pages of a search, with what is seen of each experiment."""
    rows: list[tuple[Any, ...]] = []
    token = None
    while True:
        page = store.search_experiments(max_results=4, page_token=token, **arguments)
        assert len(page) <= 4
        rows += [
            (
                e.experiment_id,
                e.name,
                e.lifecycle_stage,
                e.creation_time,
                e.last_update_time,
                e.tags,
            )
            for e in page
        ]
        token = page.token
        if token is None:
            return rows


@pytest.mark.parametrize("filter_string", FILTERS)
def test_filters_mean_what_they_mean_on_sqlite(ours, theirs, filter_string):
    for view_type in (ViewType.ACTIVE_ONLY, ViewType.DELETED_ONLY, ViewType.ALL):
        asked = {"view_type": view_type, "filter_string": filter_string}
        assert listed(ours, **asked) == listed(theirs, **asked)


@pytest.mark.parametrize(
    ("order_by", "filter_string"), list(product(ORDERS, [None, "name LIKE 'a%'"]))
)
def test_orders_are_those_of_sqlite(ours, theirs, order_by, filter_string):
    asked = {"view_type": ViewType.ALL, "order_by": order_by, "filter_string": filter_string}
    assert listed(ours, **asked) == listed(theirs, **asked)


@pytest.mark.parametrize("filter_string", REFUSED)
def test_what_sqlite_refuses_is_refused_with_the_same_code(ours, theirs, filter_string):
    with pytest.raises(MlflowException) as expected:
        theirs.search_experiments(filter_string=filter_string)
    with pytest.raises(MlflowException) as found:
        ours.search_experiments(filter_string=filter_string)
    assert found.value.error_code == expected.value.error_code
    assert found.value.message == expected.value.message


@pytest.mark.parametrize("order_by", [["tags.k"], ["nonsense"], ["name UPWARDS"], [""]])
def test_an_order_that_sqlite_refuses_is_refused(ours, theirs, order_by):
    with pytest.raises(MlflowException) as expected:
        theirs.search_experiments(order_by=order_by)
    with pytest.raises(MlflowException) as found:
        ours.search_experiments(order_by=order_by)
    assert found.value.error_code == expected.value.error_code


# --- pages ----------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DynamoDBTrackingStore]:
    store = open_tracking_store(tmp_path, FakeTime())
    yield store
    store.table.close()


def test_pages_stay_right_while_experiments_come_and_go(store):
    for n in range(6):
        with clock_at(2_000_000_000_000 + n):
            store.create_experiment(f"e{n}")
    first = store.search_experiments(max_results=3)
    assert [e.name for e in first] == ["e5", "e4", "e3"]
    store.delete_experiment(first[1].experiment_id)
    store.rename_experiment(first[2].experiment_id, "renamed")
    with clock_at(2_000_000_000_100):
        store.create_experiment("newest")
    second = store.search_experiments(max_results=3, page_token=first.token)
    assert [e.name for e in second] == ["e2", "e1", "e0"]
    third = store.search_experiments(max_results=3, page_token=second.token)
    assert [e.name for e in third] == ["Default"]
    assert third.token is None


@pytest.mark.parametrize("token", ["x", "bm90IGpzb24=", "e30=", "eyJhZnRlciI6IFtbMCwgImEiXV19"])
def test_what_is_no_page_token_is_refused(store, token):
    with refused("INVALID_PARAMETER_VALUE", "Invalid page token"):
        store.search_experiments(page_token=token)


@pytest.mark.parametrize("max_results", [None, 0, -1, 50_001])
def test_an_invalid_size_of_a_page_is_refused(store, max_results):
    with refused("INVALID_PARAMETER_VALUE", "Invalid value .* for parameter 'max_results'"):
        store.search_experiments(max_results=max_results)


# --- what it costs --------------------------------------------------------------------------------


class Watched:
    """Counts what a search reads."""

    def __init__(self, store: DynamoDBTrackingStore, monkeypatch: pytest.MonkeyPatch):
        self.experiments = 0
        self.entries = 0
        get_many, query = store.table.get_many, store.table.query

        def counted_get_many(wanted, **options):
            wanted = list(wanted)
            self.experiments += len(wanted)
            return get_many(wanted, **options)

        def counted_query(asked: Query):
            page = query(asked)
            if asked.partition == access_keys.workspace_pk("default"):
                self.entries += len(page.items)
            return page

        monkeypatch.setattr(store.table, "get_many", counted_get_many)
        monkeypatch.setattr(store.table, "query", counted_query)


@pytest.fixture
def watched(store: DynamoDBTrackingStore, monkeypatch: pytest.MonkeyPatch) -> Watched:
    for n in range(20):
        store.create_experiment(f"{'ab'[n % 2]}{n}", tags=[ExperimentTag("k", str(n))])
    return Watched(store, monkeypatch)


def test_a_page_of_the_plain_list_reads_the_experiments_it_shows(store, watched):
    assert len(store.search_experiments(max_results=5)) == 5
    assert (watched.entries, watched.experiments) == (21, 5)


def test_a_filter_by_a_beginning_reads_no_other_names(store, watched):
    assert len(store.search_experiments(filter_string="name LIKE 'a%'", max_results=5)) == 5
    assert (watched.entries, watched.experiments) == (10, 5)


def test_a_filter_by_name_reads_one_entry_and_one_experiment(store, watched):
    assert len(store.search_experiments(filter_string="name = 'a2'")) == 1
    assert (watched.entries, watched.experiments) == (0, 1)


@needs("filters by experiment id")
def test_a_filter_by_id_reads_no_entries(store, watched):
    assert len(store.search_experiments(filter_string="experiment_id IN ('2', '3')")) == 2
    assert (watched.entries, watched.experiments) == (0, 2)


def test_a_filter_by_tag_reads_each_experiment_that_the_name_leaves_once(store, watched):
    found = store.search_experiments(filter_string="tags.k = '4' AND name LIKE 'a%'")
    assert [e.name for e in found] == ["a4"]
    assert (watched.entries, watched.experiments) == (10, 10)


def test_an_end_of_names_is_found_at_once_although_indexes_lag(tmp_path: Path):
    """A name that was taken, or given up, is seen by the next search."""
    store = open_tracking_store(tmp_path, FakeTime(), options="synchronous=NORMAL&index_lag=60")

    def found() -> set[str]:
        return {one.name for one in store.search_experiments(filter_string="name LIKE '%v3'")}

    first = store.create_experiment("one v3")
    assert found() == found() == {"one v3"}
    store.create_experiment("two v3")
    assert found() == {"one v3", "two v3"}
    store.rename_experiment(first, "one v4")
    assert found() == {"two v3"}
    store.table.close()


@pytest.mark.index_at_once
def test_an_end_of_many_names_is_answered_from_their_list(tmp_path: Path):
    """Reading each experiment would cost more than listing all names."""
    time = FakeTime()
    store = open_tracking_store(tmp_path, time)
    for n in range(105):
        store.create_experiment(f"{n} v3")
    for _ in range(2):
        time.sleep(7200)
        found = store.search_experiments(filter_string="name LIKE '%v3'")
        assert len(found) == 105
    store.table.close()
