"""Conditions, updates and projections as DynamoDB's expressions.

One :class:`Expressions` belongs to one request: it collects the names and values of the request's
expressions, so that each name is sent once. The embedded engine sends none, but refuses those that
DynamoDB would refuse for their length.
"""

from __future__ import annotations

import re
from typing import Any

from boto3.dynamodb import conditions as boto
from boto3.dynamodb.conditions import ConditionBase

from mlflow_dynamodbstore.table.contract import MAX_SK_BYTES
from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.update import Update

MAX_EXPRESSION_BYTES = 4096
MAX_OPERATORS = 300
FEW_PARTS = 100
"""An expression of so few attributes and values is not too long."""
LAST_CHARACTER = "\U0010ffff"

_PATH_PART = re.compile(r"[^.\[\]]+|\[\d+\]")
_COMPLETE = (
    *(boto.Equals, boto.NotEquals, boto.LessThan, boto.LessThanEquals),
    *(boto.GreaterThan, boto.GreaterThanEquals, boto.Between, boto.BeginsWith, boto.Contains),
    *(boto.In, boto.AttributeExists, boto.AttributeNotExists, boto.AttributeType),
    *(boto.And, boto.Or, boto.Not),
)
_KEY_COMPARISONS = (
    *(boto.Equals, boto.LessThan, boto.LessThanEquals, boto.GreaterThan, boto.GreaterThanEquals),
    *(boto.Between, boto.BeginsWith),
)


class Expressions:
    """The expressions of one request."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}  # the placeholder of each name
        self.values: dict[str, Any] = {}  # by placeholder

    def condition(self, condition: ConditionBase) -> str:
        """A condition or filter. Raises ``InvalidRequest`` for an incomplete one."""
        if not isinstance(condition, _COMPLETE):
            raise InvalidRequest(f"{type(condition).__name__} is not a complete condition")
        return self._part(condition)

    def key_condition(self, pk: str, partition: str, sk: str, where: ConditionBase | None) -> str:
        """The partition and range that a query reads."""
        expression = f"{self.name(pk)} = {self.value(partition)}"
        if where is None:
            return expression
        if not isinstance(where, _KEY_COMPARISONS):
            raise InvalidRequest(f"{type(where).__name__} cannot be a condition on a sort key")
        attribute, *bounds = where.get_expression()["values"]
        if not isinstance(attribute, boto.AttributeBase) or attribute.name != sk:
            raise InvalidRequest(f"the range of this query must be a condition on Key({sk!r})")
        if not all(isinstance(bound, str) for bound in bounds):
            raise InvalidRequest(
                f"the sort key {sk!r} is a string and can be compared only with strings"
            )
        if not isinstance(where, boto.BeginsWith):
            return f"{expression} AND {self._part(where)}"
        return expression + self._prefix(sk, bounds[0])

    def update(self, update: Update) -> str:
        """An update expression; empty when the update changes nothing."""
        sets = [f"{self.name(n)} = {self.value(v)}" for n, v in update.set.items()]
        sets += [
            f"{self.name(n)} = if_not_exists({self.name(n)}, {self.value(v)})"
            for n, v in update.if_absent.items()
        ]
        adds = [f"{self.name(n)} {self.value(amount)}" for n, amount in update.add.items()]
        removes = [self.name(n) for n in update.remove]
        clauses = (("SET", sets), ("REMOVE", removes), ("ADD", adds))
        return " ".join(f"{verb} {', '.join(parts)}" for verb, parts in clauses if parts)

    def projection(self, names: tuple[str, ...]) -> str:
        """The attributes that the answer should contain."""
        return ", ".join(self.name(name) for name in names)

    def name(self, name: str) -> str:
        """The placeholder of one attribute name, which may contain dots."""
        return self.names.setdefault(name, f"#n{len(self.names)}")

    def value(self, value: Any) -> str:
        """The placeholder of one value."""
        placeholder = f":v{len(self.values)}"
        self.values[placeholder] = value
        return placeholder

    def _prefix(self, sk: str, prefix: str) -> str:
        """``begins_with`` as a range: the same items and units, but emulators read less."""
        if not prefix:
            return ""
        name = self.name(sk)
        if len(prefix.encode()) + len(LAST_CHARACTER.encode()) > MAX_SK_BYTES:
            return f" AND begins_with({name}, {self.value(prefix)})"
        low, high = self.value(prefix), self.value(prefix + LAST_CHARACTER)
        return f" AND {name} BETWEEN {low} AND {high}"

    def _part(self, part: Any) -> str:
        """A part of a condition: a condition, an attribute or a value."""
        if isinstance(part, ConditionBase):
            expression = part.get_expression()
            values = expression["values"]
            parts = map(self._choices if part.has_grouped_values else self._part, values)
            text: str = expression["format"].format(*parts, operator=expression["operator"])
            return text
        if isinstance(part, boto.AttributeBase):
            return self._path(part.name)
        return self.value(part)

    def _choices(self, part: Any) -> str:
        if isinstance(part, (boto.AttributeBase, ConditionBase)):
            return self._part(part)
        if not part:
            raise InvalidRequest("IN takes at least one value")
        return f"({', '.join(map(self._part, part))})"

    def _path(self, path: str) -> str:
        """A path such as ``a.b[0]``, each name in it by its placeholder."""
        first, *rest = _PATH_PART.findall(path) or [""]
        if not first or first[0] == "[":
            raise InvalidRequest(f"{path!r} is not the name of an attribute")
        steps = (part if part[0] == "[" else f".{self.name(part)}" for part in rest)
        return self.name(first) + "".join(steps)


def check_condition_size(condition: ConditionBase) -> None:
    """Raise ``InvalidRequest`` for a condition that is too long for DynamoDB."""
    _check_size(Expressions().condition(condition))
    operators = _operators(condition)
    if operators > MAX_OPERATORS:
        raise InvalidRequest(f"{operators} operators in a condition are more than {MAX_OPERATORS}")


def check_update_size(update: Update) -> None:
    """Raise ``InvalidRequest`` for an update that is too long for DynamoDB."""
    parts = len(update.set) + len(update.if_absent) + len(update.add) + len(update.remove)
    if parts > FEW_PARTS:
        _check_size(Expressions().update(update))


def _operators(part: Any) -> int:
    if not isinstance(part, ConditionBase):
        return 0
    return 1 + sum(map(_operators, part.get_expression()["values"]))


def _check_size(expression: str) -> None:
    size = len(expression)  # placeholders are ASCII
    if size > MAX_EXPRESSION_BYTES:
        raise InvalidRequest(f"an expression of {size} bytes is longer than {MAX_EXPRESSION_BYTES}")
