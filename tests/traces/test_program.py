"""A real instrumented program, whose spans reach the store through a running server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import SpanStatusCode

from tests.e2e.processes import environment, running_server

PROGRAM = Path(__file__).parent / "programs" / "agent.py"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    with running_server(folder / "data", workers=1) as server:
        command = [sys.executable, str(PROGRAM)]
        subprocess.run(command, check=True, cwd=folder, env=environment(server.url), timeout=120)
        yield MlflowClient(server.url)


def traces(client, filter_string):
    experiment = client.get_experiment_by_name("agents").experiment_id
    return client.search_traces(locations=[experiment], filter_string=filter_string)


def test_nested_spans_arrive_as_a_tree_with_what_they_used(client):
    (trace,) = traces(client, "status = 'OK'")
    names = {span.span_id: span.name for span in trace.data.spans}
    tree = [(span.name, span.span_type, names.get(span.parent_id)) for span in trace.data.spans]
    assert tree == [
        ("agent", "AGENT", None),
        ("search", "TOOL", "agent"),
        ("ask", "LLM", "agent"),
    ]
    assert json.loads(trace.info.trace_metadata["mlflow.trace.tokenUsage"])["total_tokens"] == 10
    assert (trace.info.request_preview, trace.info.response_preview) == (
        '{"city": "Rome"}',
        '"ROME"',
    )


def test_an_exception_marks_the_trace_and_the_spans_it_passed(client):
    (trace,) = traces(client, "status = 'ERROR' AND span.name = 'search'")
    assert {span.status.status_code for span in trace.data.spans} == {SpanStatusCode.ERROR}
    (thrown,) = trace.data.spans[-1].events
    assert thrown.attributes["exception.message"] == "no such city"


@pytest.mark.parametrize(
    ("filter_string", "count"),
    [
        ("metadata.`mlflow.trace.session` = 'talk'", 2),
        ("name = 'agent' AND span.type = 'LLM'", 1),
        ("feedback.right = 'true'", 1),
        ("trace.text LIKE '%Atlantis%'", 1),
    ],
)
def test_it_is_found_by_what_it_did(client, filter_string, count):
    assert len(traces(client, filter_string)) == count
