"""What is asked of the servers, and how ``wrk`` asks it."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench.servers import Server

PROGRAMS = Path(__file__).with_name("programs")
RUNS = 64
SEARCHED = 150
FOUND = 100
POINTS = 1_000
SPANS = 10
FEWEST_ANSWERS = 100  # of which the slowest is the p99
ROUNDS = 3  # answers for each connection
TRACE_ID = b"TRACEIDTRACEIDXX"  # which the program replaces
_UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}

Script = Callable[[Server, Path], Sequence[str]]


@dataclass(frozen=True)
class Call:
    """A call that is measured, and how many times the calls a second of SQLite are the goal.

    ``p99_goal`` is how many times shorter its p99 must be; None where no goal was set.
    """

    title: str
    script: Script
    goal: float
    p99_goal: float | None = None


@dataclass(frozen=True)
class Measured:
    """What ``wrk`` saw of one server, and the server's own processor time."""

    call: str
    server: str
    workers: int
    connections: int
    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float
    failed: int
    seconds: float = 0.0
    answers: int = 0


def log_batch(server: Server, folder: Path) -> Sequence[str]:
    experiment = new_experiment(server, "log")
    runs = [new_run(server, experiment) for _ in range(RUNS)]
    return "log_batch.lua", written(folder, "runs", "\n".join(runs))


def get_run(server: Server, folder: Path) -> Sequence[str]:
    experiment = new_experiment(server, "get")
    runs = [finished_run(server, experiment) for _ in range(8)]
    return repeated(folder, [f"GET /api/2.0/mlflow/runs/get?run_id={run}\n" for run in runs])


def search_runs(server: Server, folder: Path) -> Sequence[str]:
    experiment = new_experiment(server, "search")
    for _ in range(SEARCHED):
        finished_run(server, experiment)
    body = json.dumps({"experiment_ids": [experiment], "max_results": FOUND})
    return repeated(folder, [f"POST /api/2.0/mlflow/runs/search\n{body}"])


def get_history(server: Server, folder: Path) -> Sequence[str]:
    run = new_run(server, new_experiment(server, "history"))
    points = [{"key": "m", "value": n / 7, "timestamp": n, "step": n} for n in range(POINTS)]
    server.post("runs/log-batch", {"run_id": run, "metrics": points})
    path = f"/api/2.0/mlflow/metrics/get-history?run_id={run}&metric_key=m"
    return repeated(folder, [f"GET {path}\n"])


def send_trace(server: Server, folder: Path) -> Sequence[str]:
    experiment = new_experiment(server, "traces")
    file = folder / "otlp"
    file.write_bytes(trace_request())
    return "otlp.lua", str(file), experiment


CALLS = (
    Call("log-batch, 10 metrics", log_batch, 8, p99_goal=8),
    Call("runs/get, 20 params + 10 metrics", get_run, 8),
    Call(f"runs/search, {FOUND} runs", search_runs, 6),
    Call(f"metrics/get-history, {POINTS:,} points", get_history, 6),
    Call(f"a trace of {SPANS} spans through OTLP", send_trace, 5),
)


def seconds_for(per_second: float, connections: int, shortest: int, longest: int) -> int:
    """How long to ask a server, by its last rate: until a p99 says something, if that ends soon."""
    if per_second <= 0:
        return longest
    needed = math.ceil(max(FEWEST_ANSWERS, ROUNDS * connections) / per_second)
    return min(longest, max(shortest, needed))


def measure(
    call: Call, script: Sequence[str], server: Server, workers: int, connections: int, seconds: int
) -> Measured:
    """Ask for some seconds, over so many connections at once."""
    program, *arguments = script
    command = [
        *("wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "60s", "--latency"),
        *("-s", str(PROGRAMS / program), server.url, "--", *arguments),
    ]
    before = server.cpu_seconds()
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    used = server.cpu_seconds() - before
    answers = int(_number(r"(\d+) requests in", told))
    failed = _number(r"Non-2xx or 3xx responses: (\d+)", told)
    socket_errors = re.search(r"Socket errors: (.+)", told)
    if socket_errors:  # of connecting, reading, writing, and answers that took too long
        failed += sum(map(int, re.findall(r"\d+", socket_errors.group(1))))
    return Measured(
        call.title,
        server.name,
        workers,
        connections,
        float(_number(r"Requests/sec:\s+([\d.]+)", told)),
        _latency("50%", told),
        _latency("99%", told),
        1000 * used / max(1, answers),
        int(failed),
        seconds,
        answers,
    )


def has_wrk() -> bool:
    return shutil.which("wrk") is not None


def _number(pattern: str, told: str) -> float:
    found = re.search(pattern, told)
    return float(found.group(1)) if found else 0.0


def _latency(quantile: str, told: str) -> float:
    found = re.search(rf"{quantile}\s+([\d.]+)(us|ms|s|m)\b", told)
    return float(found.group(1)) * _UNITS[found.group(2)] if found else float("nan")


# --- what a server holds before -----------------------------------------------------------------


def new_experiment(server: Server, name: str) -> str:
    found: str = server.post("experiments/create", {"name": name})["experiment_id"]
    return found


def new_run(server: Server, experiment: str) -> str:
    start_time = int(1000 * time.time())
    body = {"experiment_id": experiment, "start_time": start_time, "user_id": "me"}
    found: str = server.post("runs/create", body)["run"]["info"]["run_id"]
    return found


def finished_run(server: Server, experiment: str) -> str:
    run = new_run(server, experiment)
    body = {
        "run_id": run,
        "params": [{"key": f"param{n}", "value": f"value {n}"} for n in range(20)],
        "metrics": [
            {"key": f"metric{n}", "value": n / 7, "timestamp": 5, "step": 1} for n in range(10)
        ],
    }
    server.post("runs/log-batch", body)
    server.post("runs/update", {"run_id": run, "status": "FINISHED", "end_time": 9})
    return run


def trace_request() -> bytes:
    """An OTLP request with a trace of some spans, one below the other."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for n in range(SPANS):
        span = spans.add()
        span.trace_id, span.span_id = TRACE_ID, f"span{n:04d}".encode()
        if n:
            span.parent_span_id = f"span{n - 1:04d}".encode()
        span.name = f"step {n}"
        span.start_time_unix_nano = 1_700_000_000_000_000_000 + n
        span.end_time_unix_nano = 1_700_000_001_000_000_000 - n
        for key, value in (("mlflow.spanInputs", '{"question": "why"}'), ("model", '"small"')):
            attribute = span.attributes.add()
            attribute.key, attribute.value.string_value = key, value
    made: bytes = request.SerializeToString()
    return made


def repeated(folder: Path, requests: Sequence[str]) -> Sequence[str]:
    return "repeat.lua", written(folder, "requests", "\n".join(requests) + "\n")


def written(folder: Path, name: str, text: str) -> str:
    file = folder / name
    file.write_text(text)
    return str(file)
