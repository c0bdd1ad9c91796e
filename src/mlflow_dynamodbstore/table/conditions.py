"""Judge a ``boto3.dynamodb.conditions`` object on an item, as DynamoDB would.

The embedded engine uses it for conditions and filters. A filter meets thousands of items, so it
becomes a chain of small functions once (:func:`predicate`). The condition of a write meets one
item, so it is walked as it stands, and only as far as needed (:func:`holds`).

The rules: an attribute that is absent, or of another type than the value it is compared with,
makes every comparison false except ``<>``, which it makes true. Whole numbers are type N; floats
and bytes are both type B (see :func:`wire_bytes`), so they never meet a whole number.
"""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from boto3.dynamodb import conditions as boto
from boto3.dynamodb.conditions import ConditionBase

from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.values import Item

Predicate: TypeAlias = Callable[[Item], bool]
Operand: TypeAlias = Callable[[Item], Any]

MAX_IN = 100
_CHECKED = "_is_checked"

_ABSENT: Any = object()
_TYPES = {
    str: "S",
    int: "N",
    float: "B",
    bytes: "B",
    bool: "BOOL",
    type(None): "NULL",
    list: "L",
    dict: "M",
}
_ORDERED = frozenset({"S", "N", "B"})
_PATH_PART = re.compile(r"[^.\[\]]+|\[\d+\]")
_SIGN = 1 << 63
_ALL_BITS = (1 << 64) - 1


def holds(condition: ConditionBase, item: Item | None) -> bool:
    """Whether a condition is true of an item; ``None`` stands for an item that is absent."""
    walk = _WALKS.get(type(condition))
    if walk is None:
        return predicate(condition)(item or {})
    return walk(condition._values, item or {})  # noqa: SLF001 - its public form is a new dict


def check(condition: ConditionBase) -> None:
    """Raise ``InvalidRequest`` for a condition that no item can be judged by.

    A condition remembers that it was checked: the same objects come with every write.
    """
    if hasattr(condition, _CHECKED):
        return
    if type(condition) not in _BUILDERS:
        raise InvalidRequest(f"{type(condition).__name__} is not a complete condition")
    if type(condition) is boto.In:
        predicate(condition)
        return
    setattr(condition, _CHECKED, True)
    for value in condition._values:  # noqa: SLF001 - as above
        if isinstance(value, (boto.AttributeBase, boto.Size)):
            _path(value.name)
        elif isinstance(value, ConditionBase):
            check(value)
        elif not _type_of(value):
            raise InvalidRequest(f"a condition cannot compare with a {type(value).__name__}")


def predicate(condition: ConditionBase) -> Predicate:
    """The condition as a function of an item, to be called many times."""
    build = _BUILDERS.get(type(condition))
    if build is None:
        raise InvalidRequest(f"{type(condition).__name__} is not a complete condition")
    return build(*condition.get_expression()["values"])


def attribute_names(condition: ConditionBase) -> set[str]:
    """The top-level attributes that a condition looks at."""
    names: set[str] = set()
    for value in condition.get_expression()["values"]:
        if isinstance(value, boto.AttributeBase):
            names.add(_path(value.name)[0])
        elif isinstance(value, ConditionBase):
            names |= attribute_names(value)
    return names


def wire_bytes(value: float | bytes) -> bytes:
    """What a float or bytes value is on DynamoDB: a Binary whose byte order is its order.

    A float is 0x01 and its eight bytes, with the sign bit flipped for positives and all bits
    flipped for negatives; bytes are 0x00 and themselves.
    """
    if isinstance(value, bytes):
        return b"\x00" + value
    bits: int = struct.unpack(">Q", struct.pack(">d", value))[0]
    bits ^= _ALL_BITS if bits & _SIGN else _SIGN
    return b"\x01" + bits.to_bytes(8, "big")


def _type_of(value: Any) -> str:
    """The DynamoDB type of a value; the empty string for an absent one."""
    return _TYPES.get(type(value), "")


