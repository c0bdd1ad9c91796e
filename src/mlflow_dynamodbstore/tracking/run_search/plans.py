"""The paths that can answer a search of runs.

``plans`` sorts them: the *narrow* ones bring the few runs that one term of the filter names, the
*base* reads all runs, in the order asked for where there is such a path, and the others can answer
too. ``path_choice`` finds out which of them reads least.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME

from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import ranks as rank_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared.search.filters import (
    ATTRIBUTE,
    DATASET,
    METRIC,
    PARAM,
    TAG,
    Comparison,
)
from mlflow_dynamodbstore.shared.search.fulltext import TextField, needed
from mlflow_dynamodbstore.shared.search.like import fixed_prefix
from mlflow_dynamodbstore.shared.search.ordering import Ordering
from mlflow_dynamodbstore.tracking.run_search.paths import (
    START_TIME,
    ByDataset,
    ById,
    ByName,
    ByPartition,
    ByStatus,
    ByTime,
    Path,
)
from mlflow_dynamodbstore.tracking.run_search.rank_paths import (
    ByMetric,
    ByParam,
    ByPrimaryMetric,
    ByText,
)
from mlflow_dynamodbstore.tracking.summaries import tag_of

MOST_EQUAL = 1000
"""Runs that an equality may bring and still be preferred to reading in order."""
MOST_IN_RANGE = 200
"""The same for a range or a prefix, which is seldom as selective as it looks."""

MOST_TOKENS = 3
FIRST_TIME, LAST_TIME = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class OptionalIndexes:
    """The complete indexes: of texts and of one metric, as the operator chose, and of datasets."""

    text_fields: tuple[TextField, ...] = ()
    metric: str | None = None
    datasets: bool = False


@dataclass(frozen=True)
class Plans:
    """The paths that can answer: the ``narrow`` ones in the order they are tried, and the rest."""

    narrow: tuple[Path, ...]
    base: Path
    others: tuple[Path, ...]

    def all(self) -> tuple[Path, ...]:
        """All of them."""
        return (*self.narrow, self.base, *self.others)

    def by_rank(self, path: ByMetric) -> Path:
        """The path over RANK items that brings the same runs in the same order."""
        return next(
            other
            for other in self.all()
            if type(other) is ByMetric and (other.key, other.ordered) == (path.key, path.ordered)
        )


def plans(
    comparisons: Sequence[Comparison],
    ordering: Ordering,
    indexes: OptionalIndexes = OptionalIndexes(),
    *,
    one_stage: bool = True,
) -> Plans:
    """Every path that can answer."""
    by_time = _by_time(comparisons, ordering, one_stage=one_stage)
    in_order = (*_ranked_in_order(comparisons, ordering, indexes), *_named_in_order(ordering))
    base, *others = (*in_order, by_time)
    metrics = _by_metric(comparisons, ordering, indexes)
    narrow = (
        *_by_id(comparisons),
        *(_by_dataset(comparisons) if indexes.datasets else ()),
        *_params_equal(comparisons),
        *(path for path in metrics if path.most == MOST_EQUAL),
        *_named(comparisons),
        *_having_text(comparisons, indexes.text_fields),
        *_in_status(comparisons, ordering),
        *(path for path in metrics if path.most == MOST_IN_RANGE),
        *_params_starting(comparisons, ordering),
    )
    if indexes.metric is not None:
        others += _by_metric(comparisons, ordering, replace(indexes, metric=None))
    return Plans(narrow, base, (*others, ByPartition(ordered=False)))


def _by_id(comparisons: Sequence[Comparison]) -> Iterator[Path]:
    for c in comparisons:
        if (c.kind, c.name) == (ATTRIBUTE, "run_id") and c.comparator in ("=", "IN"):
            run_ids = (c.value,) if c.comparator == "=" else tuple(c.value)
            yield ById(ordered=False, run_ids=tuple(dict.fromkeys(run_ids)))


def _by_dataset(comparisons: Sequence[Comparison]) -> Iterator[Path]:
    for c in comparisons:
        if (c.kind, c.name) == (DATASET, "digest") and c.comparator in ("=", "IN"):
            digests = (c.value,) if c.comparator == "=" else tuple(dict.fromkeys(c.value))
            yield ByDataset(ordered=False, digests=digests, most=MOST_EQUAL)


def _ranked_in_order(
    comparisons: Sequence[Comparison], ordering: Ordering, indexes: OptionalIndexes
) -> Iterator[Path]:
    """RANK or LSI5 in the order asked for, cut to what the filter says of the metric or param."""
    first = ordering.keys[0]
    of_key = [c for c in comparisons if (c.kind, c.name) == (first.kind, first.name)]
    exists = any(c.comparator != "IS NULL" for c in of_key)
    if first.kind == METRIC:
        for path in _metric_paths(first.name, indexes):
            within = path.where(first.name, ">=", -math.inf)
            for c in of_key:
                if (bound := _metric_range(path, c)) is not None:
                    within = within.overlap(bound)
            yield path(
                ordered=True,
                key=first.name,
                ascending=first.ascending,
                within=within,
                nan=all(c.comparator == "!=" for c in of_key),
                missing=not exists,
            )
    elif first.kind == PARAM:
        yield ByParam(
            ordered=True,
            key=first.name,
            ascending=first.ascending,
            within=rank_keys.param_ranks(first.name),
            missing=not exists,
        )


def _metric_paths(name: str, indexes: OptionalIndexes) -> Iterator[type[ByMetric]]:
    """How runs are read by a metric; LSI5 takes fewer requests for the same units."""
    if name == indexes.metric:
        yield ByPrimaryMetric
    yield ByMetric


def _params_equal(comparisons: Sequence[Comparison]) -> Iterator[Path]:
    for c in comparisons:
        if c.kind == PARAM and c.comparator == "=":
            within = rank_keys.param_ranks_equal(c.name, c.value)
            yield ByParam(ordered=False, key=c.name, within=within, most=MOST_EQUAL, missing=False)


def _params_starting(comparisons: Sequence[Comparison], ordering: Ordering) -> Iterator[Path]:
    """The prefix of a param, unless the order begins with that param."""
    for c in comparisons:
        if c.kind != PARAM or c.comparator != "LIKE" or _is_first(c, ordering):
            continue
        if prefix := fixed_prefix(c.value):
            within = rank_keys.param_ranks_starting(c.name, prefix)
            yield ByParam(
                ordered=False, key=c.name, within=within, most=MOST_IN_RANGE, missing=False
            )


def _by_metric(
    comparisons: Sequence[Comparison], ordering: Ordering, indexes: OptionalIndexes
) -> list[ByMetric]:
    """Each metric that the filter compares, within all its bounds, unless it is ordered by."""
    found: dict[str, ByMetric] = {}
    for c in comparisons:
        if c.kind != METRIC or _is_first(c, ordering):
            continue
        path = next(_metric_paths(c.name, indexes))
        if (within := _metric_range(path, c)) is None:
            continue
        most = MOST_EQUAL if c.comparator == "=" else MOST_IN_RANGE
        if c.name in found:
            within = within.overlap(found[c.name].within)
            most = max(most, found[c.name].most)
        found[c.name] = path(
            ordered=False, key=c.name, within=within, most=most, nan=False, missing=False
        )
    return list(found.values())


def _is_first(c: Comparison, ordering: Ordering) -> bool:
    """Whether the order begins with what a comparison is about, so that the base is cut by it."""
    first = ordering.keys[0]
    return (c.kind, c.name) == (first.kind, first.name)


def _having_text(
    comparisons: Sequence[Comparison], text_fields: Sequence[TextField]
) -> Iterator[Path]:
    """Words or letters of a name or tag whose index is complete, the longest tokens first."""
    for field in text_fields:
        tag = tag_of(field.name)
        for c in comparisons:
            if (c.kind, c.name) != (TAG, tag) or not field.complete:
                continue
            for level in field.levels:
                tokens = sorted(needed(level, c), key=lambda token: (-len(token), token))
                if tokens:
                    few = tuple(tokens[:MOST_TOKENS])
                    yield ByText(
                        ordered=False, field=field, level=level, tokens=few, most=MOST_EQUAL
                    )


def _named(comparisons: Sequence[Comparison]) -> Iterator[Path]:
    """A run's name and its name tag agree where both exist, so LSI4 holds all with the tag."""
    for c in comparisons:
        if (c.kind, c.name) != (TAG, MLFLOW_RUN_NAME):
            continue
        if c.comparator == "=":
            yield ByName(ordered=False, within=index_keys.runs_named(c.value), most=MOST_EQUAL)
        elif c.comparator == "LIKE" and (prefix := fixed_prefix(c.value)):
            yield ByName(ordered=False, within=index_keys.runs_by_name(prefix), most=MOST_IN_RANGE)


