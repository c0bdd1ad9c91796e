"""Refusals and omissions decided again without the cache: access may just have been granted."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType, NoneType
from typing import Any

from flask import Response, request

from mlflow_dynamodbstore.auth.cache import fresh_answers
from mlflow_dynamodbstore.auth.filtered_lists import fill_page, listing_of

READING_POSTS = ("/search", "/batchGetInfos", "/get-latest-versions")
"""The ends of the paths of POST requests that change nothing."""
BAD_REQUEST = 400
FORBIDDEN = 403


def with_denials_rechecked(before_request: Callable[[], Any]) -> Callable[[], Any]:
    """Check a refused request again without the cache."""

    @functools.wraps(before_request)
    def checked() -> Any:
        response = before_request()
        if getattr(response, "status_code", None) == FORBIDDEN:
            with fresh_answers():
                response = before_request()
        return _refusal_of_body() if response is None else response

    return checked


def _refusal_of_body() -> Response | None:
    """The refusal of a JSON body that is no object; MLflow's handlers would fail on it."""
    if request.mimetype != "application/json":
        return None
    if isinstance(request.get_json(silent=True), (dict, NoneType)):
        return None
    return Response("The body must be a JSON object.", BAD_REQUEST, mimetype="text/plain")


def with_omissions_rechecked(
    auth: ModuleType, after_request: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    """Decide without the cache what a response omits."""

    @functools.wraps(after_request)
    def checked(response: Any) -> Any:
        if response.status_code >= BAD_REQUEST:
            return after_request(response)
        listing = listing_of(auth, request.path, request.method)
        if listing is None and _only_reads():
            return _filtered_by_cache_first(after_request, response)
        with fresh_answers():
            if listing is None:
                return after_request(response)
            fill_page(listing, after_request, response)
            return response

    return checked


def _only_reads() -> bool:
    """Whether MLflow's work after this request may be done twice."""
    return request.method == "GET" or request.path.endswith(READING_POSTS)


def _filtered_by_cache_first(after_request: Callable[[Any], Any], response: Any) -> Any:
    """Filter a response by cached permissions; if that omits something, filter it without them."""
    if not response.is_json or response.is_streamed:
        return after_request(response)
    whole = response.get_data()
    filtered = after_request(response)
    if filtered.get_data() == whole:
        return filtered
    response.set_data(whole)
    with fresh_answers():
        return after_request(response)
