"""``explain``: how a search of runs is answered, and what its first page costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.lookup_entries import LookupEntries
from mlflow_dynamodbstore.shared.policies import Policies
from mlflow_dynamodbstore.shared.search.pages import page
from mlflow_dynamodbstore.shared.volumes import Volumes
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.tracking.run_search.experiment_runs import ExperimentRuns
from mlflow_dynamodbstore.tracking.run_search.path_choice import Choice, expected
from mlflow_dynamodbstore.tracking.run_search.paths import ByName, Path
from mlflow_dynamodbstore.tracking.run_search.rank_paths import Ranked
from mlflow_dynamodbstore.tracking.run_search.search import (
    RunQuery,
    forced_path,
    optional_indexes,
    parse_run_query,
    run_stream,
)


@dataclass(frozen=True)
class PathOption:
    """A path that can answer, and what it is expected to read for the first page.

    ``brings`` is how many runs it was found to bring; None when it was not asked. The expectation
    for such a path comes from the filter if it reads in the right order; otherwise there is none.
    """

    name: str
    description: str
    range: tuple[str, str] | None
    in_order: bool
    merges_live_runs: bool
    chosen: bool
    brings: int | None
    requests: int | None
    read_units: float | None


@dataclass(frozen=True)
class Explanation:
    """A plan, and what the first page of its answer cost."""

    ways: tuple[PathOption, ...]
    comparisons: tuple[str, ...]
    order: tuple[str, ...]
    runs: int
    more: bool
    planning: dict[str, int]
    requests: dict[str, int]
    read_units: float
    given_up: str | None
    """The path that was begun first and given up, because the chosen one reads less."""

    @property
    def chosen(self) -> PathOption:
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
    """Plan a search and read its first page; ``engine`` is the one below ``table``.

    ``path`` forces a path. Raises ``MlflowException`` for a filter that MLflow refuses, and
    ``ValueError`` for a path that cannot answer.
    """
    policies = Policies(table)
    parsed = parse_run_query(filter_string, order_by, view_type)
    with_datasets = LookupEntries(Context.on(table)).complete([experiment_id])
    indexes = replace(optional_indexes(policies), datasets=experiment_id in with_datasets)
    query = replace(parsed, indexes=indexes)
    able = query.plans().all()
    _check_path(path, able)
    volumes = Volumes(table).of([experiment_id])
    runs = query.runs(table, volumes, max_results + 2, policies.sealing_rules())
    token = forced_path.set(path)
    try:
        with engine.meter.measure() as usage:
            with engine.meter.measure() as planning:
                choice = query.choice(runs)
            rows = chain.from_iterable(run_stream(runs, query, None, choice))
            found, more = page(rows, query.ordering, None, max_results)
    finally:
        forced_path.reset(token)
    given_up = choice.path if choice.fallback is not None and runs.give_up_after is None else None
    used = choice.fallback if given_up else choice.path
    return Explanation(
        ways=tuple(_option(one, one == used, choice, query, runs) for one in dict.fromkeys(able)),
        comparisons=tuple(map(str, query.comparisons)),
        order=tuple(map(str, query.ordering.keys)),
        runs=len(found),
        more=more is not None,
        planning=dict(planning.requests),
        requests=dict(usage.requests),
        read_units=usage.read_units,
        given_up=None if given_up is None else given_up.name,
    )


def _check_path(path: str | None, able: Sequence[Path]) -> None:
    names = list(dict.fromkeys(one.name for one in able))
    if path is not None and path not in names:
        raise ValueError(f"{path} cannot answer this search; {', '.join(names)} can")


def _option(
    path: Path, chosen: bool, choice: Choice, query: RunQuery, runs: ExperimentRuns
) -> PathOption:
    within = path.within if isinstance(path, ByName | Ranked) else None
    brings = choice.counts.get(path)
    reads = expected(path, brings, runs.batch, len(query.comparisons))
    if reads is not None:
        reads = reads.in_volumes(len(runs.volumes), path.ranges)
    return PathOption(
        name=path.name,
        description=str(path),
        range=None if within is None else (within.low, within.high),
        in_order=path.ordered,
        merges_live_runs=path.sealed_only,
        chosen=chosen,
        brings=brings,
        requests=None if reads is None else reads.requests,
        read_units=None if reads is None else reads.units,
    )
