"""What the permission check adds to a request: MLflow's app with users, and the same without.

``python -m bench.auth`` measures in a process of its own, since MLflow's app is one for a process.
Both ways are taken in turns, by hanging the checks of the auth app in and out, so that a busy
moment hits both alike. No network and no server is in between: what is measured is the app.
"""

from __future__ import annotations

import base64
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from bench.contract import TMPFS
from tests.engines import ROOT

TURNS = 40
CALLS_A_TURN = 5
NAME, PASSWORD = "ada", "a password of some length"
ADDED_GOAL_MS = 1.0


@dataclass
class Checked:
    """One kind of request: medians without and with the check, and what the check asked for."""

    title: str
    plain_ms: float
    checked_ms: float
    requests: int  # of DynamoDB, that the check adds when its answers are remembered

    @property
    def added_ms(self) -> float:
        return self.checked_ms - self.plain_ms


def run(say: Callable[[str], None]) -> list[Checked]:
    """Measure in a process of its own."""
    say("measuring the permission check ...")
    done = subprocess.run(
        [sys.executable, "-m", "bench.auth"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        say(f"the permission check was not measured: {done.stderr.strip().splitlines()[-1]}")
        return []
    return [Checked(**one) for one in json.loads(done.stdout.splitlines()[-1])]


def measure() -> list[Checked]:
    """Requests of a user who has a grant, on the embedded engine."""
    memory = TMPFS if TMPFS.is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        client, auth, meter = _app(Path(folder))
        experiment = client.post("/experiments/create", {"name": "bench"})["experiment_id"]
        run = client.post("/runs/create", {"experiment_id": experiment})["run"]["info"]["run_id"]
        auth.store.create_user(NAME, PASSWORD)
        auth.store.grant_user_permission(NAME, "experiment", experiment, "EDIT")
        point = {"run_id": run, "key": "m", "value": 1, "timestamp": 1}
        calls: dict[str, Callable[[], Any]] = {
            "get a run": lambda: client.get(f"/runs/get?run_id={run}"),
            "log a metric": lambda: client.post("/runs/log-metric", point),
        }
        return [_compare(title, call, client, meter) for title, call in calls.items()]


def _compare(title: str, call: Callable[[], Any], client: Client, meter: Any) -> Checked:
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(TURNS):
        for checked in times:
            client.check(checked)
            call()  # what is remembered is remembered from here on
            times[checked] += [_seconds(call) for _ in range(CALLS_A_TURN)]
    sent = {}
    for checked in times:
        client.check(checked)
        call()
        with meter.measure() as used:
            call()
        sent[checked] = used.total_requests
    medians = {each: 1000 * statistics.median(times[each]) for each in times}
    return Checked(title, medians[False], medians[True], sent[True] - sent[False])


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


class Client:
    """A client of the app inside this process, with and without the checks of the auth app."""

    def __init__(self, app: Any):
        self._app = app
        self._client = app.test_client()
        self._hooks: dict[bool, Any] = {False: self._hanging()}
        self._headers = {
            "Authorization": "Basic " + base64.b64encode(f"{NAME}:{PASSWORD}".encode()).decode()
        }

    def remember_checks(self) -> None:
        self._hooks[True] = self._hanging()

    def check(self, checked: bool) -> None:
        before, after = self._hooks[checked]
        self._app.before_request_funcs[None] = list(before)
        self._app.after_request_funcs[None] = list(after)

    def get(self, path: str) -> Any:
        return self._read(self._client.get(f"/api/2.0/mlflow{path}", headers=self._headers))

    def post(self, path: str, body: dict[str, Any]) -> Any:
        answer = self._client.post(f"/api/2.0/mlflow{path}", json=body, headers=self._headers)
        return self._read(answer)

    def _hanging(self) -> tuple[list[Any], list[Any]]:
        return (
            list(self._app.before_request_funcs.get(None, [])),
            list(self._app.after_request_funcs.get(None, [])),
        )

    def _read(self, answer: Any) -> Any:
        if answer.status_code != 200:
            raise RuntimeError(f"{answer.status_code}: {answer.get_data(as_text=True)}")
        return answer.get_json()


def _app(folder: Path) -> tuple[Client, Any, Any]:
    """MLflow's app on a table whose requests are counted, with our auth app hung in."""
    uri = f"dynamodb:///{folder}/mlflow.ddb"
    (folder / "auth.ini").write_text(
        "[mlflow]\ndefault_permission = NO_PERMISSIONS\nadmin_username = root\n"
        f"admin_password = {PASSWORD}\ndatabase_uri = {uri}\n"
    )
    os.environ["_MLFLOW_SERVER_FILE_STORE"] = uri
    os.environ["_MLFLOW_SERVER_ARTIFACT_ROOT"] = str(folder / "artifacts")
    os.environ["MLFLOW_AUTH_CONFIG_PATH"] = str(folder / "auth.ini")

    from mlflow.server import app, auth  # noqa: PLC0415 - reads the environment

    from mlflow_dynamodbstore.auth import app as ours  # noqa: PLC0415
    from mlflow_dynamodbstore.shared import open_tables  # noqa: PLC0415
    from mlflow_dynamodbstore.table.uri import open_engine  # noqa: PLC0415
    from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine  # noqa: PLC0415

    client = Client(app)
    metered = MeteredEngine(open_engine(uri))
    with mock.patch.object(open_tables, "open_engine", return_value=metered):
        open_tables.open_table(uri)  # the one that all stores of the URI use
    ours.create_app(app)
    client.remember_checks()
    client.check(False)
    return client, auth, metered.meter


if __name__ == "__main__":
    print(json.dumps([asdict(one) for one in measure()]))
