"""What a team does, as a database of MLflow's tells: the numbers of an estimate of costs."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from mlflow_dynamodbstore.transfer.sql.database import Database
from mlflow_dynamodbstore.upkeep.cost_estimate import Workload

DAYS = 30
"""The last days of a database that are counted, up to its newest run or trace."""
DAY_MS = 24 * 3600 * 1000


def workload_of(database: Database) -> Workload:
    """The workload of the last days: how much a day, and how large a run and a trace are."""
    runs, traces = database.table("runs"), database.table("trace_info")
    newest = max(_newest(database, runs.c.start_time), _newest(database, traces.c.timestamp_ms))
    since = newest - DAYS * DAY_MS
    begun = runs.c.start_time > since
    written = traces.c.timestamp_ms > since
    found_runs = _count(database, sa.select(sa.func.count()).select_from(runs).where(begun))
    found_traces = _count(database, sa.select(sa.func.count()).select_from(traces).where(written))
    ids = sa.select(runs.c.run_uuid).where(begun)
    traced = sa.select(traces.c.request_id).where(written)

    def each(name: str, column: str, among: Any, whole: int) -> float:
        table = database.table(name)
        query = sa.select(sa.func.count()).select_from(table).where(table.c[column].in_(among))
        return _count(database, query) / whole if whole else 0.0

    metrics = each("latest_metrics", "run_uuid", ids, found_runs)
    points = each("metrics", "run_uuid", ids, found_runs)
    return Workload(
        runs_a_day=found_runs / DAYS,
        params=round(each("params", "run_uuid", ids, found_runs)),
        tags=round(each("tags", "run_uuid", ids, found_runs)),
        metrics=round(metrics),
        steps=round(points / metrics) if metrics else 0,
        traces_a_day=found_traces / DAYS,
        spans=round(each("spans", "trace_id", traced, found_traces)),
    )


def _newest(database: Database, column: Any) -> int:
    return _count(database, sa.select(sa.func.coalesce(sa.func.max(column), 0)))


def _count(database: Database, query: sa.Select[Any]) -> int:
    ((count,),) = database.tuples(query)
    return int(count)
