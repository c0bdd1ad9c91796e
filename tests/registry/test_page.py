"""The registry's page names what exists."""

from __future__ import annotations

import re
from pathlib import Path

from mlflow.store.model_registry.abstract_store import AbstractStore

from mlflow_dynamodbstore.registry import alias_routing
from mlflow_dynamodbstore.registry.aliases import Aliases
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore

PAGE = (Path(__file__).parents[2] / "docs" / "registry.md").read_text()


def test_every_call_beyond_mlflows_is_on_the_page():
    ours = [name for name in vars(Aliases) if not name.startswith("_")]
    beyond = [name for name in ours if not hasattr(AbstractStore, name)]
    assert beyond
    assert not [name for name in beyond if f"registry.{name}(" not in PAGE]


def test_every_call_on_the_page_exists():
    called = set(re.findall(r"registry\.(\w+)\(", PAGE))
    assert called
    assert not [name for name in called if not hasattr(DynamoDBRegistryStore, name)]


def test_every_environment_variable_is_on_the_page():
    variables = {alias_routing.ROUTING, alias_routing.ROUTING_KEY}
    assert not [name for name in variables if f"`{name}`" not in PAGE]
