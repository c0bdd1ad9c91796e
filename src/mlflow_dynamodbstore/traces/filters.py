"""MLflow's filter language for traces: parsed by MLflow, tested on a :class:`TraceRecord`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from mlflow.tracing.constant import TraceMetadataKey, TraceTagKey
from mlflow.utils.search_utils import SearchTraceUtils

from mlflow_dynamodbstore.mlflow_compat.search import trim_backticks
from mlflow_dynamodbstore.mlflow_compat.trace_analytics import (
    TRACE_ANALYTICS_COLUMNS_BY_METADATA_KEY,
)
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.shared.search.filters import ATTRIBUTE, TAG, Comparison, all_hold
from mlflow_dynamodbstore.traces import items
from mlflow_dynamodbstore.traces.assessment_records import ISSUE, AssessmentRecord
from mlflow_dynamodbstore.traces.paths import TIME
from mlflow_dynamodbstore.traces.records import METADATA, TraceRecord

TraceTest = Callable[[TraceRecord], bool]

CLOCK_TOLERANCE_MS = 10_000
"""How much earlier than the lower bound of its trace's time a matching span may begin."""


class SpanView(NamedTuple):
    """What a filter tests of a span; ``content`` is empty unless a filter needs it."""

    name: str
    type: str | None
    status: str
    start_ns: int
    content: str


SpanTest = Callable[[SpanView], bool]


@dataclass(frozen=True)
class AssessmentTerm:
    """A term about assessments of one name."""

    type: str
    name: str
    comparator: str
    value: Any = None

    @property
    def is_absence(self) -> bool:
        return self.comparator == "IS NULL"

    def matcher(self) -> Callable[[AssessmentRecord], bool]:
        """A function that says whether an assessment matches the term."""
        holds = self._holds()
        return lambda one: (
            one.valid and one.type == self.type and one.name == self.name and holds(one)
        )

    def _holds(self) -> Callable[[AssessmentRecord], bool]:
        if self.comparator.endswith("NULL"):
            return lambda _: True
        compare = Comparison(self.type, self.name, self.comparator, self.value).holds()
        if self.comparator in SearchTraceUtils.NUMERIC_ASSESSMENT_COMPARATORS:
            return lambda one: one.comparable_number is not None and compare(one.comparable_number)
        if self.comparator in ("=", "!="):
            equal, wanted = self.comparator == "=", (self.value, json.dumps(self.value))
            return lambda one: (one.value in wanted) == equal
        return lambda one: compare(one.value)


@dataclass(frozen=True)
class TraceFilter:
    """A filter string, parsed."""

    comparisons: tuple[Comparison, ...] = ()
    tests: tuple[TraceTest, ...] = ()
    spans: tuple[SpanTest, ...] = ()
    spans_since_ns: int | None = None
    needs_content: bool = False
    assessments: tuple[AssessmentTerm, ...] = ()

    @classmethod
    def in_period(
        cls,
        since: int | None = None,
        until: int | None = None,
        tests: tuple[TraceTest, ...] = (),
    ) -> TraceFilter:
        """The traces that began in a period, both ends included; None is open."""
        bounds = ((">=", since), ("<=", until))
        comparisons = (Comparison(ATTRIBUTE, TIME, c, t) for c, t in bounds if t is not None)
        return cls(tuple(comparisons), tests)

    @property
    def is_period(self) -> bool:
        """Whether it asks for nothing but a period of time, or for nothing at all."""
        others = any((c.kind, c.name) != (ATTRIBUTE, TIME) for c in self.comparisons)
        return not (others or self.tests or self.spans or self.assessments)

    def cheap_test(self, sessions: Mapping[AssessmentTerm, frozenset[str]]) -> TraceTest:
        """Tests all that the trace's own item can decide.

        ``sessions`` are, for each term, those that have a matching assessment as a whole.
        """
        plain = all_hold(self.comparisons)
        tests = [
            *self.tests,
            *(_assessed(t, sessions.get(t, frozenset())) for t in self.assessments),
        ]
        if self.spans and not self.needs_content:
            tests.append(self.span_test())
        return lambda trace: plain(trace) and all(test(trace) for test in tests)

    def span_test(self) -> TraceTest:
        """Tests whether a single span satisfies all terms about spans."""
        tests, since = self.spans, self.spans_since_ns
        view = _with_content if self.needs_content else _without_content

        def holds(trace: TraceRecord) -> bool:
            return any(
                (since is None or span.start_ns >= since) and all(test(span) for test in tests)
                for span in view(trace)
            )

        return holds


def _assessed(term: AssessmentTerm, sessions: frozenset[str]) -> TraceTest:
    found = term.matcher()

    def holds(trace: TraceRecord) -> bool:
        covered = trace.session in sessions or any(found(one) for one in trace.assessments)
        return covered != term.is_absence

    return holds


def _without_content(trace: TraceRecord) -> Iterable[SpanView]:
    for fact in trace.facts.values():
        yield SpanView(fact.name, fact.type, fact.status, fact.start_ns, "")


def _with_content(trace: TraceRecord) -> Iterable[SpanView]:
    facts = trace.facts
    for span in trace.spans:
        fact = facts.get(span.span_id)
        if fact is not None:
            yield SpanView(fact.name, fact.type, fact.status, fact.start_ns, span.content)


