"""``versioned`` side by side with the public package of that name, on the same emulators.

    python -m bench.versioned --other /path/to/python

where that Python has ``pip install versioned==1.0.1``. Tables are on dynoxide, content is on moto's
S3. Requests are counted by a proxy in front of each, in a run of their own, so that the proxy takes
no part in the times. Without ``--other`` only ours is measured.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import click
from rich.console import Console
from rich.table import Table as Shown

from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from tests.engines import dynoxide_server, moto_server
from versioned.keys import TABLE
from versioned.rows import Artifact

PROGRAMS = Path(__file__).parent / "programs"
VERSIONS = 10_000


@dataclass
class Measured:
    """Seconds and requests of one operation."""

    seconds: dict[str, float] = field(default_factory=dict)
    table: dict[str, float] = field(default_factory=dict)
    storage: dict[str, float] = field(default_factory=dict)


@contextmanager
def counting(target: str) -> Iterator[tuple[str, Counter[str]]]:
    """A proxy in front of a server; gives its ``host:port`` and what it has counted."""
    counts: Counter[str] = Counter()

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            counts["requests"] += 1
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            upstream = http.client.HTTPConnection(target)
            upstream.request(self.command, self.path, body, dict(self.headers))
            answer = upstream.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else len(content)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(content)
            upstream.close()

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", counts
    finally:
        server.shutdown()
        server.server_close()


def fill(table_host: str, table: str) -> None:
    """Write the rows of 10,000 versions, as both packages would."""
    uri = f"dynamodb://{table_host}/{table}"
    rows = Table(open_engine(uri, TABLE))
    items = []
    for number in range(1, VERSIONS + 1):
        row = Artifact.new("many", number)
        row.sha256 = f"{number:064x}"
        item = row.to_item()
        items.append(
            {name: item[name] for name in ("pk", "sk", "update_at", "is_deleted", "sha256")}
        )
    rows.write([Put(item) for item in items])
    rows.close()


def run(
    python: str, program: str, arguments: list[str], environment: dict[str, str], counters: Any
) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Run a program; returns its seconds, and the requests that were counted for each part."""
    process = subprocess.Popen(
        [python, str(PROGRAMS / program), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    seconds: dict[str, float] = {}
    requests: dict[str, tuple[float, float]] = {}
    before = (0, 0)
    for line in process.stdout:
        word, _, rest = line.strip().partition(" ")
        now = tuple(counter["requests"] for counter in counters)
        if word == "begin":
            before = now
        elif word == "end":
            what, _, operations = rest.rpartition(" ")
            each = [(b - a) / int(operations) for a, b in zip(before, now, strict=True)]
            requests[what] = (each[0], each[1])
        elif word == "times":
            seconds = json.loads(rest)
            continue
        else:
            continue
        process.stdin.write("\n")
        process.stdin.flush()
    if process.wait() != 0:
        raise click.ClickException(f"{program} ended with {process.returncode}")
    return seconds, requests


def measure(kind: str, python: str, count: int) -> Measured:
    """Two runs on fresh emulators: one for the times, one through the counters."""
    made = Measured()
    for through_counters in (False, True):
        with dynoxide_server() as table_host, moto_server() as storage_host:
            session = boto3.session.Session("bench", "bench", region_name="us-east-1")
            # moto keeps its buckets from server to server.
            bucket = f"{kind}-{int(through_counters)}-{uuid.uuid4().hex[:8]}"
            session.client("s3", endpoint_url=f"http://{storage_host}").create_bucket(Bucket=bucket)
            fill(table_host, "artifacts")
            with (
                counting(table_host) as (table_proxy, tables),
                counting(storage_host) as (
                    storage_proxy,
                    storages,
                ),
            ):
                hosts = (
                    (table_proxy, storage_proxy) if through_counters else (table_host, storage_host)
                )
                program, arguments, environment = call(kind, bucket, *hosts, count)
                seconds, requests = run(python, program, arguments, environment, (tables, storages))
        if through_counters:
            made.table = {what: each[0] for what, each in requests.items()}
            made.storage = {what: each[1] for what, each in requests.items()}
        else:
            made.seconds = seconds
    return made


def call(
    kind: str, bucket: str, table_host: str, storage_host: str, count: int
) -> tuple[str, list[str], dict[str, str]]:
    """The program of a package, its arguments, and its environment."""
    environment = {
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_DYNAMODB": f"http://{table_host}",
        "AWS_ENDPOINT_URL_S3": f"http://{storage_host}",
    }
    if kind == "theirs":
        return "versioned_theirs.py", [bucket, "artifacts", str(count)], environment
    table = f"dynamodb://{table_host}/artifacts"
    storage = f"s3://{bucket}/ours?endpoint_url=http://{storage_host}"
    return "versioned_ours.py", [table, storage, str(count)], environment


def show(results: dict[str, Measured]) -> Shown:
    """A table with a line for each operation."""
    table = Shown(
        title="versioned: median milliseconds, and requests to the table + to S3, for one operation"
    )
    table.add_column("operation")
    for name in results:
        table.add_column(f"{name}: ms", justify="right")
        table.add_column("requests", justify="right")
    first = next(iter(results.values()))
    for what in first.seconds:
        cells = []
        for measured in results.values():
            requests = f"{measured.table[what]:.3g} + {measured.storage[what]:.3g}"
            cells += [f"{measured.seconds[what] * 1000:.1f}", requests]
        table.add_row(what, *cells)
    return table


@click.command()
@click.option("--other", help="A Python with the public package installed.")
@click.option("--count", default=100, show_default=True, help="Operations of each kind.")
def main(other: str | None, count: int) -> None:
    """Measure both packages and print one table."""
    results = {"ours": measure("ours", sys.executable, count)}
    if other:
        results["versioned 1.0.1"] = measure("theirs", other, count)
    Console(width=120).print(show(results))


if __name__ == "__main__":
    main()
