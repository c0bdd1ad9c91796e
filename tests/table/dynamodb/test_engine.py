"""What is the DynamoDB engine's own; what every engine owes is in the contract suite."""

from __future__ import annotations

import os
import threading

import pytest
from boto3.dynamodb.conditions import Attr
from botocore.session import Session

from mlflow_dynamodbstore.table.contract import Check, Delete, Patch, Put, Query, Scan
from mlflow_dynamodbstore.table.dynamodb import DynamoDBEngine
from mlflow_dynamodbstore.table.errors import ConditionFailed, InvalidRequest
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Key
from tests.table.dynamodb.scripted import Answer, scripted

ITEM = {"PK": "p", "SK": "s", "n": 1, "x": [1.5, b"\x00", None, True, {"é": ""}]}
EMPTY_PAGE = {"Items": [], "Count": 0}


@pytest.fixture
def table(dynoxide, request):
    engine = open_engine(f"dynamodb://{dynoxide}/{request.node.name[:40].strip('[]')}")
    yield engine
    engine.close()


def sent(call, answer=EMPTY_PAGE):
    """The one request that a call sends."""
    with scripted(lambda *_: Answer(answer)) as script:
        engine = script.engine()
        call(engine)
        engine.close()
        (request,) = script.requests
        return request


def test_reads_are_consistent_unless_told_otherwise():
    """The table and its local indexes are read consistently; a global index cannot be."""
    assert sent(lambda e: e.get(Key("p", "s")))[1]["ConsistentRead"] is True
    assert "ConsistentRead" not in sent(lambda e: e.get(Key("p", "s"), consistent=False))[1]
    batch = sent(lambda e: e.get_many([Key("p", "s")]))[1]["RequestItems"]["mlflow"]
    assert batch["ConsistentRead"] is True
    for query, consistent in (
        (Query("p"), True),
        (Query("p", index="LSI2"), True),
        (Query("p", index="GSI1"), False),
        (Query("p", consistent=False), False),
    ):
        request = sent(lambda e, q=query: e.query(q))[1]
        assert request.get("ConsistentRead", False) is consistent


def test_a_query_asks_for_what_its_index_lacks():
    """Whole items of a local index that carries keys; keys alone where only they are wanted."""
    assert "Select" not in sent(lambda e: e.query(Query("p")))[1]
    assert "Select" not in sent(lambda e: e.query(Query("p", index="LSI1")))[1]
    assert "Select" not in sent(lambda e: e.query(Query("p", index="GSI1")))[1]
    whole = sent(lambda e: e.query(Query("p", index="LSI2")))[1]
    assert whole["Select"] == "ALL_ATTRIBUTES"
    keys = sent(lambda e: e.query(Query("p", index="GSI2", keys_only=True)))[1]
    assert "Select" not in keys
    names = keys["ExpressionAttributeNames"]
    asked = [names[placeholder] for placeholder in keys["ProjectionExpression"].split(", ")]
    assert asked == ["PK", "SK", "gsi2pk", "gsi2sk"]


