"""Native routes: traces by their ids, and searching them."""

from __future__ import annotations

from typing import Any

from mlflow_dynamodbstore.server import trace_answers
from mlflow_dynamodbstore.server.answers import Text, page, to_json
from mlflow_dynamodbstore.server.request_reading import (
    INT32,
    Request,
    Unusual,
    argument,
    fields,
    list_of,
    plain_text,
    required_argument,
    text,
    whole,
)

MOST_RESULTS = 500
USUAL_RESULTS = 100

_SEARCH = frozenset({"locations", "filter", "max_results", "order_by", "page_token"})
_LOCATION = frozenset({"type", "mlflow_experiment"})
_EXPERIMENT = frozenset({"experiment_id"})
_TRACE = frozenset({"trace_id", "allow_partial"})
_FLAGS = {"true": True, "false": False}


def search_traces(store: Any, request: Request) -> Text:
    """``traces/search``."""
    found = request.json(_SEARCH)
    max_results = whole(found, "max_results", USUAL_RESULTS, below=INT32)
    locations = list_of(found, "locations", _experiment_id)
    if max_results > MOST_RESULTS or not locations:
        raise Unusual
    filter_string = text(found, "filter")
    order_by = list_of(found, "order_by", plain_text)
    traces, token = store.search_traces(
        locations=locations,
        filter_string=filter_string,
        max_results=max_results,
        order_by=order_by,
        page_token=text(found, "page_token") or None,
    )
    return page("traces", (to_json(trace_answers.trace_info(one)) for one in traces), token)


def get_trace(store: Any, request: Request) -> Text:
    """``traces/get``: a trace with its spans."""
    found = request.arguments(_TRACE)
    partial = argument(found, "allow_partial")
    if partial is not None and partial.lower() not in _FLAGS:
        raise Unusual
    trace = store.get_trace(
        required_argument(found, "trace_id"),
        allow_partial=_FLAGS["false" if partial is None else partial.lower()],
    )
    return to_json({"trace": trace_answers.trace(trace)})


def get_trace_info(store: Any, request: Request) -> Text:
    """``traces/<trace_id>``: what is known of a trace, without its spans."""
    found = store.get_trace_info(request.path_argument)
    return to_json({"trace": {"trace_info": trace_answers.trace_info(found)}})


def _experiment_id(value: Any) -> str:
    location = fields(value, _LOCATION)
    if location.get("type", "MLFLOW_EXPERIMENT") != "MLFLOW_EXPERIMENT":
        raise Unusual
    if "mlflow_experiment" not in location:
        raise Unusual
    experiment_id = fields(location["mlflow_experiment"], _EXPERIMENT).get("experiment_id")
    if type(experiment_id) is not str:
        raise Unusual
    return experiment_id
