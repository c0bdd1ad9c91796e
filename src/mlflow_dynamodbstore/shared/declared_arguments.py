"""Arguments become what their method declares before it is called, or are refused.

MLflow declares texts and numbers, and Python lets a client send anything. An argument that is
declared as text must be text; ids, versions, keys and values that are numbers become text, as a SQL
column makes them (``5`` becomes ``'5'``), and so do the elements of lists and dicts of texts. A
number must be whole and have 64 bits, a member of an enumeration must be one. None is left to the
method, and so are entities.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from numbers import Real
from typing import Any, NamedTuple

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE

from mlflow_dynamodbstore.shared.plain_values import LARGEST, shown, text, whole_number

MAX_RESULTS = "max_results"
PAGE_TOKEN = "page_token"  # noqa: S105  # the name of an argument
LEFT_TO_METHODS = frozenset({"username", "role_id", "user_id", "role_permission_id", "mode"})
"""What their methods answer themselves: a user or role that cannot exist does not exist."""
ONLY_TEXTS = frozenset({"item_ids", "users"})
"""The lists whose elements MLflow takes only if they are text."""
EXPERIMENT_NAMES = frozenset({("create_experiment", "name"), ("rename_experiment", "new_name")})
"""Methods and arguments that MLflow refuses in words of their own if they are not text."""
LONGEST: Mapping[str, int] = {
    "filter_string": 500_000,
    "filter_string1": 500_000,
    "filter_string2": 500_000,
    "base_filter": 500_000,
    "filters": 500_000,
    "order_by": 2_000,
    "resource_pattern": 2_000,
    "new_pattern": 2_000,
}
"""Characters of a filter, and of one clause of an order. MLflow's parser takes no more than 10,000
words, and no name in an order has a thousand characters, but it takes seconds to say so. Nor has a
name to which rights are given, which is written in several items."""
_ONE_OF = (typing.Union, types.UnionType)
_LISTS = (list, set, frozenset, Sequence, Collection, Iterable)
_DICTS = (dict, Mapping)

Settle = Callable[[Any, str], Any]
"""Makes of a value what is declared, or raises; it is given the argument's name."""


class Check(NamedTuple):
    """How one argument of a method is settled."""

    position: int
    name: str
    settle: Settle


def checks_of(method: Callable[..., Any]) -> tuple[Check, ...]:
    """The checks of a bound method's arguments."""
    try:
        declared = typing.get_type_hints(method)
    except NameError:  # a type that exists for type checkers only
        return ()
    found = []
    for position, parameter in enumerate(inspect.signature(method).parameters.values()):
        settle = _settle_for(parameter.name, declared.get(parameter.name))
        if (method.__name__, parameter.name) in EXPERIMENT_NAMES:
            settle = _experiment_name
        if settle is not None:
            by_name = parameter.kind is parameter.KEYWORD_ONLY
            found.append(Check(_NEVER if by_name else position, parameter.name, settle))
    return tuple(found)


_NEVER = 1 << 30
"""The position of an argument that is given by its name only."""


