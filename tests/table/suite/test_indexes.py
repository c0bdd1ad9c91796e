"""Secondary indexes: who is in them, in what order, and what they give."""

from __future__ import annotations

import time as real_time
from dataclasses import replace

import pytest
from boto3.dynamodb.conditions import Attr
from boto3.dynamodb.conditions import Key as SortKey

from mlflow_dynamodbstore.table.contract import Check, Delete, Patch, Put, Query
from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key, Value
from tests.table.suite.samples import fill, item, keys_of, sort_keys, token, walk

INDEXES = [pytest.param(index, id=index.name) for index in MLFLOW_TABLE.indexes]
GLOBAL = [pytest.param(index, id=index.name) for index in MLFLOW_TABLE.indexes if index.pk]


def entry(index, sk: str, place: str, /, pk: str = "p", **attributes):
    """An item that stands in an index of partition ``p`` at a place."""
    keys = {index.sk: place} | ({index.pk: "p"} if index.pk else {})
    return item(pk, sk, **keys, **attributes)


@pytest.mark.parametrize("index", INDEXES)
def test_every_index_orders_by_its_own_key(engine, index):
    """Every index of the schema gives its items by its own sort key, in both directions."""
    fill(engine, [entry(index, sk, place) for sk, place in ("1c", "2a", "3b")])
    fill(engine, [item("p", "outside"), item("q", "elsewhere", **{index.sk: "a"})])
    assert sort_keys(walk(engine, Query("p", index=index.name))) == ["2", "3", "1"]
    back = Query("p", index=index.name, descending=True)
    assert sort_keys(walk(engine, back)) == ["1", "3", "2"]


@pytest.mark.parametrize("index", INDEXES)
def test_an_item_moves_with_its_index_key(engine, index):
    """Puts, patches and deletes move an item within an index, into it and out of it."""
    query = Query("p", index=index.name, keys_only=True)

    def places() -> list[Value]:
        return [one[index.sk] for one in walk(engine, query)]

    engine.apply(Put(entry(index, "s", "b")))
    assert places() == ["b"]
    engine.apply(Put(entry(index, "s", "c")))
    assert places() == ["c"]
    engine.apply(Patch(Key("p", "s"), Update(set={index.sk: "d"})))
    assert places() == ["d"]
    engine.apply(Patch(Key("p", "s"), Update(remove=(index.sk,))))
    assert places() == []
    engine.apply(Patch(Key("p", "s"), Update(if_absent={index.sk: "e"})))
    assert places() == ["e"]
    engine.apply(Put(item("p", "s")))
    assert places() == []
    engine.apply(Put(entry(index, "s", "f")))
    engine.apply(Delete(Key("p", "s")))
    assert places() == []


@pytest.mark.parametrize("index", GLOBAL)
def test_a_global_index_needs_both_its_keys(engine, index):
    """An item with only half of a global index's key is not in it."""
    fill(engine, [item("p", "1", **{index.sk: "a"}), item("p", "2", **{index.pk: "p"})])
    assert walk(engine, Query("p", index=index.name)) == []
    engine.apply(Patch(Key("p", "1"), Update(set={index.pk: "p"})))
    assert sort_keys(walk(engine, Query("p", index=index.name))) == ["1"]


@pytest.mark.parametrize("index", GLOBAL)
def test_a_global_index_gathers_partitions(engine, index):
    """A global index holds items of all partitions that share its key."""
    fill(engine, [entry(index, "s", place, pk=place) for place in "cab"])
    found = walk(engine, Query("p", index=index.name))
    assert keys_of(found) == [Key("a", "s"), Key("b", "s"), Key("c", "s")]


def test_a_global_index_of_keys_gives_keys(engine):
    """A global index that carries keys gives the table's key and its own, and nothing else."""
    fill(engine, [item("p", "s", gsi1pk="g", gsi1sk="h", gsi2pk="g", lsi1sk="l", other=1)])
    wanted = [item("p", "s", gsi1pk="g", gsi1sk="h")]
    assert walk(engine, Query("g", index="GSI1")) == wanted
    assert walk(engine, Query("g", index="GSI1", keys_only=True)) == wanted


THROUGH = pytest.param("LSI2", marks=pytest.mark.requires("index_reads_through"))


