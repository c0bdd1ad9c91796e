"""A job of online scoring leaves out what a killed one has done."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import mlflow
import pytest
from mlflow.entities import AssessmentSource, Feedback
from mlflow.genai.evaluation import harness
from mlflow.genai.scorers.online.session_processor import OnlineSessionScoringProcessor
from mlflow.genai.scorers.online.trace_processor import OnlineTraceScoringProcessor

from mlflow_dynamodbstore import plugin
from tests.traces.making import NOON, client_metadata, make_info, make_spans, trace_id

MACHINE = AssessmentSource("LLM_JUDGE", "a judge")
NAME, VERSION = "mlflow.assessment.scorerName", "mlflow.assessment.scorerVersion"


def feedback(name="polite", source=MACHINE, **metadata):
    return Feedback(name=name, value=True, source=source, metadata=metadata)


@pytest.fixture
def scored(monkeypatch):
    """Scores one trace that has some assessments, and tells with which scorers."""
    used: list[str] = []

    def compute(*, eval_item, scorers, **_):
        del eval_item
        used.extend(scorer.name for scorer in scorers)
        return SimpleNamespace(assessments=[])

    monkeypatch.setattr(harness, "_compute_eval_scores", compute)
    monkeypatch.setattr(
        "mlflow.genai.evaluation.entities.EvalItem.from_trace", classmethod(lambda *_: None)
    )

    def score(*assessments, uri="dynamodb:///x.ddb"):
        monkeypatch.setenv("_MLFLOW_SERVER_FILE_STORE", uri)
        trace = SimpleNamespace(info=SimpleNamespace(assessments=list(assessments)))
        scorers = [SimpleNamespace(name=name, scorer_version=2) for name in ("polite", "short")]
        task = SimpleNamespace(trace=trace, scorers=scorers, timestamp_ms=1)
        processor: Any = OnlineTraceScoringProcessor
        processor(None, None, None, "1")._execute_scoring({"tr-1": task})
        return used

    return score


@pytest.mark.parametrize(
    "done",
    [feedback(), feedback("any name", **{NAME: "polite", VERSION: "2"})],
    ids=["by the name", "by the scorer that it names"],
)
def test_a_scorer_whose_assessment_the_trace_has_is_left_out(scored, done):
    assert scored(done) == ["short"]


@pytest.mark.parametrize(
    "other",
    [
        feedback("unrelated"),
        feedback(source=AssessmentSource("HUMAN", "ada")),
        feedback(**{NAME: "polite", VERSION: "1"}),
        feedback(**{"mlflow.assessment.sourceRunId": "r"}),
    ],
    ids=["another name", "a person's", "an older version's", "an evaluation's"],
)
def test_all_other_assessments_leave_a_trace_to_be_scored(scored, other):
    assert scored(other) == ["polite", "short"]


def test_other_stores_score_as_before(scored):
    assert scored(feedback(), uri="sqlite:///x.db") == ["polite", "short"]


def test_a_session_that_is_scored_again_has_one_assessment(tmp_path, monkeypatch):
    """A job that was killed before it noted how far it had come; the next one replaces its work."""
    uri = f"dynamodb:///{tmp_path}/mlflow.ddb?synchronous=NORMAL"
    store, before = plugin.tracking_store(uri, tmp_path.as_uri()), mlflow.get_tracking_uri()
    metadata = {**client_metadata(), "mlflow.trace.session": "s-1"}
    for n in range(2):
        store.log_spans("0", make_spans(trace_id(n), start=NOON + n))
        store.start_trace(make_info(trace_id(n), "0", start=NOON + n, metadata=metadata))
    values = iter([1, 2])

    def evaluate(*, session_items, **_):
        made = Feedback(name="polite", value=next(values), source=MACHINE)
        return SimpleNamespace(eval_item=session_items[0], assessments=[made])

    monkeypatch.setattr(
        "mlflow.genai.evaluation.session_utils.evaluate_session_level_scorers", evaluate
    )
    (session,) = store.find_completed_sessions("0", NOON, NOON + 10)
    mlflow.set_tracking_uri(uri)
    try:
        for _ in range(2):
            processor: Any = OnlineSessionScoringProcessor.create("0", [], store)
            processor._score_session(SimpleNamespace(session=session, scorers=["polite"]))
    finally:
        mlflow.set_tracking_uri(before)
    traces = [store.get_trace(trace_id(n)) for n in range(2)]
    found: list[Any] = [one for trace in traces for one in trace.info.assessments]
    assert [one.value for one in found] == [2]
