"""Values that no caller should send, and arguments with one of them in some place."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

LONG = 450_000


class Thing:
    """An object of no type that MLflow knows."""

    def __repr__(self) -> str:
        return "Thing()"


BAD: dict[str, Any] = {
    "None": None,
    "empty": "",
    "blank": " ",
    "words": "no such thing",
    "300 letters": "n" * 300,
    "450 KB": "n" * LONG,
    "four bytes": "\U0001f642" * 250,
    "half a pair": "a\ud800b",
    "NUL": "a\x00b",
    "separators": "../a#b/c%",
    "quote": "it's",
    "-1": -1,
    "0": 0,
    "1.5": 1.5,
    "2^63-1": 2**63 - 1,
    "2^63": 2**63,
    "-2^63-1": -(2**63) - 1,
    "10^30": 10**30,
    "infinity": math.inf,
    "NaN": math.nan,
    "True": True,
    "bytes": b"x",
    "dict": {"epoch": 5},
    "empty dict": {},
    "list": [1],
    "empty list": [],
    "list of None": [None],
    "object": Thing(),
}

FILTERS: dict[str, Any] = {
    "nonsense": "this is no filter",
    "open quote": "name = 'a",
    "time of 2^63": "attributes.start_time > 9223372036854775808",
    "time of 10^30": f"timestamp_ms > {10**30}",
    "time of 1e400": "attributes.start_time > 1e400",
    "metric of 1e999": "metrics.m > 1e999",
    "creation of 2^63": "creation_time > 9223372036854775808",
    "creation of 1.5": "creation_time > 1.5",
    "version of 2^63": "version_number > 9223372036854775808",
    "half a pair in it": "name = 'a\ud800b'",
    "half a pair in a tag": "tags.`a\ud800b` = 'x'",
    "half a pair in an IN": "run_id IN ('a\ud800b')",
    "NUL in it": "name = 'a\x00b'",
    "450 KB name": "name = '" + "n" * LONG + "'",
    "450 KB tag": "tags.t = '" + "n" * LONG + "'",
    "450 KB key": "tags.`" + "n" * LONG + "` = 'x'",
    "LIKE of half a pair": "name LIKE '%\ud800'",
    "empty IN": "run_id IN ()",
}

ORDERS: dict[str, Any] = {
    "nonsense": ["this is no order"],
    "no direction": ["name sideways"],
    "450 KB": ["name" + " " * LONG],
    "450 KB key": ["metrics.`" + "n" * LONG + "`"],
    "half a pair": ["tags.`a\ud800`"],
    "a dict without a field": [{}],
    "a dict of odd values": [{"field_name": 5, "ascending": "x"}],
    "a number": [5],
}

TOKENS: dict[str, Any] = {
    "no token": "no token",
    "base64": "eyJhIjogMX0=",
    "base64 of bytes": "/////w==",
    "base64 of a list": "W10=",
    "base64 of a number": "NQ==",
    "half a pair": "\ud800",
    "not ASCII": "é",
    "450 KB": "A" * LONG,
}

OF_NAME: dict[str, dict[str, Any]] = {
    "filter_string": FILTERS,
    "filter_string1": FILTERS,
    "filter_string2": FILTERS,
    "base_filter": FILTERS,
    "filters": {name: [value] for name, value in FILTERS.items()},
    "order_by": ORDERS,
    "page_token": TOKENS,
}
"""Further values for arguments that have a language of their own."""

MODULES = ("mlflow.entities", "mlflow.store", "opentelemetry")
DEEPEST = 3
MOST_OF_A_DICT = 3

Path = tuple[Any, ...]


@dataclass(frozen=True)
class Slot:
    """A place in the arguments of a call."""

    path: Path
    is_list: bool = False
    is_text: bool = True

    @property
    def name(self) -> str:
        return ".".join(str(step) for step in self.path)

    def values(self) -> Mapping[str, Any]:
        values = BAD | OF_NAME.get(self.path[0], {}) if len(self.path) == 1 else dict(BAD)
        if self.is_list:
            del values["450 KB"]  # MLflow's stores send a query for each of its letters
        return values

    def filled(self, given: Mapping[str, Any], value: Any) -> dict[str, Any] | None:
        """A copy of the arguments with a value in this place; None where it cannot be there."""
        arguments = dict(given)
        name, *rest = self.path
        if not rest:
            arguments[name] = value
            return arguments
        arguments[name] = copy.deepcopy(arguments[name])
        holder = arguments[name]
        for step in rest[:-1]:
            holder = _child(holder, step)
        return arguments if _place(holder, rest[-1], value) else None


def slots(given: Mapping[str, Any]) -> Iterator[Slot]:
    """Every argument, and every place inside those that are lists, dicts or entities."""
    for name, value in given.items():
        for path, held in _inside(value, (name,)):
            yield Slot(path, isinstance(held, list), held is None or isinstance(held, str))


KEY = "a key"
"""The step into a dict that replaces one of its keys."""


def _inside(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """The places in a value, each with what is there."""
    yield path, value
    if len(path) > DEEPEST:
        return
    if isinstance(value, list | tuple) and value:
        yield from _inside(value[0], (*path, 0))
    elif isinstance(value, dict) and value:
        yield (*path, KEY), ""
        for key in list(value)[:MOST_OF_A_DICT]:
            yield from _inside(value[key], (*path, key))
    elif _is_entity(value):
        for attribute, held in _fields(value).items():
            yield from _inside(held, (*path, attribute))


def _fields(entity: Any) -> dict[str, Any]:
    """The fields of an entity; a dataclass may keep them in slots."""
    if dataclasses.is_dataclass(entity):
        return {one.name: getattr(entity, one.name) for one in dataclasses.fields(entity)}
    return dict(vars(entity))


def _is_entity(value: Any) -> bool:
    return type(value).__module__.startswith(MODULES) and not isinstance(value, Enum | type)


def _child(holder: Any, step: Any) -> Any:
    return holder[step] if isinstance(holder, list | tuple | dict) else _fields(holder)[step]


def _place(holder: Any, step: Any, value: Any) -> bool:
    if isinstance(holder, tuple):
        return False
    if step == KEY and isinstance(holder, dict):
        try:
            holder[value] = holder.pop(next(iter(holder)))
        except TypeError:  # no key of a dict
            return False
    elif isinstance(holder, list | dict):
        holder[step] = value
    else:
        object.__setattr__(holder, step, value)
    return True
