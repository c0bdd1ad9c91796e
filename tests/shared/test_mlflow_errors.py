"""Storage errors as MLflow's: what can never succeed is the caller's to change."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow.entities import RunTag

from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.shared.mlflow_errors import as_mlflow_exception
from mlflow_dynamodbstore.table.contract import IncompleteWrite, Outcome, Put
from mlflow_dynamodbstore.table.errors import (
    AccessDenied,
    CollectionFull,
    InvalidRequest,
    ItemTooLarge,
    Refusal,
    RefusalCode,
    TableError,
    Throttled,
    TransactionCancelled,
    Unavailable,
)
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.stores import ARTIFACTS, refused, uri_on

WRITE = Put({"PK": "p", "SK": "s"})
BEFORE = [Outcome("applied"), Outcome("refused"), Outcome("unprocessed", error=Throttled("slower"))]


def incomplete(*outcomes: Outcome) -> IncompleteWrite:
    return IncompleteWrite([WRITE] * len(outcomes), outcomes)


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (ItemTooLarge("410 KB"), 400, "410 KB"),
        (InvalidRequest("no such type"), 400, "no such type"),
        (incomplete(*BEFORE), 503, "slower"),
        (incomplete(*BEFORE, Outcome("uncertain", error=Unavailable("lost"))), 503, "slower"),
        (incomplete(*BEFORE, Outcome("failed", error=ItemTooLarge("410 KB"))), 400, "410 KB"),
        (incomplete(*BEFORE, Outcome("failed", error=InvalidRequest("bad"))), 400, "bad"),
        (incomplete(*BEFORE, Outcome("failed", error=AccessDenied("no"))), 403, "no"),
        (TransactionCancelled([None, Refusal(RefusalCode.CONFLICT)]), 503, "Conflict"),
        (
            TransactionCancelled([None, Refusal(RefusalCode.ITEM_TOO_LARGE, "410 KB")]),
            400,
            "410 KB",
        ),
        (TransactionCancelled([Refusal(RefusalCode.ITEM_TOO_LARGE)]), 400, "ItemTooLarge"),
    ],
    ids=str,
)
def test_only_what_may_succeed_later_is_a_5xx(error: TableError, status: int, says: str) -> None:
    """The reason of one write counts, whatever it was written together with."""
    told = as_mlflow_exception(error)
    assert told.get_http_status_code() == status
    assert says in str(told)


def test_a_full_partition_is_told_as_such() -> None:
    """Neither a bulk write nor a transaction hides it."""
    full = CollectionFull("10 GB")
    cancelled = TransactionCancelled([Refusal(RefusalCode.COLLECTION_FULL, "10 GB")])
    for error in (full, incomplete(*BEFORE, Outcome("failed", error=full)), cancelled):
        told = as_mlflow_exception(error)
        assert told.error_code == "RESOURCE_LIMIT_EXCEEDED"
        assert "10 GB" in told.message


@pytest.mark.parametrize("engine", ["embedded", "dynoxide", "dynamodb_local"])
def test_what_does_not_fit_is_the_callers_to_change(engine: str, tmp_path: Path) -> None:
    """A single write, a bulk write or a transaction of an item that is too large says so."""
    long = "x" * 450_000
    with uri_on(engine, tmp_path) as uri:
        registry, tracking = DynamoDBRegistryStore(uri), DynamoDBTrackingStore(uri, ARTIFACTS)
        registry.create_registered_model("model")
        with refused("INVALID_PARAMETER_VALUE", "bytes|fits into one item|exceeded"):
            registry.create_registered_model("other", description=long)
        with refused("INVALID_PARAMETER_VALUE", "bytes|fits into one item|exceeded"):
            registry.create_model_version("model", "s3://bucket/m", description=long)
        experiment = tracking.create_experiment("e")
        with refused("INVALID_PARAMETER_VALUE", "bytes|exceeded"):
            tracking.create_run(experiment, long, 1, [RunTag("a", "b")], "run")
        with refused("INVALID_PARAMETER_VALUE", "bytes|exceeded"):
            tracking.create_run(experiment, "user", 1, [RunTag("a", "b")], long[:250_000])
