"""An endpoint that answers what a test tells it to, over real HTTP."""

from __future__ import annotations

import json
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
    """An HTTP answer; ``cut`` promises more bytes than it sends, ``drop`` sends nothing."""

    body: dict[str, Any] | bytes = b"{}"
    status: int = 200
    cut: bool = False
    drop: bool = False

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
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def engine(self, **options: Any) -> DynamoDBEngine:
        return DynamoDBEngine("mlflow", MLFLOW_TABLE, endpoint_url=self.url, **options)


@contextmanager
def scripted(answer: Callable[[str, dict[str, Any]], Answer]) -> Iterator[Script]:
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
            if told.drop or told.cut:
                self.close_connection = True
            if told.drop:
                return
            content = told.content
            self.send_response(told.status)
            self.send_header("Content-Type", "application/x-amz-json-1.0")
            promised = content + b" " * 10 * told.cut
            self.send_header("Content-Length", str(len(promised)))
            self.send_header("x-amz-crc32", str(zlib.crc32(promised)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
