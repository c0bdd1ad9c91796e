"""Where native routes are answered: on the loop, in a thread, or by MLflow's own."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlflow_dynamodbstore.mlflow_compat import server_app
from mlflow_dynamodbstore.server import app as app_module
from mlflow_dynamodbstore.server import lane as lane_module
from mlflow_dynamodbstore.server.lane import Lane
from mlflow_dynamodbstore.server.native import NATIVE, Route, install_views
from mlflow_dynamodbstore.server.threads import Threads
from mlflow_dynamodbstore.shared.loop_pace import MEASURED_EACH, SHORT_SECONDS, LoopPace
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.engines import dynoxide_server, find_dynoxide
from tests.server.mutations import JSON
from tests.server.pair import Pair, serving_pair
from tests.server.test_native_routes import API3, World, compared, recorded

dynoxide = pytest.mark.skipif(find_dynoxide() is None, reason="dynoxide is not installed")


def test_calls_leave_the_loop_while_they_are_slow_and_come_back():
    pace = LoopPace()
    assert pace.is_short()
    for _ in range(30):
        pace.took(10 * SHORT_SECONDS)
    asked = [pace.is_short() for _ in range(2 * MEASURED_EACH)]
    assert asked.count(True) == 2  # measured once in a while
    for _ in range(50):
        pace.took(SHORT_SECONDS / 10)
    assert pace.is_short()


def ask(store: Any, monkeypatch: pytest.MonkeyPatch, seconds: float = 0.0) -> threading.Thread:
    """The thread in which a native route answers."""
    monkeypatch.setattr(lane_module, "get_tracking_store", lambda: store)
    seen = []

    class Answering(Route):
        def answer(self, _request: Any) -> tuple[int, bytes]:
            seen.append(threading.current_thread())
            return 200, b"{}"

    async def unused(*_: Any) -> None:
        raise AssertionError("Flask was asked")

    route = Answering("view", lambda _store, _request: "{}", "GET", "/path", has_argument=False)
    lane = Lane([route], lambda _method, _path: None, unused, Threads("lane"))
    for _ in range(30 if seconds else 0):
        lane._paces["view"].took(seconds)
    scope = {"method": "GET", "path": "/path", "headers": [], "query_string": b""}
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(lane(scope, receive, send))
    assert sent[0]["status"] == 200
    return seen[0]


def test_a_file_answers_on_the_loop_unless_it_is_slow(tmp_path: Path, monkeypatch: Any):
    store = DynamoDBTrackingStore(f"dynamodb:///{tmp_path}/mlflow.ddb", "/x")
    assert ask(store, monkeypatch) is threading.current_thread()
    assert ask(store, monkeypatch, seconds=1.0) is not threading.current_thread()


@dynoxide
def test_dynamodb_answers_in_a_thread(monkeypatch: Any):
    with dynoxide_server() as address:
        store = DynamoDBTrackingStore(f"dynamodb://{address}/lane", "/x")
        assert ask(store, monkeypatch) is not threading.current_thread()


@dynoxide
def test_a_server_on_dynamodb_answers_alike(tmp_path: Path):
    with (
        dynoxide_server() as address,
        serving_pair(tmp_path, table=f"dynamodb://{address}/lane") as servers,
    ):
        world = World(servers)
        world.add_trace()
        statuses = [compared(world, sent).status for sent in recorded()]
        assert statuses.count(200) > len(statuses) / 2


# --- traces through OTLP --------------------------------------------------------------------------

PROTOBUF = {"Content-Type": "application/x-protobuf"}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with serving_pair(tmp_path_factory.mktemp("otlp")) as servers:
        yield servers


def otlp(trace_id: bytes) -> bytes:
    from bench.http_calls import TRACE_ID, trace_request

    return trace_request().replace(TRACE_ID, trace_id)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (otlp(b"\x01" * 16), PROTOBUF),
        (otlp(b"\x02" * 16), PROTOBUF | {"x-mlflow-run-id": "none"}),
        (gzip.compress(otlp(b"\x03" * 16)), PROTOBUF | {"Content-Encoding": "gzip"}),
        (otlp(b"\x04" * 16), {"Content-Type": "text/plain"}),
        (b"nonsense", PROTOBUF),
        (b"", PROTOBUF),
        (b'{"resourceSpans": []}', JSON),
        (otlp(b"\x05" * 16), PROTOBUF | {"x-mlflow-experiment-id": "404"}),
        (otlp(b"\x06" * 16), PROTOBUF | {"Origin": "http://localhost:3000"}),
        (otlp(b"\x07" * 16), PROTOBUF | {"X-MLFLOW-WORKSPACE": "team-a"}),
    ],
)
def test_spans_are_taken_alike(pair: Pair, body: bytes, headers: dict[str, str]):
    given = {"x-mlflow-experiment-id": "0"} | headers
    ours, theirs = pair.send("POST", "/v1/traces", body, given)
    assert ours == theirs


def test_a_trace_that_came_through_otlp_can_be_read(pair: Pair):
    given = PROTOBUF | {"x-mlflow-experiment-id": "0"}
    assert pair.ours.send("POST", "/v1/traces", otlp(b"\x11" * 16), given).status == 200
    path = f"{API3}traces/get?trace_id=tr-{'11' * 16}"
    ours, theirs = pair.send("GET", path)
    assert ours.json() == theirs.json()
    assert len(ours.json()["trace"]["spans"]) == 10


def test_spans_without_an_experiment_are_refused_alike(pair: Pair):
    ours, theirs = pair.send("POST", "/v1/traces", otlp(b"\x12" * 16), PROTOBUF)
    assert ours == theirs
    assert ours.status == 422


# --- other releases -------------------------------------------------------------------------------


def test_an_app_built_in_another_way_runs_as_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    import mlflow.server
    from mlflow.server.fastapi_app import create_fastapi_app

    flask = mlflow.server.app
    views = dict(flask.view_functions)
    monkeypatch.setattr(flask, "view_functions", views)
    monkeypatch.setattr(server_app, "missing_for_native_routes", lambda: ["mlflow.x.y"])
    monkeypatch.setattr(server_app, "replace_bridge", lambda _app, _bridge: False)
    app = create_fastapi_app(flask)
    with caplog.at_level(logging.WARNING):
        assert app_module.improved(app, flask) is app
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "lacks mlflow.x.y: its own routes answer." in said[0]
    assert flask.view_functions == views


def test_this_release_has_every_view_that_is_answered_natively():
    import mlflow.server

    assert NATIVE.keys() <= mlflow.server.app.view_functions.keys()


def test_a_view_that_a_release_lacks_is_named_and_the_others_are_native(
    caplog: pytest.LogCaptureFixture,
):
    from flask import Flask

    flask = Flask("test")
    flask.add_url_rule("/get", "_get_run", lambda: "theirs")
    theirs = flask.view_functions["_get_run"]
    with caplog.at_level(logging.WARNING):
        install_views(flask)
    (said,) = [record.getMessage() for record in caplog.records]
    assert "_create_run" in said
    assert "_get_run" not in said
    assert flask.view_functions["_get_run"] is not theirs


def test_middleware_that_is_not_known_keeps_its_place(caplog: pytest.LogCaptureFixture):
    import mlflow.server
    from mlflow.server.fastapi_app import create_fastapi_app

    app = create_fastapi_app(mlflow.server.app)

    @app.middleware("http")
    async def of_somebody(request: Any, call_next: Any) -> Any:
        return await call_next(request)

    assert server_app.behind_security(app, app) is None
    assert server_app.without_waiting_middleware(app) is None


def test_an_endpoint_for_spans_that_asks_for_more_keeps_fastapis_way(
    monkeypatch: pytest.MonkeyPatch,
):
    import mlflow.server
    from fastapi import Header, Query, Request
    from mlflow.server import otel_api
    from mlflow.server.fastapi_app import create_fastapi_app

    from mlflow_dynamodbstore.mlflow_compat.otlp import span_endpoint

    def with_an_argument(request: Request, dry_run: str = Query(default="no")): ...
    def with_a_number(request: Request, x_size: int = Header(default=1)): ...
    def with_texts(request: Request, x_size: str = Header(...), x_y: str | None = Header(None)): ...

    app = create_fastapi_app(mlflow.server.app)
    for endpoint, is_known in ((with_an_argument, 0), (with_a_number, 0), (with_texts, 1)):
        monkeypatch.setattr(otel_api, "export_traces", resolved(endpoint))
        assert (span_endpoint(app) is not None) == is_known
    monkeypatch.delattr(otel_api, "export_traces")
    assert span_endpoint(app) is None


def resolved(function: Any) -> Any:
    """A function whose annotations are objects, as those of MLflow's module are."""
    from fastapi import Request

    types = {"Request": Request, "str": str, "int": int, "str | None": str | None}
    function.__annotations__ = {k: types[v] for k, v in function.__annotations__.items()}
    return function


