"""What an operation is meant to cost: the project's targets, by the titles of the operations.

On DynamoDB: requests, read units and write units of one operation. On a file: how many times as
fast as MLflow on SQLite. ``first`` must be reached, ``goal`` is where the project wants to be.
"""

from __future__ import annotations

from typing import NamedTuple

from mlflow_dynamodbstore.upkeep.prices import READ_PRICE, WRITE_PRICE

Units = tuple[float, float, float]


class Target(NamedTuple):
    """Both targets of one operation."""

    first: Units
    goal: Units
    faster_first: float
    faster_goal: float


def dollars(read_units: float, write_units: float) -> float:
    """Dollars for a million operations that use so many units each."""
    return read_units * READ_PRICE + write_units * WRITE_PRICE


TARGETS = {
    "create_run, 10 tags": Target((3, 1, 20), (1, 1, 10), 8, 20),
    "log_batch, 20 params + 10 metrics": Target((35, 4, 42), (4, 2, 15), 8, 20),
    "end of run": Target((6, 6, 45), (3, 4, 20), 2, 5),
    "log_batch, 10 metrics, in a long loop": Target((12, 2, 21), (2, 1, 2), 10, 30),
    "log_metric": Target((3, 1, 2), (2, 1, 1), 10, 25),
    "get_run (finished)": Target((2, 2, 0), (1, 1, 0), 10, 30),
    "get_metric_history, 1,000 points": Target((1, 20, 0), (1, 3, 0), 2, 5),
    "get_metric_history, 10,000 points": Target((3, 200, 0), (1, 20, 0), 4, 15),
    "delete_run + restore_run": Target((14, 10, 180), (6, 4, 90), 2, 5),
    "search_runs, default order, 100 of 2,000": Target((3, 120, 0), (1, 40, 0), 4, 10),
    "search_runs, top 50 by a metric, of 2,000": Target((5, 80, 0), (2, 25, 0), 5, 15),
    "search_runs, top 50 by a metric, of 8,000": Target((5, 80, 0), (2, 25, 0), 20, 60),
    "search_runs, param = and tag LIKE, of 2,000": Target((12, 300, 0), (4, 50, 0), 3, 10),
    "all 2,000 runs in pages of 1,000": Target((16, 2000, 0), (8, 800, 0), 8, 20),
    "create a registered model": Target((3, 1, 20), (1, 1, 5), 3, 8),
    "create a model version": Target((3, 1, 10), (1, 1, 5), 5, 12),
    "set an alias": Target((3, 1.5, 6), (1, 1, 4), 2, 4),
    "get a version by alias": Target((2, 1, 0), (1, 1, 0), 5, 15),
    "search models, name LIKE, of 200": Target((4, 20, 0), (2, 8, 0), 3, 8),
    "search versions of one model": Target((2, 2, 0), (1, 1, 0), 5, 15),
    "write a trace of 10 spans": Target((3, 2, 15), (2, 1, 8), 8, 20),
    "search_traces, tag filter, 100 results": Target((4, 100, 0), (2, 40, 0), 1.5, 3),
    "get_trace": Target((2, 2, 0), (2, 1.5, 0), 4, 8),
}
