"""``explain``: how a search of runs would be answered, and what its first page costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlflow_dynamodbstore.policies import Policies
from mlflow_dynamodbstore.search.pages import page
from mlflow_dynamodbstore.search.run_paths import Path, Runs
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.tracking.run_search import (
    RunQuery,
    forced_path,
    parse_run_query,
    run_stream,
)


@dataclass(frozen=True)
class Way:
    """A path that is able to answer."""

    name: str
    description: str
    range: tuple[str, str] | None
    in_order: bool
    merges_live_runs: bool
    chosen: bool


@dataclass(frozen=True)
class Explanation:
    """A plan, and what the first page of its answer took."""

    ways: tuple[Way, ...]
    comparisons: tuple[str, ...]
    order: tuple[str, ...]
    runs: int
    more: bool
    requests: dict[str, int]
    read_units: float

    @property
    def chosen(self) -> Way:
        return next(way for way in self.ways if way.chosen)


def explain(
    table: Table,
    engine: MeteredEngine,
    experiment_id: str,
    filter_string: str | None,
    order_by: Sequence[str],
    view_type: int,
    max_results: int,
    path: str | None = None,
) -> Explanation:
    """Plan a search and read its first page; ``engine`` is the one under ``table``.

    ``path`` forces one of the paths. Raises ``MlflowException`` for a filter that MLflow refuses,
    ``ValueError`` for a path that cannot answer.
    """
    policies = Policies(table)
    parsed = parse_run_query(filter_string, order_by, view_type)
    query = replace(parsed, text_fields=tuple(policies.text_fields()))
    able = query.paths()
    _check_path(path, able)
    runs = Runs(table, experiment_id, query.stages, max_results + 2, policies.sealing_rules())
    token = forced_path.set(path)
    try:
        chosen = next(way for way in query.paths() if way.is_cheap(runs))
        with engine.meter.measure() as usage:
            rows = run_stream(runs, query, None)
            found, more = page(rows, query.ordering, None, max_results)
    finally:
        forced_path.reset(token)
    return Explanation(
        ways=tuple(_way(way, way == chosen) for way in able),
        comparisons=tuple(map(str, query.comparisons)),
        order=_order(query),
        runs=len(found),
        more=more is not None,
        requests=dict(usage.requests),
        read_units=usage.read_units,
    )


def _check_path(path: str | None, able: Sequence[Path]) -> None:
    names = [way.name for way in able]
    if path is not None and path not in names:
        raise ValueError(f"{path} cannot answer this search; {', '.join(names)} can")


def _way(path: Path, chosen: bool) -> Way:
    within = getattr(path, "within", None)
    return Way(
        name=path.name,
        description=str(path),
        range=None if within is None else (within.low, within.high),
        in_order=path.ordered,
        merges_live_runs=path.lazy,
        chosen=chosen,
    )


def _order(query: RunQuery) -> tuple[str, ...]:
    return tuple(
        f"{key.kind}.{key.name} {'ASC' if key.ascending else 'DESC'}" for key in query.ordering.keys
    )