def _in_status(comparisons: Sequence[Comparison], ordering: Ordering) -> Iterator[Path]:
    first = ordering.keys[0]
    if first.name != START_TIME:
        return
    for c in comparisons:
        if (c.kind, c.name, c.comparator) == (ATTRIBUTE, "status", "="):
            yield ByStatus(ordered=True, status=c.value, ascending=first.ascending)


def _named_in_order(ordering: Ordering) -> Iterator[Path]:
    first = ordering.keys[0]
    if (first.kind, first.name) == (ATTRIBUTE, "run_name"):
        yield ByName(ordered=True, ascending=first.ascending)


def _by_time(comparisons: Sequence[Comparison], ordering: Ordering, *, one_stage: bool) -> Path:
    """The path that answers everything: all runs by time, cut to the times the filter names."""
    first = ordering.keys[0]
    ordered = (first.kind, first.name) == (ATTRIBUTE, START_TIME)
    since, until = None, None
    for c in comparisons:
        if (c.kind, c.name) != (ATTRIBUTE, START_TIME):
            continue
        if c.comparator in (">", ">=", "="):
            since = max(math.floor(c.value), since if since is not None else FIRST_TIME)
        if c.comparator in ("<", "<=", "="):
            until = min(math.ceil(c.value), until if until is not None else LAST_TIME)
    return ByTime(
        ordered=ordered,
        ascending=first.ascending if ordered else False,
        since=since,
        until=until,
        one_stage=one_stage,
    )


def _metric_range(path: type[ByMetric], c: Comparison) -> Range | None:
    """The keys of a path with values for which a comparison holds."""
    if c.comparator not in ("<", "<=", "=", ">=", ">") or math.isnan(c.value):
        return None
    return path.where(c.name, cast("rank_keys.Comparison", c.comparator), c.value)