ODD_TEXTS = ("", "k é", 'a"b\\c', "line\nbreak\x00", "\u2028😀", "</script>")


def test_json_of_the_answers_is_what_protobuf_makes():
    """Entities with every odd value become what MLflow's messages become."""
    from mlflow.entities import Metric

    from mlflow_dynamodbstore.server import answers

    for value in (0.0, -0.0, 1.0, 0.1, 1e300, 5e-324, float("nan"), float("inf"), float("-inf")):
        for more in ({}, {"model_id": "m-1", "dataset_name": "d", "dataset_digest": 'x"'}):
            metric = Metric("k é", value, 1_700_000_000_000, -3, run_id="r", **more)
            assert_same_json(answers.metric(metric), metric)
    for text in ODD_TEXTS:
        assert_same_json(answers.metric(Metric(text, 1, 0, 0)), Metric(text, 1, 0, 0))


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_json_of_a_run_is_what_protobuf_makes(text: str):
    from mlflow.entities import (
        LoggedModelOutput,
        Metric,
        Param,
        Run,
        RunData,
        RunInfo,
        RunInputs,
        RunOutputs,
        RunTag,
    )

    from mlflow_dynamodbstore.server import answers

    info = RunInfo("r", "7", text, "RUNNING", 5, None, "active", text, run_name=text)
    datas = [
        RunData([], [], []),
        RunData([Metric(text, 2.5, 5, 0)], [Param(text, text)], [RunTag(text, text)]),
    ]
    uses = [(None, None), (RunInputs([], []), RunOutputs([]))]
    uses.append((uses[1][0], RunOutputs([LoggedModelOutput("m-1", 3)])))
    for data in datas:
        for inputs, outputs in uses:
            run = Run(info, data, inputs, outputs)
            assert_same_json(answers.run(run), run)


def assert_same_json(ours: str, entity: Any) -> None:
    from mlflow.utils.proto_json_utils import message_to_json

    theirs = json.loads(message_to_json(entity.to_proto()))
    assert ours.isascii()
    assert json.dumps(json.loads(ours), sort_keys=True) == json.dumps(theirs, sort_keys=True)
