"""Every route answers through our bridge as through MLflow's: same status, headers and bytes."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from mlflow_dynamodbstore.server.bridge import PART_BYTES, Bridge, Exchange
from mlflow_dynamodbstore.server.threads import Threads
from tests.server.pair import Pair, serving_pair

JSON = {"Content-Type": "application/json"}
ORIGIN = {"Origin": "http://localhost:3000"}
STRANGER = {"Origin": "https://elsewhere.example"}
LARGE = 3 * PART_BYTES + 17

REQUESTS: list[tuple[str, str, bytes | None, dict[str, str]]] = [
    ("GET", "/health", None, {}),
    ("HEAD", "/health", None, {}),
    ("GET", "/version", None, {}),
    ("GET", "/", None, {}),
    ("HEAD", "/", None, {}),
    ("GET", "/", None, {"If-None-Match": '"nothing"'}),
    ("GET", "/nowhere", None, {}),
    ("POST", "/nowhere", b"{}", JSON),
    ("GET", "/static-files/nothing.js", None, {}),
    ("GET", "/api/2.0/mlflow/nothing", None, {}),
    ("GET", "/ajax-api/2.0/mlflow/experiments/search?max_results=5", None, {}),
    ("GET", "/api/2.0/mlflow/experiments/search?max_results=5", None, {}),
    ("GET", "/api/2.0/mlflow/experiments/search", None, {}),
    ("POST", "/api/2.0/mlflow/experiments/search", b'{"max_results": 5}', JSON),
    ("POST", "/api/2.0/mlflow/experiments/search", b"no json", JSON),
    ("POST", "/api/2.0/mlflow/experiments/search", b"{}", {"Content-Type": "text/plain"}),
    ("POST", "/api/2.0/mlflow/experiments/search", None, {}),
    ("PUT", "/api/2.0/mlflow/experiments/search", b"{}", JSON),
    ("OPTIONS", "/api/2.0/mlflow/experiments/search", None, {}),
    (
        "OPTIONS",
        "/api/2.0/mlflow/experiments/search",
        None,
        ORIGIN | {"Access-Control-Request-Method": "POST"},
    ),
    (
        "OPTIONS",
        "/api/2.0/mlflow/experiments/search",
        None,
        STRANGER | {"Access-Control-Request-Method": "POST"},
    ),
    ("POST", "/api/2.0/mlflow/experiments/search", b'{"max_results": 5}', JSON | ORIGIN),
    ("POST", "/api/2.0/mlflow/experiments/search", b'{"max_results": 5}', JSON | STRANGER),
    ("GET", "/api/2.0/mlflow/experiments/search?max_results=5", None, STRANGER),
    ("GET", "/api/2.0/mlflow/experiments/search?max_results=5", None, {"Host": "evil.example"}),
    ("GET", "/health", None, {"Host": "evil.example"}),
    ("GET", "/api/2.0/mlflow/experiments/search?max_results=5", None, {"X-MLFLOW-WORKSPACE": "a"}),
    ("GET", "/ajax-api/2.0/mlflow/registered-models/search?max_results=5", None, {}),
    ("GET", "/ajax-api/3.0/mlflow/server-info", None, {}),
    ("GET", "/ajax-api/3.0/jobs/nothing", None, {}),
    ("POST", "/graphql", b'{"query": "{ test { output } }"}', JSON),
    ("GET", "/api/2.0/mlflow-artifacts/artifacts?path=", None, {}),
    ("GET", "/get-artifact?run_id=x&path=y", None, {}),
    ("POST", "/v1/traces", b"", {"Content-Type": "application/x-protobuf"}),
    ("GET", "/metrics", None, {}),
]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with serving_pair(tmp_path_factory.mktemp("bridge")) as servers:
        yield servers


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: f"{one[0]} {one[1]}")
def test_answers_are_the_same(pair: Pair, request_: Any):
    method, path, body, headers = request_
    ours, theirs = pair.send(method, path, body, headers)
    assert ours == theirs


def test_the_pages_of_the_ui_are_the_same(pair: Pair):
    page = pair.ours.send("GET", "/").body.decode()
    scripts = [part.split('"')[0] for part in page.split('src="')[1:]]
    assert scripts
    for script in scripts:
        path = "/" + script.lstrip("./")
        for headers in ({}, {"Range": "bytes=100-4000"}):
            ours, theirs = pair.send("GET", path, None, headers)
            assert (ours.status, len(ours.body)) == (theirs.status, len(theirs.body)), path
            assert ours == theirs


def test_a_large_artifact_of_a_run_is_the_same(pair: Pair, tmp_path_factory: Any):
    created = pair.ours.send(
        "POST", "/api/2.0/mlflow/runs/create", b'{"experiment_id": "0", "start_time": 1}', JSON
    )
    info = created.json()["run"]["info"]
    place = info["artifact_uri"].removeprefix("mlflow-artifacts:/")
    content = os.urandom(LARGE)
    put = f"/api/2.0/mlflow-artifacts/artifacts/{place}/large.bin"
    assert pair.ours.send("PUT", put, content).status == 200
    ours, theirs = pair.send("GET", f"/get-artifact?run_id={info['run_id']}&path=large.bin")
    assert ours.body == theirs.body == content
    assert ours.headers == theirs.headers


def piecewise(pieces: Callable[[], Iterable[bytes]], *headers: tuple[str, str]) -> Any:
    def app(_environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", list(headers))
        return pieces()

    return app


def test_one_piece_takes_one_hop():
    seen = []

    class Counted(Threads):
        async def run(self, work):
            seen.append(work)
            return await super().run(work)

    app = piecewise(lambda: [b"hello"], ("Content-Length", "5"))
    answer = TestClient(Bridge(app, Counted("test"))).get("/")
    assert (answer.content, len(seen)) == (b"hello", 1)


def test_a_stream_is_sent_piece_by_piece():
    """The first piece arrives although the second waits for somebody who has seen it."""
    may_go_on = threading.Event()

    def pieces() -> Iterator[bytes]:
        yield b"first"
        assert may_go_on.wait(20)
        yield b"second"

    exchange = Exchange(piecewise(pieces), {})
    assert exchange.part() == b"first"
    assert not exchange.is_complete
    may_go_on.set()
    assert (exchange.part(), exchange.part(), exchange.is_complete) == (b"second", b"", True)


def test_many_small_pieces_of_a_known_length_take_few_hops():
    app = piecewise(lambda: [b"x" * 1_000] * 1_000, ("Content-Length", "1000000"))
    exchange, parts = Exchange(app, {}), []
    while not exchange.is_complete:
        parts.append(len(exchange.part()))
    assert sum(parts) == 1_000_000
    assert len(parts) == 4


def test_an_answer_is_closed_when_it_is_complete_and_when_it_fails():
    closed = []

    class Body:
        def __init__(self, *pieces: Any):
            self.pieces = pieces

        def __iter__(self) -> Iterator[bytes]:
            for piece in self.pieces:
                if isinstance(piece, Exception):
                    raise piece
                yield piece

        def close(self) -> None:
            closed.append(self.pieces)

    exchange = Exchange(piecewise(lambda: Body(b"ab"), ("Content-Length", "2")), {})
    assert (exchange.part(), closed) == (b"ab", [(b"ab",)])
    failing = Exchange(piecewise(lambda: Body(ValueError("no"))), {})
    with pytest.raises(ValueError, match="no"):
        failing.part()
    assert len(closed) == 2


def test_an_error_of_the_app_becomes_a_500_and_is_raised_for_the_log():
    def app(_environ: Any, _start_response: Any) -> Iterable[bytes]:
        raise ValueError("nobody foresaw this")

    with pytest.raises(ValueError, match="nobody foresaw this"):
        TestClient(Bridge(app, Threads("test"))).get("/")


def raw(port: int, request: bytes) -> bytes:
    """What a server answers to some bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(request)
        parts = list(iter(lambda: connection.recv(65_536), b""))
    return b"".join(parts)


