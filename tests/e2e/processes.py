"""Running programs, MLflow's command line and a server as their users do: as processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from mlflow_dynamodbstore.serve import embedded_table
from tests.engines import free_port

PROGRAMS = Path(__file__).parent / "programs"
PROGRAM_SECONDS = 240.0  # a few seconds on an idle machine
START_SECONDS = 240.0
STOP_SECONDS = 20.0


@dataclass(frozen=True)
class Server:
    """A running server: its address, and the folder of its data."""

    url: str
    data: Path

    @property
    def table(self) -> str:
        return embedded_table(self.data)

    @property
    def log(self) -> str:
        """What the server and its workers have said so far."""
        return log_of(self.data).read_text()


def log_of(data: Path) -> Path:
    return data.with_suffix(".log")


def environment(tracking_uri: str) -> dict[str, str]:
    """This process's environment, but for where MLflow keeps things."""
    inherited = {name: value for name, value in os.environ.items() if "MLFLOW" not in name}
    return {
        **inherited,
        "MLFLOW_TRACKING_URI": tracking_uri,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # eight more processes
        "GIT_PYTHON_REFRESH": "quiet",
    }


def start_program(
    name: str, *arguments: str, tracking_uri: str, folder: Path
) -> subprocess.Popen[str]:
    """Start one of the programs in a folder of its own."""
    return subprocess.Popen(
        [sys.executable, str(PROGRAMS / f"{name}.py"), *arguments],
        cwd=folder,
        env=environment(tracking_uri),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish_program(process: subprocess.Popen[str]) -> str:
    """Wait for a program and return what it printed; it must end well."""
    try:
        output, _ = process.communicate(timeout=PROGRAM_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == 0, output
    return output


def mlflow_process(*arguments: str, tracking_uri: str, folder: Path) -> str:
    """Run MLflow's command line as a process and return what it printed; it must end well."""
    result = subprocess.run(
        [sys.executable, "-m", "mlflow", *arguments],
        cwd=folder,
        env=environment(tracking_uri),
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def mlflow_command(*arguments: str, tracking_uri: str) -> str:
    """Call the same inside this process, which saves some seconds of imports."""
    from mlflow.cli import cli

    result = CliRunner().invoke(cli, arguments, env={"MLFLOW_TRACKING_URI": tracking_uri})
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def running_server(
    data: Path,
    workers: int = 2,
    table: str | None = None,
    options: Sequence[str] = (),
    **variables: str,
) -> AbstractContextManager[Server]:
    """The server that `make serve` starts, on a free port, with more environment variables.

    On one of MLflow's databases it is `mlflow server` as it is. Both take ``options``, too.
    """
    if table is not None and not table.startswith("dynamodb"):
        return running_mlflow_server(data, workers, table, options, **variables)
    chosen = () if table is None else ("--table", table)
    given = ("--data", str(data), *chosen, "--workers", str(workers))
    return _running(data, ("mlflow_dynamodbstore.serve", *given), ("--", *options), variables)


def running_mlflow_server(
    data: Path, workers: int, uri: str, options: Sequence[str] = (), **variables: str
) -> AbstractContextManager[Server]:
    """`mlflow server` as it is, on any store."""
    stores = ("--backend-store-uri", uri, "--artifacts-destination", str(data / "artifacts"))
    server = ("mlflow", "server", *stores, "--workers", str(workers))
    return _running(data, server, options, variables)


@contextmanager
def _running(
    data: Path, module: Sequence[str], options: Sequence[str], variables: Mapping[str, str]
) -> Iterator[Server]:
    port = free_port()
    log = log_of(data)
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *module, "--port", str(port), *options],
            env={**environment(""), **variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(f"{url}/health", process, log)
        yield Server(url, data)
    finally:
        _stop(process)


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"the server did not start:\n{log.read_text()}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server and the workers it started: they share a session of their own."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
