"""The script that tries the package on AWS, tried on what stands in for AWS."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import boto3
import pytest

from tests.engines import ROOT, dynoxide_server, find_dynoxide, moto_server

SCRIPT = ROOT / "tools" / "aws_smoke.py"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(find_dynoxide() is None, reason="dynoxide is not installed")
def test_every_store_works_and_the_units_are_those_that_we_compute() -> None:
    """On an endpoint that counts as AWS does."""
    with dynoxide_server() as host:
        done = run("--uri", f"dynamodb://{host}/smoke")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 steps" in done.stdout


def test_the_table_is_deployed_and_destroyed(tmp_path: Path) -> None:
    """With its stack, also when something is wrong: moto reports other units."""
    name = "mlflow-smoke-test"
    with moto_server() as host:
        where = {"AWS_ENDPOINT_URL": f"http://{host}", "AWS_CONFIG_FILE": str(tmp_path / "none")}
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        done = run("--name", name, "--region", "eu-west-1", **where, **keys)
        assert done.returncode == 1
        assert "FAILED" not in done.stdout, done.stdout + done.stderr
        assert "10 steps" in done.stdout, done.stdout + done.stderr
        for command in ("deploy", "doctor", "destroy --delete-data --yes"):
            assert f"$ mlflow-dynamodbstore {command} --name {name}" in done.stdout
        client = boto3.client(
            "dynamodb",
            region_name="eu-west-1",
            endpoint_url=f"http://{host}",
            aws_access_key_id="a",
            aws_secret_access_key="b",
        )
        assert client.list_tables()["TableNames"] == []


def test_a_table_of_another_name_is_not_touched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script deletes its table, so it takes none that might be somebody's."""
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--name", "mlflow"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert ended.value.code == 2
    assert "must begin with mlflow-smoke-" in capsys.readouterr().err