def head(method: str, path: str, *more: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *more]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize("path", ["experiments/search", "runs/search"])
def test_a_chunked_body_is_read(pair: Pair, path: str):
    """MLflow's bridge takes it for empty. Both of our ways to an answer read it."""
    body = json.dumps({"max_results": -5}).encode()
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:7], body[7:], b""))
    more = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    answer = raw(pair.ports[0], head("POST", f"/api/2.0/mlflow/{path}", *more) + chunks)
    assert b" 400 " in answer.partition(b"\r\n")[0]
    assert b"-5" in answer


def test_two_types_of_content_are_refused_alike(pair: Pair):
    types = ("Content-Type: text/plain", "Content-Type: application/json", "Content-Length: 2")
    request = head("POST", "/api/2.0/mlflow/runs/create", *types) + b"{}"
    ours, theirs = (raw(port, request) for port in pair.ports)
    assert b" 400 " in ours.partition(b"\r\n")[0]
    assert ours.partition(b"\r\n\r\n")[2] == theirs.partition(b"\r\n\r\n")[2]


class Client:
    """An ASGI client that leaves: ``receive`` gives its messages, and then that it has left."""

    def __init__(self, *messages: Any) -> None:
        self._messages = list(messages)
        self.may_leave = asyncio.Event()
        self.sent: list[Any] = []

    async def receive(self) -> Any:
        if self._messages:
            return self._messages.pop(0)
        await self.may_leave.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        if len(self.sent) == 3:
            self.may_leave.set()
        await asyncio.sleep(0)

    def ask(self, app: Any, method: str = "POST") -> None:
        scope = {
            "type": "http",
            "http_version": "1.1",
            "scheme": "http",
            "server": ("localhost", 80),
            "method": method,
            "path": "/x",
            "root_path": "",
            "query_string": b"",
            "headers": [],
        }
        asyncio.run(app(scope, self.receive, self.send))


