"""Searches filtered to what the caller may see, page by page.

MLflow's app filters a page of a search and fills it from the next ones. It counts rows to make the
token of the next page, because its page tokens are counts. Ours name positions, and stay right
while rows are added and removed. So we call its filters for one page at a time and join the pages
here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from flask import Response
from mlflow.protos.model_registry_pb2 import SearchRegisteredModels
from mlflow.protos.service_pb2 import SearchExperiments, SearchLoggedModels
from mlflow.utils.proto_json_utils import message_to_json

from mlflow_dynamodbstore.mlflow_compat.auth_app import is_filtered_by
from mlflow_dynamodbstore.mlflow_compat.server import (
    get_model_registry_store,
    get_request_message,
    get_tracking_store,
)

Filter = Callable[[Response], Any]
Row = dict[str, Any]


@dataclass(frozen=True)
class Listing:
    """A search: MLflow's filter for it, its messages, and how to fetch another page."""

    filter: str
    message: Any
    rows: str
    identity: Callable[[Row], str]
    fetch: Callable[[Any, int, str], Any]


def _experiments(request: Any, size: int, token: str) -> Any:
    return get_tracking_store().search_experiments(
        view_type=request.view_type,
        max_results=size,
        order_by=request.order_by,
        filter_string=request.filter,
        page_token=token,
    )


def _models(request: Any, size: int, token: str) -> Any:
    return get_model_registry_store().search_registered_models(
        filter_string=request.filter,
        max_results=size,
        order_by=request.order_by,
        page_token=token,
    )


def _logged_models(request: Any, size: int, token: str) -> Any:
    order_by = [
        {
            "field_name": order.field_name,
            "ascending": order.ascending,
            "dataset_name": order.dataset_name or None,
            "dataset_digest": order.dataset_digest or None,
        }
        for order in request.order_by
    ]
    return get_tracking_store().search_logged_models(
        experiment_ids=list(request.experiment_ids),
        filter_string=request.filter or None,
        max_results=size,
        order_by=order_by or None,
        page_token=token,
    )


LISTINGS = (
    Listing(
        "filter_search_experiments",
        SearchExperiments,
        "experiments",
        lambda row: str(row["experiment_id"]),
        _experiments,
    ),
    Listing(
        "filter_search_registered_models",
        SearchRegisteredModels,
        "registered_models",
        lambda row: str(row["name"]),
        _models,
    ),
    Listing(
        "filter_search_logged_models",
        SearchLoggedModels,
        "models",
        lambda row: str(row["info"]["model_id"]),
        _logged_models,
    ),
)


FILTERS = tuple(listing.filter for listing in LISTINGS)


def listing_of(auth: ModuleType, path: str, method: str) -> Listing | None:
    """The search that a request asks for, if it is one of those whose pages we fill."""
    asked = (one for one in LISTINGS if is_filtered_by(auth, one.filter, path, method))
    return next(asked, None)


def fill_page(listing: Listing, filter_page: Filter, response: Response) -> None:
    """Filter a page of a search, and fill it from the next ones."""
    body = _body(response)
    token = str(body.pop("next_page_token", ""))
    readable = _readable(listing, filter_page, body.get(listing.rows, []))
    request = get_request_message(listing.message())
    size = int(request.max_results)
    while token and len(readable) < size:
        page = listing.fetch(request, size, token)
        rows = _rows(listing, page)
        more = _readable(listing, filter_page, rows)
        room = size - len(readable)
        if len(more) > room:
            # The page ends with the last row there is room for: fetch the token after that row.
            last = listing.identity(more[room - 1])
            read = [listing.identity(row) for row in rows].index(last) + 1
            page = listing.fetch(request, read, token)
        readable += more[:room]
        token = page.token or ""
    body[listing.rows] = readable
    if token:
        body["next_page_token"] = token
    response.data = json.dumps(body)


def _readable(listing: Listing, filter_page: Filter, rows: list[Row]) -> list[Row]:
    """The rows that MLflow's filter keeps."""
    part = Response(json.dumps({listing.rows: rows}), mimetype="application/json")
    filter_page(part)
    return list(_body(part).get(listing.rows, []))


def _rows(listing: Listing, page: Any) -> list[Row]:
    found = listing.message.Response(**{listing.rows: [row.to_proto() for row in page]})
    return list(json.loads(message_to_json(found)).get(listing.rows, []))


def _body(response: Response) -> dict[str, Any]:
    return dict(json.loads(response.get_data()))