def settled(
    checks: tuple[Check, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments as they are declared."""
    count = len(args)
    for position, name, settle in checks:
        if position < count:
            value = args[position]
        elif name in kwargs:
            value = kwargs[name]
        else:
            continue
        if value is None or (type(value) is str and settle in _TEXTS and value.isascii()):
            continue
        made = settle(value, name)
        if made is value:
            continue
        if position < count:
            args = (*args[:position], made, *args[position + 1 :])
        else:
            kwargs = {**kwargs, name: made}
    return args, kwargs


def _settle_for(name: str, declared: Any) -> Settle | None:
    if name in LEFT_TO_METHODS:
        return None
    origin, inner = typing.get_origin(declared), typing.get_args(declared)
    if origin in _ONE_OF:
        others = [one for one in inner if one is not type(None)]
        if set(others) == {str, int}:
            return text
        return _settle_for(name, others[0]) if len(others) == 1 else None
    if declared is str and name == PAGE_TOKEN:
        return _token
    if declared is str:
        return _bounded_text if name in LONGEST else text if _may_be_a_number(name) else _only_text
    if declared is int:
        settle: Settle = _WHOLE.get(name, _whole)
        return settle
    if declared is bool:
        return _flag
    if declared is float:
        return _number
    if isinstance(declared, type) and issubclass(declared, Enum):
        return functools.partial(_member, declared)
    if origin in _LISTS and inner == (str,):
        return _bounded_texts if name in LONGEST else _text_list
    if origin in _DICTS and inner == (str, str):
        return _text_dict
    return None


def _may_be_a_number(name: str) -> bool:
    return name.endswith("_id") or name in ("key", "value", "version")


def _only_text(value: Any, name: str) -> str:
    if isinstance(value, str):
        return text(value, name)
    raise _refused(value, name, "a string")


def _experiment_name(value: Any, name: str) -> str:
    if isinstance(value, str):
        return text(value, name)
    raise MlflowException.invalid_parameter_value(
        f"Invalid experiment name: {shown(value, name)}. Expects a string."
    )


_TEXTS = (text, _only_text, _experiment_name)


def _token(value: Any, name: str) -> str:
    token = _only_text(value, name)
    if not token.isascii():
        message = "Invalid page token: it could not be decoded."
        raise MlflowException(message, INVALID_PARAMETER_VALUE)
    return token


def _whole(value: Any, name: str) -> Any:
    return value if isinstance(value, bool) else whole_number(value, name)


def _version(value: Any, name: str) -> int:
    """A version, which MLflow's handlers may send as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    return whole_number(value, name)


def _bounded_text(value: Any, name: str) -> str:
    given = _only_text(value, name)
    if len(given) > LONGEST[name]:
        raise MlflowException.invalid_parameter_value(
            f"Invalid value {shown(given)} in {name}: it has {len(given)} characters, and "
            f"{LONGEST[name]} is the most."
        )
    return given


def _bounded_texts(value: Any, name: str) -> Any:
    texts = _text_list(value, name)
    for one in texts:
        if one is not None:
            _bounded_text(one, name)
    return texts


def _page_size(value: Any, name: str) -> int | float:
    if isinstance(value, float) and value.is_integer():
        if value > _LARGE_PAGE:
            return value  # its method says, in MLflow's words, how many it takes
        value = int(value)
    size = whole_number(value, name)
    if size < 0:
        raise MlflowException.invalid_parameter_value(
            f"Invalid value {size} for parameter '{name}' supplied. It must not be negative."
        )
    return min(size, _MOST_RESULTS)


_LARGE_PAGE = 10**9
_MOST_RESULTS = LARGEST >> 1
"""Python counts iterations with 63 bits, and some searches look at one result more."""
_WHOLE: Mapping[str, Settle] = {
    MAX_RESULTS: _page_size,
    "version": _version,
    "scorer_version": _version,
}


def _flag(value: Any, name: str) -> Any:
    if isinstance(value, int) and value in (0, 1):
        return value
    raise _refused(value, name, "true or false")


def _number(value: Any, name: str) -> Any:
    if isinstance(value, Real):
        return value
    raise _refused(value, name, "a number")


def _member(kind: type[Enum], value: Any, name: str) -> Any:
    if isinstance(value, kind):
        return value
    try:
        kind(value)  # MLflow's REST handlers send some members by their values
    except ValueError:
        raise _refused(value, name, f"one of {', '.join(str(one.value) for one in kind)}") from None
    return value


def _text_list(value: Any, name: str) -> Any:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise _refused(value, name, "a list of texts")
    if isinstance(value, list | tuple | set | frozenset):
        if all(type(one) is str and one.isascii() for one in value):
            return value
        settle = _only_text if name in ONLY_TEXTS else text
        return type(value)(None if one is None else settle(one, name) for one in value)
    return value


def _text_dict(value: Any, name: str) -> Any:
    if not isinstance(value, Mapping):
        raise _refused(value, name, "a dict of texts")
    if all(type(one) is str and one.isascii() for pair in value.items() for one in pair):
        return value
    return {text(key, name): None if one is None else text(one, name) for key, one in value.items()}


def _refused(value: Any, name: str, what: str) -> MlflowException:
    message = f"Invalid value {shown(value, name)}: {name} must be {what}."
    return MlflowException(message, INVALID_PARAMETER_VALUE)
