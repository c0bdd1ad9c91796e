"""Nothing of one workspace is read, listed, counted or changed from another, by any method.

The methods are found by looking, so that a new one is tried as soon as it is there.
"""

from __future__ import annotations

import base64
import inspect
import json
import zlib
from typing import Any

import pytest
from mlflow.exceptions import MlflowException
from mlflow.utils.workspace_context import WorkspaceContext

from tests.workspaces.everything import CALLS, MARK, STORES, arguments, called


def text_of(value: Any, depth: int = 8) -> str:
    """All that can be read in a value."""
    if depth == 0 or value is None or isinstance(value, (str, bytes, int, float, bool)):
        return str(value)
    if isinstance(value, dict):
        parts = [*value.keys(), *value.values()]
    elif isinstance(value, (list, tuple, set, frozenset)):
        parts = list(value)
    else:
        # Not its properties: some properties of MLflow's entities fetch things.
        parts = list(vars(value).values()) if hasattr(value, "__dict__") else [repr(value)]
    return " ".join(text_of(part, depth - 1) for part in parts)


@pytest.mark.parametrize(("store", "name"), CALLS, ids=lambda part: part)
def test_no_method_reaches_into_another_workspace(world, store, name):
    method = getattr(getattr(world, store), name)
    given, unknown = arguments(method, world.values)
    assert unknown == [], f"tests/workspaces/everything.py has no values for {unknown} of {name}()"
    with WorkspaceContext("team-b"):
        answer = called(method, given)
    assert MARK not in text_of(answer)
    assert world.damage() == []


def test_the_walk_would_notice(world):
    """From inside the workspace the same calls find what they name."""
    seen = 0
    with WorkspaceContext("team-a"):
        for store, name in CALLS:
            if name.startswith(("get_", "search_", "list_", "batch_get_")):
                method = getattr(getattr(world, store), name)
                answer = called(method, arguments(method, world.values)[0])
                seen += MARK in text_of(answer)
    assert seen >= 30
    world.damage()  # some of these create what they do not find


# --- names and tokens that somebody made up -----------------------------------------------------

CRAFTED = [
    "a#U#PERM#1",
    "../../EXP#2",
    "EXP#2#E#META",
    "WORKSPACE#team-a",
    "%",
    "\x00",
    "é" * 700,
    "",
]


@pytest.mark.parametrize(("store", "name"), CALLS, ids=lambda part: part)
def test_no_crafted_name_reaches_anything(world, store, name):
    """A crafted name replaces each text argument of a method, one after the other."""
    method = getattr(getattr(world, store), name)
    given, _ = arguments(method, world.values)
    texts = [key for key, value in given.items() if type(value) is str]
    with WorkspaceContext("team-b"):
        for text in CRAFTED:
            for key in texts:
                assert MARK not in text_of(called(method, given | {key: text})), (key, text)
    assert world.damage() == []


def as_token(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


TOKENS = [
    "x",
    "' OR 1=1 --",
    "\x00",
    "A" * 20_000,
    base64.urlsafe_b64encode(zlib.compress(b"[]")).decode(),
    *map(
        as_token,
        (
            {"PK": "WORKSPACE#team-a", "SK": "EXPNAME#", "offset": 0},
            ["WORKSPACE#team-a", "EXPNAME#"],
            [],
            {},
            None,
            -1,
            1e308,
            [[[[None]]]],
            {"offset": -5},
        ),
    ),
]
UNPAGED = {"query_trace_metrics"}  # MLflow gives no tokens there
PAGED = [
    (store, name)
    for store, name in CALLS
    if "page_token" in inspect.signature(getattr(STORES[store], name)).parameters
    and name not in UNPAGED
]


@pytest.mark.parametrize(("store", "name"), PAGED, ids=lambda part: part)
def test_no_forged_page_token_is_taken(world, store, name):
    method = getattr(getattr(world, store), name)
    given, _ = arguments(method, world.values)
    with WorkspaceContext("team-a"):
        method(**given)
        for token in TOKENS:
            with pytest.raises(MlflowException) as refused:
                list(method(**given | {"page_token": token}))
            assert refused.value.get_http_status_code() == 400, (token, refused.value)
