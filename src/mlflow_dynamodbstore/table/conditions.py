"""Judge an item by a ``boto3.dynamodb.conditions`` object, as DynamoDB does.

The embedded engine uses it for conditions and filters. A condition becomes a chain of small
functions, made once for all conditions of the same shape.

An attribute that is absent, or of another type than the value it is compared with, makes every
comparison false, but ``<>`` true. Whole numbers are type N. Floats and bytes are both type B
(:mod:`~mlflow_dynamodbstore.table.binary`), so a float never equals a whole number.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from boto3.dynamodb import conditions as boto
from boto3.dynamodb.conditions import ConditionBase

from mlflow_dynamodbstore.table.binary import to_binary
from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.expressions import FEW_PARTS, check_condition_size
from mlflow_dynamodbstore.table.sizes import check_operand
from mlflow_dynamodbstore.table.values import Item, same_value

Predicate: TypeAlias = Callable[[Item], bool]
Judge: TypeAlias = Callable[[Item, Sequence[Any]], bool]
Operand: TypeAlias = Callable[[Item, Sequence[Any]], Any]
Shape: TypeAlias = Any
"""A nested tuple of condition types, attribute names, and the positions of constants."""

MAX_IN = 100
_PREDICATE = "_predicate"

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


def holds(condition: ConditionBase, item: Item | None) -> bool:
    """Whether a condition holds for an item; ``None`` is an absent item."""
    return predicate(condition)(item or {})


def predicate(condition: ConditionBase) -> Predicate:
    """The condition as a function of an item.

    It is kept on the condition, since one object often comes with many writes. Raises
    ``InvalidRequest`` for a condition that cannot be judged.
    """
    known: Predicate | None = getattr(condition, _PREDICATE, None)
    if known is not None:
        return known
    constants: list[Any] = []
    shape = _shape(condition, constants)
    judge = _judge_of(shape)
    if _parts(shape) + _choices(constants) > FEW_PARTS:
        check_condition_size(condition)

    def judged(item: Item) -> bool:
        return judge(item, constants)

    setattr(condition, _PREDICATE, judged)
    return judged


def is_absence(condition: ConditionBase | None, attribute: str) -> bool:
    """Whether a condition demands that an attribute is absent, and nothing else."""
    return (
        isinstance(condition, boto.AttributeNotExists) and condition._values[0].name == attribute  # noqa: SLF001 - see _shape
    )


class Template:
    """A condition that recurs with other values.

    ``make`` builds the condition from whole numbers. The function that judges items by it is built
    once, not for each new condition.
    """

    def __init__(self, make: Callable[..., ConditionBase], values: int) -> None:
        self._make = make
        positions: list[int] = []
        self._judge = _judge_of(_shape(make(*range(values)), positions))
        self._positions = tuple(positions)

    def __call__(self, *values: int) -> ConditionBase:
        """The condition with these values in it."""
        condition = self._make(*values)
        judge, constants = self._judge, [values[position] for position in self._positions]

        def judged(item: Item) -> bool:
            return judge(item, constants)

        setattr(condition, _PREDICATE, judged)
        return condition


def _shape(value: Any, constants: list[Any]) -> Shape:
    """The shape of a condition. The values it compares with are appended to ``constants``.

    Writes use a few shapes with ever new values, so the judging function is built once a shape.
    """
    kind = type(value)
    if kind in _TYPES:
        if kind is list or kind is dict:
            check_operand(value)
        constants.append(value)
        return len(constants) - 1
    if kind is boto.Attr or kind is boto.Key:
        return value.name
    if kind is boto.Size:
        return (kind, value.name)
    if kind not in _BUILDERS:
        raise InvalidRequest(f"a condition cannot contain a {kind.__name__}")
    inner = value._values  # noqa: SLF001 - the public form makes a dictionary each time
    if len(inner) == 1:
        return (kind, _shape(inner[0], constants))
    if kind is boto.In and not 1 <= len(inner[1]) <= MAX_IN:
        raise InvalidRequest(f"IN takes 1 to {MAX_IN} values, not {len(inner[1])}")
    return (kind, *[_shape(one, constants) for one in inner])


@lru_cache(maxsize=4096)
def _judge_of(shape: Shape) -> Judge:
    """The function that judges an item by a condition of some shape."""
    kind, *parts = shape if isinstance(shape, tuple) else (None,)
    build = _BUILDERS.get(kind)
    if build is None:
        name = getattr(kind, "__name__", "this")
        raise InvalidRequest(f"{name} is not a complete condition")
    return build(*parts)


@lru_cache(maxsize=4096)
def _parts(shape: Shape) -> int:
    """How many attributes, constants and negations a shape has; each step of a path counts."""
    count, left = 0, [shape]
    while left:  # not by recursion, of which Python 3.12 allows less
        part = left.pop()
        if isinstance(part, tuple):
            count += part[0] is boto.Not
            left += part[1:]
        else:
            count += len(_path(part)) if isinstance(part, str) else 1
    return count


def _choices(constants: Sequence[Any]) -> int:
    """How many values the lists among the constants have; only IN takes each by itself."""
    return sum(len(constant) for constant in constants if type(constant) is list)


def attribute_names(condition: ConditionBase) -> set[str]:
    """The top-level attributes that a condition looks at."""
    names: set[str] = set()
    for value in condition.get_expression()["values"]:
        if isinstance(value, boto.AttributeBase):
            names.add(_path(value.name)[0])
        elif isinstance(value, ConditionBase):
            names |= attribute_names(value)
    return names


def _type_of(value: Any) -> str:
    """The DynamoDB type of a value; the empty string for an absent one."""
    return _TYPES.get(type(value), "")


def _sort_value(value: Any) -> Any:
    """What orders values of one type."""
    return to_binary(value) if _type_of(value) == "B" else value


# Operands: attributes, size() of an attribute, and plain values.


def _operand(shape: Shape) -> Operand:
    if isinstance(shape, int):
        return lambda _item, constants: constants[shape]
    if isinstance(shape, str):
        return _attribute(shape)
    return _size_of(_attribute(shape[1]))


@lru_cache(maxsize=1024)
def _path(name: str) -> tuple[str, ...]:
    parts = _PATH_PART.findall(name)
    if not parts or parts[0].startswith("["):
        raise InvalidRequest(f"{name!r} is not the name of an attribute")
    return tuple(parts)


def _plain_name(shape: Shape) -> str | None:
    """The name of an operand that is a whole attribute; None for any other."""
    return shape if type(shape) is str and _path(shape) == (shape,) else None


def _attribute(name: str) -> Operand:
    first, *rest = _path(name)
    if not rest:
        return lambda item, _c: item.get(first, _ABSENT)
    steps: list[str | int] = [int(p[1:-1]) if p[0] == "[" else p for p in rest]

    def read(item: Item, _constants: Sequence[Any]) -> Any:
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
    def read(item: Item, c: Sequence[Any]) -> Any:
        value = attribute(item, c)
        kind = _type_of(value)
        if kind == "S":
            return len(value) + sum(char > "\uffff" for char in value)  # UTF-16 units
        if kind == "B":
            return len(to_binary(value))
        return len(value) if kind in ("L", "M") else _ABSENT

    return read


# One builder for each kind of condition.


def _equals(left: Any, right: Any) -> Judge:
    read, expected = _operand(left), _operand(right)

    def judge(item: Item, c: Sequence[Any]) -> bool:
        found = read(item, c)
        return found is not _ABSENT and same_value(found, expected(item, c))

    return judge


def _not_equals(left: Any, right: Any) -> Judge:
    equal = _equals(left, right)
    return lambda item, c: not equal(item, c)


def _ordering(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Judge]:
    def compared(a: Any, b: Any) -> bool:
        kind = _type_of(a)
        if kind not in _ORDERED or kind != _type_of(b):
            return False
        return compare(_sort_value(a), _sort_value(b))

    def build(left: Any, right: Any) -> Judge:
        name = _plain_name(left)
        if name is not None and type(right) is int:
            return build_plain(name, right)
        read_left, read_right = _operand(left), _operand(right)
        return lambda item, c: compared(read_left(item, c), read_right(item, c))

    def build_plain(name: str, constant: int) -> Judge:
        """An attribute and a constant: the most common comparison, mostly of whole numbers."""

        def judge(item: Item, c: Sequence[Any]) -> bool:
            a, b = item.get(name), c[constant]
            return compare(a, b) if type(a) is int is type(b) else compared(a, b)

        return judge

    return build


_at_least = _ordering(operator.ge)
_at_most = _ordering(operator.le)


def _between(value: Any, low: Any, high: Any) -> Judge:
    above, below = _at_least(value, low), _at_most(value, high)
    return lambda item, c: above(item, c) and below(item, c)


def _is_in(value: Any, choices: Any) -> Judge:
    read, options = _operand(value), _operand(choices)

    def judge(item: Item, c: Sequence[Any]) -> bool:
        found = read(item, c)
        return any(same_value(found, option) for option in options(item, c))

    return judge


def _begins_with(value: Any, prefix: Any) -> Judge:
    read, read_prefix = _operand(value), _operand(prefix)

    def judge(item: Item, c: Sequence[Any]) -> bool:
        found, start = read(item, c), read_prefix(item, c)
        kind = _type_of(found)
        if kind not in ("S", "B") or kind != _type_of(start):
            return False
        return bool(_sort_value(found).startswith(_sort_value(start)))

    return judge


def _contains(value: Any, part: Any) -> Judge:
    read, read_part = _operand(value), _operand(part)

    def judge(item: Item, c: Sequence[Any]) -> bool:
        found, wanted = read(item, c), read_part(item, c)
        kind = _type_of(found)
        if kind == "L":
            return any(same_value(element, wanted) for element in found)
        if kind not in ("S", "B") or kind != _type_of(wanted):
            return False
        return _sort_value(wanted) in _sort_value(found)

    return judge


def _attribute_type(attribute: Any, kind: Any) -> Judge:
    read = _operand(attribute)
    wanted = _operand(kind)
    return lambda item, c: _type_of(read(item, c)) == wanted(item, c)


def _exists(attribute: Any) -> Judge:
    name = _plain_name(attribute)
    if name is not None:
        return lambda item, _c: name in item
    read = _operand(attribute)
    return lambda item, c: read(item, c) is not _ABSENT


def _not_exists(attribute: Any) -> Judge:
    name = _plain_name(attribute)
    if name is not None:
        return lambda item, _c: name not in item
    exists = _exists(attribute)
    return lambda item, c: not exists(item, c)


def _and(left: Any, right: Any) -> Judge:
    first, second = _judge_of(left), _judge_of(right)
    return lambda item, c: first(item, c) and second(item, c)


def _or(left: Any, right: Any) -> Judge:
    first, second = _judge_of(left), _judge_of(right)
    return lambda item, c: first(item, c) or second(item, c)


def _not(inner: Any) -> Judge:
    judge = _judge_of(inner)
    return lambda item, c: not judge(item, c)


_BUILDERS: Mapping[Any, Callable[..., Judge]] = {
    boto.And: _and,
    boto.Or: _or,
    boto.Not: _not,
    boto.Equals: _equals,
    boto.NotEquals: _not_equals,
    boto.LessThan: _ordering(operator.lt),
    boto.LessThanEquals: _at_most,
    boto.GreaterThan: _ordering(operator.gt),
    boto.GreaterThanEquals: _at_least,
    boto.Between: _between,
    boto.BeginsWith: _begins_with,
    boto.Contains: _contains,
    boto.In: _is_in,
    boto.AttributeExists: _exists,
    boto.AttributeNotExists: _not_exists,
    boto.AttributeType: _attribute_type,
}