def test_half_a_request_is_not_passed_on():
    def app(_environ: Any, _start_response: Any) -> Iterable[bytes]:
        raise AssertionError("the app was asked")

    client = Client({"type": "http.request", "body": b"half", "more_body": True})
    client.may_leave.set()
    client.ask(Bridge(app, Threads("test")))
    assert client.sent == []


def test_an_answer_ends_when_the_client_leaves():
    given: list[int] = []
    closed: list[int] = []

    class Endless:
        def __iter__(self) -> Iterator[bytes]:
            while len(given) < 10_000:
                given.append(1)
                yield b"x"

        def close(self) -> None:
            closed.append(len(given))

    client = Client({"type": "http.request", "body": b""})
    client.ask(Bridge(piecewise(Endless), Threads("test")), "GET")
    assert len(closed) == 1
    assert closed[0] < 20
    assert not client.sent[-1].get("more_body")


def test_a_websocket_is_refused(pair: Pair):
    handshake = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    ours, theirs = pair.send("GET", "/socket", None, handshake)
    assert ours == theirs


def test_requests_in_parallel_are_not_mixed_up(pair: Pair, tmp_path: Path):
    """Forty clients ask for forty experiments, on both ways to Flask."""
    wrong: list[Any] = []

    def ask(n: int) -> None:
        from tests.server.pair import Client

        client = Client(pair.ports[0])
        name = f"parallel {n} {time.time()}"
        body = json.dumps({"name": name}).encode()
        made = client.send("POST", "/api/2.0/mlflow/experiments/create", body, JSON).json()
        path = f"/api/2.0/mlflow/experiments/get?experiment_id={made['experiment_id']}"
        for _ in range(5):
            found = client.send("GET", path).json()["experiment"]["name"]
            if found != name:
                wrong.append((found, name))

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