@pytest.mark.parametrize("name", ["LSI1", THROUGH])
def test_a_local_index_gives_whole_items(engine, name):
    """A local index gives whole items, whatever it carries; keys alone when asked for."""
    written = item("p", "s", lsi1sk="a", lsi2sk="b", gsi1pk="g", other=[1])
    engine.apply(Put(written))
    assert engine.query(Query("p", index=name)).items == [written]
    sk = MLFLOW_TABLE.by_name[name].sk
    keys = item("p", "s", **{sk: written[sk]})
    assert engine.query(Query("p", index=name, keys_only=True)).items == [keys]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 5, 100])
@pytest.mark.parametrize("name", ["LSI1", "LSI2", "GSI1"])
def test_equal_index_keys_page_without_gaps(engine, name, limit, descending):
    """Items that share an index key come once each, however the pages cut through them."""
    index = MLFLOW_TABLE.by_name[name]
    written = [entry(index, f"{n:02}", "same" if n % 3 else "other") for n in range(12)]
    fill(engine, written)
    query = Query("p", index=name, descending=descending)
    found = walk(engine, replace(query, limit=limit))
    assert sorted(sort_keys(found)) == [f"{n:02}" for n in range(12)]
    assert sort_keys(found) == sort_keys(engine.query(query).items)
    places = [one[index.sk] for one in found]
    assert places == sorted(places, reverse=descending)


def test_equal_global_keys_in_several_partitions(engine):
    """Pages cut through equal keys of a global index also where the table's partitions differ."""
    index = MLFLOW_TABLE.by_name["GSI1"]
    fill(engine, [entry(index, sk, "same", pk=pk) for pk in "xyz" for sk in "123"])
    for descending in (False, True):
        query = Query("p", index="GSI1", descending=descending)
        found = keys_of(walk(engine, replace(query, limit=2)))
        assert len(found) == 9
        assert set(found) == {Key(pk, sk) for pk in "xyz" for sk in "123"}


@pytest.mark.parametrize("name", ["LSI1", "LSI2", "GSI1"])
def test_ranges_of_an_index(engine, name):
    """Conditions on an index's sort key give its range."""
    index = MLFLOW_TABLE.by_name[name]
    fill(engine, [entry(index, f"{n}", f"t#{n}") for n in range(8)])
    for where, wanted in (
        (SortKey(index.sk).eq("t#3"), ["3"]),
        (SortKey(index.sk).lt("t#2"), ["0", "1"]),
        (SortKey(index.sk).gte("t#6"), ["6", "7"]),
        (SortKey(index.sk).between("t#2", "t#4"), ["2", "3", "4"]),
        (SortKey(index.sk).begins_with("t#5"), ["5"]),
        (SortKey(index.sk).begins_with("u"), []),
    ):
        assert sort_keys(walk(engine, Query("p", where, index=name, limit=2))) == wanted


def test_a_filter_sees_what_an_index_carries(engine):
    """A filter looks at entries: at whole items of LSI1, at the table's sort key of the others."""
    for name in ("LSI1", "LSI2", "GSI1"):
        index = MLFLOW_TABLE.by_name[name]
        fill(engine, [entry(index, f"{n}", f"{n}", n=n) for n in range(6)])
        found = walk(engine, Query("p", index=name, filter=Attr("SK").gt("3"), limit=2))
        assert sort_keys(found) == ["4", "5"]
    fill(engine, [item("p", f"{n}", lsi1sk=f"{n}", n=n) for n in range(6)])
    found = walk(engine, Query("p", index="LSI1", filter=Attr("n").gt(3), limit=2))
    assert sort_keys(found) == ["4", "5"]


@pytest.mark.parametrize("keys_only", [False, True])
@pytest.mark.parametrize("name", ["LSI2", "GSI1"])
def test_a_filter_on_what_an_index_does_not_carry_is_refused(engine, name, keys_only):
    """Also where whole items come back: DynamoDB fetches them after the filter."""
    index = MLFLOW_TABLE.by_name[name]
    engine.apply(Put(entry(index, "s", "a", n=1)))
    for condition in (
        Attr("n").gt(0),
        Attr("n").not_exists(),
        Attr("SK").gt("0") & ~Attr("n.m").exists(),
    ):
        query = Query("p", index=name, filter=condition, keys_only=keys_only)
        with pytest.raises(InvalidRequest, match=f"'n': {name} does not carry it"):
            engine.query(query)


