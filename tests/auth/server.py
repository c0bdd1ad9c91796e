"""A server with the app ``dynamodb-auth`` and workspaces, in processes of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import local
from typing import Any

import requests
from requests.auth import HTTPBasicAuth

from tests.engines import free_port
from tests.releases import has

ADMIN, ADMIN_PASSWORD = "root", "the admin's password"
USER_PASSWORD = "the user's password"
START_SECONDS = 200.0
STOP_SECONDS = 20.0
CONFIGURATION = f"""\
[mlflow]
default_permission = NO_PERMISSIONS
database_uri = sqlite:///unused.db
admin_username = {ADMIN}
"""


SHIPPED_PASSWORD = "password1234"
"""What is configured in releases that do not know the variable for it."""


def _password_line(password: str | None) -> str:
    known = has("admin password variable")
    return "" if known else f"admin_password = {password or SHIPPED_PASSWORD}\n"


@dataclass(frozen=True)
class Caller:
    """Somebody who calls the server, in a workspace."""

    url: str
    name: str
    password: str = USER_PASSWORD
    workspace: str | None = None

    def call(self, method: str, path: str, **arguments: Any) -> requests.Response:
        """One call, over a connection that the calls of a thread to one server share."""
        headers = {"X-MLFLOW-WORKSPACE": self.workspace} if self.workspace else {}
        headers |= arguments.pop("headers", {})
        return _session().request(
            method,
            f"{self.url}/api/{path}",
            auth=HTTPBasicAuth(self.name.encode(), self.password.encode()),
            headers=headers,
            timeout=60,
            **arguments,
        )

    def get(self, path: str, **parameters: Any) -> requests.Response:
        return self.call("GET", path, params=parameters)

    def post(self, path: str, **body: Any) -> requests.Response:
        return self.call("POST", path, json=body)

    def must(self, path: str, **body: Any) -> Any:
        answer = self.post(path, **body)
        assert answer.status_code == 200, answer.text
        return answer.json() if answer.text else {}


_local = local()


def _session() -> requests.Session:
    if not hasattr(_local, "session"):
        _local.session = requests.Session()
        _local.session.trust_env = False  # looking for proxies takes longer than most calls
    session: requests.Session = _local.session
    return session


@contextmanager
def auth_server(folder: Path, *, password: str | None = ADMIN_PASSWORD) -> Iterator[str]:
    """A server on a file in a folder; gives its address. Its output is in ``log`` there."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    (folder / "auth.ini").write_text(CONFIGURATION + _password_line(password))
    environment = {name: value for name, value in os.environ.items() if "MLFLOW" not in name}
    environment |= {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_AUTH_CONFIG_PATH": str(folder / "auth.ini"),
        **({} if password is None else {"MLFLOW_AUTH_ADMIN_PASSWORD": password}),
    }
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--app-name", "dynamodb-auth"),
        *("--backend-store-uri", f"dynamodb:///{folder / 'mlflow.ddb'}", "--enable-workspaces"),
        *("--serve-artifacts", "--artifacts-destination", str(folder / "artifacts")),
        *("--host", "127.0.0.1", "--port", str(port), "--workers", "2"),
    ]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait(url, process, folder)
            yield url
        finally:
            _stop(process)


def _wait(url: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if requests.get(f"{url}/health", timeout=5).status_code == 200:
                return
        except requests.ConnectionError:
            time.sleep(0.2)
    raise AssertionError((folder / "log").read_text())


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
