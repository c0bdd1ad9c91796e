"""Reading the history of metrics.

MLflow orders a history by time, then step, then value. The table keeps it by step, then time. These
orders are nearly always the same, and a page is read from where the last one ended. In a history
that was logged out of order, a page is the smallest points after the last page: all points are
read, and one page of them is held.
"""

from __future__ import annotations

import base64
import binascii
import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from heapq import nsmallest
from itertools import islice
from operator import le

from mlflow.entities import Metric
from mlflow.entities.metric import MetricWithRunId
from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES
from mlflow.store.entities.paged_list import PagedList

from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.shared.run_lookup import RunLookup, run_not_found
from mlflow_dynamodbstore.shared.search.ordering import bad_token
from mlflow_dynamodbstore.tracking.log_entries import read_log
from mlflow_dynamodbstore.tracking.points import Point, StepTime, order
from mlflow_dynamodbstore.tracking.series import ALL_STEPS, Series, Steps, first_of

RUNS_AT_ONCE = 8

SortValues = tuple[int, int, float, bool]
"""What a point is sorted by; the last two are its value and whether it is NaN."""


class History:
    """The history of metrics, whole, in pages, and in samples."""

    def __init__(self, context: Context, run_lookup: RunLookup) -> None:
        self.table = context.table
        self.run_lookup = run_lookup

    def get_metric_history(
        self,
        run_id: str,
        metric_key: str,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> PagedList[Metric]:
        series = self._series(run_id, metric_key)
        bookmark = Bookmark.read(page_token)
        if series is None or max_results == 0:
            return PagedList([], None)
        points, token = history_page(series, max_results, bookmark)
        return PagedList(_metrics(metric_key, points), token)

    def get_metric_history_bulk(
        self, run_ids: Sequence[str], metric_key: str, max_results: int | None
    ) -> list[MetricWithRunId]:
        """The first points of several runs in the order of their ids, unknown ones left out."""
        found: list[MetricWithRunId] = []
        for some in batched(sorted(set(run_ids)), RUNS_AT_ONCE):
            missing = None if max_results is None else max_results - len(found)
            if missing is not None and missing <= 0:
                break
            read = partial(self._first_points, metric_key=metric_key, count=missing)
            pages = self.table.map(read, some)
            for run_id, points in zip(some, pages, strict=True):
                found += _with_run(run_id, metric_key, points)
        return found[:max_results]

    def get_metric_history_bulk_interval(
        self,
        run_ids: Sequence[str],
        metric_key: str,
        max_results: int,
        start_step: int | None,
        end_step: int | None,
    ) -> list[MetricWithRunId]:
        """At most ``max_results`` points of each run, spread evenly, the last one always."""
        if (start_step is None) != (end_step is None):
            raise invalid(
                "Both start_step and end_step must be specified together, "
                "or neither may be specified."
            )
        steps = ALL_STEPS if start_step is None else Steps(start_step, end_step)
        count = max(1, max_results)

        def sample(run_id: str) -> list[Point]:
            series = self._series(run_id, metric_key)
            return [] if series is None else series.sample(count, steps)

        samples = self.table.map(sample, run_ids)
        return [
            metric
            for run_id, points in zip(run_ids, samples, strict=True)
            for metric in _with_run(run_id, metric_key, points)
        ]

    def get_metric_history_bulk_interval_from_steps(
        self, run_id: str, metric_key: str, steps: Sequence[int], max_results: int | None
    ) -> list[MetricWithRunId]:
        series = self._series(run_id, metric_key)
        if series is None or not steps:
            return []
        points = _points(series, Steps(min(steps), max(steps)))
        wanted = frozenset(steps)
        matching = (point for point in points if point.step in wanted)
        return _with_run(run_id, metric_key, islice(matching, max_results))

    def get_max_step_for_metric(self, run_id: str, metric_key: str) -> int:
        series = self._series(run_id, metric_key)
        extent = None if series is None else series.extent()
        return 0 if extent is None else extent.top.step

    def _series(self, run_id: str, metric_key: str) -> Series | None:
        """A run's history; for an unknown run None, or with workspaces an error."""
        place = self.run_lookup.find_place(run_id)
        if place is not None:
            return Series(self.table, place, metric_key, read_log(self.table, place))
        if MLFLOW_ENABLE_WORKSPACES.get():
            raise run_not_found(run_id)
        return None

    def _first_points(self, run_id: str, metric_key: str, count: int | None) -> list[Point]:
        place = self.run_lookup.find_place(run_id)
        if place is None:
            return []
        log = read_log(self.table, place)
        return history_page(Series(self.table, place, metric_key, log), count, None)[0]


# --- pages --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bookmark:
    """Where a page of history ended, as its token says.

    The order stays that of the first page, so that a point logged out of order meanwhile does not
    move the others.
    """

    by_time: bool
    after: SortValues
    low: StepTime  # of the first item that may hold a later point
    density: float  # how many points an item held
    was_growing: bool = False  # whether a part of the history was in the log

    def token(self) -> str:
        return base64.b64encode(json.dumps(asdict(self)).encode()).decode()

    @classmethod
    def read(cls, page_token: str | None) -> Bookmark | None:
        if not page_token:
            return None
        try:
            parts = json.loads(base64.b64decode(page_token, validate=True))
            one, other, value, nan = parts["after"]
            step, time = parts["low"]
            return cls(
                bool(parts["by_time"]),
                (int(one), int(other), float(value), bool(nan)),
                (int(step), int(time)),
                max(1.0, float(parts["density"])),
                bool(parts.get("was_growing")),
            )
        except (binascii.Error, ValueError, TypeError, KeyError) as error:
            raise bad_token("could not be decoded") from error


def history_page(
    series: Series, size: int | None, bookmark: Bookmark | None
) -> tuple[list[Point], str | None]:
    """Up to ``size`` points after a bookmark in MLflow's order, and a token when there are more."""
    if size is None:
        return _rest(series, bookmark), None
    if bookmark is None:
        extent = series.extent()
        by_time = extent is not None and not extent.in_order
    else:
        by_time = bookmark.by_time
    return (_page_by_time if by_time else _page_by_step)(series, size, bookmark)


def _rest(series: Series, bookmark: Bookmark | None) -> list[Point]:
    """All points after a bookmark."""
    if bookmark is not None and not bookmark.by_time:
        low = series.start(bookmark.low) if bookmark.was_growing else bookmark.low
        points = _all_points(series, low)
        return points[bisect_right(points, bookmark.after, key=order) :]
    points = _all_points(series)
    if not _is_by_time(points):
        points.sort(key=_time_order)
    if bookmark is None:
        return points
    return points[bisect_right(points, bookmark.after, key=_time_order) :]


def _all_points(series: Series, low: StepTime | None = None) -> list[Point]:
    points: list[Point] = []
    for chunk in series.chunks(low):
        points += chunk.points
    return points


def _page_by_step(
    series: Series, size: int, bookmark: Bookmark | None
) -> tuple[list[Point], str | None]:
    low, density = None, None
    if bookmark is not None:
        density = bookmark.density
        # What was in the log then may have been folded since, together with other points.
        low = series.start(bookmark.low) if bookmark.was_growing else bookmark.low
    found: list[Point] = []
    for points, spans in series.chunks(low, want=size + 1, density=density):
        start = 0 if bookmark is None else bisect_right(points, bookmark.after, key=order)
        found += points[start:]
        if len(found) > size:
            last = found[size - 1]
            reached = (last.step, last.timestamp)
            ahead = [span.first for span in spans if span.last >= reached]
            seen = sum(span.size for span in spans) / len(spans)
            low = min([reached, *ahead])
            bookmark = Bookmark(False, order(last), low, seen, series.is_growing)
            return found[:size], bookmark.token()
    return found, None


def _page_by_time(
    series: Series, size: int, bookmark: Bookmark | None
) -> tuple[list[Point], str | None]:
    points = (point for chunk in series.chunks() for point in chunk.points)
    if bookmark is not None:
        points = (point for point in points if _time_order(point) > bookmark.after)
    found = nsmallest(size + 1, points, key=_time_order)
    if len(found) <= size:
        return found, None
    last = found[size - 1]
    return found[:size], Bookmark(True, _time_order(last), (0, 0), 1.0).token()


def _points(series: Series, steps: Steps) -> Iterator[Point]:
    """The points of a range of steps, by step."""
    low = None if steps.first is None else series.start(first_of(steps.first))
    for chunk in series.chunks(low, steps.last):
        yield from steps.cut(chunk.points)


def _is_by_time(points: Sequence[Point]) -> bool:
    times = [timestamp for _, timestamp, _ in points]
    return all(map(le, times, islice(times, 1, None)))


def _time_order(point: Point) -> SortValues:
    step, timestamp, value, nan = order(point)
    return timestamp, step, value, nan


# --- entities -----------------------------------------------------------------------------------


def _metrics(key: str, points: Iterable[Point]) -> list[Metric]:
    return [Metric(key, value, timestamp, step) for step, timestamp, value in points]


def _with_run(run_id: str, key: str, points: Iterable[Point]) -> list[MetricWithRunId]:
    return [MetricWithRunId(metric, run_id) for metric in _metrics(key, points)]
