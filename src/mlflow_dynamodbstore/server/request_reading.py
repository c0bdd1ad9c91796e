"""Reading a request in the one form that clients send; every other form is left to MLflow.

MLflow reads JSON into protobuf messages, which take a number as a text, a field by another name, a
null for an absent value, and more. The functions here take plain JSON of the declared types. For
anything else they raise :class:`Unusual`, before anything is done, and MLflow's own route answers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl

T = TypeVar("T")

JSON_TYPES = frozenset(
    {"application/json", "application/json; charset=utf-8", "application/json;charset=utf-8"}
)
LONGEST_BODY = 4 * 1024 * 1024
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_ODD_IN_QUERY = re.compile(rb"[^A-Za-z0-9_.~&=%+*(),:;/@!$'\-]")
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

INT32 = 1 << 31
INT64 = 1 << 63


class Unusual(Exception):
    """The request has a form that MLflow's own route reads."""


@dataclass(slots=True)
class Request:
    """A request to one of the native routes. ``path_argument`` is the last part of its path."""

    method: str
    query: bytes
    content_type: str
    body: bytes
    path_argument: str = ""

    def json(self, known: AbstractSet[str]) -> dict[str, Any]:
        """The object that a POST holds; it has no other fields than the known ones."""
        if self.content_type not in JSON_TYPES or len(self.body) > LONGEST_BODY:
            raise Unusual
        if _SURROGATE.search(self.body):
            raise Unusual
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):  # no JSON, or nested too deep
            raise Unusual from None
        return fields(found, known)

    def arguments(self, known: AbstractSet[str]) -> dict[str, list[str]]:
        """The arguments of a GET by their names."""
        query = self.query
        if not query or self.body or _ODD_IN_QUERY.search(query):
            raise Unusual
        try:
            pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict")
        except ValueError:
            raise Unusual from None
        found: dict[str, list[str]] = {}
        for name, value in pairs:
            if name not in known:
                raise Unusual
            found.setdefault(name, []).append(value)
        return found


def fields(found: Any, known: AbstractSet[str]) -> dict[str, Any]:
    """An object without unknown fields."""
    if type(found) is not dict or not found.keys() <= known:
        raise Unusual
    return found


def text(found: Mapping[str, Any], name: str, otherwise: str = "") -> str:
    """A field that is a text."""
    value = found.get(name, otherwise)
    if type(value) is not str:
        raise Unusual
    return value


def required_text(found: Mapping[str, Any], name: str) -> str:
    """A field that is a text and not empty."""
    value = found.get(name)
    if type(value) is not str or not value:
        raise Unusual
    return value


def optional_text(found: Mapping[str, Any], name: str) -> str | None:
    """A field that is a text; None if it is absent."""
    return text(found, name) if name in found else None


def whole(found: Mapping[str, Any], name: str, otherwise: int = 0, *, below: int = INT64) -> int:
    """A field that is a whole number."""
    value = found.get(name, otherwise)
    if type(value) is not int or not -below <= value < below:
        raise Unusual
    return value


def required_whole(found: Mapping[str, Any], name: str) -> int:
    """A field that is a whole number and present."""
    if name not in found:
        raise Unusual
    return whole(found, name)


def number(found: Mapping[str, Any], name: str) -> float:
    """A field that is a number. One that is not finite has a name, as protobuf wants it."""
    value = found.get(name)
    if type(value) is float:
        if not math.isfinite(value):
            raise Unusual
        return value
    if type(value) is int and -INT64 <= value < INT64:
        return float(value)
    if type(value) is str and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    raise Unusual


def list_of(found: Mapping[str, Any], name: str, make: Callable[[Any], T]) -> list[T]:
    """A field that is a list; empty if it is absent."""
    values = found.get(name)
    if values is None and name not in found:
        return []
    if type(values) is not list:
        raise Unusual
    return [make(value) for value in values]


def plain_text(value: Any) -> str:
    """An element of a list of texts."""
    if type(value) is not str:
        raise Unusual
    return value


def argument(found: Mapping[str, list[str]], name: str) -> str | None:
    """An argument that is given once at most."""
    values = found.get(name)
    if values is None:
        return None
    if len(values) != 1:
        raise Unusual
    return values[0]


def required_argument(found: Mapping[str, list[str]], name: str) -> str:
    """An argument that is given once and not empty."""
    value = argument(found, name)
    if not value:
        raise Unusual
    return value


def whole_argument(found: Mapping[str, list[str]], name: str) -> int | None:
    """An argument that is a whole number."""
    value = argument(found, name)
    if value is None:
        return None
    if not _WHOLE.fullmatch(value) or not -INT32 <= int(value) < INT32:
        raise Unusual
    return int(value)