def _same(left: Any, right: Any) -> bool:
    kind = _type_of(left)
    if kind != _type_of(right) or not kind:
        return False
    if kind == "B":
        return wire_bytes(left) == wire_bytes(right)
    if kind == "L":
        return len(left) == len(right) and all(map(_same, left, right))
    if kind == "M":
        return left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
    return bool(left == right)


def _rank(value: Any) -> Any:
    """What orders values of one type."""
    return wire_bytes(value) if _type_of(value) == "B" else value


# Operands: attributes, size() of an attribute, and plain values.


def _operand(value: Any) -> Operand:
    if isinstance(value, boto.Size):
        return _size_of(_attribute(value.name))
    if isinstance(value, boto.AttributeBase):
        return _attribute(value.name)
    if not _type_of(value):
        raise InvalidRequest(f"a condition cannot compare with a {type(value).__name__}")
    return lambda _item: value


@lru_cache(maxsize=1024)
def _path(name: str) -> tuple[str, ...]:
    parts = _PATH_PART.findall(name)
    if not parts or parts[0].startswith("["):
        raise InvalidRequest(f"{name!r} is not the name of an attribute")
    return tuple(parts)


def _attribute(name: str) -> Operand:
    first, *rest = _path(name)
    if not rest:
        return lambda item: item.get(first, _ABSENT)
    steps: list[str | int] = [int(p[1:-1]) if p[0] == "[" else p for p in rest]

    def read(item: Item) -> Any:
        value: Any = item.get(first, _ABSENT)
        for step in steps:
            value = _inside(value, step)
        return value

    return read


def _inside(value: Any, step: str | int) -> Any:
    if isinstance(step, str):
        return value.get(step, _ABSENT) if isinstance(value, dict) else _ABSENT
    return value[step] if isinstance(value, list) and step < len(value) else _ABSENT


def _size_of(attribute: Operand) -> Operand:
    def read(item: Item) -> Any:
        value = attribute(item)
        kind = _type_of(value)
        if kind == "S":
            return len(value) + sum(char > "\uffff" for char in value)  # UTF-16 units
        if kind == "B":
            return len(wire_bytes(value))
        return len(value) if kind in ("L", "M") else _ABSENT

    return read


# One builder for each kind of condition.


def _equals(left: Any, right: Any) -> Predicate:
    read, expected = _operand(left), _operand(right)
    if type(right) is str:  # the common case: only a string equals a string
        return lambda item: bool(read(item) == right)
    return lambda item: _same(read(item), expected(item))


def _not_equals(left: Any, right: Any) -> Predicate:
    equal = _equals(left, right)
    return lambda item: not equal(item)


def _ordering(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Predicate]:
    def build(left: Any, right: Any) -> Predicate:
        read_left, read_right = _operand(left), _operand(right)
        constant = None if isinstance(right, boto.AttributeBase) else _rank(right)

        def judge(item: Item) -> bool:
            a, b = read_left(item), read_right(item)
            kind = _type_of(a)
            if kind not in _ORDERED or kind != _type_of(b):
                return False
            return compare(_rank(a), _rank(b) if constant is None else constant)

        return judge

    return build


_at_least = _ordering(lambda a, b: bool(a >= b))
_at_most = _ordering(lambda a, b: bool(a <= b))


def _between(value: Any, low: Any, high: Any) -> Predicate:
    above, below = _at_least(value, low), _at_most(value, high)
    return lambda item: above(item) and below(item)


def _is_in(value: Any, choices: Any) -> Predicate:
    if not 1 <= len(choices) <= MAX_IN:
        raise InvalidRequest(f"IN takes 1 to {MAX_IN} values, not {len(choices)}")
    read, options = _operand(value), [_operand(choice) for choice in choices]

    def judge(item: Item) -> bool:
        found = read(item)
        return any(_same(found, option(item)) for option in options)

    return judge


