"""The load by which MLflow's pull request 17038 argued for a faster store.

64 clients, each with one run, log 500 metrics in one call; then they log 2,000 traces. Through one
server with four workers, by threads that each keep a connection.
"""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.http_calls import TRACE_ID, new_experiment, new_run, trace_request
from bench.servers import Server, all_servers

CLIENTS = 64
METRICS = 500
TRACES = 2_000
WORKERS = 4


@dataclass(frozen=True)
class Load:
    """Seconds of the two parts of the load on one server, and the calls that failed."""

    server: str
    metrics_seconds: float
    traces_seconds: float
    failed: int


def run(folder: Path, say: Callable[[object], None], *, postgres: bool) -> list[Load]:
    with all_servers(folder, WORKERS, say, postgres=postgres) as servers:
        found = []
        for server in servers:
            found.append(load(server))
            say(found[-1])
    return found


def load(server: Server) -> Load:
    experiment = new_experiment(server, "pull request 17038")
    runs = [new_run(server, experiment) for _ in range(CLIENTS)]
    bodies = []
    for run_id in runs:
        metrics = [
            {"key": f"metric{n}", "value": n / 7, "timestamp": 5, "step": 0} for n in range(METRICS)
        ]
        bodies.append([json.dumps({"run_id": run_id, "metrics": metrics}).encode()])
    path = "/api/2.0/mlflow/runs/log-batch"
    metrics_seconds, failed = send(server, path, {"Content-Type": "application/json"}, bodies)
    trace = trace_request()
    traces = [
        [trace.replace(TRACE_ID, os.urandom(16)) for _ in range(TRACES // CLIENTS)]
        for _ in range(CLIENTS)
    ]
    for n in range(TRACES % CLIENTS):
        traces[n].append(trace.replace(TRACE_ID, os.urandom(16)))
    headers = {"Content-Type": "application/x-protobuf", "x-mlflow-experiment-id": experiment}
    traces_seconds, more_failed = send(server, "/v1/traces", headers, traces)
    return Load(server.name, metrics_seconds, traces_seconds, failed + more_failed)


def send(
    server: Server, path: str, headers: dict[str, str], bodies: list[list[bytes]]
) -> tuple[float, int]:
    """Post the bodies, one client a list, all clients at once; seconds, and how many failed."""
    failed: list[str] = []
    begin = threading.Barrier(len(bodies) + 1)

    def client(own: list[bytes]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
        begin.wait()
        for body in own:
            try:
                connection.request("POST", path, body, headers)
                answer = connection.getresponse()
                text = answer.read()
                if answer.status != 200:
                    failed.append(text.decode(errors="replace"))
            except (OSError, http.client.HTTPException) as error:
                failed.append(repr(error))
                connection.close()

    threads = [threading.Thread(target=client, args=(own,)) for own in bodies]
    for thread in threads:
        thread.start()
    begin.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began, len(failed)
