"""Real servers to measure: ``mlflow server`` on SQLite, on PostgreSQL and on ours."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.postgres import postgres_server
from bench.stores import EMBEDDED, POSTGRES, SQLITE
from tests.engines import free_port

START_SECONDS = 180.0
STOP_SECONDS = 20.0
CALM_SECONDS = 120.0  # connections that wait for a database's pool give up after 30


@dataclass
class Server:
    """A server that runs, and the process group it runs in."""

    name: str
    port: int
    group: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def post(self, path: str, body: Any, version: str = "2.0") -> Any:
        """Ask once; again while the server refuses because of the load it had before."""
        url = f"{self.url}/api/{version}/mlflow/{path}"
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        deadline = time.monotonic() + CALM_SECONDS
        while True:
            try:
                with urllib.request.urlopen(request, timeout=CALM_SECONDS) as answer:
                    return json.load(answer)
            except (urllib.error.HTTPError, TimeoutError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)

    def cpu_seconds(self) -> float:
        """Processor time that its processes have used."""
        ticks = sum(int(each[11]) + int(each[12]) for each in self._stats())
        return ticks / os.sysconf("SC_CLK_TCK")

    def megabytes(self) -> float:
        """Memory of its processes that is in use."""
        return sum(int(each[21]) for each in self._stats()) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def _stats(self) -> Iterator[list[str]]:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                found = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended meanwhile
            if int(found[2]) == self.group:
                yield found


@contextmanager
def all_servers(
    folder: Path, workers: int, say: Callable[[str], None], *, postgres: bool = True
) -> Iterator[list[Server]]:
    """Every server that can be had here, on an empty store, with so many workers each."""
    with ExitStack() as stack:
        places = {SQLITE: f"sqlite:///{folder}/mlflow.db"}
        if postgres:
            address = stack.enter_context(postgres_server(say))
            places |= {POSTGRES: address} if address else {}
        places[EMBEDDED] = f"dynamodb:///{folder}/ours.ddb"
        yield [
            stack.enter_context(serving(name, uri, folder, workers)) for name, uri in places.items()
        ]


@contextmanager
def serving(name: str, uri: str, folder: Path, workers: int) -> Iterator[Server]:
    """One server, as MLflow and our documentation start it, but without background jobs."""
    port = free_port()
    app = ["--app-name", "dynamodb"] if uri.startswith("dynamodb") else []
    command = [
        *(sys.executable, "-m", "mlflow", "server", *app, "--backend-store-uri", uri),
        *("--artifacts-destination", str(folder / "artifacts"), "--workers", str(workers)),
        *("--host", "127.0.0.1", "--port", str(port)),
    ]
    settings = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "PYTHONWARNINGS": "ignore",
    }
    log = folder / f"server-{port}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            env=os.environ | settings,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = Server(name, port, process.pid)
    try:
        _wait_for(f"{server.url}/health", process, log)
        for _ in range(4 * workers):  # every worker opens its store at its first call
            urllib.request.urlopen(
                f"{server.url}/api/2.0/mlflow/experiments/get?experiment_id=0", timeout=60
            ).close()
        yield server
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"the server did not start:\n{log.read_text()}")
