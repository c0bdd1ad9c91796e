"""A command on a table that is not there ends with a sentence and code 3, and creates nothing."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from mlflow_dynamodbstore.cli import main
from mlflow_dynamodbstore.cli.exits import NO_TABLE, USAGE
from tests.cli.conftest import CommandLine
from tests.engines import moto_server

ARGUMENTS = {
    "alias delete": ["iris", "champion", "--yes"],
    "alias find": ["champion"],
    "alias history": ["iris"],
    "alias rollback": ["iris", "champion"],
    "alias set": ["iris", "champion", "1"],
    "alias show": ["iris"],
    "alias split": ["iris", "champion", "2", "--weight", "10"],
    "compare": ["other.gz"],
    "config get": ["trace_retention_days"],
    "config list": [],
    "copy": ["dynamodb:///target.ddb"],
    "doctor": [],
    "dump": ["table.gz"],
    "experiment spread": ["training", "--volumes", "2"],
    "experiment volumes": ["training"],
    "explain": ["metrics.loss < 1"],
    "export": ["sqlite:///target.db"],
    "find backfill": [],
    "find runs": ["9f2c"],
    "find traces": ["order-17"],
    "fts backfill": ["run.name"],
    "fts list": [],
    "fts remove": ["run.name", "--yes"],
    "gateway rotate-key": ["--new-passphrase", "a new and long passphrase"],
    "primary-metric backfill": [],
    "primary-metric show": [],
    "run datasets": ["0197c9b4"],
    "run models": ["0197c9b4"],
    "stats": [],
    "tag backfill": [],
    "tag list": [],
    "tag remove": ["mlflow.*"],
    "trace cache": [],
    "ttl cleanup": [],
    "ttl show": [],
    "workspace delete": ["team", "--yes"],
    "workspace list": [],
}
"""Every command that needs a table, with arguments that would do on one that is there."""
CREATING = {"config set", "fts add", "import", "load", "tag add", "ttl set", "workspace create"}
"""The commands that create a file: each stores something in it."""
WITHOUT_TABLE = {"deploy", "destroy", "estimate", "iam-policy"}


def leaves(group: click.Group, *above: str) -> list[str]:
    found: list[str] = []
    for name, command in group.commands.items():
        here = (*above, name)
        found += leaves(command, *here) if isinstance(command, click.Group) else [" ".join(here)]
    return found


def test_every_command_is_named_here():
    assert sorted(leaves(main)) == sorted({*ARGUMENTS, *CREATING, *WITHOUT_TABLE})


@pytest.fixture
def mistyped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine("dynamodb:///folder/mistyped.ddb")


@pytest.mark.parametrize("command", ARGUMENTS)
def test_a_mistyped_path_creates_neither_a_file_nor_a_folder(command, mistyped, tmp_path):
    said = mistyped(*command.split(), *ARGUMENTS[command], code=NO_TABLE).output
    assert "there is no table at " in said
    assert "folder/mistyped.ddb; check the path" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["stats", "doctor", "ttl show", "config list"])
def test_an_empty_file_stays_empty(command, anywhere, tmp_path):
    (tmp_path / "empty.ddb").touch()
    anywhere("--uri", f"dynamodb:///{tmp_path}/empty.ddb", *command.split(), code=NO_TABLE)
    assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [("empty.ddb", 0)]


def test_no_table_is_created_at_an_endpoint(anywhere):
    with moto_server() as host:
        for command in ("stats", "doctor", "ttl show"):
            said = anywhere("--uri", f"dynamodb://{host}/nowhere", *command.split(), code=NO_TABLE)
            assert "there is no table 'nowhere'" in said.output


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_an_import_from_nowhere_creates_nothing(more, mistyped, tmp_path):
    said = mistyped("import", "sqlite:///nowhere/mlflow.db", *more, code=USAGE).output
    named = f"there is no MLflow database at sqlite:///{tmp_path}/nowhere/mlflow.db"
    assert named in " ".join(said.split())
    assert list(tmp_path.iterdir()) == []
