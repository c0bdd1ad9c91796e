"""Backup and restore, drilled: point-in-time recovery, archives in S3, and comparisons of both."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from mlflow.entities import Metric, RunStatus, ViewType

from mlflow_dynamodbstore.cli import main
from mlflow_dynamodbstore.cli.exits import FINDINGS
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.deploy.aws import client
from tests.traces.making import NOON


@pytest.fixture(autouse=True)
def _bucket(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("MLFLOW_S3_ENDPOINT_URL", f"http://{host}")


def run(uri: str, *arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, [*arguments, "--uri", uri])
    assert done.exit_code == code, done.output
    return done


def filled(uri: str, runs: int) -> DynamoDBTrackingStore:
    store = DynamoDBTrackingStore("", "s3://b", table=Table(open_engine(uri, create=True)))
    for n in range(runs):
        run_id = store.create_run("0", "ada", NOON + n, [], f"run {n}").info.run_id
        store.log_batch(run_id, [Metric("m", float(s), NOON, s) for s in range(5)], [], [])
        store.update_run_info(run_id, RunStatus.FINISHED, NOON + 9, None)
    return store


def test_recovery_to_a_point_in_time_into_a_new_name_and_back(host: str, tmp_path: Path):
    """A mistake is undone: recover into a new table, compare, and go on with that one."""
    good, recovered = (f"dynamodb://{host}/{name}" for name in ("drill", "drill-recovered"))
    store = filled(good, 8)
    dynamodb = client("dynamodb", host)
    dynamodb.update_continuous_backups(
        TableName="drill", PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
    )
    run(good, "dump", str(tmp_path / "before.jsonl.gz"))
    # moto recovers the present, whatever time is asked for; so the mistake comes afterwards.
    dynamodb.restore_table_to_point_in_time(
        SourceTableName="drill",
        TargetTableName="drill-recovered",
        RestoreDateTime=dt.datetime.now(dt.timezone.utc),
    )
    for one in store.search_runs(["0"], "", ViewType.ACTIVE_ONLY, 9):
        store.delete_run(one.info.run_id)
    run(good, "compare", recovered, code=FINDINGS)
    run(recovered, "compare", str(tmp_path / "before.jsonl.gz"))
    run(recovered, "doctor", "--quick", "--json", code=FINDINGS)  # expiry is not recovered
    back = DynamoDBTrackingStore("", "s3://b", table=Table(open_engine(recovered, create=False)))
    assert len(back.search_runs(["0"], "", ViewType.ACTIVE_ONLY, 9)) == 8
    # And back to the old name: the broken table is removed, the good one copied.
    run(good, "destroy", "--delete-data", "--yes")
    open_engine(good, create=True).close()
    run(recovered, "copy", good, "--verify")
    run(good, "compare", recovered)


def test_an_archive_in_s3_is_restored_and_compared(host: str, tmp_path: Path):
    source, restored = f"dynamodb://{host}/archived", f"dynamodb:///{tmp_path}/restored.ddb"
    filled(source, 6)
    client("s3", host).create_bucket(Bucket="backups")
    address = "s3://backups/daily/2026-11-16.jsonl.gz"
    done = json.loads(run(source, "dump", address, "--verify", "--json").stdout)
    assert done["same"] is True
    assert done["target"] == address
    listed = client("s3", host).list_objects_v2(Bucket="backups")["Contents"]
    assert [one["Key"] for one in listed] == ["daily/2026-11-16.jsonl.gz"]
    run(restored, "load", address, "--verify")
    run(restored, "compare", source)
    run(restored, "compare", address)
    store = DynamoDBTrackingStore("", "s3://b", table=Table(open_engine(source, create=False)))
    store.create_run("0", "ada", NOON, [], "written later")
    run(source, "compare", address, code=FINDINGS)


@pytest.mark.parametrize("address", ["s3://bucket", "s3://bucket/"])
def test_an_address_without_a_file_gets_a_sentence(host: str, address: str):
    filled(f"dynamodb://{host}/nameless", 1)
    said = run(f"dynamodb://{host}/nameless", "dump", address, code=1).output
    assert "names no file" in said
