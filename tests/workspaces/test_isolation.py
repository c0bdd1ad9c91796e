"""Nothing of one workspace is read, listed, counted or changed from another, by any method.

The methods are found by looking, so that a new one is tried as soon as it is there.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES, MLFLOW_TRACKING_URI
from mlflow.exceptions import MlflowException
from mlflow.utils.async_logging.run_operations import RunOperations
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore import keys
from mlflow_dynamodbstore.errors import PRIVATE_METHODS_MLFLOW_CALLS
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.stores import everything_in, open_tracking_store
from tests.table.fakes import FakeTime
from tests.workspaces.everything import MARK, arguments, fill, methods

STORES = {"tracking": DynamoDBTrackingStore, "registry": DynamoDBRegistryStore}
CALLS = [
    (store, name)
    for store, kind in STORES.items()
    for name in methods(kind, PRIVATE_METHODS_MLFLOW_CALLS)
]


class World:
    """A table with one of everything in team-a, and what may not change about it."""

    def __init__(self, tracking: DynamoDBTrackingStore):
        self.tracking = tracking
        uri = tracking.table.engine.uri
        self.registry = DynamoDBRegistryStore(uri, uri, table=tracking.table)
        with WorkspaceContext("team-b"):
            tracking.create_experiment("mine")
        before = self.items()
        with WorkspaceContext("team-a"):
            self.values = fill(self.tracking, self.registry)
        self.theirs = {
            key: item
            for key, item in self.items().items()
            if key not in before and key[0] != keys.CONFIG_PK
        }
        self.places = {pk for pk, _ in self.theirs}

    def items(self) -> dict[tuple[str, str], Any]:
        found = everything_in(self.tracking.table)
        return {(str(item["PK"]), str(item["SK"])): item for item in found}

    def damage(self) -> list[Any]:
        """What of team-a is not as it was at the last look, or has come to lie in its places."""
        now = {key: item for key, item in self.items().items() if key[0] in self.places}
        before, self.theirs = self.theirs, now
        return sorted(key for key in before | now if before.get(key) != now.get(key))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(MLFLOW_ENABLE_WORKSPACES.name, "true")
        tracking = open_tracking_store(tmp_path_factory.mktemp("isolation"), FakeTime())
        # Where MLflow links prompts, it goes by the URI.
        patched.setenv(MLFLOW_TRACKING_URI.name, tracking.table.engine.uri)
        yield World(tracking)
        tracking.table.close()


def called(method, given):
    """What a method gives, to the end, or why it refuses."""
    try:
        answer = method(**given)
        if isinstance(answer, RunOperations):
            answer.wait()
        return list(answer) if inspect.isgenerator(answer) else answer
    except (MlflowException, NotImplementedError) as error:
        return str(error)


def text_of(value: Any, depth: int = 8) -> str:
    """All that can be read in a value."""
    if depth == 0 or value is None or isinstance(value, (str, bytes, int, float, bool)):
        return str(value)
    if isinstance(value, dict):
        parts = [*value.keys(), *value.values()]
    elif isinstance(value, (list, tuple, set, frozenset)):
        parts = list(value)
    else:
        # Not its properties: some of MLflow's entities fetch things when they are looked at.
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
