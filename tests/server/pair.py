"""Our app and MLflow's own on one table, in one process each.

``python -m tests.server.pair PORT TABLE FOLDER ours|theirs [--auth]`` serves one of them until its
standard input is closed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.engines import ROOT, free_port

START_SECONDS = 120.0
UNSTABLE = frozenset({"date", "expires"})  # of the moment: max-age, too, says when it expires
# Sets of methods are listed in the same order by both.
SETTINGS = {"MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONHASHSEED": "0"}


@dataclass(frozen=True)
class Answer:
    """What a server has answered; names of headers are in lower case, and sorted."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        return dict(self.headers).get(name)

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One kept connection to one server."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        connection = self._connection
        given = headers or {}
        connection.putrequest(method, path, skip_host="Host" in given, skip_accept_encoding=True)
        for name, value in given.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        found = [(name.lower(), value) for name, value in answer.getheaders()]
        kept = tuple(sorted(one for one in found if one[0] not in UNSTABLE))
        return Answer(answer.status, kept, answer.read())


class Pair:
    """A client of our server and one of MLflow's."""

    def __init__(self, ports: tuple[int, int]) -> None:
        self.ports = ports
        self.ours, self.theirs = map(Client, ports)

    def send(self, *request: Any, **options: Any) -> tuple[Answer, Answer]:
        """The answers of both to one request."""
        return self.ours.send(*request, **options), self.theirs.send(*request, **options)


@contextmanager
def serving_pair(
    folder: Path, *, table: str | None = None, auth: bool = False, **environment: str
) -> Iterator[Pair]:
    """Both servers; what they print is in ``ours.log`` and ``theirs.log``."""
    ports = free_port(), free_port()
    uri = table or f"dynamodb:///{folder}/mlflow.ddb?synchronous=NORMAL"
    inherited = {name: value for name, value in os.environ.items() if "MLFLOW" not in name}
    processes = []
    try:
        for port, which in zip(ports, ("ours", "theirs"), strict=True):
            command = [sys.executable, "-m", "tests.server.pair", str(port), uri, str(folder)]
            with (folder / f"{which}.log").open("w") as log:
                process = subprocess.Popen(
                    [*command, which, *(["--auth"] if auth else [])],
                    cwd=ROOT,
                    # Workers of one parent are one server, so each pair has its own folder.
                    env=inherited | SETTINGS | {"TMPDIR": str(folder)} | environment,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            processes.append(process)
        for port, process, which in zip(ports, processes, ("ours", "theirs"), strict=True):
            _wait(f"http://127.0.0.1:{port}/health", process, folder / f"{which}.log")
        yield Pair(ports)
    finally:
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in processes:
            process.wait(30)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except urllib.error.HTTPError:
            return  # it answers, under a prefix
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    raise AssertionError(log.read_text())


def main() -> None:
    port, uri, folder, which = sys.argv[1:5]
    os.environ |= {
        "_MLFLOW_SERVER_FILE_STORE": uri,
        "_MLFLOW_SERVER_REGISTRY_STORE": uri,
        "_MLFLOW_SERVER_ARTIFACT_ROOT": "mlflow-artifacts:/",
        "_MLFLOW_SERVER_ARTIFACT_DESTINATION": f"{folder}/artifacts",
        "_MLFLOW_SERVER_SERVE_ARTIFACTS": "true",
        "_MLFLOW_SGI_NAME": "uvicorn",
    }
    import uvicorn

    app = our_app() if which == "ours" else their_app()
    # Both keep a connection while a busy machine lets the other one answer.
    config = uvicorn.Config(app, port=int(port), log_level="warning", timeout_keep_alive=120)
    server = uvicorn.Server(config)
    threading.Thread(target=server.run, daemon=True).start()
    sys.stdin.read()


def our_app() -> Any:
    if "--auth" in sys.argv:
        from mlflow_dynamodbstore.server.auth_app import create_app
    else:
        from mlflow_dynamodbstore.server.app import create_app
    return create_app()


def their_app() -> Any:
    """MLflow's own app; with users it needs our store, and so our part of it."""
    if "--auth" in sys.argv:
        from mlflow_dynamodbstore.auth.app import create_app

        return create_app()
    from mlflow.server.fastapi_app import app

    return app


if __name__ == "__main__":
    main()
