"""Which of the paths that can answer reads least.

There are no statistics of an experiment. A narrow path is asked how many runs it brings, which
reads keys only; if they are few it is taken. Otherwise the base may still be cheaper: it stops as
soon as the page is full, and LSI1 reads four runs for the price of one. It is begun, and given up
for the narrow path when what it has read so far says that it will cost more. What is read in vain
never exceeds what the narrow path costs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mlflow_dynamodbstore.table.contract import MAX_BATCH_GET
from mlflow_dynamodbstore.tracking.run_search.estimates import Estimate
from mlflow_dynamodbstore.tracking.run_search.experiment_runs import (
    ExperimentRuns,
)
from mlflow_dynamodbstore.tracking.run_search.paths import (
    Path,
)
from mlflow_dynamodbstore.tracking.run_search.plans import Plans

MOST_COUNTED = 3
"""Narrow paths that are asked how many runs they bring, at a request each."""
FEW = MAX_BATCH_GET
"""A path that brings no more runs than this, one batch, is taken at once."""
MOST_EXPECTED = 1_000_000
LIKELY = 0.1
"""The part of the runs that a term of a filter is assumed to let through."""


@dataclass(frozen=True)
class Choice:
    """The path to read, and the one to change to after ``give_up_after`` runs."""

    path: Path
    fallback: Path | None = None
    give_up_after: float | None = None
    counts: dict[Path, int | None] = field(default_factory=dict)
    """How many runs each path brings that was asked; None for too many to count."""


def choose(runs: ExperimentRuns, plans: Plans, terms: int) -> Choice:
    """The path that reads least for a page, with ``terms`` comparisons in the filter."""
    counts: dict[Path, int | None] = {}
    best: tuple[float, int, Path] | None = None
    for path in plans.narrow[:MOST_COUNTED]:
        counts[path] = count = path.count(runs)
        if count is None:
            continue
        units = path.estimate(count).units
        if best is None or units < best[0]:
            best = (units, count, path)
        if _is_few(runs, path, count):
            break
    if best is None:
        return Choice(plans.base, counts=counts)
    units, count, narrow = best
    at_best = expected(plans.base, None, runs.batch, terms)
    if _is_few(runs, narrow, count) or at_best is None or units <= at_best.units:
        return Choice(narrow, counts=counts)
    a_thousand = plans.base.estimate(1000).units
    return Choice(plans.base, narrow, give_up_after=1000 * units / a_thousand, counts=counts)


def _is_few(runs: ExperimentRuns, path: Path, count: int) -> bool:
    """Whether a path brings so few runs that no other need be asked."""
    may_go_on = path.ordered and count >= runs.batch
    return count <= FEW and not may_go_on


def expected(path: Path, brings: int | None, batch: int, terms: int) -> Estimate | None:
    """What a path is expected to read for a page; None where it reads all runs.

    The first term of a filter is taken to hold for all runs: a path that is in order is compared
    with another that brings the runs of that term.
    """
    if brings is not None:
        return path.estimate(brings)
    if not path.ordered:
        return None
    return path.estimate(min(MOST_EXPECTED, int(batch / LIKELY ** max(0, terms - 1))))
