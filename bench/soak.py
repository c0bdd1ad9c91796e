"""A server for long at half of its highest load: ``python -m bench.soak --minutes 60``.

It measures the highest rate first, then lets clients ask at half of it. Memory, errors and the 99th
percentile are printed every minute; the end says whether they stayed flat.
"""

from __future__ import annotations

import http.client
import json
import random
import statistics
import tempfile
import threading
import time
from pathlib import Path

import click

from bench.contract import TMPFS
from bench.http_calls import CALLS, finished_run, measure, new_experiment, new_run
from bench.numbers import shown
from bench.servers import Server, serving
from bench.stores import EMBEDDED

CLIENTS = 16
JSON = {"Content-Type": "application/json"}


class Load:
    """Clients that ask at a steady rate, and what they saw since the last look."""

    def __init__(self, server: Server, per_second: float) -> None:
        self.server = server
        self.pause = CLIENTS / per_second
        self.took: list[float] = []
        self.errors: list[str] = []
        self.until = float("inf")
        self._lock = threading.Lock()
        experiment = new_experiment(server, "soak")
        self.ended = [finished_run(server, experiment) for _ in range(8)]
        self.experiment = experiment

    def client(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        run, step = new_run(self.server, self.experiment), 0
        due = time.monotonic() + random.uniform(0, self.pause)
        while (now := time.monotonic()) < self.until:
            if due > now:
                time.sleep(due - now)
            step += 1
            if step % 2_000 == 0:  # runs end, as they do, and others begin
                ended = {"run_id": run, "status": "FINISHED", "end_time": 9}
                self.server.post("runs/update", ended)
                run = new_run(self.server, self.experiment)
            self._ask(connection, run, step, due)
            due += self.pause

    def _ask(self, connection: http.client.HTTPConnection, run: str, step: int, due: float) -> None:
        path, body = "/api/2.0/mlflow/runs/get?run_id=" + random.choice(self.ended), None
        if step % 10:
            path = "/api/2.0/mlflow/runs/log-batch"
            metrics = [
                {"key": f"m{n}", "value": random.random(), "timestamp": step, "step": step}
                for n in range(10)
            ]
            body = json.dumps({"run_id": run, "metrics": metrics})
        try:
            connection.request("GET" if body is None else "POST", path, body, JSON)
            answer = connection.getresponse()
            text = answer.read()
            error = "" if answer.status == 200 else f"{answer.status} {text[:200]!r}"
        except OSError as raised:
            error = repr(raised)
            connection.close()
        with self._lock:
            self.took.append(time.monotonic() - due)
            if error:
                self.errors.append(error)

    def look(self) -> tuple[list[float], list[str]]:
        with self._lock:
            seen = self.took, self.errors
            self.took, self.errors = [], []
        return seen


@click.command()
@click.option("--minutes", default=60, show_default=True)
@click.option("--workers", default=1, show_default=True)
def main(minutes: int, workers: int) -> None:
    """Ask a server at half of its highest load, and look whether it stays as it is."""
    with (
        tempfile.TemporaryDirectory(dir=TMPFS) as made,
        serving(EMBEDDED, f"dynamodb:///{made}/ours.ddb", Path(made), workers) as server,
    ):
        script = CALLS[0].script(server, Path(made))
        highest = measure(CALLS[0], script, server, workers, CLIENTS, 10).per_second
        print(f"the highest rate is {highest:,.0f} calls a second; asking for half of it")
        load = Load(server, highest / 2)
        threads = [threading.Thread(target=load.client, daemon=True) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        seen = []
        for minute in range(minutes):
            load.look()
            time.sleep(60)
            took, errors = load.look()
            p99 = 1000 * statistics.quantiles(took, n=100)[98]
            seen.append((server.megabytes(), p99, len(errors)))
            print(
                f"minute {minute + 1}: {len(took) / 60:,.0f} calls/s, p99 {shown(p99)} ms, "
                f"{server.megabytes():,.0f} MB, {len(errors)} errors {errors[:1]}",
                flush=True,
            )
        load.until = 0
        quarter = max(1, minutes // 4)
        for n, what in enumerate(("megabytes", "p99, ms")):
            first = statistics.median(one[n] for one in seen[:quarter])
            last = statistics.median(one[n] for one in seen[-quarter:])
            print(f"{what}: {shown(first)} in the first quarter, {shown(last)} in the last")
        print(f"errors: {sum(one[2] for one in seen)}")


if __name__ == "__main__":
    main()
