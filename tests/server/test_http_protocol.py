"""Heads of requests have a limit; bodies, and requests after them, have none."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from uvicorn.config import HTTP_PROTOCOLS

from mlflow_dynamodbstore.server import prefork
from mlflow_dynamodbstore.server.http_protocol import LARGEST_HEAD, BoundedHttpToolsProtocol

PIECE = b"x" * 16_384


async def count(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the number of bytes in the body."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    text = str(size).encode()
    headers = [(b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    config = uvicorn.Config(
        count, port=0, http=BoundedHttpToolsProtocol, lifespan="off", log_level="error"
    )
    server = uvicorn.Server(config)
    bound = config.bind_socket()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield bound.getsockname()
    server.should_exit = True
    thread.join()


def answer(connection: socket.socket) -> bytes:
    """The status line and the body of an answer."""
    text = b""
    while b"\r\n\r\n" not in text:
        text += connection.recv(65_536)
    head, _, body = text.partition(b"\r\n\r\n")
    length = next(
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    )
    while len(body) < length:
        body += connection.recv(65_536)
    return head.partition(b"\r\n")[0].split(b" ", 1)[1] + b": " + body


def test_large_bodies_follow_each_other_on_one_connection(address):
    body = b"b" * (5 * LARGEST_HEAD)
    with socket.create_connection(address) as connection:
        for _ in range(3):
            head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
            connection.sendall(head + body)
            assert answer(connection) == b"200 OK: %d" % len(body)


@pytest.mark.parametrize("pieces", [1, 4, 16])
def test_a_head_within_the_limit_may_come_in_pieces(address, pieces):
    value = b"v" * (LARGEST_HEAD - 100)
    request = b"GET / HTTP/1.1\r\nHost: a\r\nX-Large: " + value + b"\r\n\r\n"
    with socket.create_connection(address) as connection:
        step = len(request) // pieces + 1
        for first in range(0, len(request), step):
            connection.sendall(request[first : first + step])
            time.sleep(0.01)
        assert answer(connection) == b"200 OK: 0"


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\nX-Large: " + b"v" * LARGEST_HEAD,
        b"GET /" + b"p" * LARGEST_HEAD + b" HTTP/1.1\r\nHost: a",
        b"GET / HTTP/1.1\r\nHost: a" + b"\r\nX-Many: v" * (LARGEST_HEAD // 7),
    ],
    ids=["value", "path", "many"],
)
def test_a_head_beyond_the_limit_is_refused(address, head):
    with socket.create_connection(address) as connection:
        connection.sendall(head + b"\r\n\r\n")
        assert answer(connection).startswith(b"400 ")


def test_a_head_without_an_end_is_refused_before_it_fills_the_memory(address):
    with socket.create_connection(address) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX-Endless: ")
        sent = 0
        try:
            while sent < 100 * LARGEST_HEAD:
                sent += connection.send(PIECE)
        except OSError:
            pass  # the server hung up
    assert sent < 100 * LARGEST_HEAD


def test_uvicorn_takes_the_limit_unless_it_reads_requests_in_another_way(monkeypatch):
    for before, after in (
        (HTTP_PROTOCOLS["httptools"], BoundedHttpToolsProtocol),
        (HTTP_PROTOCOLS["h11"], None),
    ):
        monkeypatch.setitem(HTTP_PROTOCOLS, "auto", before)
        prefork.bound_heads()
        config = uvicorn.Config(count)
        config.load()
        taken = config.http_protocol_class
        assert taken is after if after else taken.__name__ == "H11Protocol"
