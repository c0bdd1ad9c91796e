"""What becomes of each write of many."""

from __future__ import annotations

import threading

import pytest
from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.table.contract import Delete, Patch, Put
from mlflow_dynamodbstore.table.dynamodb import transport
from mlflow_dynamodbstore.table.errors import (
    AccessDenied,
    CollectionFull,
    InvalidRequest,
    ItemTooLarge,
    TableMissing,
    Throttled,
    Unavailable,
)
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.table.workers import Workers, replaced_workers
from tests.table.dynamodb.scripted import Answer, error, scripted


def puts(count, **attributes):
    return [Put({"PK": "p", "SK": f"{n:03}", **attributes}) for n in range(count)]


def statuses(outcomes):
    return [outcome.status for outcome in outcomes]


def sort_keys(request):
    """The sort keys that a BatchWriteItem names."""
    entries = request["RequestItems"]["mlflow"]
    found = [e.get("PutRequest", {}).get("Item") or e["DeleteRequest"]["Key"] for e in entries]
    return [item["SK"]["S"] for item in found]


def test_plain_writes_travel_in_batches_and_the_rest_alone():
    """25 puts and deletes to a request; conditions, patches and images go one by one."""
    with scripted(lambda *_: Answer({})) as script:
        engine = script.engine()
        writes = [
            *puts(50),
            Delete(Key("p", "gone")),
            Put({"PK": "p", "SK": "guarded"}, condition=Attr("PK").not_exists()),
            Patch(Key("p", "patched"), Update(add={"n": 1})),
            Delete(Key("p", "seen"), returns="old"),
        ]
        assert statuses(engine.apply_many(writes)) == ["applied"] * len(writes)
        sent = sorted(operation for operation, _ in script.requests)
        alone = ["DeleteItem", "PutItem", "UpdateItem"]
        assert sent == sorted(["BatchWriteItem"] * 3 + alone)
        batches = [sort_keys(r) for o, r in script.requests if o == "BatchWriteItem"]
        assert sorted(map(len, batches)) == [1, 25, 25]
        engine.close()


def test_nothing_to_write_is_no_request():
    with scripted(lambda *_: Answer({})) as script:
        engine = script.engine()
        assert engine.apply_many([]) == []
        assert script.requests == []
        engine.close()


def test_what_comes_back_unprocessed_is_told():
    """The items that DynamoDB hands back are unprocessed, puts and deletes alike."""

    def answer(_operation, request):
        entries = request["RequestItems"]["mlflow"]
        return Answer({"UnprocessedItems": {"mlflow": [entries[1], entries[3]]}})

    with scripted(answer) as script:
        engine = script.engine()
        outcomes = engine.apply_many([*puts(3), Delete(Key("p", "gone"))])
        assert statuses(outcomes) == ["applied", "unprocessed", "applied", "unprocessed"]
        engine.close()


@pytest.mark.parametrize(
    ("answer", "plain", "guarded", "kind"),
    [
        (error("ThrottlingException"), "unprocessed", "unprocessed", Throttled),
        (error("InternalServerError", status=500), "unprocessed", "uncertain", Unavailable),
        (Answer(drop=True), "unprocessed", "uncertain", Unavailable),
        (
            error("ItemCollectionSizeLimitExceededException"),
            "failed",
            "failed",
            CollectionFull,
        ),
    ],
    ids=["throttled", "server fault", "lost answer", "collection full"],
)
def test_what_a_failed_request_means_for_its_writes(answer, plain, guarded, kind):
    """A plain put may simply be repeated; one that may not is uncertain when its answer is lost."""
    with scripted(lambda *_: answer) as script:
        engine = script.engine()
        outcomes = engine.apply_many(
            [
                Put({"PK": "p", "SK": "1"}),
                Put({"PK": "p", "SK": "2"}, condition=Attr("PK").not_exists()),
                Patch(Key("p", "3"), Update(set={"a": 1})),
            ]
        )
        assert statuses(outcomes) == [plain, guarded, guarded]
        assert all(isinstance(outcome.error, kind) for outcome in outcomes)
        engine.close()


