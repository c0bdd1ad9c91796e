"""A running MLflow server is imported over REST, and holds afterwards what its database holds."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner
from mlflow import MlflowClient
from mlflow.entities import ViewType

from mlflow_dynamodbstore.cli import main
from mlflow_dynamodbstore.cli.exits import FINDINGS, USAGE
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.transfer.sql import kinds
from mlflow_dynamodbstore.transfer.sql.database import Database
from tests.e2e.processes import running_server
from tests.transfer.sql.helpers import stores, verified


@pytest.fixture(scope="module")
def database(template: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("served")
    shutil.copyfile(template, folder / "mlflow.db")
    return f"sqlite:///{folder}/mlflow.db"


@pytest.fixture(scope="module")
def url(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of MLflow's own on the database with something of everything."""
    data = tmp_path_factory.mktemp("server") / "data"
    with running_server(data, 1, database) as server:
        yield server.url


def imported(table: Table, url: str, *arguments: str, code: int = 0) -> Any:
    command = ["--uri", table.engine.uri, "import", url, "--json", *arguments]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == code, done.output
    assert "REST does not show" in done.stderr
    return json.loads(done.stdout)


def test_a_server_is_imported_and_verified_and_again_without_a_change(
    url: str, database: str, table: Table
):
    done = imported(table, url)
    assert done["findings"] == done["differences"] == []
    assert done["moved"]["runs"]["written"] == 8
    assert done["moved"]["traces"]["written"] == 5
    again = imported(table, url)
    assert all(one["same"] == one["found"] for one in again["moved"].values())
    # What REST hides is all that differs from the database.
    verification = verified(
        [
            kind
            for kind in kinds.importing(Database.to_read(database), table)
            if kind.name in done["moved"]
        ]
    )
    tallies = verification.tallies
    for name in ("experiments", "datasets", "runs"):
        hidden = {f.sentence for f in verification.findings.first if f.kind == name}
        assert all("deleted_time" in one for one in hidden), hidden
    assert tallies["runs"].missing == tallies["traces"].missing == 0
    assert tallies["logged models"].missing == 1  # a deleted one
    for finding in verification.findings.first:
        if finding.kind == "traces":
            assert finding.sentence.startswith(
                ("differs: db_payload_generation", "differs: prompts", "differs: runs")
            ), finding
        if finding.kind == "registered models":
            assert "last_version" in finding.sentence


def test_a_server_goes_into_a_table_in_use(url: str, tmp_path: Path):
    table = Table(open_engine(f"dynamodb:///{tmp_path}/in-use.ddb?synchronous=NORMAL"))
    tracking, registry = stores(table)
    tracking.create_experiment("own")
    registry.create_registered_model("iris")
    registry.create_model_version("iris", "s3://own/model")
    client = MlflowClient(url, url)
    client.copy_model_version("models:/iris/2", "copied")
    done = imported(table, url, "--prefix", "b-", "--map", str(tmp_path / "map.json"))
    assert done["findings"] == done["differences"] == []
    found: Any = tracking.get_experiment_by_name("b-first")
    assert len(tracking.search_runs([found.experiment_id], "", ViewType.ALL, 9)) == 6
    assert registry.get_model_version_by_alias("b-iris", "champion").version == 2
    # The files of a copy are where they were, not those of a model that has the name here.
    assert registry.get_model_version("b-copied", "1").source == "models:/b-iris/2"
    theirs = client.get_model_version_download_uri("copied", "1")
    assert registry.get_model_version_download_uri("b-copied", "1") == theirs


def test_conflicts_over_rest_are_named(url: str, tmp_path: Path):
    table = Table(open_engine(f"dynamodb:///{tmp_path}/conflict.ddb?synchronous=NORMAL"))
    tracking, _ = stores(table)
    assert tracking.create_experiment("own") == "1"
    done = imported(table, url, "--no-verify", code=FINDINGS)
    assert "--renumber" in done["findings"][0]["sentence"]


class Answer(BaseHTTPRequestHandler):
    """A server that answers everything with one status."""

    status = 401

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()

    do_POST = do_GET  # noqa: N815 - the name that the base class looks for

    def log_message(self, *_: Any) -> None:
        """Not into the output of the tests."""


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (401, "refuses to answer: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"),
        (404, "does not answer as an MLflow server does"),
    ],
)
def test_a_server_that_shows_nothing_gets_a_sentence(tmp_path: Path, status: int, sentence: str):
    """And no table is made for it."""
    handler = type("Handler", (Answer,), {"status": status})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        table = f"dynamodb:///{tmp_path}/none.ddb"
        done = CliRunner().invoke(main, ["--uri", table, "import", url])
        server.shutdown()
    assert done.exit_code == USAGE, done.output
    assert sentence in " ".join(done.output.split())
    assert not (tmp_path / "none.ddb").exists()
