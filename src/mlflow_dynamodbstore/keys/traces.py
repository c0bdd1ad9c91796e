"""Keys of traces, which lie in their experiment's partition."""

from __future__ import annotations

from mlflow_dynamodbstore.keys.base import ID, KEY, Range, children, join, key_text, pieces_of
from mlflow_dynamodbstore.keys.encoding import bounded
from mlflow_dynamodbstore.keys.experiments import volume_pk
from mlflow_dynamodbstore.table.values import Key

TRACES = children("T")
"""All traces of an experiment with everything below them."""

SESSION_ASSESSED = children("TSA")
"""The traces of an experiment that have assessments of their whole session."""

_LOCATOR = join("T", "LOC")
_SPAN_PARTS = 10**4


def trace(trace_id: str) -> str:
    """A trace's own item."""
    return join("T", bounded(trace_id, ID))


def trace_key(experiment_id: str, trace_id: str, volume: int = 0) -> Key:
    """The whole key of a trace's own item."""
    return Key(volume_pk(experiment_id, volume), trace(trace_id))


def trace_tag(trace_id: str, key: str) -> str:
    """A tag of a trace."""
    return join(trace(trace_id), "TAG", bounded(key, KEY))


def trace_spans(trace_id: str) -> str:
    """The spans of a trace."""
    return join(trace(trace_id), "SPANS")


def trace_spans_part(trace_id: str, number: int) -> str:
    """One of several items that together hold the spans of a trace."""
    if not 0 <= number < _SPAN_PARTS:
        raise ValueError(f"not a part number: {number}")
    return join(trace_spans(trace_id), f"{number:04d}")


def trace_assessment(trace_id: str, assessment_id: str) -> str:
    """An assessment of a trace."""
    return join(trace(trace_id), "ASSESS", bounded(assessment_id, ID))


def trace_issue(trace_id: str, assessment_id: str) -> str:
    """Notes that an assessment of a trace refers to an issue."""
    return join(trace(trace_id), "ISSUE", bounded(assessment_id, ID))


def trace_client_request(trace_id: str) -> str:
    """By this a trace is found by the client's id of its request."""
    return join(trace(trace_id), "CLIENT")


def trace_of_child(sk: str) -> str:
    """The sort key of the trace that an item lies below."""
    return join("T", pieces_of(sk, "T")[0])


def trace_locator_key(trace_id: str) -> Key:
    """The item that says in which experiment a trace lies, in a partition of its own."""
    return Key(join("TRACE", bounded(trace_id, ID)), _LOCATOR)


def session_assessed(trace_id: str) -> str:
    """Notes that a trace has assessments of its whole session."""
    return join("TSA", bounded(trace_id, ID))


def run_assessments_pk(run_id: str) -> str:
    """The partition that lists the assessments that a run made."""
    return join("RUNASSESS", bounded(run_id, ID))


def run_assessment_key(run_id: str, trace_id: str, assessment_id: str) -> Key:
    """One assessment that a run made."""
    sk = join("A", bounded(trace_id, ID), bounded(assessment_id, ID))
    return Key(run_assessments_pk(run_id), sk)


def trace_children(trace_id: str) -> Range:
    """Everything below a trace, without its own item."""
    return children(trace(trace_id))


def trace_and_children(trace_id: str) -> Range:
    """A trace's own item and everything below it."""
    return Range(trace(trace_id), trace_children(trace_id).high)


def trace_all_spans(trace_id: str) -> Range:
    """The item of a trace's spans, and its parts."""
    return Range(trace_spans(trace_id), children(trace_spans(trace_id)).high)


def trace_id_of(sk: str) -> str | None:
    """The trace that a sort key belongs to; None when its id was cut."""
    return key_text(pieces_of(sk, "T")[0])
