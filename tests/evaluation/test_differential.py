"""Random sequences of calls about evaluation have the same answers on MLflow's SqlAlchemyStore."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest
from mlflow.entities import IssueSeverity, IssueStatus
from mlflow.entities.assessment import IssueReference
from mlflow.exceptions import MlflowException
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

from tests.lagging import LAGGING
from tests.sql import empty_database
from tests.stores import open_tracking_store
from tests.table.fakes import FakeTime
from tests.traces.making import make_info, trace_id

STEPS = 60
TEXTS = ["a", "B", "b", "É", "a%", "", "x" * 1500]
VALUES = [1, 1.5, "x", None, [1, {"k": 2}], {"k": [True]}, ""]
SOURCES = [
    {"source_type": "TRACE", "source_data": {"trace_id": "tr-1"}},
    {"source_type": "human", "source_data": {"source_id": "s"}},
    None,
]
FILTERS = [
    "name LIKE '%1%'",
    "name ILIKE 'D%'",
    "name != 'd1'",
    "name IN ('d1', 'd2', 'd2001')",
    "tags.k = 'b'",
    "tags.k != 'b'",
    "tags.k ILIKE 'B%' AND name LIKE 'd%'",
    "created_by = 'ada'",
    "last_updated_by != 'ada'",
    "created_time >= 1700000000020",
    "last_update_time < 1700000000040",
    "created_time = 'x'",
    "digest = 'x'",
    "name > 'a'",
]
ORDERS = [None, ["name"], ["name DESC"], ["last_update_time DESC"], ["created_time"], ["digest"]]
ISSUE_FILTERS = [None, "status = 'pending'", "status != 'resolved'", "source_run_id = 'r'", "x = 1"]
MODULES = (
    "mlflow.store.tracking.sqlalchemy_store",
    "mlflow.store.tracking.dbmodels.models",
    "mlflow_dynamodbstore.evaluation.datasets",
    "mlflow_dynamodbstore.evaluation.dataset_experiments",
    "mlflow_dynamodbstore.evaluation.dataset_records",
    "mlflow_dynamodbstore.evaluation.scorers",
    "mlflow_dynamodbstore.evaluation.issues",
)

Pair = tuple[Any, Any]
"""What one thing is called in our store and in MLflow's."""


