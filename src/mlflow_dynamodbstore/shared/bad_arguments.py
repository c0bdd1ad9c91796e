"""What is wrong with the arguments of a call that failed.

Parts check what they store. A value that nobody thought of still ends in an error of Python's, and
here such a call is looked at again: if an argument has another type than its method declares, or a
value that no engine can hold, the caller is told so. Calls that succeed never come here.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any

from mlflow_dynamodbstore.mlflow_compat.entities import UNDECLARED_FIELDS
from mlflow_dynamodbstore.shared.plain_values import LARGEST, SMALLEST, is_unicode, shown

DEEPEST = 6
"""How far lists, dicts and entities inside an argument are looked into."""
MOST_ELEMENTS = 1_000
"""How many elements of a list or dict are looked at."""

_ONE_OF = (typing.Union, types.UnionType)
_MAPPINGS = (dict, collections.abc.Mapping)
_KNOWN = (float, list, tuple, set, frozenset, Mapping, Enum, type)
_TELEMETRY = "opentelemetry."
_MODULES = ("mlflow.", "mlflow_dynamodbstore.", _TELEMETRY)


def fault_of(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """A sentence about the first bad argument of a call; empty if none is seen."""
    given = inspect.signature(method).bind(*args, **kwargs).arguments
    declared = _declared(method)
    for name, value in given.items():
        if name in declared and not _fits(value, declared[name]):
            expected = _words(declared[name])
            return f"Invalid value {shown(value, name)} for {name}: it must be {expected}."
    for name, value in given.items():
        for found in _inside(value, DEEPEST):
            what = _impossible(found)
            if what:
                return f"Invalid value {shown(found, name)} in {name}: {what}."
            if _is_entity(found):
                fault = _fault_of_entity(found)
                if fault:
                    return fault
    return ""


def _fault_of_entity(entity: Any) -> str:
    """A sentence about a field that has another type than its entity declares."""
    kind = type(entity)
    declared = {
        **UNDECLARED_FIELDS.get(kind.__name__, {}),
        **_declared(kind if dataclasses.is_dataclass(kind) else kind.__init__),
    }
    for name, value in _fields(entity).items():
        expected = declared.get(name.lstrip("_"), Any)
        if not _fits(value, expected):
            return (
                f"Invalid value {shown(value)} for {name.lstrip('_')} of {kind.__name__}: it must "
                f"be {_words(expected)}."
            )
    return ""


def _declared(method: Callable[..., Any]) -> dict[str, Any]:
    """The types that a method declares; those that exist for type checkers only are left out."""
    try:
        return typing.get_type_hints(method)
    except NameError:
        return {}


def _fits(value: Any, declared: Any) -> bool:
    """Whether a value is of a declared type, as far as it can be told at run time."""
    origin, inner = typing.get_origin(declared), typing.get_args(declared)
    if origin in _ONE_OF:
        return any(_fits(value, one) for one in inner)
    if declared is None or declared is type(None):
        return value is None
    if origin is typing.Literal:
        return value in inner
    kind = origin or declared
    if kind is Any or not isinstance(kind, type):
        return True  # Any, a type variable, or a form that is unknown here
    if kind is int or kind is float:
        return isinstance(value, (int, kind)) and not isinstance(value, bool)
    if kind is collections.abc.Sequence and isinstance(value, str | bytes):
        return False  # declared are sequences of other things
    try:
        if not isinstance(value, kind):
            return False
    except TypeError:  # a protocol that cannot be checked
        return True
    return all(_fits(element, one) for element, one in _elements(value, kind, inner))


def _elements(value: Any, kind: type, inner: tuple[Any, ...]) -> Iterator[tuple[Any, Any]]:
    """The elements of a value, each with the type that is declared for it."""
    if kind in _MAPPINGS and len(inner) == len(("key", "value")):
        for key, element in list(value.items())[:MOST_ELEMENTS]:
            yield key, inner[0]
            yield element, inner[1]
    elif kind in (list, set, frozenset, collections.abc.Sequence) and inner:
        for element in list(value)[:MOST_ELEMENTS]:
            yield element, inner[0]


def _inside(value: Any, depth: int) -> Iterator[Any]:
    """A value, and all that is in it."""
    yield value
    if depth == 0 or isinstance(value, str | bytes | int | float | Enum | type):
        return
    if type(value).__module__.startswith(_TELEMETRY):  # whose ids have 128 bits
        within = [part for part in _fields(value).values() if _is_entity(part)]
    elif isinstance(value, Mapping):
        within = [part for pair in list(value.items())[:MOST_ELEMENTS] for part in pair]
    elif isinstance(value, list | tuple | set | frozenset):
        within = list(value)[:MOST_ELEMENTS]
    elif _is_entity(value):
        within = list(_fields(value).values())
    else:
        return
    for part in within:
        yield from _inside(part, depth - 1)


def _is_entity(value: Any) -> bool:
    return type(value).__module__.startswith(_MODULES) and not isinstance(value, Enum | type)


def _fields(entity: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(entity):  # which may have slots
        return {one.name: getattr(entity, one.name) for one in dataclasses.fields(entity)}
    return dict(vars(entity)) if hasattr(entity, "__dict__") else {}


def _impossible(value: Any) -> str:
    """Why no engine can hold a value; empty if one can."""
    if isinstance(value, str):
        return "" if is_unicode(value) else "it holds half of a surrogate pair"
    if isinstance(value, bool):
        return ""
    if isinstance(value, int):
        return "" if SMALLEST <= value <= LARGEST else "it has more than 64 bits"
    known = (
        value is None or isinstance(value, _KNOWN) or type(value).__module__.startswith(_MODULES)
    )
    return "" if known else "it is of a type that cannot be stored"


def _words(declared: Any) -> str:
    """A declared type in an error message."""
    origin, inner = typing.get_origin(declared), typing.get_args(declared)
    if origin in _ONE_OF:
        return " or ".join(_words(one) for one in inner)
    if declared is str:
        return "text"
    if declared is int:
        return "a whole number"
    if declared is None or declared is type(None):
        return "None"
    return f"of type {inspect.formatannotation(declared)}"
