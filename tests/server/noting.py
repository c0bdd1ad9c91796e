"""A pytest plugin that notes what tests send to a server, for ``python -m tests.server.record``.

``PYTHONPATH=tests/server NOTED_REQUESTS=noted pytest -p noting TESTS`` writes each request with a
line of JSON to the file ``noted``: those of ``requests``, which MLflow's client and its REST tests
use, and those of pages in a browser. It imports nothing of ours, so MLflow's own tests can use it.
"""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from requests.adapters import HTTPAdapter


def note(method: str, url: str, body: bytes | str | None) -> None:
    """Add a request to the file."""
    parts = urlsplit(url)
    text = body.decode(errors="replace") if isinstance(body, bytes) else body or ""
    try:
        found = json.loads(text) if text else None
    except ValueError:
        return  # no JSON: spans, or a file
    noted = {
        "method": method,
        "path": parts.path,
        "query": parse_qsl(parts.query, keep_blank_values=True),
        "body": found,
    }
    with open(os.environ["NOTED_REQUESTS"], "a") as file:  # noqa: PTH123 - several processes add
        file.write(json.dumps(noted) + "\n")


def pytest_configure() -> None:
    theirs = HTTPAdapter.send

    def send(self: HTTPAdapter, request: Any, *args: Any, **options: Any) -> Any:
        if request.body is None or isinstance(request.body, bytes | str):
            note(request.method, request.url, request.body)
        return theirs(self, request, *args, **options)

    HTTPAdapter.send = send  # type: ignore[method-assign]
    try:
        from playwright.sync_api import Browser
    except ImportError:
        return  # no pages to look at
    new_context = Browser.new_context

    def noting_context(self: Browser, **options: Any) -> Any:
        context = new_context(self, **options)
        context.on("request", lambda sent: note(sent.method, sent.url, sent.post_data_buffer))
        return context

    Browser.new_context = noting_context  # type: ignore[method-assign]