def _begins_with(value: Any, prefix: Any) -> Predicate:
    read, read_prefix = _operand(value), _operand(prefix)

    def judge(item: Item) -> bool:
        found, start = read(item), read_prefix(item)
        kind = _type_of(found)
        if kind not in ("S", "B") or kind != _type_of(start):
            return False
        return bool(_rank(found).startswith(_rank(start)))

    return judge


def _contains(value: Any, part: Any) -> Predicate:
    read, read_part = _operand(value), _operand(part)

    def judge(item: Item) -> bool:
        found, wanted = read(item), read_part(item)
        kind = _type_of(found)
        if kind == "L":
            return any(_same(element, wanted) for element in found)
        if kind not in ("S", "B") or kind != _type_of(wanted):
            return False
        return _rank(wanted) in _rank(found)

    return judge


def _attribute_type(attribute: Any, kind: Any) -> Predicate:
    read = _operand(attribute)
    return lambda item: _type_of(read(item)) == kind


def _exists(attribute: Any) -> Predicate:
    read = _operand(attribute)
    return lambda item: read(item) is not _ABSENT


def _not_exists(attribute: Any) -> Predicate:
    read = _operand(attribute)
    return lambda item: read(item) is _ABSENT


def _and(left: Any, right: Any) -> Predicate:
    first, second = predicate(left), predicate(right)
    return lambda item: first(item) and second(item)


def _or(left: Any, right: Any) -> Predicate:
    first, second = predicate(left), predicate(right)
    return lambda item: first(item) or second(item)


def _not(inner: Any) -> Predicate:
    judge = predicate(inner)
    return lambda item: not judge(item)


_BUILDERS: Mapping[type[ConditionBase], Callable[..., Predicate]] = {
    boto.And: _and,
    boto.Or: _or,
    boto.Not: _not,
    boto.Equals: _equals,
    boto.NotEquals: _not_equals,
    boto.LessThan: _ordering(lambda a, b: bool(a < b)),
    boto.LessThanEquals: _at_most,
    boto.GreaterThan: _ordering(lambda a, b: bool(a > b)),
    boto.GreaterThanEquals: _at_least,
    boto.Between: _between,
    boto.BeginsWith: _begins_with,
    boto.Contains: _contains,
    boto.In: _is_in,
    boto.AttributeExists: _exists,
    boto.AttributeNotExists: _not_exists,
    boto.AttributeType: _attribute_type,
}


# The same for one item, for the kinds that writes use most.


def _read(operand: Any, item: Item) -> Any:
    if type(operand) is boto.Attr and len(_path(operand.name)) == 1:
        return item.get(operand.name, _ABSENT)
    if isinstance(operand, (boto.AttributeBase, boto.Size)):
        return _operand(operand)(item)
    return operand


def _walk_ordering(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Item], bool]:
    def walk(values: Any, item: Item) -> bool:
        left, right = _read(values[0], item), _read(values[1], item)
        kind = _type_of(left)
        if kind not in _ORDERED or kind != _type_of(right):
            return False
        return compare(_rank(left), _rank(right))

    return walk


_WALKS: Mapping[type[ConditionBase], Callable[[Any, Item], bool]] = {
    boto.And: lambda values, item: holds(values[0], item) and holds(values[1], item),
    boto.Or: lambda values, item: holds(values[0], item) or holds(values[1], item),
    boto.Not: lambda values, item: not holds(values[0], item),
    boto.Equals: lambda values, item: _same(_read(values[0], item), _read(values[1], item)),
    boto.NotEquals: lambda values, item: not _same(_read(values[0], item), _read(values[1], item)),
    boto.LessThan: _walk_ordering(operator.lt),
    boto.LessThanEquals: _walk_ordering(operator.le),
    boto.GreaterThan: _walk_ordering(operator.gt),
    boto.GreaterThanEquals: _walk_ordering(operator.ge),
    boto.AttributeExists: lambda values, item: _read(values[0], item) is not _ABSENT,
    boto.AttributeNotExists: lambda values, item: _read(values[0], item) is _ABSENT,
}
