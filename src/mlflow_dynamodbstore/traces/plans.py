"""Which paths to an experiment's traces can answer a search, the best first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from mlflow.entities.trace_state import TraceState
from mlflow.tracing.constant import TraceMetadataKey, TraceTagKey

from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared.search.filters import ATTRIBUTE, TAG, Comparison
from mlflow_dynamodbstore.shared.search.like import fixed_prefix
from mlflow_dynamodbstore.shared.search.ordering import Ordering
from mlflow_dynamodbstore.traces.name_order import InNameOrder
from mlflow_dynamodbstore.traces.paths import (
    CLIENT_REQUEST,
    TIME,
    ByClientRequest,
    ById,
    ByName,
    ByTime,
    Path,
    Period,
)
from mlflow_dynamodbstore.traces.records import METADATA

COMMON_STATUS = TraceState.OK.value


def usable_paths(comparisons: Sequence[Comparison], ordering: Ordering) -> list[Path]:
    """Every path that can answer, the best first; the last is always cheap enough."""
    first = ordering.keys[0]
    ordered = (first.kind, first.name) == (ATTRIBUTE, TIME)
    by_time = ByTime(
        ordered=ordered, ascending=ordered and first.ascending, period=_period(comparisons)
    )
    found: list[Path] = []
    for c in comparisons:
        what = (c.kind, c.name, c.comparator)
        if what == (ATTRIBUTE, "request_id", "="):
            found.insert(0, ById(trace_ids=(c.value,)))
        elif what == (ATTRIBUTE, "request_id", "IN"):
            found.insert(0, ById(trace_ids=tuple(c.value)))
        elif what == (ATTRIBUTE, CLIENT_REQUEST, "="):
            found.insert(0, ByClientRequest(client_request_id=c.value))
        elif what == (METADATA, TraceMetadataKey.TRACE_SESSION, "="):
            found.append(replace(by_time, index="LSI5", within=_of_session(c.value)))
        elif what == (TAG, TraceTagKey.TRACE_NAME, "="):
            found.append(ByName(within=index_keys.traces_named(c.value)))
        elif what == (TAG, TraceTagKey.TRACE_NAME, "LIKE") and fixed_prefix(c.value):
            found.append(ByName(within=index_keys.traces_by_name(fixed_prefix(c.value))))
    return [
        *found,
        *_by_status(comparisons, by_time),
        *_in_name_order(comparisons, ordering, by_time.period),
        by_time,
    ]


def _in_name_order(
    comparisons: Sequence[Comparison], ordering: Ordering, period: Period
) -> Iterator[Path]:
    """In the order of names, which LSI4 has for all times: not for the traces of a period."""
    first, *others = ordering.keys
    if (first.kind, first.name) != (TAG, TraceTagKey.TRACE_NAME) or period != Period():
        return
    on_name = [c for c in comparisons if (c.kind, c.name) == (TAG, TraceTagKey.TRACE_NAME)]
    if any(c.comparator == "IS NULL" for c in on_name):
        return
    within = index_keys.traces_by_name()
    for c in on_name:
        if c.comparator == "=":
            within = within.overlap(index_keys.traces_named(c.value))
        elif c.comparator == "LIKE":
            within = within.overlap(index_keys.traces_by_name(fixed_prefix(c.value)))
    second = others[0]
    yield InNameOrder(
        ascending=first.ascending,
        newest_first=(second.kind, second.name, second.ascending) == (ATTRIBUTE, TIME, False),
        unnamed=not on_name,
        within=within,
    )


def _by_status(comparisons: Sequence[Comparison], by_time: ByTime) -> Iterator[Path]:
    """By a status that few traces have: a trace read so costs three times one read by time."""
    for c in comparisons:
        what = (c.kind, c.name, c.comparator)
        if what == (ATTRIBUTE, "status", "=") and c.value != COMMON_STATUS:
            yield replace(by_time, index="LSI3", within=_of_status(c.value))


def _of_session(session: str) -> Callable[[int | None, int | None], Range]:
    return lambda since, until: index_keys.traces_of_session(session, since, until)


def _of_status(status: str) -> Callable[[int | None, int | None], Range]:
    return lambda since, until: index_keys.by_status(status, since, until)


def _period(comparisons: Sequence[Comparison]) -> Period:
    """The period that a filter allows."""
    period = Period()
    for c in comparisons:
        if (c.kind, c.name) != (ATTRIBUTE, TIME):
            continue
        if c.comparator in (">", ">=", "="):
            period = period.from_(math.floor(c.value))
        if c.comparator in ("<", "<=", "="):
            period = period.to(math.ceil(c.value))
    return period
