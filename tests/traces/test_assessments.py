"""Assessments: long and short, overridden, about sessions, made by runs."""

from __future__ import annotations

import json
import random

import pytest
from mlflow.tracing.constant import AssessmentMetadataKey

from tests.stores import everything_in, refused
from tests.traces.making import NOON, feedback, make_info, trace_id

TRACE = trace_id(1)
SESSION = "mlflow.trace.session"


@pytest.fixture
def traced(store, experiment):
    for n in range(4):
        metadata = {SESSION: "one" if n < 2 else "two"}
        store.start_trace(make_info(trace_id(n), experiment, start=NOON + n, metadata=metadata))
    return experiment


def ids_found(store, experiment, filter_string):
    found, _ = store.search_traces([experiment], filter_string, order_by=["timestamp ASC"])
    return [int(info.trace_id[3:], 16) for info in found]


@pytest.mark.parametrize("size", [10, 3_000, 600_000])
def test_an_assessment_of_any_length_comes_back_whole(store, other, traced, size):
    text = random.Random(size).randbytes(size // 2).hex()
    made = store.create_assessment(
        feedback(TRACE, "why", text, rationale=text, metadata={"k": text})
    )
    got = other.get_assessment(TRACE, made.assessment_id)
    assert (got.feedback.value, got.rationale, got.metadata) == (text, text, {"k": text})
    assert other.get_trace_info(TRACE).assessments[0].rationale == text
    if size < 500_000:  # a filter ends there
        assert ids_found(other, traced, f"feedback.why = '{text}'") == [1]
    other.update_assessment(TRACE, made.assessment_id, rationale="short", metadata={"k": "v"})
    assert store.get_assessment(TRACE, made.assessment_id).rationale == "short"
    store.delete_assessment(TRACE, made.assessment_id)
    assert other.get_trace_info(TRACE).assessments == []
    assert not [item for item in everything_in(store.table) if "#ASSESS#" in item["SK"]]


def test_assessments_of_one_moment_come_back_in_the_order_in_which_they_were_logged(
    store, other, experiment
):
    """A list of them is made faster than the clock ticks."""
    names = [f"n{number}" for number in random.Random(0).sample(range(100), 30)]
    made = [feedback(TRACE, name, 1, create_time_ms=NOON) for name in names]
    info = make_info(TRACE, experiment)
    info.assessments = [*made[:10]]
    store.start_trace(info)
    for one in made[10:]:
        store.create_assessment(one)
    assert [one.name for one in other.get_trace_info(TRACE).assessments] == names


def test_an_overridden_assessment_counts_no_more_until_the_other_is_deleted(store, other, traced):
    first = store.create_assessment(feedback(TRACE, "good", "no", rationale="x" * 5000))
    second = other.create_assessment(feedback(TRACE, "good", "yes", overrides=first.assessment_id))
    assert ids_found(store, traced, "feedback.good = 'no'") == []
    assert ids_found(store, traced, "feedback.good = 'yes'") == [1]
    assert store.get_assessment(TRACE, first.assessment_id).valid is False
    store.delete_assessment(TRACE, second.assessment_id)
    assert ids_found(other, traced, "feedback.good = 'no'") == [1]
    assert other.get_assessment(TRACE, first.assessment_id).rationale == "x" * 5000


def test_overriding_what_is_not_there_writes_nothing(store, traced):
    with refused("RESOURCE_DOES_NOT_EXIST", "Assessment with ID 'a-none' not found"):
        store.create_assessment(feedback(TRACE, "good", 1, overrides="a-none"))
    assert store.get_trace_info(TRACE).assessments == []


def test_one_about_a_session_speaks_for_all_its_traces(store, other, traced):
    made = store.create_assessment(feedback(trace_id(0), "polite", 0.5, metadata={SESSION: "one"}))
    assert ids_found(other, traced, "feedback.polite > 0.4") == [0, 1]
    assert ids_found(other, traced, "feedback.polite IS NULL") == [2, 3]
    store.create_assessment(feedback(trace_id(2), "polite", 0.9))
    assert ids_found(other, traced, "feedback.polite IS NOT NULL") == [0, 1, 2]
    store.delete_assessment(trace_id(0), made.assessment_id)
    assert ids_found(other, traced, "feedback.polite IS NOT NULL") == [2]


def test_those_that_a_run_made_go_with_it(store, other, traced):
    run = "f" * 32
    metadata = {AssessmentMetadataKey.SOURCE_RUN_ID: run}
    store.create_assessment(feedback(TRACE, "judged", "yes", metadata=metadata))
    kept = store.create_assessment(feedback(TRACE, "other", "yes"))
    store.create_assessment(feedback(trace_id(2), "judged", "yes", metadata=metadata))
    store.delete_traces(traced, trace_ids=[trace_id(2)])
    other.assessments.delete_assessments_of_run(run)
    left = store.get_trace_info(TRACE).assessments
    assert [one.assessment_id for one in left] == [kept.assessment_id]
    assert not [item for item in everything_in(store.table) if item["PK"].startswith("RUNASSESS")]


def test_those_that_come_with_the_info_are_found_like_all_others(store, other, experiment):
    given = feedback(None, "good", True)
    info = make_info(TRACE, experiment, assessments=[given])
    store.start_trace(info)
    assert ids_found(other, experiment, "feedback.good = 'true'") == [1]
    assert other.get_trace_info(TRACE).assessments[0].trace_id == TRACE


@pytest.mark.parametrize("value", [None, True, 3, 2.5, "text", [1, 2], {"a": {"b": None}}])
def test_values_keep_their_type(store, other, traced, value):
    made = store.create_assessment(feedback(TRACE, "any", value))
    got = other.get_assessment(TRACE, made.assessment_id).feedback.value
    assert json.dumps(got) == json.dumps(value)


def test_a_trace_may_begin_with_several_assessments_of_its_session(store, other, experiment):
    metadata = {SESSION: "one"}
    given = [feedback(TRACE, name, "yes", metadata=metadata) for name in ("good", "short")]
    store.start_trace(make_info(TRACE, experiment, metadata=metadata, assessments=given))
    assert {one.name for one in other.get_trace_info(TRACE).assessments} == {"good", "short"}
