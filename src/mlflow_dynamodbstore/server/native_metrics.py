"""Native routes: the history of a metric, of one run and of several."""

from __future__ import annotations

from typing import Any

from mlflow_dynamodbstore.server import answers
from mlflow_dynamodbstore.server.answers import Text
from mlflow_dynamodbstore.server.request_reading import (
    Request,
    Unusual,
    argument,
    required_argument,
    whole_argument,
)

MOST_RUNS = 100
MOST_POINTS = 2_500

_HISTORY = frozenset({"run_id", "run_uuid", "metric_key", "page_token", "max_results"})
_SAMPLED = frozenset({"run_ids", "metric_key", "start_step", "end_step", "max_results"})


def get_metric_history(store: Any, request: Request) -> Text:
    """``metrics/get-history``."""
    found = request.arguments(_HISTORY)
    argument(found, "run_uuid")
    max_results = whole_argument(found, "max_results")
    if max_results is not None and max_results <= 0:
        raise Unusual
    points = store.get_metric_history(
        required_argument(found, "run_id"),
        required_argument(found, "metric_key"),
        max_results=max_results,
        page_token=argument(found, "page_token") or None,
    )
    return answers.page("metrics", map(answers.metric, points), points.token)


def get_metric_history_bulk_interval(store: Any, request: Request) -> Text:
    """``metrics/get-history-bulk-interval``, which the charts of the UI read."""
    found = request.arguments(_SAMPLED)
    run_ids = found.get("run_ids", [])
    max_results = whole_argument(found, "max_results")
    start, end = whole_argument(found, "start_step"), whole_argument(found, "end_step")
    if not 1 <= len(run_ids) <= MOST_RUNS or not all(run_ids):
        raise Unusual
    if max_results is None:
        max_results = MOST_POINTS
    if not 1 <= max_results <= MOST_POINTS:
        raise Unusual
    if (start is None) != (end is None) or (start is not None and end is not None and start > end):
        raise Unusual
    points = store.get_metric_history_bulk_interval(
        run_ids=run_ids,
        metric_key=required_argument(found, "metric_key"),
        max_results=max_results,
        start_step=start,
        end_step=end,
    )
    return answers.page("metrics", map(answers.metric_of_run, points), None)
