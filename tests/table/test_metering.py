"""Requests and units: the same figures from the server and from the rules."""

from __future__ import annotations

import pytest
from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.table.contract import Check, Delete, Patch, Put, Query, Scan
from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.sizes import item_size
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key, same_value
from mlflow_dynamodbstore.table.wrappers import costs
from mlflow_dynamodbstore.table.wrappers.metering import Meter, MeteredEngine, requests_of
from tests.table.suite.samples import item, token

pytestmark = pytest.mark.requires("metering")

KEY = Key("p", "s")
ABSENT = Attr("PK").not_exists()


def sized(sk: str, size: int, **attributes):
    """An item that DynamoDB counts as so many bytes."""
    rest = item("p", sk, **attributes)
    return {**rest, "body": "x" * (size - item_size(rest) - len("body"))}


@pytest.fixture
def metered(engine):
    """The engine with a meter around it, and no meter left in it afterwards."""
    yield MeteredEngine(engine)
    if engine.capabilities.observable is not None:
        engine.capabilities.observable.observer = None


def cost(metered, call) -> tuple[dict[str, int], float, float]:
    """What a call costs: requests by operation, read units, write units."""
    with metered.meter.measure() as usage:
        call(metered)
    return dict(usage.requests), usage.read_units, usage.write_units


@pytest.mark.parametrize(
    ("size", "consistent", "units"),
    [(0, True, 1), (0, False, 0.5), (4096, True, 1), (4097, True, 2), (9000, False, 1.5)],
)
def test_reading_one_item(metered, size, consistent, units):
    """A read counts steps of 4 KB, half when eventually consistent, one for nothing at all."""
    if size:
        metered.apply(Put(sized("s", size)))
    found = cost(metered, lambda e: e.get(KEY, consistent=consistent))
    assert found == ({"GetItem": 1}, units, 0)


def test_reading_many_items(metered):
    """In a batch read each item is rounded up on its own, absent ones too."""
    metered.apply_many([Put(sized("1", 100)), Put(sized("2", 5000))])
    keys = [Key("p", sk) for sk in "123"]
    assert cost(metered, lambda e: e.get_many(keys)) == ({"BatchGetItem": 1}, 4, 0)
    half = cost(metered, lambda e: e.get_many(keys, consistent=False))
    assert half == ({"BatchGetItem": 1}, 2, 0)


def test_pages_are_summed_before_they_are_rounded(metered):
    """A page counts what it read, before filter and projection, rounded once."""
    metered.apply_many([Put(sized(f"{n}", 1000, n=n)) for n in range(9)])
    for query, units in (
        (Query("p"), 3),
        (Query("p", consistent=False), 1.5),
        (Query("p", filter=Attr("n").eq(5)), 3),
        (Query("p", filter=Attr("n").eq(-5)), 3),
        (Query("p", keys_only=True), 3),
        (Query("p", limit=3), 1),
        (Query("nobody"), 1),
    ):
        found = cost(metered, lambda e, query=query: e.query(query))
        assert found == ({"Query": 1}, units, 0), query
    assert cost(metered, lambda e: e.scan(Scan())) == ({"Scan": 1}, 3, 0)
    few = Scan(filter=Attr("n").eq(5))
    assert cost(metered, lambda e: e.scan(few)) == ({"Scan": 1}, 3, 0)


def test_indexes_are_read_by_the_size_of_their_entries(metered):
    """An index counts its entries: keys are small, whole items are not; global ones cost half."""
    metered.apply_many(
        [
            Put(sized(f"{n}", 2000, gsi1pk="g", gsi1sk=f"{n}", lsi1sk=f"{n}", lsi2sk=f"{n}"))
            for n in range(4)
        ]
    )
    for query, units in (
        (Query("g", index="GSI1"), 0.5),
        (Query("g", index="GSI1", keys_only=True), 0.5),
        (Query("p", index="LSI1"), 2),
        (Query("p", index="LSI1", consistent=False), 1),
        (Query("p", index="LSI2", keys_only=True), 1),
        (Query("p", index="LSI2", limit=1), 2),
    ):
        found = cost(metered, lambda e, query=query: e.query(query))
        assert found == ({"Query": 1}, units, 0), query


def test_a_write_counts_the_larger_image(metered):
    """A write counts steps of 1 KB of the old or the new image, whichever is larger."""
    for write, units in (
        (Put(sized("s", 1024)), 1),
        (Put(sized("s", 1025)), 2),
        (Put(sized("s", 100)), 2),
        (Patch(KEY, Update(set={"more": "x" * 3000})), 4),
        (Patch(KEY, Update(remove=("more",))), 4),
        (Delete(KEY), 1),
        (Delete(KEY), 1),
    ):
        operation = {Put: "PutItem", Patch: "UpdateItem", Delete: "DeleteItem"}[type(write)]
        found = cost(metered, lambda e, write=write: e.apply(write))
        assert found == ({operation: 1}, 0, units), write


def test_indexes_are_written_as_they_change(metered):
    """An index costs nothing when its entry stays, one write when it changes, two when it moves."""
    there = {"gsi1pk": "g", "gsi1sk": "1", "lsi1sk": "1", "lsi2sk": "1"}
    whole = sized("s", 2500, **there)
    for write, units in (
        (Put(whole), 3 + 1 + 3 + 1),
        (Put(whole), 3),
        (Patch(KEY, Update(set={"other": 1})), 3 + 3),
        (Patch(KEY, Update(set={"gsi1sk": "2"})), 3 + 3 + 2),
        (Patch(KEY, Update(set={"lsi1sk": "2"})), 3 + 6),
        (Patch(KEY, Update(remove=("lsi2sk",))), 3 + 3 + 1),
        (Put(item("p", "s", lsi1sk="2")), 3 + 3 + 1),
        (Put(item("p", "s", gsi1pk="g")), 1 + 1),
        (Put(item("p", "s", gsi1pk="g", gsi1sk="1")), 1 + 1),
        (Delete(KEY), 1 + 1),
    ):
        found = cost(metered, lambda e, write=write: e.apply(write))
        assert found[1:] == (0, units), write


