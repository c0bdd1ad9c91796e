"""The attributes that the own items (META) of models and MCP servers share."""

from __future__ import annotations

from mlflow_dynamodbstore.keys.encoding import is_cut
from mlflow_dynamodbstore.table.values import Item, Key

NAME = "name"
UID = "uid"
"""Tells a model or server from an earlier one of the same name."""
REVISION = "rev"
"""Counts the changes of META and of everything below it."""
VERSIONS_REVISION = "vrev"
"""The revision in which a version last changed."""


def named(key: Key, attribute: str, text: str) -> Item:
    """An item at a key; a text too long for the key stands in an attribute."""
    item: Item = {"PK": key.pk, "SK": key.sk}
    if is_cut(key.sk):
        item[attribute] = text
    return item
