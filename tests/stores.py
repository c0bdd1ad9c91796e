"""Tracking stores for tests: on a file, with a clock that tests move."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.table.contract import Scan
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup
from tests.engines import (
    dynamodb_local_server,
    dynoxide_server,
    find_dynamodb_local,
    find_dynoxide,
)
from tests.table.fakes import FakeTime, patient_retry

ARTIFACTS = "s3://bucket/root"


def open_tracking_store(
    folder: Path, time: FakeTime, *, options: str = "synchronous=NORMAL"
) -> DynamoDBTrackingStore:
    """The store of a folder; opened again it holds the same data."""
    uri = f"dynamodb:///{folder / 'mlflow.ddb'}?{options}"
    table = Table(open_engine(uri), clock=time, retry=patient_retry(time))
    return DynamoDBTrackingStore(uri, ARTIFACTS, table=table)


def everything_in(table: Table) -> list[Item]:
    """All items of a table, but expired ones and what upkeep notes for the operator's page."""
    page = table.scan(Scan())
    items = page.items
    while page.cursor is not None:
        page = table.scan(Scan(cursor=page.cursor))
        items += page.items
    return [item for item in items if not str(item["SK"]).startswith("SURVEY#")]


def settle_claims(table: Table) -> int:
    """Empty every partition whose claim has run out, and nothing else; how many there were."""
    cleanup = Cleanup(table)
    cleanup._settle_claims(everything_in(table))
    return cleanup.report.removed


@contextmanager
def uri_on(engine: str, folder: Path) -> Iterator[str]:
    """Where a new table may be: ``embedded``, or on ``dynoxide`` or ``dynamodb_local``."""
    if engine == "embedded":
        yield f"dynamodb:///{folder}/mlflow.ddb?synchronous=NORMAL"
        return
    if engine == "dynamodb_local":
        if find_dynamodb_local() is None:
            pytest.skip("DynamoDB Local or java is missing: tools/install_dynamodb_local.sh")
        with dynamodb_local_server() as address:
            yield f"dynamodb://{address}/mlflow"
        return
    if find_dynoxide() is None:
        pytest.skip("dynoxide is not installed: tools/install_dynoxide.sh")
    with dynoxide_server() as address:
        yield f"dynamodb://{address}/mlflow"


@contextmanager
def refused(code: str, match: str) -> Iterator[None]:
    """That MLflow's error of this code is raised, with these words."""
    with pytest.raises(MlflowException, match=match) as caught:
        yield
    assert caught.value.error_code == code
