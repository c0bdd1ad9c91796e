"""Random sequences of calls about reviews have the same answers on MLflow's SqlAlchemyStore.

Ours has global indexes that lag: nothing here may wait for one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest
from mlflow.exceptions import MlflowException
from mlflow.genai.label_schemas.label_schemas import (
    InputCategorical,
    InputNumeric,
    InputPassFail,
    InputText,
)
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

from tests.sql import empty_database
from tests.table.fakes import FakeTime

STEPS = 70
NAMES = ["a", "A", "b", "B", "É", "é", "c", "d", "e", " b ", "default", "Feedback", "", "n" * 251]
USERS = ["ada", " Ada", "bo", "cy", "bo", "cy", ""]
TRACES = ["tr-1", " tr-1", "tr-2", "tr-10", "TR-1", "tr#3", "tr-2#", "t", "u", "v"]
STATUSES = ["pending", "complete", "complete", "declined", "declined", "done"]
INPUTS = [
    InputPassFail(positive_label="y", negative_label="n"),
    InputPassFail(positive_label="y", negative_label="y"),
    InputCategorical(options=["x", "y"]),
    InputCategorical(options=["x"], multi_select=True),
    InputNumeric(min_value=0, max_value=1.5),
    InputNumeric(),
    InputText(max_length=3),
]
MODULES = (
    "mlflow.store.tracking.sqlalchemy_store",
    "mlflow.store.tracking.dbmodels.models",
    "mlflow_dynamodbstore.reviews.label_schemas",
    "mlflow_dynamodbstore.reviews.queues",
    "mlflow_dynamodbstore.reviews.queue_items",
)

Pair = tuple[Any, Any]
"""What one thing is called in our store and in MLflow's."""


class Difference:
    """Calls both stores at the same moment, and compares what comes back."""

    def __init__(self, ours: Any, theirs: Any, clock: FakeTime, seed: int):
        self.stores = (ours, theirs)
        self.clock = clock
        self.rng = Random(seed)
        self.home: Pair = (
            ours.create_experiment(f"difference {seed}"),
            theirs.create_experiment(f"difference {seed}"),
        )
        self.schemas: list[Pair] = []
        self.queues: list[Pair] = []
        self.names: dict[str, str] = {}

    def run(self) -> None:
        for _ in range(2):
            self.create_schema()
            self.create_queue()
        often: list[Callable[[], None]] = [self.attach, self.finish, self.update_queue]
        calls = [*often, *often, self.create_schema, self.update_schema, self.find_schemas]
        calls += [self.create_queue, self.users_queue, self.find_queues, self.list_items]
        calls += [self.detach, self.remove_one]
        for _ in range(STEPS):
            self.rng.choice(calls)()
        self.compare_all()

    # --- both stores ----------------------------------------------------------------------------

    def same(self, method: str, *args: Any, **kwargs: Any) -> Pair | None:
        """Call a method on both, with ours and theirs of every pair; the answers must agree.

        Gives the ids of what came back.
        """
        self.clock.now += 1
        made = [outcome(store, method, *one_side(args, kwargs, n)) for n, store in self.both()]
        mine, other = identity(made[0]), identity(made[1])
        if mine and other and mine not in self.names:
            self.names.update(dict.fromkeys((mine, other), f"<{len(self.names)}>"))
        assert self.shown(made[0], 0) == self.shown(made[1], 1), (method, args, kwargs)
        return (mine, other) if mine and other else None

    def pages(self, method: str, *args: Any, size: int, **kwargs: Any) -> None:
        """Compare all pages of a list."""
        self.clock.now += 1
        made = []
        for n, store in self.both():
            given, options = one_side(args, kwargs, n)
            found = [outcome(store, method, given, {**options, "max_results": size})]
            while (token := getattr(found[-1], "token", None)) is not None:
                more = {**options, "max_results": size, "page_token": token}
                found.append(outcome(store, method, given, more))
            made.append(self.shown(found, n))
        assert made[0] == made[1], (method, args, kwargs)

    def both(self) -> list[tuple[int, Any]]:
        return list(enumerate(self.stores))

    def shown(self, found: Any, side: int) -> str:
        """An answer as text, with the same names for what both stores have made."""
        text = repr(plain(found))
        for name, known in self.names.items():
            text = text.replace(name, known)
        home = rf"(experiment(_id)?['\"]?[ :=]+['\"]?){self.home[side]}\b"
        return re.sub(home, r"\1HOME", text)

    def some(self, values: list[Any], most: int) -> list[Any]:
        return [self.rng.choice(values) for _ in range(self.rng.randint(0, most)) if values]

    def one(self, values: list[Any]) -> list[Any]:
        """One of them, if there are any."""
        return values and [self.rng.choice(values)]

    def maybe(self, value: Any) -> Any:
        return value if self.rng.random() < 0.4 else None

    # --- label schemas --------------------------------------------------------------------------

    def create_schema(self) -> None:
        made = self.same(
            "create_label_schema",
            self.home,
            name=self.rng.choice(NAMES),
            type=self.rng.choice(["feedback", "expectation"]),
            input=self.rng.choice(INPUTS),
            enable_comment=self.rng.random() < 0.5,
        )
        self.schemas += [made] if made else []

    def update_schema(self) -> None:
        for schema in self.one(self.schemas):
            name, asked = self.rng.choice(NAMES), self.rng.choice(INPUTS)
            self.same("update_label_schema", schema, name=self.maybe(name), input=self.maybe(asked))

    def find_schemas(self) -> None:
        for schema in self.one(self.schemas):
            self.same("get_label_schema", schema)
        self.same("get_label_schema_by_name", self.home, self.rng.choice(NAMES))

    # --- queues ---------------------------------------------------------------------------------

    def create_queue(self) -> None:
        made = self.same(
            "create_review_queue",
            self.home,
            name=self.rng.choice(NAMES),
            queue_type=self.rng.choice(["custom", "custom", "custom", "user", "other"]),
            users=self.maybe(self.some(USERS, 3)),
            schema_ids=pair_of_lists(self.some(self.schemas, 2)),
        )
        self.queues += [made] if made else []

    def users_queue(self) -> None:
        made = self.same("get_or_create_user_queue", self.home, user=self.rng.choice(USERS))
        self.queues += [made] if made else []

    def update_queue(self) -> None:
        for queue in self.one(self.queues):
            # A name that is taken makes MLflow's SQL store fail with the database's own words when
            # it comes with anything else than an owner.
            lists = {
                "users": self.maybe(self.some(USERS, 3)),
                "schema_ids": self.maybe(pair_of_lists(self.some(self.schemas, 2))),
            }
            changes = self.rng.choice([lists, {"name": self.maybe(self.rng.choice(NAMES))}])
            owner = self.maybe(self.rng.choice(USERS))
            self.same("update_review_queue", queue, new_owner=owner, **changes)

    def find_queues(self) -> None:
        for queue in self.one(self.queues):
            self.same("get_review_queue", queue)
        self.same("get_review_queue_by_name", self.home, name=self.rng.choice(NAMES))

    def remove_one(self) -> None:
        queues, schemas = self.one(self.queues), self.one(self.schemas)
        for queue in queues[: self.rng.randint(0, 1)]:
            self.same("delete_review_queue", queue)
        for schema in schemas[: self.rng.randint(0, 1)]:
            self.same("delete_label_schema", schema)

    # --- items ----------------------------------------------------------------------------------

    def attach(self) -> None:
        for queue in self.one(self.queues):
            self.same("add_items_to_review_queue", queue, item_ids=self.some(TRACES, 6))

    def detach(self) -> None:
        for queue in self.one(self.queues):
            self.same("remove_items_from_review_queue", queue, item_ids=self.some(TRACES, 3))

    def finish(self) -> None:
        for queue in self.one(self.queues):
            self.same(
                "set_review_queue_item_status",
                queue,
                item_id=self.rng.choice(TRACES),
                status=self.rng.choice(STATUSES),
                completed_by=self.maybe(self.rng.choice(USERS)) or "ada",
            )
            self.same("set_review_queue_item_status", queue, item_id="t", status="pending")

    def list_items(self) -> None:
        for queue in self.one(self.queues):
            status = self.maybe(self.rng.choice(STATUSES))
            size = self.rng.randint(0, 3)
            self.pages("list_review_queue_items", queue, status=status, size=size)

    def compare_all(self) -> None:
        """In the end all lists are the same."""
        self.same("list_label_schemas", self.home, max_results=1)
        for size in (1, 3, 100):
            self.pages("list_label_schemas", self.home, size=size)
            self.pages("list_review_queues", self.home, size=size)
        for user in ("ada", "bo"):
            self.pages("list_review_queues", self.home, user=user, size=2)
            for item in ("tr-1", "t"):
                self.pages("list_review_queues", self.home, user=user, item_id=item, size=1)
        for queue in dict.fromkeys(self.queues):
            for status in (None, "pending", "complete"):
                self.pages("list_review_queue_items", queue, status=status, size=2)


