"""Which way into the runs answers a search, and which reads least.

``able_paths`` lists every path that can answer, the preferred one first. A preferred path that
turns out to bring too many runs gives way to the next; the last one is always acceptable.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import cast

from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME

from mlflow_dynamodbstore import keys
from mlflow_dynamodbstore.search.filters import ATTRIBUTE, METRIC, PARAM, TAG, Comparison
from mlflow_dynamodbstore.search.fulltext import TextField, needed
from mlflow_dynamodbstore.search.like import fixed_prefix
from mlflow_dynamodbstore.search.ordering import Ordering
from mlflow_dynamodbstore.search.run_paths import (
    START_TIME,
    ById,
    ByMetric,
    ByName,
    ByParam,
    ByStatus,
    ByText,
    ByTime,
    Path,
)
from mlflow_dynamodbstore.tracking.sealing import tag_of

MOST_EQUAL = 1000
"""Runs that an equality may bring and still be preferred to reading in order."""
MOST_IN_RANGE = 200
"""The same for a range or a prefix, which is seldom as selective as it looks."""

MOST_TOKENS = 3
FIRST_TIME, LAST_TIME = -(2**63), 2**63 - 1


def able_paths(
    comparisons: Sequence[Comparison],
    ordering: Ordering,
    text_fields: Sequence[TextField] = (),
) -> list[Path]:
    """Every path that can answer, best first."""
    return [
        *_by_id(comparisons),
        *_ranked_in_order(comparisons, ordering),
        *_equal(comparisons),
        *_named(comparisons),
        *_in_status(comparisons, ordering),
        *_having_text(comparisons, text_fields),
        *_in_range(comparisons, ordering),
        *_named_in_order(ordering),
        _by_time(comparisons, ordering),
    ]


def _by_id(comparisons: Sequence[Comparison]) -> Iterator[Path]:
    for c in comparisons:
        if (c.kind, c.name) == (ATTRIBUTE, "run_id") and c.comparator in ("=", "IN"):
            run_ids = (c.value,) if c.comparator == "=" else tuple(c.value)
            yield ById(ordered=False, run_ids=run_ids)


def _ranked_in_order(comparisons: Sequence[Comparison], ordering: Ordering) -> Iterator[Path]:
    """RANK in the order asked for, cut to what the filter says of the same metric or param."""
    first = ordering.keys[0]
    of_key = [c for c in comparisons if (c.kind, c.name) == (first.kind, first.name)]
    exists = any(c.comparator != "IS NULL" for c in of_key)
    if first.kind == METRIC:
        within = keys.metric_ranks_where(first.name, ">=", -math.inf)
        for c in of_key:
            if (bound := _metric_range(c)) is not None:
                within = within.overlap(bound)
        yield ByMetric(
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
            within=keys.param_ranks(first.name),
            missing=not exists,
        )


def _equal(comparisons: Sequence[Comparison]) -> Iterator[Path]:
    """What few runs may share: the value of a param or of a metric."""
    for c in comparisons:
        if c.comparator != "=":
            continue
        if c.kind == PARAM:
            within = keys.param_ranks_of(c.name, c.value)
            yield ByParam(ordered=False, key=c.name, within=within, most=MOST_EQUAL, missing=False)
        elif c.kind == METRIC and (bound := _metric_range(c)) is not None:
            yield ByMetric(
                ordered=False, key=c.name, within=bound, most=MOST_EQUAL, nan=False, missing=False
            )


def _in_range(comparisons: Sequence[Comparison], ordering: Ordering) -> Iterator[Path]:
    """A range of a metric or the beginning of a param, when the order asks for another."""
    for c in comparisons:
        if (c.kind, c.name) == (ordering.keys[0].kind, ordering.keys[0].name):
            continue
        if c.kind == METRIC and c.comparator != "=" and (bound := _metric_range(c)) is not None:
            yield ByMetric(
                ordered=False,
                key=c.name,
                within=bound,
                most=MOST_IN_RANGE,
                nan=False,
                missing=False,
            )
        elif c.kind == PARAM and c.comparator == "LIKE" and (prefix := fixed_prefix(c.value)):
            within = keys.param_ranks_starting(c.name, prefix)
            yield ByParam(
                ordered=False, key=c.name, within=within, most=MOST_IN_RANGE, missing=False
            )


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
            yield ByName(ordered=False, within=keys.runs_named(c.value))
        elif c.comparator == "LIKE" and (prefix := fixed_prefix(c.value)):
            yield ByName(ordered=False, within=keys.runs_by_name(prefix))


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


def _by_time(comparisons: Sequence[Comparison], ordering: Ordering) -> Path:
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
    )


def _metric_range(c: Comparison) -> keys.Range | None:
    """The RANK items whose values compare so with a number."""
    if c.comparator not in ("<", "<=", "=", ">=", ">") or math.isnan(c.value):
        return None
    return keys.metric_ranks_where(c.name, cast("keys.Comparison", c.comparator), c.value)
