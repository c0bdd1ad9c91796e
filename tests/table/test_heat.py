"""Requests, units and throttled requests are counted by partition, for the last hour."""

from __future__ import annotations

from typing import Any

import pytest
from boto3.dynamodb.conditions import Attr
from boto3.dynamodb.conditions import Key as KeyCondition

from mlflow_dynamodbstore.table import heat as module
from mlflow_dynamodbstore.table.contract import Check, Delete, Patch, Put, Query
from mlflow_dynamodbstore.table.dynamodb import requests
from mlflow_dynamodbstore.table.heat import PARTITION_COUNTERS, Heat, Partition, PartitionCounters
from mlflow_dynamodbstore.table.protocol import partitions_of, throttled_partitions
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE as SCHEMA
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.engines import dynoxide_server, find_dynoxide
from tests.table.fakes import FakeTime

A = "dynamodb:///a"
WRITES: list[Any] = [
    Put({"PK": "p", "SK": "1"}, Attr("PK").not_exists()),
    Patch(Key("q", "1"), Update(set={"PK2": "x"})),
    Delete(Key("p", "2")),
]


@pytest.fixture
def time() -> FakeTime:
    return FakeTime(3_000_000.0)


def test_a_request_counts_for_its_partitions_by_their_shares(time: FakeTime):
    counters = PartitionCounters(time)
    counters.add(A, ["p", "q", "p", "p"], write_units=8.0)
    counters.add(A, ["p"], read_units=0.5)
    counters.add(A, ["q"], requests=0, throttles=1)
    ((_, found),) = counters.periods()
    assert found == {
        Partition(A, "p"): Heat(1.75, 0.5, 6.0, 0.0),
        Partition(A, "q"): Heat(0.25, 0.0, 2.0, 1.0),
    }


def test_an_hour_is_kept(time: FakeTime):
    counters = PartitionCounters(time)
    for _ in range(40):
        counters.add(A, ["p"])
        time.now += 300
    assert len(counters.periods()) == module.PERIODS_KEPT + 1
    time.now += 1800
    assert [len(found) for _, found in counters.periods()] == [1] * 6 + [0]


def test_of_too_many_partitions_the_busiest_stay(time: FakeTime, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MOST_PARTITIONS", 10)
    monkeypatch.setattr(module, "KEPT_PARTITIONS", 3)
    counters = PartitionCounters(time)
    for n in range(50):
        counters.add(A, ["hot"], write_units=5)
        counters.add(A, [f"cold {n}"], write_units=1)
    counters.add(A, ["throttled"], throttles=1)
    ((_, found),) = counters.periods()
    assert [one.pk for one in found][:2] == ["throttled", "hot"]
    assert found[Partition(A, "hot")].requests == 50
    assert len(found) == 3


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (requests.get("t", SCHEMA, Key("p", "s"), consistent=True), ["p"]),
        (
            requests.batch_get("t", SCHEMA, [Key("p", "s"), Key("q", "s")], consistent=True),
            ["p", "q"],
        ),
        (requests.single_write("t", SCHEMA, WRITES[0])[1], ["p"]),
        (requests.single_write("t", SCHEMA, WRITES[1])[1], ["q"]),
        (requests.batch_write("t", SCHEMA, [WRITES[0], WRITES[2]]), ["p", "p"]),
        (
            requests.transact("t", SCHEMA, [*WRITES, Check(Key("r", "1"), Attr("a").eq(1))], "x"),
            ["p", "q", "p", "r"],
        ),
        (
            requests.query("t", SCHEMA, Query("p", KeyCondition("SK").begins_with("R#"))),
            ["p"],
        ),
        (
            requests.query("t", SCHEMA, Query("p", index="LSI1", filter=Attr("a").eq("b"))),
            ["p"],
        ),
        (requests.query("t", SCHEMA, Query("p", index="GSI1")), []),
    ],
)
def test_the_partitions_of_every_request_are_found(request_: Any, expected: list[str]):
    assert partitions_of(SCHEMA, request_) == expected


def test_throttled_partitions_are_those_that_the_answer_names():
    def throttled(request: Any, answer: Any) -> list[str]:
        return throttled_partitions(SCHEMA, answer, request)

    one = requests.get("t", SCHEMA, Key("p", "s"), consistent=True)
    assert throttled(one, {"Error": {"Code": "ThrottlingException"}}) == ["p"]
    assert throttled(one, {"Error": {"Code": "ConditionalCheckFailedException"}}) == []
    assert throttled(one, {}) == []
    batch = requests.batch_write("t", SCHEMA, [WRITES[0], Put({"PK": "q", "SK": "1"})])
    left = {"t": [{"PutRequest": {"Item": {"PK": {"S": "q"}, "SK": {"S": "1"}}}}]}
    assert throttled(batch, {"UnprocessedItems": left}) == ["q"]
    assert throttled(batch, {"UnprocessedItems": {}}) == []
    several = requests.transact("t", SCHEMA, WRITES[:2], "x")
    reasons = [{"Code": "None"}, {"Code": "ThrottlingError"}]
    error = {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": reasons}
    assert throttled(several, error) == ["q"]


@pytest.mark.skipif(find_dynoxide() is None, reason="dynoxide is not installed")
def test_units_that_dynamodb_reports_count_for_the_experiment():
    with dynoxide_server() as address:
        uri = f"dynamodb://{address}/counted"
        store = DynamoDBTrackingStore(uri, "/x")
        experiment = store.create_experiment("busy")
        PARTITION_COUNTERS.reset()
        run_id = store.create_run(experiment, "me", 1, [], "a run").info.run_id
        store.get_run(run_id)
    heats = [found for _, found in PARTITION_COUNTERS.periods()]
    ((partition, heat),) = [
        one for found in heats for one in found.items() if one[0].pk == f"EXP#{experiment}"
    ]
    assert partition.table == uri
    assert heat.requests >= 2
    assert heat.write_units >= 2
    assert heat.read_units >= 1
