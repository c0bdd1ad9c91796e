"""Find stored values that are neither text nor a number of 64 bits where they should be.

Earlier releases stored what a client sent. Such values are shown as text; ``doctor`` names their
items, so that they can be written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mlflow_dynamodbstore.keys.item_kinds import describe_item
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.plain_values import LARGEST, SMALLEST
from mlflow_dynamodbstore.table.contract import Damage
from mlflow_dynamodbstore.table.errors import Damaged
from mlflow_dynamodbstore.table.values import Item, Key

VALUE = "value"
SUMMARY = "summary"
"""The attribute of a sealed run that holds its params and tags, packed."""
_TEXT_PREFIXES = ("t:", "m:")
"""How the attributes begin that hold a tag or metadata of an entity."""

_TAGGED = frozenset({"Trace", "Logged model", "Registered model", "Model version"})
_TEXTS: Mapping[str, tuple[str, ...]] = {
    "Run tag": (VALUE,),
    "Parameter": (VALUE,),
    "Experiment tag": (VALUE,),
    "Trace tag": (VALUE,),
    "Logged model tag": (VALUE,),
    "Logged model parameter": (VALUE,),
    "Model tag": (VALUE,),
    "Experiment": ("name", "artifact_location"),
    "Run": ("name", "user", "status", "artifact_uri"),
    "Trace": ("name", "state", "request_preview", "response_preview"),
    "Registered model": ("name", "description"),
    "Model version": ("source", "description", "run_id"),
}
_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "Experiment": ("creation_time", "last_update_time"),
    "Run": ("start_time", "end_time"),
    "Trace": ("request_time", "duration"),
}


def odd_value(item: Item) -> Damage | None:
    """The first value of an item that has another type than MLflow can show."""
    kind = describe_item(item).kind
    for name, value, is_right in _expected(kind, item):
        if value is not None and not is_right(value):
            key = Key(str(item["PK"]), str(item["SK"]))
            return Damage(key, f"{name} is {_words(value)}")
    return None


def _expected(kind: str, item: Item) -> Iterator[tuple[str, Any, Callable[[Any], bool]]]:
    """The values of an item that have a known type, and how to tell."""
    for name in _TEXTS.get(kind, ()):
        yield name, item.get(name), _is_text
    for name in _NUMBERS.get(kind, ()):
        yield name, item.get(name), _is_number
    if kind in _TAGGED:
        for name, value in item.items():
            if name.startswith(_TEXT_PREFIXES):
                yield name, value, _is_text
    if kind == "Run" and isinstance(item.get(SUMMARY), bytes):
        yield from _in_summary(item)


def _in_summary(item: Item) -> Iterator[tuple[str, Any, Callable[[Any], bool]]]:
    """Params and tags of a sealed run; a summary that lies in parts beside the run is not read."""
    try:
        summary = large_values.unpack(item[SUMMARY], item, SUMMARY)
    except Damaged:
        return  # which is a finding of its own
    for what, section in (("param", "p"), ("tag", "t")):
        for name, value in summary[section].items():
            yield f"{what} {name}", value, _is_text


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return type(value) is int and SMALLEST <= value <= LARGEST


def _words(value: Any) -> str:
    if type(value) is int:
        return "a number beyond 64 bits" if not _is_number(value) else "a number"
    return f"of type {type(value).__name__}"