class Difference:
    """Calls both stores at the same moment, and compares what comes back."""

    def __init__(self, ours: Any, theirs: Any, clock: FakeTime, seed: int):
        self.stores = (ours, theirs)
        self.clock = clock
        self.rng = Random(seed)
        self.homes: list[Pair] = [
            (ours.create_experiment(f"{seed}/{n}"), theirs.create_experiment(f"{seed}/{n}"))
            for n in range(2)
        ]
        self.datasets: list[Pair] = []
        self.issues: list[Pair] = []
        self.referable: list[Pair] = []  # those of the experiment that has the traces
        self.made = seed * 1000
        self.traces = [trace_id(self.made + number) for number in range(3)]
        for trace in self.traces:
            for store, home in zip(self.stores, self.homes[0], strict=True):
                store.start_trace(make_info(trace, home))

    def run(self) -> None:
        self.create_dataset()
        self.create_issue()
        calls: list[Callable[[], None]] = [self.upsert, self.upsert, self.delete_records]
        calls += [self.create_dataset, self.tag, self.link, self.search, self.search]
        calls += [self.register, self.register, self.delete_scorer, self.find_scorers]
        calls += [self.create_issue, self.update_issue, self.refer, self.search_issues]
        calls += [self.delete_dataset] if self.rng.random() < 0.3 else []
        for _ in range(STEPS):
            self.rng.choice(calls)()
        for dataset in self.datasets:
            self.compare(dataset)

    def same(self, show: Callable[[Any, int], Any]) -> Pair:
        """Show something of both stores, which must look the same; errors are shown, too."""
        self.clock.now += 0.001
        shown = []
        for side, store in enumerate(self.stores):
            try:
                shown.append(show(store, side))
            except MlflowException as error:
                shown.append((error.error_code, self.nameless(str(error))))
        assert shown[0] == shown[1]
        return shown[0], shown[1]

    def nameless(self, text: str) -> str:
        for home in self.homes:
            for name in home:
                text = text.replace(f"experiment {name}", "experiment HOME")
        return text.split("Valid keys are")[0].split("Supported")[0]

    def pick(self, values: list[Any]) -> Any:
        return self.rng.choice(values)

    def new_name(self) -> str:
        self.made += 1
        return f"d{self.made}"

    # --- datasets -------------------------------------------------------------------------------

    def create_dataset(self) -> None:
        name, tags = self.new_name(), self.pick([None, {"k": self.pick(TEXTS)}])
        if self.rng.random() < 0.3:
            tags = {**(tags or {}), "mlflow.user": "ada"}
        homes = self.rng.sample(self.homes, self.rng.randint(0, 2))
        made: list[str] = []

        def create(store: Any, side: int) -> Any:
            dataset = store.create_dataset(name, tags, [home[side] for home in homes])
            made.append(dataset.dataset_id)
            return seen(dataset)

        self.same(create)
        self.datasets.append((made[0], made[1]))

    def upsert(self) -> None:
        dataset = self.pick(self.datasets)
        records = [self.record() for _ in range(self.rng.randint(0, 6))]
        self.same(lambda store, side: store.upsert_dataset_records(dataset[side], records))
        self.compare(dataset)

    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = {"inputs": {"q": self.rng.randint(0, 9)}}
        for part in ("outputs", "expectations", "tags", "source"):
            if self.rng.random() < 0.5:
                record[part] = {
                    "outputs": self.pick([{"o": self.pick(VALUES)}, None, {}]),
                    "expectations": self.pick([{self.pick(TEXTS): self.pick(VALUES)}, None, {}]),
                    "tags": self.pick([{"t": self.pick(TEXTS)}, {"mlflow.user": "bo"}, None]),
                    "source": self.pick(SOURCES),
                }[part]
        return record

    def delete_records(self) -> None:
        dataset, wanted = self.pick(self.datasets), {self.rng.randint(0, 9) for _ in range(2)}

        def delete(store: Any, side: int) -> Any:
            records, _ = store._load_dataset_records(dataset[side])
            ids = [one.dataset_record_id for one in records if one.inputs["q"] in wanted]
            return store.delete_dataset_records(dataset[side], [*ids, "dr-unknown"])

        self.same(delete)
        self.compare(dataset)

    def tag(self) -> None:
        dataset, key = self.pick(self.datasets), self.pick(["k", "other", "a.b"])
        tags = {key: self.pick([*TEXTS, None, 7])}
        if self.rng.random() < 0.5:
            self.same(lambda store, side: store.set_dataset_tags(dataset[side], tags))
        else:
            self.same(lambda store, side: store.delete_dataset_tag(dataset[side], key))
        self.compare(dataset)

    def link(self) -> None:
        dataset, home = self.pick(self.datasets), self.pick([*self.homes, ("77", "77")])
        method = self.pick(["add_dataset_to_experiments", "remove_dataset_from_experiments"])
        self.same(lambda store, side: seen(getattr(store, method)(dataset[side], [home[side]])))
        self.compare(dataset)

    def delete_dataset(self) -> None:
        if len(self.datasets) > 1:
            dataset = self.datasets.pop()
            self.same(lambda store, side: store.delete_dataset(dataset[side]))
            self.same(lambda store, side: store.delete_dataset(dataset[side]))

    def search(self) -> None:
        homes = self.rng.sample(self.homes, self.rng.randint(0, 2))
        options = {"filter_string": self.pick([None, *FILTERS]), "order_by": self.pick(ORDERS)}
        size = self.pick([1, 3, 50])

        def pages(store: Any, side: int) -> Any:
            found, token = [], None
            while True:
                page = store.search_datasets(
                    [home[side] for home in homes], max_results=size, page_token=token, **options
                )
                found.append([seen(dataset) for dataset in page])
                token = page.token
                if token is None:
                    return found

        self.same(pages)

    def compare(self, dataset: Pair) -> None:
        def everything(store: Any, side: int) -> Any:
            records, _ = store._load_dataset_records(dataset[side])
            ids = store.get_dataset_experiment_ids(dataset[side])
            users = [n for n, home in enumerate(self.homes) if home[side] in ids]
            return seen(store.get_dataset(dataset[side])), users, sorted(map(record_seen, records))

        self.same(everything)

    # --- scorers --------------------------------------------------------------------------------

    def register(self) -> None:
        home, name = self.pick(self.homes), self.pick(TEXTS)
        data = json.dumps({"n": self.made, "text": self.pick(TEXTS)})
        self.same(lambda store, side: scorer_seen(store.register_scorer(home[side], name, data)))

    def delete_scorer(self) -> None:
        home, name = self.pick(self.homes), self.pick(TEXTS)
        version = self.pick([None, 1, 2])
        self.same(lambda store, side: store.delete_scorer(home[side], name, version))

    def find_scorers(self) -> None:
        home, name, version = self.pick(self.homes), self.pick(TEXTS), self.pick([None, 1, 2])
        rate = self.pick([0, 0.5])
        self.same(lambda store, side: [scorer_seen(s) for s in store.list_scorers(home[side])])
        self.same(lambda store, side: scorer_seen(store.get_scorer(home[side], name, version)))
        self.same(
            lambda store, side: [
                scorer_seen(one) for one in store.list_scorer_versions(home[side], name)
            ]
        )
        self.same(
            lambda store, side: (
                store.upsert_online_scoring_config(home[side], name, rate).sample_rate
            )
        )

    # --- issues ---------------------------------------------------------------------------------

    def create_issue(self) -> None:
        home, severity = self.pick(self.homes), self.pick([None, *IssueSeverity])
        causes, categories = self.pick([None, [], TEXTS]), self.pick([None, ["c"]])
        name = self.new_name()
        made: list[str] = []

        def create(store: Any, side: int) -> Any:
            issue = store.create_issue(
                home[side],
                name,
                "d",
                severity=severity,
                root_causes=causes,
                categories=categories,
            )
            made.append(issue.issue_id)
            return issue_seen(issue)

        self.same(create)
        self.issues.append((made[0], made[1]))
        if home == self.homes[0]:
            self.referable.append((made[0], made[1]))

    def update_issue(self) -> None:
        issue = self.pick([*self.issues, ("iss-x", "iss-x")])
        changes = {
            "status": self.pick([None, *IssueStatus]),
            "name": self.pick([None, "renamed"]),
            "description": self.pick([None, *TEXTS]),
            "severity": self.pick([None, *IssueSeverity]),
        }
        self.same(lambda store, side: issue_seen(store.update_issue(issue[side], **changes)))
        self.same(lambda store, side: issue_seen(store.get_issue(issue[side])))

    def refer(self) -> None:
        if not self.referable:
            return
        issue, trace = self.pick(self.referable), self.traces[self.rng.randint(0, 2)]
        for side, store in enumerate(self.stores):
            reference = IssueReference(issue_id=issue[side], issue_name="n", trace_id=trace)
            store.create_assessment(reference)

    def search_issues(self) -> None:
        home, text = self.pick([*self.homes, (None, None)]), self.pick(ISSUE_FILTERS)
        counted = self.rng.random() < 0.5

        def pages(store: Any, side: int) -> Any:
            found, token = [], None
            while True:
                page = store.search_issues(home[side], text, 3, token, counted)
                found.append([issue_seen(issue) for issue in page])
                token = page.token
                if token is None:
                    return found

        self.same(pages)