def pair_of_lists(pairs: list[Pair]) -> Pair:
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def one_side(args: Any, kwargs: Any, side: int) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of one of the two stores."""

    def pick(value: Any) -> Any:
        return value[side] if isinstance(value, tuple) else value

    return [pick(one) for one in args], {name: pick(one) for name, one in kwargs.items()}


def outcome(store: Any, method: str, args: Any, kwargs: Any) -> Any:
    try:
        return getattr(store, method)(*args, **kwargs)
    except MlflowException as error:
        return error


def identity(found: Any) -> str | None:
    """The id of a label schema or queue."""
    return getattr(found, "schema_id", None) or (
        None if hasattr(found, "item_id") else getattr(found, "queue_id", None)
    )


def plain(found: Any) -> Any:
    """What is compared: not the order of ids, which each store draws for itself."""
    if isinstance(found, MlflowException):
        return found.error_code, re.sub(r"\[.*\]", "[..]", found.message)
    if isinstance(found, list):
        return [plain(one) for one in found]
    if found is None:
        return None
    fields = asdict(found)
    if "schema_ids" in fields:
        fields["schema_ids"] = len(fields["schema_ids"])
    if fields.get("is_default"):
        fields["schema_id"] = "default"
    return type(found).__name__, fields


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlAlchemyStore]:
    folder: Path = tmp_path_factory.mktemp("sql")
    store = SqlAlchemyStore(empty_database(folder), f"{folder}/artifacts")
    yield store
    store._dispose_engine()


@pytest.fixture
def clock() -> Iterator[FakeTime]:
    """The time by which both stores date what they write."""
    shared = FakeTime(1_700_000_000_000)
    with ExitStack() as patches:
        for module in MODULES:
            patches.enter_context(mock.patch(f"{module}.get_current_time_millis", shared))
        yield shared


@pytest.mark.parametrize("seed", range(4))
def test_both_stores_say_the_same(store, theirs, clock, seed):
    Difference(store, theirs, clock, seed).run()