def test_a_refused_write_costs_the_item_it_looked_at(metered):
    """A write whose condition fails still counts the item that was there, or one unit."""
    metered.apply(Put(sized("s", 2500)))

    def refused(write):
        def call(engine):
            with pytest.raises(ConditionFailed):
                engine.apply(write)

        return call

    taken, nobody = Put(item("p", "s"), ABSENT), Put(sized("t", 5000), Attr("PK").exists())
    assert cost(metered, refused(taken)) == ({"PutItem": 1}, 0, 3)
    assert cost(metered, refused(nobody)) == ({"PutItem": 1}, 0, 1)


def test_bulk_writes_travel_in_batches(metered):
    """Plain puts and deletes go 25 to a request; what has a condition or a patch goes alone."""
    writes = [Put(sized(f"{n:02}", 1500)) for n in range(30)]
    assert cost(metered, lambda e: e.apply_many(writes)) == ({"BatchWriteItem": 2}, 0, 60)
    mixed = [
        Delete(Key("p", "00")),
        Delete(Key("p", "01"), Attr("PK").exists()),
        Delete(Key("p", "02"), returns="old"),
        Put(item("p", "03"), ABSENT),
        Patch(Key("p", "04"), Update(set={"a": 1})),
        Put(item("p", "new")),
    ]
    assert cost(metered, lambda e: e.apply_many(mixed)) == (
        {"BatchWriteItem": 1, "DeleteItem": 2, "PutItem": 1, "UpdateItem": 1},
        0,
        2 + 2 + 2 + 2 + 2 + 1,
    )


def test_transactions_cost_double(metered):
    """A transaction doubles what the table writes, checks included; indexes follow at one."""
    metered.apply(Put(sized("checked", 2500)))
    whole = sized("s", 2500, gsi1pk="g", gsi1sk="1", lsi1sk="1", lsi2sk="1")
    writes = [
        Put(whole),
        Check(Key("p", "checked"), Attr("PK").exists()),
        Check(Key("p", "nobody"), ABSENT),
        Delete(Key("p", "never")),
    ]
    found = cost(metered, lambda e: e.transact(writes, token()))
    assert found == ({"TransactWriteItems": 1}, 0, 6 + (1 + 3 + 1) + 6 + 2 + 2)


def test_a_cancelled_transaction_costs_too(metered):
    """A transaction that wrote nothing still counts the items it looked at."""
    metered.apply(Put(sized("s", 2500)))

    def cancelled(engine):
        with pytest.raises(TransactionCancelled):
            engine.transact([Put(item("p", "s"), ABSENT), Put(item("p", "t"))], token())

    assert cost(metered, cancelled) == ({"TransactWriteItems": 1}, 0, 6 + 2)


@pytest.mark.parametrize("filtered", [False, True])
def test_what_a_local_index_fetches_is_counted_item_by_item(metered, filtered):
    """Five small items through an index of keys cost one unit each beside the page itself."""
    metered.apply_many([Put(sized(str(n), 900, lsi2sk=str(n))) for n in range(5)])
    kept = Attr("SK").eq("1") if filtered else None
    query = Query("p", index="LSI2", filter=kept)
    assert cost(metered, lambda e: e.query(query)) == ({"Query": 1}, 6, 0)


def test_a_local_index_of_keys_fetches_each_item_on_its_own():
    """By the rules each item fetched through an index of keys is rounded up by itself."""
    items = [item("p", f"{n}", lsi2sk=f"{n}") for n in range(10)]
    query = Query("p", index="LSI2")
    assert costs.query_units(MLFLOW_TABLE, query, items) == 1 + 10
    assert costs.query_units(MLFLOW_TABLE, Query("p", index="LSI2", consistent=False), items) == 5.5


def test_a_meter_reads_well_and_starts_again(metered):
    """A meter says what it counted in one line, and can be set back to nothing."""
    metered.apply(Put(item("p", "s")))
    metered.get(KEY)
    line = "2 requests (GetItem 1, PutItem 1), 1 read units, 1 write units"
    assert str(metered.meter) == line
    assert metered.meter.requests["GetItem"] == 1
    assert (metered.meter.read_units, metered.meter.write_units) == (1, 1)
    metered.meter.reset()
    assert str(metered.meter) == "0 requests (none), 0 read units, 0 write units"


def test_measures_nest(engine):
    """A measure inside another counts for both."""
    meter = Meter()
    with meter.measure() as outer:
        meter.add("GetItem", read=1)
        with meter.measure() as inner:
            meter.add("PutItem", write=2)
    assert (outer.total_requests, outer.read_units, outer.write_units) == (2, 1, 2)
    assert (inner.total_requests, inner.read_units, inner.write_units) == (1, 0, 2)


def test_requests_of_nothing():
    """A bulk write of nothing takes no request."""
    assert list(requests_of([])) == []


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, False),
        (True, 1, False),
        (float("nan"), float("nan"), True),
        (0.0, -0.0, False),
        ([1, {"a": b"x"}], [1, {"a": b"x"}], True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ("a", "a", True),
    ],
)
def test_values_are_compared_as_they_are_stored(one, other, same):
    """An index entry has changed when a stored value has, types and bits included."""
    assert same_value(one, other) is same