@pytest.mark.parametrize("name", [None, "LSI1", "LSI2", "GSI1"])
def test_a_filter_on_the_keys_of_a_query_is_refused(engine, name):
    """The range of a query is for its key condition."""
    index = None if name is None else MLFLOW_TABLE.by_name[name]
    keys = ("PK", "SK") if index is None else (index.pk or "PK", index.sk)
    for key in keys:
        with pytest.raises(InvalidRequest, match="a key of this query"):
            engine.query(Query("p", index=name, filter=Attr("n").eq(1) | Attr(key).gt("a")))


@pytest.mark.parametrize("name", ["LSI1", "LSI2"])
def test_a_page_of_a_local_index_ends(engine, name):
    """A walk over large items of a local index takes several pages and gives all."""
    index = MLFLOW_TABLE.by_name[name]
    fill(engine, [entry(index, f"{n:02}", f"{n:02}", body="x" * 100_000) for n in range(25)])
    page = engine.query(Query("p", index=name))
    assert len(page.items) <= 11
    assert page.cursor is not None
    assert len(walk(engine, Query("p", index=name))) == 25


@pytest.mark.requires("index_key_types")
@pytest.mark.parametrize("value", [1, 1.5, None, b"x", "", ["a"]])
@pytest.mark.parametrize("name", ["gsi1pk", "gsi1sk", "lsi1sk"])
def test_index_keys_are_text(engine, name, value):
    """An index key of another type, or an empty one, is refused and changes nothing."""
    other = {"gsi1pk": "gsi1sk", "gsi1sk": "gsi1pk"}.get(name)
    rest = {other: "x"} if other else {}
    engine.apply(Put(item("p", "s", **rest)))
    with pytest.raises(InvalidRequest):
        engine.apply(Put(item("p", "s", **{name: value}, **rest)))
    assert engine.get(Key("p", "s")) == item("p", "s", **rest)


LOCAL_KEY = pytest.param("lsi1sk", marks=pytest.mark.requires("patched_local_keys"))


@pytest.mark.requires("index_key_types")
@pytest.mark.parametrize("value", [1, 1.5, None, b"x", "", ["a"]])
@pytest.mark.parametrize("name", ["gsi1pk", "gsi1sk", LOCAL_KEY])
def test_patched_index_keys_are_text(engine, name, value):
    """A patch cannot set what a put cannot bring."""
    engine.apply(Put(item("p", "s")))
    with pytest.raises(InvalidRequest):
        engine.apply(Patch(Key("p", "s"), Update(set={name: value})))
    assert engine.get(Key("p", "s")) == item("p", "s")


def test_transactions_and_bulk_writes_keep_indexes(engine):
    """Indexes follow transactions and bulk writes as they follow single writes."""
    index = MLFLOW_TABLE.by_name["GSI1"]
    fill(engine, [entry(index, f"{n}", "a") for n in range(5)])
    engine.transact(
        [
            Put(entry(index, "0", "b")),
            Patch(Key("p", "1"), Update(set={"gsi1sk": "b"})),
            Delete(Key("p", "2")),
            Check(Key("p", "3"), Attr("PK").exists()),
        ],
        token(),
    )
    found = walk(engine, Query("p", index="GSI1"))
    assert sorted((one["gsi1sk"], one["SK"]) for one in found) == [
        ("a", "3"),
        ("a", "4"),
        ("b", "0"),
        ("b", "1"),
    ]


@pytest.mark.requires("index_lag")
def test_a_lagging_global_index_shows_writes_late(misbehaving):
    """With a lag, a global index shows the past; the table and local indexes show the present."""
    engine = misbehaving("index_lag=0.3")
    engine.apply(Put(item("p", "s", gsi1pk="g", gsi1sk="a", lsi1sk="a")))
    assert walk(engine, Query("g", index="GSI1")) == []
    assert sort_keys(walk(engine, Query("p", index="LSI1"))) == ["s"]
    real_time.sleep(0.35)
    assert sort_keys(walk(engine, Query("g", index="GSI1"))) == ["s"]
    engine.apply(Delete(Key("p", "s")))
    assert sort_keys(walk(engine, Query("g", index="GSI1"))) == ["s"]
    assert walk(engine, Query("p", index="LSI1")) == []
    real_time.sleep(0.35)
    assert walk(engine, Query("g", index="GSI1")) == []
