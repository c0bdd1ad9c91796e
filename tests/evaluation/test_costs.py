"""What evaluation costs on DynamoDB: requests, read units and write units, at most.

The embedded engine counts by DynamoDB's rules; where dynoxide is installed its own figures are held
to the same limits. The documentation shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from mlflow.entities.assessment import IssueReference

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import Meter, MeteredEngine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.stores import uri_on
from tests.traces.making import make_info, trace_id

RECORDS, DATASETS, SCORERS, ISSUES, TRACES = 490, 30, 10, 20, 20


class Furnished(NamedTuple):
    """A store with datasets, scorers, issues and traces, and the meter of its requests."""

    store: DynamoDBTrackingStore
    meter: Meter
    home: str
    dataset: str
    issue: str


def questions(first: int, count: int) -> list[dict[str, Any]]:
    answer = {"answer": "x" * 60}
    return [{"inputs": {"q": first + n}, "expectations": answer} for n in range(count)]


@pytest.fixture(scope="module", params=["embedded", "dynoxide"])
def furnished_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Furnished]:
    with uri_on(request.param, tmp_path_factory.mktemp("costs")) as uri:
        yield furnished(uri)


def furnished(uri: str) -> Furnished:
    engine = MeteredEngine(open_engine(uri))
    store = DynamoDBTrackingStore(uri, "/tmp", table=Table(engine))
    home = store.create_experiment("evaluated")
    made = [store.create_dataset(f"d{n}", experiment_ids=[home]) for n in range(DATASETS)]
    dataset = made[-1].dataset_id
    store.upsert_dataset_records(dataset, questions(0, RECORDS))
    for number in range(SCORERS):
        store.register_scorer(home, f"s{number}", '{"a": 1}')
    issues = [store.create_issue(home, f"i{n}", "too slow").issue_id for n in range(ISSUES)]
    for number in range(TRACES):
        trace = trace_id(number)
        store.start_trace(make_info(trace, home))
        store.create_assessment(IssueReference(issue_id=issues[0], issue_name="i", trace_id=trace))
    return Furnished(store, engine.meter, home, dataset, issues[0])


OPERATIONS: dict[str, tuple[Callable[[Furnished], Any], tuple[int, int, int]]] = {
    "create a dataset": (lambda p: p.store.create_dataset("new"), (1, 0, 4)),
    "490 new records": (
        lambda p: p.store.upsert_dataset_records(p.dataset, questions(10_000, RECORDS)),
        (18, 495, 1985),
    ),
    "the same 490 again": (
        lambda p: p.store.upsert_dataset_records(p.dataset, questions(0, RECORDS)),
        (23, 985, 985),
    ),
    "a page of 100 records": (
        lambda p: p.store._load_dataset_records(p.dataset, max_results=100),
        (2, 10, 0),
    ),
    "search datasets of an experiment, 20": (
        lambda p: p.store.search_datasets([p.home], max_results=20),
        (3, 55, 0),
    ),
    "register a version of a scorer": (
        lambda p: p.store.register_scorer(p.home, "s0", '{"a": 2}'),
        (3, 2, 4),
    ),
    "get the latest version of a scorer": (
        lambda p: p.store.get_scorer(p.home, "s1"),
        (3, 3, 0),
    ),
    "list 10 scorers": (lambda p: p.store.list_scorers(p.home), (3, 13, 0)),
    "create an issue": (lambda p: p.store.create_issue(p.home, "n", "d"), (2, 1, 6)),
    "get an issue": (lambda p: p.store.get_issue(p.issue), (2, 3, 0)),
    "list 20 issues with counts, 20 traces refer to one": (
        lambda p: p.store.search_issues(p.home, include_trace_count=True),
        (3, 25, 0),
    ),
}


@pytest.mark.one_volume(reason="counts the requests to one partition")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_costs_at_most(furnished_store: Furnished, operation: str) -> None:
    do, limit = OPERATIONS[operation]
    furnished_store.meter.reset()
    do(furnished_store)
    paid = furnished_store.meter.total()
    spent = (paid.requests.total(), paid.read_units, paid.write_units)
    assert all(part <= most for part, most in zip(spent, limit, strict=True)), (spent, limit)