def seen(dataset: Any) -> Any:
    """A dataset without its id; MLflow shows the profile of an empty one as ``null``."""
    return (
        dataset.name,
        dataset.digest,
        dict(sorted(dataset.tags.items())),
        json.loads(dataset.schema or "null"),
        json.loads(dataset.profile or "null"),
        (dataset.created_time, dataset.last_update_time),
        (dataset.created_by, dataset.last_updated_by),
    )


def record_seen(record: Any) -> str:
    """A record without its id, as text that sorts."""
    parts = [record.inputs, record.outputs, record.expectations, record.tags]
    source = record.source and record.source.to_dict()
    times = [record.created_time, record.last_update_time]
    people = [record.created_by, record.last_updated_by]
    shown = [*parts, source, record.source_id, record.source_type, *times, *people]
    return json.dumps(shown, sort_keys=True)


def scorer_seen(scorer: Any) -> Any:
    return scorer.scorer_name, scorer.scorer_version, scorer._serialized_scorer


def issue_seen(issue: Any) -> dict[str, Any]:
    """An issue without ids."""
    return {**vars(issue), "issue_id": "", "experiment_id": ""}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    folder: Path = tmp_path_factory.mktemp("difference")
    ours = open_tracking_store(folder, FakeTime(), options=LAGGING)
    yield ours, SqlAlchemyStore(empty_database(folder), str(folder))
    ours.table.close()


@pytest.mark.parametrize("seed", range(3))
def test_random_calls_have_the_same_answers(stores, seed):
    clock = FakeTime()
    clock.now = 1_700_000_000.0 + seed

    def now() -> int:
        return round(clock.now * 1000)

    with ExitStack() as patched:
        for module in MODULES:
            patched.enter_context(mock.patch(f"{module}.get_current_time_millis", now))
        ours, theirs = stores
        Difference(ours, theirs, clock, seed).run()
