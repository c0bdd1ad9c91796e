"""Facts about spans, kept in their trace's own item.

They suffice for filters by name, type and status, for metrics of spans, and to add up token usage
over several batches. None of these has to read the spans.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from mlflow.entities import Span
from mlflow.tracing.constant import SpanAttributeKey
from mlflow.tracing.utils import (
    SpanAggregationNode,
    aggregate_cost_from_span_nodes,
    aggregate_usage_from_span_nodes,
    try_json_loads,
)

from mlflow_dynamodbstore.mlflow_compat.trace_analytics import (
    COST_COLUMN_BY_KEY,
    TOKEN_COLUMN_BY_KEY,
    bounded_model_dimension,
    finite_float_or_none,
    token_count_or_none,
)
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key

FACTS = "facts"
INLINE_FACTS = 16 * 1024
"""Bytes up to which facts stay in the trace's own item, which every search reads."""


class SpanFact(NamedTuple):
    """One span in short. ``usage`` and ``cost`` are JSON, whose numbers have no bounds."""

    span_id: str
    parent_id: str | None
    name: str
    type: str | None
    status: str
    start_ns: int
    end_ns: int | None = None
    model: str | None = None
    provider: str | None = None
    usage: str | None = None
    cost: str | None = None

    @property
    def latency_ms(self) -> int | None:
        return None if self.end_ns is None else (self.end_ns - self.start_ns) // 1_000_000

    def cost_of(self, key: str) -> float | None:
        """One part of the cost of the span."""
        parsed = _parsed(self.cost)
        return None if parsed is None else finite_float_or_none(parsed.get(key))


Facts = dict[str, SpanFact]


def fact_of(span: Span, attributes: Mapping[str, Any]) -> SpanFact:
    """The fact about a span; ``attributes`` are those stored."""
    fact = SpanFact(
        span_id=span.span_id,
        parent_id=span.parent_id,
        name=span.name,
        type=span.span_type,
        status=span.status.status_code.value,
        start_ns=span.start_time_ns,
        end_ns=span.end_time_ns,
    )
    return with_attributes(fact, attributes)


def with_attributes(fact: SpanFact, attributes: Mapping[str, Any]) -> SpanFact:
    """A fact with model, usage and cost from the stored attributes of its span."""
    model, provider = (
        bounded_model_dimension(plain_text(attributes.get(name)))
        for name in (SpanAttributeKey.MODEL, SpanAttributeKey.MODEL_PROVIDER)
    )
    return fact._replace(
        model=model,
        provider=provider,
        usage=_json_of(attributes.get(SpanAttributeKey.CHAT_USAGE)),
        cost=_json_of(attributes.get(SpanAttributeKey.LLM_COST)),
    )


def plain_text(value: Any) -> Any:
    """The text that a JSON string encodes; any other value unchanged."""
    if value is None:
        return None  # most spans have neither model nor session: an exception for each takes long
    try:
        parsed = json.loads(value)
    except (TypeError, ValueError):
        return value
    return parsed if isinstance(parsed, str) else value


def load(table: Table, item: Item) -> Facts:
    """The facts of a trace."""
    return unpacked(large_values.load(table, item, FACTS))


def unpacked(rows: Iterable[Iterable[Any]] | None) -> Facts:
    """Facts from their stored rows."""
    return {fact.span_id: fact for fact in (SpanFact(*row) for row in rows or ())}


def stored(head: Key, facts: Facts, ttl: int | None) -> large_values.Stored:
    """Facts prepared for a trace's own item."""
    rows = [_shortened(fact) for fact in facts.values()]
    return large_values.store(head, FACTS, rows, ttl=ttl, inline=INLINE_FACTS)


def token_usage(facts: Facts) -> dict[str, int]:
    """Token counts of a whole trace, by column; what a parent span sums up counts once."""
    return _totals(
        facts, lambda fact: fact.usage, aggregate_usage_from_span_nodes, TOKEN_COLUMN_BY_KEY,
        token_count_or_none,
    )  # fmt: skip


def cost(facts: Facts) -> dict[str, float]:
    """The cost of a whole trace, by column."""
    return _totals(
        facts, lambda fact: fact.cost, aggregate_cost_from_span_nodes, COST_COLUMN_BY_KEY,
        finite_float_or_none,
    )  # fmt: skip


def _totals(
    facts: Facts,
    part: Callable[[SpanFact], str | None],
    aggregate: Callable[[list[SpanAggregationNode]], dict[str, Any] | None],
    columns: Mapping[str, str],
    number: Callable[[Any], Any],
) -> dict[str, Any]:
    nodes = [
        SpanAggregationNode(span_id=f.span_id, parent_id=f.parent_id, data=_parsed(part(f)))
        for f in facts.values()
    ]
    if all(node.data is None for node in nodes):
        return {}
    total = aggregate(nodes) or {}
    found = {column: number(total.get(key)) for key, column in columns.items()}
    return {column: value for column, value in found.items() if value is not None}


def _shortened(fact: SpanFact) -> tuple[Any, ...]:
    """A fact without the empty fields at its end."""
    last = max(n for n, value in enumerate(fact) if value is not None)
    return tuple(fact)[: last + 1]


def _json_of(value: Any) -> str | None:
    """Usage or cost as JSON, or None when it is not a map."""
    parsed = try_json_loads(value) if isinstance(value, str) else value
    return json.dumps(parsed) if isinstance(parsed, dict) and parsed else None


def _parsed(text: str | None) -> dict[str, Any] | None:
    return None if text is None else json.loads(text)