def test_one_bad_item_does_not_spoil_its_batch():
    """A batch that is refused as a whole is sent again in parts until the bad one stands alone."""

    def answer(operation, request):
        keys = [request["Item"]["SK"]["S"]] if operation == "PutItem" else sort_keys(request)
        if "007" in keys:
            return error("ValidationException", "Item size has exceeded the maximum allowed size")
        return Answer({})

    with scripted(answer) as script:
        engine = script.engine()
        outcomes = engine.apply_many(puts(20))
        assert statuses(outcomes) == ["applied"] * 7 + ["failed"] + ["applied"] * 12
        assert isinstance(outcomes[7].error, ItemTooLarge)
        engine.close()


def test_an_item_that_cannot_be_written_down_fails_alone():
    """A value of a wrong type is found before anything is sent, and harms no other."""
    with scripted(lambda *_: Answer({})) as script:
        engine = script.engine()
        writes = [*puts(2), Put({"PK": "p", "SK": "bad", "x": {1, 2}})]
        outcomes = engine.apply_many(writes)
        assert statuses(outcomes) == ["applied", "applied", "failed"]
        assert isinstance(outcomes[2].error, InvalidRequest)
        engine.close()


def test_a_batch_past_sixteen_megabytes_is_split(monkeypatch):
    """What DynamoDB does not take in one request goes in several."""
    monkeypatch.setattr(transport, "MAX_PAYLOAD_BYTES", 4_000)
    with scripted(lambda *_: Answer({})) as script:
        engine = script.engine()
        assert statuses(engine.apply_many(puts(10, body="x" * 900))) == ["applied"] * 10
        assert len(script.requests) == 4
        engine.close()


def test_a_key_named_twice_is_refused_before_anything_is_sent():
    """The rule holds across batches too, where DynamoDB would not notice."""
    with scripted(lambda *_: Answer({})) as script:
        engine = script.engine()
        with pytest.raises(InvalidRequest, match="named twice"):
            engine.apply_many([*puts(30), Delete(Key("p", "000"))])
        with pytest.raises(InvalidRequest, match="no attribute 'SK'"):
            engine.apply_many([Put({"PK": "p"})])
        assert script.requests == []
        engine.close()


@pytest.mark.parametrize(
    ("code", "kind"),
    [("ResourceNotFoundException", TableMissing), ("AccessDeniedException", AccessDenied)],
)
def test_what_befell_all_is_raised(code, kind):
    """Without a table or a right there is nothing to tell of single writes."""
    with scripted(lambda *_: error(code)) as script:
        engine = script.engine()
        with pytest.raises(kind):
            engine.apply_many([*puts(30), Delete(Key("p", "x"), condition=Attr("PK").exists())])
        engine.close()


def test_requests_travel_side_by_side_up_to_the_bound():
    """As many requests are under way as there are workers, and no more."""
    lock, under_way, most = threading.Lock(), 0, 0
    together = threading.Barrier(4)

    def answer(*_):
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        together.wait(10)  # four at once, or the test fails
        with lock:
            under_way -= 1
        return Answer({})

    with scripted(answer) as script:
        engine = script.engine()
        writes = [Patch(Key("p", str(n)), Update(add={"n": 1})) for n in range(16)]
        with replaced_workers(Workers(4)):
            assert statuses(engine.apply_many(writes)) == ["applied"] * 16
        assert most == 4
        engine.close()


def test_keys_that_were_not_looked_at_are_told():
    """A batch read gives back the keys that DynamoDB left out."""
    answer = {
        "Responses": {"mlflow": [{"PK": {"S": "p"}, "SK": {"S": "1"}, "n": {"N": "1"}}]},
        "UnprocessedKeys": {"mlflow": {"Keys": [{"PK": {"S": "p"}, "SK": {"S": "3"}}]}},
    }
    with scripted(lambda *_: Answer(answer)) as script:
        engine = script.engine()
        got = engine.get_many([Key("p", "1"), Key("p", "2"), Key("p", "3")])
        assert got.items == {Key("p", "1"): {"PK": "p", "SK": "1", "n": 1}}
        assert got.unprocessed == [Key("p", "3")]
        assert engine.get_many([]).items == {}
        assert len(script.requests) == 1
        with pytest.raises(InvalidRequest, match="100 keys"):
            engine.get_many([Key("p", str(n)) for n in range(101)])
        engine.close()
