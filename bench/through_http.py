"""The same through HTTP: a real ``mlflow server``, and clients that log in parallel."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.contract import TMPFS
from mlflow_dynamodbstore.serve import Server, embedded_table, environment
from tests.engines import ROOT, free_port

WORKERS = 4
CLIENTS = 8
START_SECONDS = 120.0


@dataclass
class Served:
    """What the clients of one server saw."""

    name: str
    calls: int
    per_second: float
    p50_ms: float
    p99_ms: float
    errors: list[str]


def run(seconds: float, say: Callable[[str], None]) -> list[Served]:
    """Both servers, one after the other: each has the machine to itself."""
    found = []
    memory = TMPFS if TMPFS.is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as made:
        folder = Path(made)
        places = {
            "MLflow, SQLite": f"sqlite:///{folder}/mlflow.db",
            "ours, embedded": embedded_table(folder),
        }
        for name, uri in places.items():
            say(f"serving {name} to {CLIENTS} clients ...")
            with serving(uri, folder) as address:
                found.append(load(name, address, seconds))
    return found


@contextmanager
def serving(uri: str, folder: Path) -> Iterator[str]:
    """A server on a free port; gives ``host:port``."""
    port = free_port()
    server = Server("127.0.0.1", port, WORKERS, uri, str(folder / "artifacts"))
    log = folder / f"server-{port}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            server.command(),
            env=environment() | {"MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONWARNINGS": "ignore"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process, log)
        yield f"127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"the server did not start:\n{log.read_text()}")


def load(name: str, address: str, seconds: float) -> Served:
    """Let the clients loose at the same moment and gather what they saw."""
    warm_up(address)
    experiment = create_experiment(address)
    start = time.time() + 2
    command = [sys.executable, "-m", "bench.http_client", address, experiment, str(start)]
    clients = [
        subprocess.Popen([*command, str(seconds)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for _ in range(CLIENTS)
    ]
    heard = [json.loads(client.communicate()[0]) for client in clients]
    took = sorted(1000 * each for one in heard for each in one["took"])
    errors = [error for one in heard for error in one["errors"]]
    cuts = statistics.quantiles(took, n=100)
    return Served(name, len(took), len(took) / seconds, cuts[49], cuts[98], errors)


def warm_up(address: str) -> None:
    """Every worker opens its store at its first call; that is not what is measured."""
    for _ in range(4 * WORKERS):
        url = f"http://{address}/api/2.0/mlflow/experiments/get?experiment_id=0"
        urllib.request.urlopen(url, timeout=60).close()


def create_experiment(address: str) -> str:
    url = f"http://{address}/api/2.0/mlflow/experiments/create"
    body = json.dumps({"name": "load"}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        created: str = json.load(answer)["experiment_id"]
    return created
