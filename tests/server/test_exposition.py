"""``/metrics``: there when it is asked for, with the counters of all workers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from mlflow_dynamodbstore.mlflow_compat import prometheus
from mlflow_dynamodbstore.server.exposition import expose, exposition
from mlflow_dynamodbstore.shared.counter_files import CounterFiles, ServerCounters
from mlflow_dynamodbstore.table.counters import COUNTERS, MEANINGS, Counted
from tests.server.pair import Pair, serving_pair
from tests.server.test_native_routes import API, World

LINE = re.compile(r'[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [0-9.e+-]+')


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("metrics")
    asked = {prometheus.WITHOUT_LIBRARY: "yes"}
    with serving_pair(folder, **asked) as servers:  # type: ignore[arg-type]
        yield servers


def test_a_server_that_was_asked_for_metrics_has_them(pair: Pair):
    world = World(pair)
    assert pair.ours.send("GET", f"{API}runs/get?run_id={world.shared}").status == 200
    answer = pair.ours.send("GET", "/metrics")
    assert answer.status == 200
    assert (answer.header("content-type") or "").startswith("text/plain")
    text = answer.body.decode()
    assert 'mlflow_dynamodbstore_calls_total{operation="get_run"} 1' in text
    assert 'mlflow_dynamodbstore_requests_total{operation="get_run",request="GetItem"}' in text
    assert "mlflow_dynamodbstore_live_runs 0\n" in text  # they were written to by the other server
    for line in text.splitlines():
        assert line.startswith("#") or LINE.fullmatch(line), line
    for counter in MEANINGS:
        assert f"# TYPE mlflow_dynamodbstore_{counter}_total counter" in text


def test_a_server_that_was_not_asked_has_none(pair: Pair):
    assert pair.theirs.send("GET", "/metrics").status == 404


def test_labels_are_escaped():
    counters = ServerCounters({Counted("calls", 'a"b\\c\nd'): 1234567})
    assert 'calls_total{operation="a\\"b\\\\c\\nd"} 1234567\n' in exposition(counters)


def test_what_mlflow_exposes_itself_stands_before_it(tmp_path: Path):
    flask = Flask("test")
    flask.add_url_rule("/metrics", "theirs", lambda: ("theirs 1\n", 200))
    COUNTERS.add("calls", operation="here")
    expose(flask, CounterFiles(tmp_path).read)
    text = flask.test_client().get("/metrics").text
    assert text.startswith("theirs 1\n# HELP")
    assert 'operation="here"' in text


def test_without_the_library_mlflow_is_not_asked_for_metrics(monkeypatch: Any, tmp_path: Path):
    monkeypatch.setenv(prometheus.FOLDER, str(tmp_path))
    monkeypatch.setenv(prometheus.WITHOUT_LIBRARY, "")
    monkeypatch.setattr(prometheus, "find_spec", lambda _name: None)
    prometheus.take_over_without_library()
    assert prometheus.FOLDER not in os.environ
    assert prometheus.metrics_are_exposed()


def test_with_the_library_mlflow_exposes_its_own(monkeypatch: Any, tmp_path: Path):
    monkeypatch.setenv(prometheus.FOLDER, str(tmp_path))
    monkeypatch.setattr(prometheus, "find_spec", lambda name: name)
    prometheus.take_over_without_library()
    assert prometheus.metrics_are_exposed()
    assert os.environ[prometheus.FOLDER] == str(tmp_path)