def test_every_write_asks_for_the_item_that_stood_in_its_way():
    """Alone and in a transaction, which also carries its token."""
    for write in (Put(ITEM), Patch(Key("p", "s"), Update(set={"a": 1})), Delete(Key("p", "s"))):
        request = sent(lambda e, w=write: e.apply(w), {})[1]
        assert request["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD"
    writes = [Put(ITEM), Delete(Key("p", "t")), Check(Key("p", "u"), Attr("PK").exists())]
    operation, request = sent(lambda e: e.transact(writes, "my-token"), {})
    assert (operation, request["ClientRequestToken"]) == ("TransactWriteItems", "my-token")
    parts = [(kind, part) for entry in request["TransactItems"] for kind, part in entry.items()]
    assert [kind for kind, _ in parts] == ["Put", "Delete", "ConditionCheck"]
    assert all(part["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD" for _, part in parts)


@pytest.mark.parametrize(
    "call",
    [
        lambda e: e.query(Query("p", index="GSI9")),
        lambda e: e.query(Query("p", limit=0)),
        lambda e: e.scan(Scan(2, 2)),
        lambda e: e.transact([], "token"),
        lambda e: e.transact([Delete(Key("p", "s"))], ""),
        lambda e: e.transact([Delete(Key("p", "s"))], "x" * 37),
        lambda e: e.transact([Delete(Key("p", "s")), Put(ITEM)], "token"),
        lambda e: e.transact([Delete(Key("p", str(n))) for n in range(101)], "token"),
        lambda e: e.apply(Put(ITEM, returns="new")),
        lambda e: e.apply(Put({"PK": "p", "SK": "s", "x": object()})),
    ],
)
def test_what_is_wrong_on_sight_is_not_sent(call):
    """A request that cannot be right costs no round trip."""
    with scripted(lambda *_: Answer({})) as script:
        engine = script.engine()
        with pytest.raises(InvalidRequest):
            call(engine)
        assert script.requests == []
        engine.close()


def test_both_transports_see_the_same_table(open_table):
    """What one writes the other reads, value for value."""
    direct, ordinary = open_table(), open_table(transport="botocore")
    for writer, reader in ((direct, ordinary), (ordinary, direct)):
        writer.apply(Put({**ITEM, "by": str(writer is direct)}))
        assert reader.get(Key("p", "s")) == writer.get(Key("p", "s"))
        assert reader.get(Key("p", "s"))["x"] == ITEM["x"]
        with pytest.raises(ConditionFailed) as refused:
            reader.apply(Put(ITEM, condition=Attr("n").gt(1)))
        assert refused.value.old == writer.get(Key("p", "s"))
        writer.apply_many([Put({"PK": "q", "SK": f"{n:02}", "f": n / 3}) for n in range(30)])
        pages = [engine.query(Query("q", limit=20)) for engine in (writer, reader)]
        assert pages[0] == pages[1]


def test_the_uri_opens_the_table_again(open_table):
    """A handle's URI leads to the same table."""
    engine = open_table()
    engine.apply(Put(ITEM))
    again = open_engine(engine.uri, create=False)
    assert again.uri == engine.uri
    assert again.get(Key("p", "s")) == ITEM
    again.close()


def test_a_closed_engine_opens_again_when_used(open_table):
    """Closing lets go of connections and threads, twice if need be."""
    engine = open_table()
    engine.apply(Put(ITEM))
    engine.close()
    engine.close()
    assert engine.get(Key("p", "s")) == ITEM


def test_many_threads_share_an_engine(open_table):
    """Each thread gets the answer to its own question."""
    engine, wrong = open_table(), []
    engine.apply_many([Put({"PK": "p", "SK": str(n), "n": n}) for n in range(8)])

    def ask(number):
        for _ in range(20):
            item = engine.get(Key("p", str(number)))
            if item is None or item["n"] != number:
                wrong.append((number, item))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_forked_process_uses_its_own_connections(table):
    """Parent and child may go on at once: neither reads the other's answers."""
    table.apply_many([Put({"PK": "p", "SK": str(n), "n": n}) for n in range(60)])
    child = os.fork()
    wanted = range(30) if child == 0 else range(30, 60)
    right = True
    try:
        for _ in range(3):
            found = [table.get(Key("p", str(n)))["n"] for n in wanted]
            right = right and found == list(wanted)
        outcomes = table.apply_many([Put({"PK": f"q{child}", "SK": str(n)}) for n in wanted])
        right = right and all(outcome.status == "applied" for outcome in outcomes)
    finally:
        if child == 0:
            os._exit(0 if right else 1)
    assert right
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_capacity_is_asked_for_only_when_somebody_looks(table):
    """The observer hears of every request, with the units of the table and of each index."""
    table.apply(Put(ITEM))
    heard = []
    table.observer = lambda operation, answer, _request: heard.append((operation, answer))

    # 2 KB: two units for the table, two for LSI1 which carries whole items, one for GSI1's keys.
    body = {"gsi1pk": "g", "gsi1sk": "g", "lsi1sk": "l", "body": "x" * 1500}
    table.apply(Put({"PK": "p", "SK": "t", **body}))
    assert heard[-1][0] == "PutItem"
    capacity = heard[-1][1]["ConsumedCapacity"]
    assert capacity["CapacityUnits"] == 5.0
    assert capacity["Table"]["CapacityUnits"] == 2.0
    assert capacity["GlobalSecondaryIndexes"]["GSI1"]["CapacityUnits"] == 1.0
    assert capacity["LocalSecondaryIndexes"]["LSI1"]["CapacityUnits"] == 2.0

    def units(call):
        heard.clear()
        call()
        ((_, answer),) = heard
        found = answer["ConsumedCapacity"]
        return sum(c["CapacityUnits"] for c in (found if isinstance(found, list) else [found]))

    assert units(lambda: table.get(Key("p", "t"))) == 1.0
    assert units(lambda: table.get(Key("p", "t"), consistent=False)) == 0.5
    assert units(lambda: table.query(Query("p"))) == 1.0
    assert units(lambda: table.get_many([Key("p", "s"), Key("p", "t")])) == 2.0
    assert units(lambda: table.apply_many([Put({"PK": "q", "SK": "1"})])) == 1.0
    assert units(lambda: table.transact([Put({"PK": "q", "SK": "2"})], "capacity")) == 2.0

    heard.clear()
    with pytest.raises(ConditionFailed):
        table.apply(Put(ITEM, condition=Attr("PK").not_exists()))
    assert heard[0][0] == "PutItem"
    assert heard[0][1]["Error"]["Code"] == "ConditionalCheckFailedException"

    table.observer = None
    with scripted(lambda *_: Answer({})) as script:
        engine = script.engine()
        engine.get(Key("p", "s"))
        assert "ReturnConsumedCapacity" not in script.requests[0][1]
        engine.close()


def test_local_endpoints_need_no_credentials(monkeypatch, tmp_path, dynoxide):
    """Without any configuration an emulator is used with made-up credentials, at once."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    engine = open_engine(f"dynamodb://{dynoxide}/no-credentials")
    assert engine.get(Key("p", "s")) is None
    engine.close()


def test_configured_credentials_are_used(monkeypatch):
    """Whoever has credentials for an endpoint is known to it by them."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "MYKEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "temporary")
    with scripted(lambda *_: Answer({})) as script:
        for transport in ("direct", "botocore"):
            engine = script.engine(transport=transport, region="eu-west-1")
            engine.get(Key("p", "s"))
            engine.close()
            headers = script.headers[-1]
            assert "Credential=MYKEY/" in headers["Authorization"]
            assert "/eu-west-1/dynamodb/aws4_request" in headers["Authorization"]
            assert headers["X-Amz-Security-Token"] == "temporary"
            assert "mlflow-dynamodbstore/" in headers["User-Agent"]


def test_a_session_may_be_given():
    """A botocore session brings its own credentials."""
    session = Session()
    session.set_credentials("GIVEN", "secret")
    with scripted(lambda *_: Answer({})) as script:
        engine = script.engine(session=session)
        engine.get(Key("p", "s"))
        engine.close()
        assert "Credential=GIVEN/" in script.headers[0]["Authorization"]


def test_aws_is_reached_at_the_address_of_its_region():
    """Without an endpoint the region decides, in every partition of AWS."""
    session = Session()
    session.set_credentials("GIVEN", "secret")
    for region, host in (
        ("eu-west-1", "dynamodb.eu-west-1.amazonaws.com"),
        ("cn-north-1", "dynamodb.cn-north-1.amazonaws.com.cn"),
    ):
        engine = DynamoDBEngine("mlflow", MLFLOW_TABLE, region=region, session=session)
        assert engine._connected().client.meta.endpoint_url == f"https://{host}"
        assert engine.uri == f"dynamodb://{region}/mlflow"
        engine.close()
