"""An endpoint that answers what a test tells it to, over real HTTP."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from mlflow_dynamodbstore.table.dynamodb import DynamoDBEngine
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE


@dataclass
class Answer:
    """An HTTP answer, with further headers or others than usual.

    ``cut`` promises more bytes than it sends, ``drop`` sends nothing, ``reset`` ends the connection
    with a reset instead. ``hang_up`` ends it after the answer, without saying so.
    """

    body: dict[str, Any] | bytes = b"{}"
    status: int = 200
    cut: bool = False
    drop: bool = False
    reset: bool = False
    hang_up: bool = False
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def error(code: str, message: str = "", status: int = 400, **fields: Any) -> Answer:
    """An error as DynamoDB words it."""
    kind = f"com.amazonaws.dynamodb.v20120810#{code}"
    return Answer({"__type": kind, "message": message, **fields}, status)


@dataclass
class Script:
    """What to answer, and what has been asked."""

    answer: Callable[[str, dict[str, Any]], Answer]
    url: str = ""
    date: str = ""  # instead of the time
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def engine(self, **options: Any) -> DynamoDBEngine:
        return DynamoDBEngine("mlflow", MLFLOW_TABLE, endpoint_url=self.url, **options)


@contextmanager
def scripted(
    answer: Callable[[str, dict[str, Any]], Answer], tls: ssl.SSLContext | None = None
) -> Iterator[Script]:
    """Serves ``answer(operation, request)`` on a free port."""
    script = Script(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            operation = self.headers["X-Amz-Target"].rpartition(".")[2]
            script.requests.append((operation, request))
            script.headers.append(dict(self.headers))
            told = script.answer(operation, request)
            self.close_connection = told.drop or told.cut or told.reset or told.hang_up
            if told.reset:
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            if told.drop or told.reset:
                return
            content = told.content
            promised = content + b" " * 10 * told.cut
            headers = {
                "Date": script.date or self.date_time_string(),
                "Content-Type": "application/x-amz-json-1.0",
                "Content-Length": str(len(promised)),
                "x-amz-crc32": str(zlib.crc32(promised)),
            }
            self.send_response_only(told.status)
            for name, value in {**headers, **told.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    script.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
