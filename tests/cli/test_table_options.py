"""Which table a command is about, and how a call that cannot work ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mlflow_dynamodbstore.cli.exits import DENIED, FAILED, NO_TABLE, UNAVAILABLE, USAGE, code_of
from mlflow_dynamodbstore.cli.table_options import TableOptions
from mlflow_dynamodbstore.table import errors
from tests.engines import moto_server


@pytest.mark.parametrize(
    ("options", "uri"),
    [
        ({"name": "mlflow", "region": "us-east-1"}, "dynamodb://us-east-1/mlflow"),
        (
            {"name": "mlflow", "endpoint_url": "http://localhost:8000"},
            "dynamodb://localhost:8000/mlflow",
        ),
        (
            {"name": "mlflow", "endpoint_url": "https://ddb.local", "region": "eu-west-1"},
            "dynamodb://ddb.local/mlflow?scheme=https&region=eu-west-1",
        ),
        ({"uri_option": "dynamodb:///mlflow.ddb"}, "dynamodb:///mlflow.ddb"),
        ({"tracking_uri": "dynamodb:///mlflow.ddb"}, "dynamodb:///mlflow.ddb"),
        (
            {"tracking_uri": "dynamodb:///mlflow.ddb", "name": "other", "region": "us-east-1"},
            "dynamodb://us-east-1/other",
        ),
    ],
)
def test_options_name_a_table(options, uri):
    assert str(TableOptions(**options).location) == uri


def test_name_and_region_are_all_it_takes(anywhere, monkeypatch):
    """The call as the documentation writes it, against an endpoint in place of AWS."""
    with moto_server() as host:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}")
        named = ("--name", "by-name", "--region", "us-east-1")
        anywhere(*named, "deploy")
        anywhere(*named, "ttl", "set", "--soft-deleted-retention-days", "180")
        shown = anywhere.json(*named, "ttl", "show")
    assert shown["soft_deleted_retention_days"] == {"days": 180, "source": "table"}


def test_mlflows_own_variable_is_understood(anywhere, run, uri, monkeypatch):
    assert run.uri == uri
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert "90" in anywhere("ttl", "show").stdout


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["ttl", "show"], "name a table"),
        (["--name", "mlflow", "ttl", "show"], "--region us-east-1"),
        (["--uri", "dynamodb:///a.ddb", "--name", "b", "ttl", "show"], "give --uri without"),
        (["--uri", "sqlite:///a.db", "ttl", "show"], "is not a table URI"),
        (["--name", "b", "--endpoint-url", "localhost:8000", "ttl", "show"], "must look like http"),
        (["--uri", "dynamodb:///a.ddb", "deploy"], "a file needs no stack"),
    ],
)
def test_a_call_that_names_no_table_says_what_to_write(anywhere, arguments, hint):
    assert hint in anywhere(*arguments, code=USAGE).output


def test_another_kind_of_tracking_uri_is_refused(anywhere, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://localhost:5000")
    assert "MLFLOW_TRACKING_URI" in anywhere("ttl", "show", code=USAGE).output


def test_a_missing_table_has_its_own_code(anywhere, monkeypatch):
    with moto_server() as host:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}")
        missing = anywhere(
            "--name", "nowhere", "--region", "us-east-1", "ttl", "show", code=NO_TABLE
        )
    assert "nowhere" in missing.output


def test_a_file_that_is_not_ours_has_the_same_code(anywhere, tmp_path):
    (tmp_path / "notes.txt").write_text("not a table, but a text of some length\n" * 100)
    anywhere("--uri", f"dynamodb:///{tmp_path / 'notes.txt'}", "ttl", "show", code=NO_TABLE)


def test_errors_of_a_table_have_codes():
    assert code_of(errors.AccessDenied("no")) == DENIED
    assert code_of(errors.Unavailable("no")) == UNAVAILABLE
    assert code_of(errors.Throttled("no")) == UNAVAILABLE
    assert code_of(errors.CollectionFull("no")) == FAILED


def test_the_module_and_its_help_load_without_a_table():
    called = subprocess.run(
        [sys.executable, "-c", "from mlflow_dynamodbstore.cli import main; main()", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "doctor" in called.stdout
