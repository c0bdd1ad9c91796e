"""What tracking and search cost on DynamoDB: requests, read units and write units, at most.

The embedded engine counts by DynamoDB's rules; where dynoxide is installed its own figures are
held to the same limits. ``make bench`` measures the same operations.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.tracking import OPERATIONS, Bench, Operation, measure, search_operations
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.places import SPREAD
from tests.stores import uri_on

# requests, read units, write units
LIMITS = {
    "create_run, 10 tags": (3, 1, 20),
    "log_batch, 20 params + 10 metrics": (25, 4, 24),
    "end of run": (9, 6, 60),  # with the rows of metrics that were in the log until then
    "log_batch, 10 metrics, in a long loop": (2, 1, 2),
    "log_metric": (2, 1, 1),
    "get_run (finished)": (2, 2, 0),
    "get_metric_history, 1,000 points": (2, 20, 0),  # the log of the run too
    "get_metric_history, 10,000 points": (3, 200, 0),
    # One request more than the first target: the RANK items expire with the run (ADR 0121).
    "delete_run + restore_run": (15, 10, 180),
    "search_runs, default order, 100": (3, 120, 0),
    "search_runs, top 50 by a metric": (5, 80, 0),
    "search_runs, param = and tag LIKE": (12, 300, 0),
    "all 150 runs in pages of 1,000": (2, 60, 0),
}
SIZE = 150


@pytest.fixture(scope="module", params=["embedded", "dynoxide"])
def bench(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    with uri_on(request.param, tmp_path_factory.mktemp("costs")) as uri:
        yield metered(uri)


def metered(uri: str) -> Bench:
    engine = MeteredEngine(open_engine(uri))
    return Bench(uri, DynamoDBTrackingStore(uri, "/tmp", table=Table(engine)), engine.meter)


@pytest.mark.one_volume(reason="the limits of a search are those of one partition")
@pytest.mark.parametrize(
    "operation", [*OPERATIONS, *search_operations(SIZE)], ids=lambda o: o.title
)
def test_an_operation_costs_at_most(bench: Bench, operation: Operation) -> None:
    """Each operation within its requests and units."""
    limit = next(limit for title, limit in LIMITS.items() if operation.title.startswith(title))
    cost = measure([bench], Operation(operation.title, operation.given, operation.do, repeat=3))
    (paid,) = cost.values()
    spent = (paid.requests, paid.read_units, paid.write_units)
    assert all(part <= most for part, most in zip(spent, limit, strict=True)), (spent, limit)


def test_the_best_by_a_metric_cost_the_same_however_many_runs_there_are(bench: Bench) -> None:
    """Twice the runs, the same pages read, but for chance where there are several volumes."""
    costs = []
    for size in (SIZE // 2, SIZE):
        operation = search_operations(size)[1]
        (paid,) = measure(
            [bench], Operation("top", operation.given, operation.do, repeat=1)
        ).values()
        costs.append(paid.requests)
    assert abs(costs[0] - costs[1]) < SPREAD


def test_a_whole_small_run_costs_less_than_half_of_the_other_store(bench: Bench) -> None:
    """Create with 10 tags, log 20 params and 10 metrics, end: at most 108 write units."""
    bench.finished()  # the first one also makes the experiment
    bench.meter.reset()
    bench.finished()
    assert bench.meter.write_units <= 108
