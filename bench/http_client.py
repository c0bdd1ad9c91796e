"""One client of a server: logs runs for so long and prints how long every call took, as JSON.

``python -m bench.http_client URL EXPERIMENT START SECONDS``. It speaks REST without MLflow's
client, which would try failed calls again and so hide them, and would need more of the processor
than the server does.
"""

from __future__ import annotations

import http.client
import json
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

BY = "/api/2.0/mlflow/"
LOGS_PER_RUN = 10


class Client:
    """A connection that is kept, the times of its calls, and the calls that failed."""

    def __init__(self, address: str):
        self.connection = http.client.HTTPConnection(address, timeout=60)
        self.took: list[float] = []
        self.errors: list[str] = []

    def call(self, verb: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """One call; an answer other than 200 is written down and given as an empty one."""
        began = time.perf_counter()
        headers = {"Content-Type": "application/json"}
        try:
            self.connection.request(verb, BY + path, json.dumps(body), headers)
            answer = self.connection.getresponse()
            text = answer.read()
        except OSError as error:
            self.errors.append(f"{path}: {error!r}")
            self.connection.close()
            return {}
        self.took.append(time.perf_counter() - began)
        if answer.status != 200:
            self.errors.append(f"{path}: {answer.status} {text[:300]!r}")
            return {}
        found: dict[str, Any] = json.loads(text)
        return found


def log_a_run(client: Client, experiment: str) -> Iterator[None]:
    """A small training: stops between calls so that the caller can end it."""
    now = int(time.time() * 1000)
    tags = [{"key": f"tag{n}", "value": f"value {n}"} for n in range(10)]
    body = {"experiment_id": experiment, "start_time": now, "tags": tags}
    created = client.call("POST", "runs/create", body)
    yield
    if not created:
        return
    run_id = created["run"]["info"]["run_id"]
    params = [{"key": f"param{n}", "value": f"value {n}"} for n in range(20)]
    for step in range(LOGS_PER_RUN):
        metrics = [
            {"key": f"metric{n}", "value": random.random(), "timestamp": now + step, "step": step}
            for n in range(10)
        ]
        body = {"run_id": run_id, "metrics": metrics, "params": params if step == 0 else []}
        client.call("POST", "runs/log-batch", body)
        yield
    ended = {"run_id": run_id, "status": "FINISHED", "end_time": now + LOGS_PER_RUN}
    client.call("POST", "runs/update", ended)
    yield
    read = client.call("GET", f"runs/get?run_id={run_id}", {})
    found = read.get("run", {}).get("data", {})
    if read and (len(found.get("metrics", ())), len(found.get("params", ()))) != (10, 20):
        client.errors.append(f"run {run_id} came back without all that was logged")
    yield


def main() -> None:
    address, experiment, start, seconds = sys.argv[1:]
    client, until = Client(address), float(start) + float(seconds)
    time.sleep(max(0.0, float(start) - time.time()))
    while time.time() < until:
        for _ in log_a_run(client, experiment):
            if time.time() >= until:
                break
    print(json.dumps({"took": client.took, "errors": client.errors}))


if __name__ == "__main__":
    main()
