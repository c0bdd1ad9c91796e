"""Workers are forked from one parent, which has imported the app."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from uvicorn.config import Config

from mlflow_dynamodbstore.mlflow_compat import server_start
from mlflow_dynamodbstore.server import prefork
from tests.engines import free_port

APP = "mlflow_dynamodbstore.server.app:create_app"
WORKERS = 3


def test_our_apps_are_started_by_the_parent_and_others_are_not(monkeypatch: Any):
    monkeypatch.setattr(sys, "platform", "linux")

    def theirs(app: str) -> list[str]:
        return [sys.executable, "-m", "uvicorn", "--factory", app]

    assert server_start._build_uvicorn_command(theirs, APP)[2] == prefork.__name__
    assert server_start._build_uvicorn_command(theirs, "mlflow.server:app")[2] == "uvicorn"


def test_a_file_of_variables_is_read_before_anything_is_imported():
    assert not prefork.prepare(["--env-file", "variables", APP])


def test_connections_of_workers_send_at_once(monkeypatch: Any):
    """Else the body of an answer waits until its head is acknowledged, after 40 ms."""
    monkeypatch.setattr(Config, "bind_socket", Config.bind_socket)  # restored afterwards
    prefork.send_at_once()
    listening = Config(APP, host="127.0.0.1", port=0).bind_socket()
    listening.listen()
    with listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    port = free_port()
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--app-name", "dynamodb"),
        *("--backend-store-uri", f"dynamodb:///{tmp_path}/mlflow.ddb", "--port", str(port)),
        *("--host", "127.0.0.1", "--workers", str(WORKERS)),
    ]
    settings = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            command,
            env=os.environ | settings,
            cwd=tmp_path,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for(port, process, tmp_path / "log")
        yield port, process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    raise AssertionError(log.read_text())


def children_of(parent: int) -> list[int]:
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(one) for one in found]


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")
def test_workers_share_a_parent_write_one_file_and_are_replaced(server: Any):
    port, process = server
    (parent,) = children_of(process.pid)
    workers = children_of(parent)
    assert len(workers) == WORKERS
    # A forked worker has its parent's command line; one that uvicorn starts has multiprocessing's.
    lines = {Path(f"/proc/{one}/cmdline").read_bytes() for one in (parent, *workers)}
    assert len(lines) == 1
    runs = [create_run(port) for _ in range(4 * WORKERS)]
    assert len(set(runs)) == len(runs)
    os.kill(workers[0], signal.SIGKILL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        now = children_of(parent)
        if len(now) == WORKERS and workers[0] not in now:
            break
        time.sleep(0.2)
    assert len(now) == WORKERS
    assert create_run(port) not in runs


def create_run(port: int) -> str:
    body = json.dumps({"experiment_id": "0", "start_time": 1}).encode()
    url = f"http://127.0.0.1:{port}/api/2.0/mlflow/runs/create"
    for _ in range(20):
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                run: str = json.load(answer)["run"]["info"]["run_id"]
                return run
        except OSError:  # it went to the worker that was killed
            time.sleep(0.5)
    raise AssertionError("nobody answers")