# --- parsing --------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def parse_filter(filter_string: str | None) -> TraceFilter:
    """A filter string, parsed by MLflow's own parser, which raises its errors."""
    builder = _Builder()
    for term in SearchTraceUtils.parse_search_filter_for_search_traces(filter_string):
        builder.add(term["type"], term["key"], term["comparator"].upper(), term.get("value"))
    return builder.built()


class _Builder:
    """Collects the terms of one filter."""

    def __init__(self) -> None:
        self.comparisons: list[Comparison] = []
        self.tests: list[TraceTest] = []
        self.spans: list[SpanTest] = []
        self.assessments: list[AssessmentTerm] = []
        self.needs_content = False
        self.since_ms: float | None = None

    def built(self) -> TraceFilter:
        since = None
        if self.since_ms is not None:
            since = int((self.since_ms - CLOCK_TOLERANCE_MS) * 1_000_000)
        return TraceFilter(
            comparisons=tuple(self.comparisons),
            tests=tuple(self.tests),
            spans=tuple(self.spans),
            spans_since_ns=since,
            needs_content=self.needs_content,
            assessments=tuple(self.assessments),
        )

    def add(self, kind: str, name: str, comparator: str, value: Any) -> None:
        """Add a term; MLflow's checks raise when it is invalid."""
        utils = SearchTraceUtils
        if utils.is_issue(kind, name, comparator):
            self.tests.append(_about_issue(value))
        elif utils.is_attribute(kind, name, comparator):
            self._attribute(name, comparator, value)
        elif utils.is_tag(kind, comparator):
            self._tag(name, comparator, value)
        elif utils.is_request_metadata(kind, comparator):
            self._metadata(name, comparator, value)
        elif utils.is_span(kind, name, comparator):
            self._span(name, comparator, value)
        elif utils.is_assessment(kind, name, comparator):
            self.assessments.append(AssessmentTerm(kind, name, comparator, value))
        else:
            raise invalid(f"Invalid search expression type '{kind}'")

    def _attribute(self, name: str, comparator: str, value: Any) -> None:
        if name == TIME and comparator in (">", ">="):
            self.since_ms = value if self.since_ms is None else max(self.since_ms, value)
        self.comparisons.append(Comparison(ATTRIBUTE, name, comparator, value))

    def _tag(self, name: str, comparator: str, value: Any) -> None:
        if name == TraceTagKey.LINKED_PROMPTS:
            self.tests.append(_with_prompt(comparator, value))
        else:
            self.comparisons.append(Comparison(TAG, name, comparator, value))

    def _metadata(self, name: str, comparator: str, value: Any) -> None:
        if name in TRACE_ANALYTICS_COLUMNS_BY_METADATA_KEY:
            _check_usage_comparator(name, comparator)
        if name == TraceMetadataKey.SOURCE_RUN and comparator == "=":
            self.tests.append(lambda trace: trace.is_linked_to(value))
        else:
            self.comparisons.append(Comparison(METADATA, name, comparator, value))

    def _span(self, name: str, comparator: str, value: Any) -> None:
        if name.startswith("attributes."):
            attribute = trim_backticks(name[len("attributes.") :])
            value = _attribute_pattern(attribute, comparator, value)
            name = "content"
        self.needs_content = self.needs_content or name == "content"
        holds = Comparison("span", name, comparator, value).holds()
        self.spans.append(_on_field(name, holds))


def _on_field(name: str, holds: Callable[[Any], bool]) -> SpanTest:
    def test(span: SpanView) -> bool:
        value = getattr(span, name)
        return value is not None and holds(value)

    return test


def _attribute_pattern(attribute: str, comparator: str, value: str) -> str:
    """A pattern for the JSON of a span, in which values are JSON within JSON."""
    if comparator != "RLIKE":
        return f'%"{attribute}"{value}%'
    begins, ends = value.startswith("^"), value.endswith("$")
    body = value[1 if begins else 0 : -1 if ends else None]
    quote = '\\\\"'
    return f'"{attribute}": "{quote}{"" if begins else ".*"}{body}{quote if ends else ""}'


def _about_issue(issue_id: str) -> TraceTest:
    return lambda trace: any(
        one.type == ISSUE and one.name == issue_id for one in trace.assessments
    )


def _with_prompt(comparator: str, value: str) -> TraceTest:
    if comparator != "=":
        raise invalid(
            f"Invalid comparator '{comparator}' for prompts filter. "
            "Only '=' is supported with format: prompt = \"name/version\""
        )
    if value.count("/") != 1:
        raise invalid(
            f"Invalid prompts filter value '{value}'. Expected format: prompt = \"name/version\""
        )
    return lambda trace: items.PROMPT_LINK + value in trace.item


def _check_usage_comparator(name: str, comparator: str) -> None:
    if comparator not in ("=", "!=", "IS NULL", "IS NOT NULL"):
        raise invalid(
            f"Comparator '{comparator}' is not supported for reserved metadata '{name}'. "
            "Only '=', '!=', 'IS NULL', and 'IS NOT NULL' are supported."
        )
