"""Through a running server: train, log, register, alias, load."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
from mlflow import MlflowClient
from mlflow.pyfunc.model import PythonModel

from tests.engines import free_port

START_SECONDS = 120


class Adder(PythonModel):
    """Adds a number that it was given in training."""

    def __init__(self, number: int):
        self.number = number

    def predict(self, model_input: list[int]) -> list[int]:  # type: ignore[override]
        return [value + self.number for value in model_input]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """MLflow's server on a table in a folder; gives its address."""
    port = free_port()
    command = [sys.executable, "-m", "mlflow_dynamodbstore.serve", "--workers", "1"]
    with (tmp_path / "server.log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port), "--data", str(tmp_path / "data")],
            cwd=tmp_path,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait_for(f"http://127.0.0.1:{port}", process, tmp_path / "server.log")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"{address}/health", timeout=2).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    pytest.fail(f"the server did not start: {log.read_text()[-2000:]}")


@pytest.fixture
def client(server: str) -> Iterator[MlflowClient]:
    mlflow.set_tracking_uri(server)
    mlflow.set_registry_uri(server)  # another test of this process may have set it
    yield MlflowClient()
    mlflow.set_registry_uri(None)  # type: ignore[arg-type]
    mlflow.set_tracking_uri(None)  # type: ignore[arg-type]  # none is none, not the default


def train(number: int) -> None:
    with mlflow.start_run():
        mlflow.log_param("number", number)
        mlflow.pyfunc.log_model(
            name="model",
            python_model=Adder(number),
            registered_model_name="adder",
            pip_requirements=[],
        )


def answer(uri: str) -> list[int]:
    found: list[int] = mlflow.pyfunc.load_model(uri).predict([1, 2])
    return found


def test_a_model_is_trained_registered_aliased_and_loaded(client, tmp_path):
    train(1)
    train(10)
    client.set_registered_model_alias("adder", "champion", "1")
    assert answer("models:/adder@champion") == [2, 3]
    client.set_registered_model_alias("adder", "champion", "2")
    assert answer("models:/adder@champion") == [11, 12]
    assert answer("models:/adder/1") == [2, 3]
    client.rename_registered_model("adder", "sum")
    assert answer("models:/sum@champion") == [11, 12]
    client.copy_model_version("models:/sum/1", "copy")
    assert answer("models:/copy/1") == [2, 3]
    run_id = client.get_model_version("sum", "1").run_id
    found = client.search_model_versions(f"run_id = '{run_id}'")
    assert {version.name for version in found} == {"sum", "copy"}
    # Beside the server, on the same table.
    table = f"dynamodb:///{tmp_path}/data/mlflow.ddb"
    changes = json.loads(alias_command(table, "history", "--json"))
    assert [change["after"]["version"] for change in changes] == [2, 1]
    alias_command(table, "rollback")
    assert answer("models:/sum@champion") == [2, 3]


def alias_command(table: str, name: str, *options: str) -> str:
    """What the command line prints, in a process of its own, as people run it."""
    main = "from mlflow_dynamodbstore.cli import main; main()"
    command = [sys.executable, "-c", main, "--uri", table]
    return subprocess.run(
        [*command, "alias", name, "sum", "champion", *options],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
