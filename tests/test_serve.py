"""The server command: what it starts, where the data lives, what it refuses."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mlflow_dynamodbstore import serve
from mlflow_dynamodbstore.cli import main as command_line


class Replaced(Exception):
    """The process would have become another program."""


@pytest.fixture
def started(monkeypatch):
    """Run the command and return the program it would become, with its output."""

    def execv(path, argv):
        raise Replaced(path, argv)

    monkeypatch.setattr(os, "execv", execv)

    def start(*arguments):
        result = CliRunner().invoke(serve.main, ["--port", str(free_port()), *arguments])
        assert isinstance(result.exception, Replaced), result.output
        return (*result.exception.args, result.output)

    return start


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def option(argv, name):
    return argv[argv.index(name) + 1]


def test_table_and_artifacts_live_in_the_data_folder_under_absolute_paths(started, tmp_path):
    _, argv, _ = started("--data", str(tmp_path / "new"))
    assert option(argv, "--backend-store-uri") == f"dynamodb:///{tmp_path}/new/mlflow.ddb"
    assert option(argv, "--registry-store-uri") == option(argv, "--backend-store-uri")
    assert option(argv, "--artifacts-destination") == f"{tmp_path}/new/artifacts"
    assert (tmp_path / "new").is_dir()


def test_a_table_elsewhere_keeps_its_uri_and_makes_no_folder(started, tmp_path):
    _, argv, _ = started(
        *("--table", "dynamodb://us-east-1/mlflow", "--artifacts", "s3://bucket/prefix"),
        *("--data", str(tmp_path / "unused")),
    )
    assert option(argv, "--backend-store-uri") == "dynamodb://us-east-1/mlflow"
    assert option(argv, "--artifacts-destination") == "s3://bucket/prefix"
    assert not (tmp_path / "unused").exists()


def test_it_says_where_it_listens_and_where_the_data_lives_before_it_starts(started, tmp_path):
    _, argv, output = started("--data", str(tmp_path))
    assert f"http://127.0.0.1:{option(argv, '--port')}" in output
    assert f"dynamodb:///{tmp_path}/mlflow.ddb" in output
    assert f"{tmp_path}/artifacts" in output


def test_it_says_what_expires_and_how_to_keep_it(started, tmp_path):
    _, _, output = started("--data", str(tmp_path))
    expected = "traces after 30 days, metric history after 365 days, deleted runs after 90 days"
    assert f"expires  {expected}" in output
    keep = ["ttl", "set", "--keep-forever", "--uri", f"dynamodb:///{tmp_path}/mlflow.ddb"]
    assert f"mlflow-dynamodbstore {' '.join(keep)}" in output
    assert not (tmp_path / "mlflow.ddb").exists()
    assert CliRunner().invoke(command_line, keep).exit_code == 0
    assert "expires  nothing" in started("--data", str(tmp_path))[2]


def test_it_becomes_the_mlflow_of_the_same_environment_and_passes_options_on(started, tmp_path):
    path, argv, _ = started("--data", str(tmp_path), "--", "--static-prefix", "/mlflow")
    assert path == sys.executable
    assert argv[1:6] == ["-m", "mlflow", "server", "--app-name", "dynamodb"]
    assert argv[-2:] == ["--static-prefix", "/mlflow"]


def test_a_taken_port_is_refused_in_one_sentence_and_nothing_is_created(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        data = Path(tmp_path / "data")
        result = CliRunner().invoke(serve.main, ["--port", port, "--data", str(data)])
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: cannot listen on 127.0.0.1:{port}")
    assert "PORT=" in result.output
    assert not data.exists()


def test_a_folder_that_no_uri_can_name_is_refused_and_not_created(tmp_path):
    data = tmp_path / "why?"
    result = CliRunner().invoke(serve.main, ["--port", str(free_port()), "--data", str(data)])
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: the folder {data} has a '?'")
    assert not data.exists()


def test_the_address_of_an_ipv6_host_can_be_opened_in_a_browser():
    server = serve.Server("::1", 5000, 2, "dynamodb:///mlflow.ddb", "artifacts")
    assert server.url == "http://[::1]:5000"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("--port", "99999"), 2, "99999 is not in the range 1<=x<=65535"),
        (("--host", "nowhere.invalid"), 1, "cannot listen on nowhere.invalid"),
        (("--table", "sqlite:///x.db"), 1, "'sqlite:///x.db' is not a table URI"),
        (("--table", "dynamodb://mlflow"), 1, "write dynamodb://us-east-1/mlflow"),
        (("--nope",), 2, "No such option"),
    ],
)
def test_wrong_options_are_refused_before_anything_starts(arguments, code, sentence, tmp_path):
    options = ["--port", str(free_port()), "--data", str(tmp_path / "new"), *arguments]
    done = CliRunner().invoke(serve.main, options)
    assert done.exit_code == code, (done.output, done.exception)
    assert sentence in done.stderr
    assert not (tmp_path / "new").exists()
