"""Workers are forked from one parent, which has imported the app."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from uvicorn.config import Config

from mlflow_dynamodbstore.mlflow_compat import server_start
from mlflow_dynamodbstore.server import prefork
from tests.engines import free_port

APP = "mlflow_dynamodbstore.server.app:create_app"
WORKERS = 3
CONNECTIONS = 90


def test_our_apps_are_started_by_the_parent_and_others_are_not(monkeypatch: Any):
    monkeypatch.setattr(sys, "platform", "linux")

    def theirs(app: str) -> list[str]:
        return [sys.executable, "-m", "uvicorn", "--factory", app]

    assert server_start._build_uvicorn_command(theirs, APP)[2] == prefork.__name__
    assert server_start._build_uvicorn_command(theirs, "mlflow.server:app")[2] == "uvicorn"


def test_a_file_of_variables_is_read_before_anything_is_imported():
    assert not prefork.prepare(["--env-file", "variables", APP])


@pytest.fixture
def bound(monkeypatch: Any) -> Iterator[socket.socket]:
    monkeypatch.setattr(Config, "bind_socket", Config.bind_socket)  # restored afterwards
    prefork.share_connections()
    with Config(APP, host="127.0.0.1", port=0).bind_socket() as made:
        made.setblocking(False)
        yield made


def test_connections_of_workers_send_at_once(bound: socket.socket):
    """Else the body of an answer waits until its head is acknowledged, after 40 ms."""

    async def connected() -> int:
        has_begun = asyncio.Event()
        sent_at_once = 0

        def begin(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent_at_once
            inside = writer.get_extra_info("socket")
            sent_at_once = inside.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            writer.close()
            has_begun.set()

        async with await asyncio.start_server(begin, sock=bound):
            with socket.create_connection(bound.getsockname()):
                await asyncio.wait_for(has_begun.wait(), 30)
        return sent_at_once

    assert asyncio.run(connected())


def test_workers_that_are_not_forked_share_connections_too(bound: socket.socket):
    """As where uvicorn reads a file of variables, or another thread runs."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    worker = context.Process(target=accept_one, args=(bound, theirs))
    worker.start()
    assert ours.recv() == "listening"
    bound.close()  # it does not listen; only the worker does
    with socket.create_connection(ours.recv()):
        assert ours.recv() == "accepted"
    worker.join()


def test_another_server_is_refused_the_address(bound: socket.socket):
    bound.listen()
    with pytest.raises(SystemExit):
        Config(APP, host="127.0.0.1", port=bound.getsockname()[1]).bind_socket()


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


def accept_one(shared: socket.socket, told: Any) -> None:
    shared.listen()
    told.send("listening")
    told.send(shared.getsockname())
    shared.setblocking(True)
    shared.accept()[0].close()
    told.send("accepted")


def sockets_of(process: int) -> int:
    found = [str(one.readlink()) for one in Path(f"/proc/{process}/fd").iterdir()]
    return sum(one.startswith("socket:") for one in found)


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
    check_that_connections_are_shared(port, workers)
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


def check_that_connections_are_shared(port: int, workers: list[int]) -> None:
    """Each of them gets about as many of the connections that begin at the same moment."""
    before = [sockets_of(one) for one in workers]
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            opened = socket.create_connection(("127.0.0.1", port), timeout=60)
            stack.enter_context(opened)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            taken = [sockets_of(one) - had for one, had in zip(workers, before, strict=True)]
            if sum(taken) >= CONNECTIONS - WORKERS:  # some that waited for more have ended
                break
            time.sleep(0.1)
        assert min(taken) > CONNECTIONS / WORKERS / 3, taken


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
