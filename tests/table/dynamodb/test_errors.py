"""Every way the wire can fail has its name in the table contract."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.session import Session

from mlflow_dynamodbstore.table.contract import Delete, Patch, Put
from mlflow_dynamodbstore.table.dynamodb import DynamoDBEngine
from mlflow_dynamodbstore.table.errors import (
    AccessDenied,
    CollectionFull,
    ConditionFailed,
    InvalidRequest,
    ItemTooLarge,
    TableMissing,
    Throttled,
    TransactionCancelled,
    Unavailable,
)
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key
from tests.engines import free_port
from tests.table.dynamodb.scripted import Answer, error, scripted

KEY = Key("p", "s")
TRANSPORTS = ["direct", "botocore"]

ANSWERS = {
    "ProvisionedThroughputExceededException": (400, "slower", Throttled),
    "ThrottlingException": (400, "slower", Throttled),
    "RequestLimitExceeded": (400, "slower", Throttled),
    "TooManyRequestsException": (400, "slower", Throttled),
    "SlowDown": (400, "slower", Throttled),
    "TransactionConflictException": (400, "a transaction is under way", Throttled),
    "ItemCollectionSizeLimitExceededException": (400, "10 GB", CollectionFull),
    "ResourceNotFoundException": (400, "not found", TableMissing),
    "AccessDeniedException": (400, "not authorized", AccessDenied),
    "UnrecognizedClientException": (400, "invalid token", AccessDenied),
    "ExpiredTokenException": (400, "expired", AccessDenied),
    "IdempotentParameterMismatchException": (400, "other content", InvalidRequest),
    "SerializationException": (400, "not JSON", InvalidRequest),
    "InternalServerError": (500, "oops", Unavailable),
    "ServiceUnavailable": (503, "later", Unavailable),
    "RequestTimeout": (400, "too slow", Unavailable),
}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("code", ANSWERS)
def test_each_answer_has_its_error(code, transport):
    """An error answer is raised as the contract names it, with what the service said as cause."""
    status, message, expected = ANSWERS[code]
    with scripted(lambda *_: error(code, message, status)) as script:
        engine = script.engine(transport=transport)
        with pytest.raises(expected) as raised:
            engine.get(KEY)
        assert raised.value.__cause__ is not None
        assert len(script.requests) == 1  # retrying is not the engine's business
        engine.close()


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Item size has exceeded the maximum allowed size", ItemTooLarge),
        ("Item size to update has exceeded the maximum allowed size", ItemTooLarge),
        ("One or more parameter values were invalid", InvalidRequest),
    ],
)
def test_a_validation_is_told_by_its_words(message, expected, transport):
    """One code stands for wrong requests and for items too large; the text tells which."""
    with scripted(lambda *_: error("ValidationException", message)) as script:
        engine = script.engine(transport=transport)
        with pytest.raises(expected, match=message):
            engine.apply(Put({"PK": "p", "SK": "s"}))
        engine.close()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_refused_condition_brings_the_old_item(transport):
    """The old item comes with the refusal, decoded; none when there was none."""
    item = {"PK": {"S": "p"}, "SK": {"S": "s"}, "n": {"N": "5"}, "b": {"B": "AGFi"}}
    answers: list[dict[str, Any]] = [{"Item": item}, {}]
    with scripted(
        lambda *_: error("ConditionalCheckFailedException", "no", 400, **answers.pop(0))
    ) as script:
        engine = script.engine(transport=transport)
        for expected in ({"PK": "p", "SK": "s", "n": 5, "b": b"ab"}, None):
            with pytest.raises(ConditionFailed) as refused:
                engine.apply(Delete(KEY))
            assert refused.value.old == expected
        assert script.requests[0][1]["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD"
        engine.close()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_reasons_of_a_cancelled_transaction_keep_their_order(transport):
    """Each operation has its reason in its place, with the old item where there is one."""
    codes = [
        "None",
        "ConditionalCheckFailed",
        "TransactionConflict",
        "ThrottlingError",
        "ProvisionedThroughputExceeded",
        "ItemCollectionSizeLimitExceeded",
        "ValidationError",
    ]
    reasons: list[dict[str, Any]] = [{"Code": code, "Message": code} for code in codes]
    reasons[1]["Item"] = {"PK": {"S": "p"}, "SK": {"S": "1"}}
    reasons[6]["Message"] = "Item size to update has exceeded the maximum allowed size"
    answer = error("TransactionCanceledException", "cancelled", CancellationReasons=reasons)
    with scripted(lambda *_: answer) as script:
        engine = script.engine(transport=transport)
        writes = [Patch(Key("p", str(n)), Update(add={"n": 1})) for n in range(len(codes))]
        with pytest.raises(TransactionCancelled) as cancelled:
            engine.transact(writes, "token")
        assert [r and r.code for r in cancelled.value.reasons] == [
            None,
            "ConditionFailed",
            "Conflict",
            "Throttled",
            "Throttled",
            "CollectionFull",
            "ItemTooLarge",
        ]
        refused = cancelled.value.reasons[1]
        assert refused is not None
        assert refused.old == {"PK": "p", "SK": "1"}
        engine.close()


def test_an_operation_that_is_wrong_in_itself_is_an_invalid_request():
    """A transaction that can never succeed is not one that was cancelled."""
    reasons = [{"Code": "None"}, {"Code": "ValidationError", "Message": "incorrect data type"}]
    answer = error("TransactionCanceledException", "cancelled", CancellationReasons=reasons)
    with scripted(lambda *_: answer) as script:
        engine = script.engine()
        with pytest.raises(InvalidRequest, match="operation 1: incorrect data type"):
            engine.transact([Delete(KEY), Delete(Key("p", "t"))], "token")
        engine.close()


def test_a_transaction_still_under_way_is_uncertain():
    """Its token is being worked on: what becomes of it is not known yet."""
    with scripted(lambda *_: error("TransactionInProgressException")) as script:
        engine = script.engine()
        with pytest.raises(Unavailable) as lost:
            engine.transact([Delete(KEY)], "token")
        assert lost.value.maybe_applied
        engine.close()


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    "answer",
    [
        Answer(drop=True),
        Answer(b'{"Attributes": {', cut=True),
        Answer(b"<html><body>Bad Gateway</body></html>", 502),
        Answer(b"", 503),
    ],
    ids=["dropped", "cut short", "a proxy's page", "empty"],
)
def test_a_lost_answer_leaves_a_write_uncertain(answer, transport):
    """Whether a write was applied is not known without its answer; a read has nothing to lose."""
    with scripted(lambda *_: answer) as script:
        engine = script.engine(transport=transport)
        with pytest.raises(Unavailable) as lost:
            engine.apply(Put({"PK": "p", "SK": "s"}))
        assert lost.value.maybe_applied
        with pytest.raises(Unavailable) as unread:
            engine.get(KEY)
        assert not unread.value.maybe_applied
        engine.close()


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("status", "expected"), [(429, Throttled), (408, Unavailable)])
def test_a_gateway_that_asks_to_try_again_is_understood(status, expected, transport):
    """Its page is no JSON; the status says that the request can be repeated."""
    with scripted(lambda *_: Answer(b"<html>Too Many Requests</html>", status)) as script:
        engine = script.engine(transport=transport)
        with pytest.raises(expected):
            engine.apply(Put({"PK": "p", "SK": "s"}))
        engine.close()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_refused_connection_wrote_nothing(transport):
    """Where nobody listens, nothing can have been applied."""
    engine = DynamoDBEngine(
        "mlflow",
        MLFLOW_TABLE,
        endpoint_url=f"http://127.0.0.1:{free_port()}",
        transport=transport,
    )
    for call in (
        lambda: engine.apply(Put({"PK": "p", "SK": "s"})),
        lambda: engine.transact([Delete(KEY)], "token"),
        lambda: engine.prepare(create=True),
    ):
        with pytest.raises(Unavailable, match="cannot be reached") as refused:
            call()
        assert not refused.value.maybe_applied


def test_a_missing_table_names_the_command():
    """The message can be copied into a shell."""
    with scripted(lambda *_: error("ResourceNotFoundException")) as script:
        engine = script.engine(region="eu-west-1")
        with pytest.raises(
            TableMissing, match="mlflow-dynamodbstore --name mlflow --region eu-west-1 deploy"
        ):
            engine.prepare(create=False)
        engine.close()


def test_missing_credentials_say_what_to_do(monkeypatch, tmp_path):
    """On AWS there are no made-up credentials, and the error tells how to check one's own."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    engine = DynamoDBEngine("mlflow", MLFLOW_TABLE, region="us-east-1", session=Session())
    with pytest.raises(AccessDenied, match="aws sts get-caller-identity"):
        engine.get(KEY)
    with pytest.raises(AccessDenied, match="dynamodb://us-east-1/mlflow"):
        engine.prepare(create=False)


def test_an_unknown_profile_is_an_access_error(monkeypatch):
    """A misspelt profile is a matter of credentials, not a crash."""
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    engine = DynamoDBEngine("mlflow", MLFLOW_TABLE, region="us-east-1")
    with pytest.raises(AccessDenied, match="no-such-profile"):
        engine.get(KEY)
