"""Native routes: creating, changing, reading and searching runs, and logging to them.

Each is given a store and a request, and returns the JSON of the answer. It raises ``Unusual``
before it calls the store, or not at all.
"""

from __future__ import annotations

from typing import Any

from mlflow.entities import Metric, Param, RunStatus, RunTag, ViewType

from mlflow_dynamodbstore.mlflow_compat.server_app import permitted_experiments
from mlflow_dynamodbstore.server import answers
from mlflow_dynamodbstore.server.answers import Object, Text
from mlflow_dynamodbstore.server.request_reading import (
    INT32,
    Request,
    Unusual,
    argument,
    fields,
    list_of,
    number,
    optional_text,
    plain_text,
    required_argument,
    required_text,
    required_whole,
    text,
    whole,
)

MOST_RESULTS = 50_000
USUAL_RESULTS = 1_000

_CREATED = frozenset({"experiment_id", "user_id", "run_name", "start_time", "tags"})
_UPDATED = frozenset({"run_id", "run_uuid", "status", "end_time", "run_name"})
_RUN = frozenset({"run_id", "run_uuid"})
_PAIR = frozenset({"key", "value"})
_POINT = frozenset({"key", "value", "timestamp", "step"})
_OF_MODEL = frozenset({"model_id", "dataset_name", "dataset_digest"})
_METRIC = _POINT | _OF_MODEL | {"run_id"}
_LOG_METRIC = _RUN | _POINT | _OF_MODEL
_LOG_PAIR = _RUN | _PAIR
_BATCH = frozenset({"run_id", "metrics", "params", "tags"})
_SEARCH = frozenset(
    {"experiment_ids", "filter", "run_view_type", "max_results", "order_by", "page_token"}
)
_STATUSES = {"RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED"}
_VIEWS = {
    "ACTIVE_ONLY": ViewType.ACTIVE_ONLY,
    "DELETED_ONLY": ViewType.DELETED_ONLY,
    "ALL": ViewType.ALL,
}


def create_run(store: Any, request: Request) -> Text:
    """``runs/create``."""
    found = request.json(_CREATED)
    run = store.create_run(
        experiment_id=text(found, "experiment_id"),
        user_id=text(found, "user_id"),
        start_time=whole(found, "start_time"),
        tags=list_of(found, "tags", _tag),
        run_name=text(found, "run_name"),
    )
    return f'{{"run":{answers.run(run)}}}'


def update_run(store: Any, request: Request) -> Text:
    """``runs/update``."""
    found = request.json(_UPDATED)
    status = optional_text(found, "status")
    if status is not None and status not in _STATUSES:
        raise Unusual
    info = store.update_run_info(
        _run_id(found),
        None if status is None else RunStatus.from_string(status),
        whole(found, "end_time") if "end_time" in found else None,
        optional_text(found, "run_name"),
    )
    return answers.to_json({"run_info": answers.run_info(info)})


def get_run(store: Any, request: Request) -> Text:
    """``runs/get``."""
    found = request.arguments(_RUN)
    argument(found, "run_uuid")
    run = store.get_run(required_argument(found, "run_id"))
    return f'{{"run":{answers.run(run)}}}'


def log_metric(store: Any, request: Request) -> Text:
    """``runs/log-metric``."""
    found = request.json(_LOG_METRIC)
    run_id = _run_id(found)
    store.log_metric(run_id, _metric({**found, "run_id": run_id}))
    return "{}"


def log_param(store: Any, request: Request) -> Text:
    """``runs/log-parameter``."""
    found = request.json(_LOG_PAIR)
    store.log_param(_run_id(found), Param(required_text(found, "key"), text(found, "value")))
    return "{}"


def set_tag(store: Any, request: Request) -> Text:
    """``runs/set-tag``."""
    found = request.json(_LOG_PAIR)
    store.set_tag(_run_id(found), RunTag(required_text(found, "key"), text(found, "value")))
    return "{}"


def log_batch(store: Any, request: Request) -> Text:
    """``runs/log-batch``."""
    found = request.json(_BATCH)
    store.log_batch(
        run_id=required_text(found, "run_id"),
        metrics=list_of(found, "metrics", _metric_of_batch),
        params=list_of(found, "params", _param),
        tags=list_of(found, "tags", _logged_tag),
    )
    return "{}"


def search_runs(store: Any, request: Request) -> Text:
    """``runs/search``."""
    found = request.json(_SEARCH)
    max_results = whole(found, "max_results", USUAL_RESULTS, below=INT32)
    view = text(found, "run_view_type", "ACTIVE_ONLY")
    if max_results > MOST_RESULTS or view not in _VIEWS:
        raise Unusual
    filter_string = text(found, "filter")
    order_by = list_of(found, "order_by", plain_text)
    page_token = text(found, "page_token") or None
    experiments = list_of(found, "experiment_ids", plain_text)
    runs = store.search_runs(
        experiment_ids=permitted_experiments(experiments),
        filter_string=filter_string,
        run_view_type=_VIEWS[view],
        max_results=max_results,
        order_by=order_by,
        page_token=page_token,
    )
    return answers.page("runs", map(answers.run, runs), runs.token)


def _run_id(found: Object) -> str:
    text(found, "run_uuid")
    return required_text(found, "run_id")


def _metric_of_batch(value: Any) -> Metric:
    return _metric(fields(value, _METRIC))


def _metric(found: Object) -> Metric:
    return Metric(
        required_text(found, "key"),
        number(found, "value"),
        required_whole(found, "timestamp"),
        whole(found, "step"),
        model_id=text(found, "model_id") or None,
        dataset_name=text(found, "dataset_name") or None,
        dataset_digest=text(found, "dataset_digest") or None,
        run_id=text(found, "run_id") or None,
    )


def _param(value: Any) -> Param:
    found = fields(value, _PAIR)
    return Param(required_text(found, "key"), text(found, "value"))


def _logged_tag(value: Any) -> RunTag:
    found = fields(value, _PAIR)
    return RunTag(required_text(found, "key"), text(found, "value"))


def _tag(value: Any) -> RunTag:
    found = fields(value, _PAIR)
    return RunTag(text(found, "key"), text(found, "value"))
