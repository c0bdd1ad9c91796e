"""How large things may be, and what is said when they are larger."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_

import pytest
from boto3.dynamodb.conditions import Attr, ConditionBase
from boto3.dynamodb.conditions import Key as SortKey

from mlflow_dynamodbstore.table.contract import (
    MAX_ITEM_BYTES,
    MAX_PK_BYTES,
    MAX_SK_BYTES,
    Check,
    Delete,
    Patch,
    Put,
    Query,
    Scan,
)
from mlflow_dynamodbstore.table.errors import (
    CollectionFull,
    InvalidRequest,
    ItemTooLarge,
    TransactionCancelled,
)
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key
from tests.table.suite.samples import fill, item, token, walk

KEY = Key("p", "s")


def of_size(size: int, *, body: str = "body"):
    """An item that DynamoDB counts as so many bytes."""
    return item("p", "s", **{body: "x" * (size - len("PKpSKs") - len(body))})


def test_an_item_well_under_400_kb_fits(engine):
    """An item of 390 KB is written and read."""
    engine.apply(Put(of_size(390 * 1024)))
    assert engine.get(KEY) == of_size(390 * 1024)


@pytest.mark.requires("exact_limits")
def test_an_item_of_exactly_400_kb_fits(engine):
    """The limit is 400 KB to the byte, names and values counted in UTF-8."""
    engine.apply(Put(of_size(MAX_ITEM_BYTES)))
    with pytest.raises(ItemTooLarge):
        engine.apply(Put(of_size(MAX_ITEM_BYTES + 1)))
    assert engine.get(KEY) == of_size(MAX_ITEM_BYTES)


def test_an_item_too_large_is_refused(engine):
    """An item past 400 KB is refused and nothing is written."""
    with pytest.raises(ItemTooLarge):
        engine.apply(Put(of_size(MAX_ITEM_BYTES + 4096)))
    assert engine.get(KEY) is None


def test_an_item_cannot_grow_too_large(engine):
    """A patch that would take an item past 400 KB is refused and changes nothing."""
    engine.apply(Put(of_size(390 * 1024)))
    with pytest.raises(ItemTooLarge):
        engine.apply(Patch(KEY, Update(set={"more": "x" * 20 * 1024})))
    assert engine.get(KEY) == of_size(390 * 1024)


@pytest.mark.requires("copies_counted")
def test_the_copies_of_local_indexes_count(engine):
    """LSI1 carries whole items, so an item in it ends at half of 400 KB."""
    engine.apply(Put({**of_size(204_000), "lsi1sk": "a"}))
    for large in (
        {**of_size(205_000), "lsi1sk": "a"},
        {**of_size(409_000), "lsi2sk": "a" * 1024},
    ):
        with pytest.raises(ItemTooLarge):
            engine.apply(Put(large))
        (outcome,) = engine.apply_many([Put(large)])
        assert isinstance(outcome.error, ItemTooLarge)
    engine.apply(Put({**of_size(409_000), "gsi1pk": "a", "gsi1sk": "b"}))


@pytest.mark.requires("copies_counted", "patched_local_keys")
def test_the_copies_of_local_indexes_count_in_patches(engine):
    """A patch cannot make an item larger than a put can."""
    engine.apply(Put({**of_size(204_000), "lsi1sk": "a"}))
    with pytest.raises(ItemTooLarge):
        engine.apply(Patch(KEY, Update(set={"more": "x" * 1000})))
    assert engine.get(KEY) == {**of_size(204_000), "lsi1sk": "a"}


def test_keys_of_the_longest_kind(engine):
    """A partition key of 2,048 bytes and a sort key of 1,024 bytes are keys like any other."""
    key = Key("é" * (MAX_PK_BYTES // 2), "é" * (MAX_SK_BYTES // 2))
    engine.apply(Put(item(*key, a=1)))
    assert engine.get(key) == item(*key, a=1)


BAD_KEYS = {
    "empty pk": Key("", "s"),
    "empty sk": Key("p", ""),
    "long pk": Key("é" * (MAX_PK_BYTES // 2) + "x", "s"),
    "long sk": Key("p", "é" * (MAX_SK_BYTES // 2) + "x"),
}


@pytest.mark.requires("key_checks")
@pytest.mark.parametrize("key", BAD_KEYS.values(), ids=BAD_KEYS.keys())
def test_other_keys_are_refused(engine, key):
    """An empty key and a key too long are invalid requests in every operation."""
    for request in (
        lambda: engine.apply(Put(item(*key))),
        lambda: engine.apply(Patch(key, Update(set={"a": 1}))),
        lambda: engine.apply(Delete(key)),
        lambda: engine.get(key),
        lambda: engine.get_many([Key("p", "s"), key]),
        lambda: engine.transact([Put(item("p", "t")), Delete(key)], token()),
    ):
        with pytest.raises(InvalidRequest):
            request()
    assert walk(engine, Query("p")) == []


@pytest.mark.requires("query_key_checks")
@pytest.mark.parametrize("index", [None, "LSI1", "GSI1"])
def test_queries_for_keys_that_no_item_has_are_refused(engine, index):
    """An empty partition or bound, and a bound too long; every key begins with an empty prefix."""
    sk = SortKey("SK" if index is None else f"{index.lower()}sk")
    engine.apply(Put(item("p", "s", lsi1sk="a", gsi1pk="p", gsi1sk="b")))
    for query in (
        Query("", index=index),
        Query("p", sk.eq(""), index=index),
        Query("p", sk.lt(""), index=index),
        Query("p", sk.between("", "z"), index=index),
        Query("p", sk.eq("x" * (MAX_SK_BYTES + 1)), index=index),
        Query("p", sk.begins_with("x" * (MAX_SK_BYTES + 1)), index=index),
    ):
        with pytest.raises(InvalidRequest):
            engine.query(query)
    assert len(engine.query(Query("p", sk.begins_with(""), index=index)).items) == 1


@pytest.mark.requires("name_checks")
def test_names_are_not_empty(engine):
    """Neither those of attributes nor those in maps."""
    for request in (
        lambda: engine.apply(Put({"PK": "p", "SK": "s", "": 1})),
        lambda: engine.apply(Put(item("p", "s", a=[{"": 1}]))),
        lambda: engine.apply(Patch(KEY, Update(set={"a": {"": 1}}))),
    ):
        with pytest.raises(InvalidRequest):
            request()
    assert engine.get(KEY) is None


@pytest.mark.parametrize("missing", ["PK", "SK"])
def test_an_item_without_its_key_is_refused(engine, missing):
    """An item must bring both halves of its key, as text."""
    whole = item("p", "s")
    for wrong in ({k: v for k, v in whole.items() if k != missing}, {**whole, missing: 1}):
        with pytest.raises(InvalidRequest):
            engine.apply(Put(wrong))


@pytest.mark.requires("index_key_limits")
@pytest.mark.parametrize(
    ("name", "length"), [("gsi1pk", MAX_PK_BYTES), ("gsi1sk", MAX_SK_BYTES), ("lsi1sk", 1024)]
)
def test_index_keys_have_limits_too(engine, name, length):
    """Index keys may be as long as the table's, and no longer."""
    rest = {"gsi1pk": "g", "gsi1sk": "h", "lsi1sk": "l"}
    engine.apply(Put(item("p", "s", **{**rest, name: "x" * length})))
    with pytest.raises(InvalidRequest):
        engine.apply(Put(item("p", "s", **{**rest, name: "x" * (length + 1)})))
    assert engine.get(KEY)[name] == "x" * length


@pytest.mark.requires("index_key_limits", "patched_local_keys")
def test_patched_index_keys_have_limits_too(engine):
    """A patch cannot set what a put cannot bring."""
    engine.apply(Put(item("p", "s")))
    for name, length in (("gsi1pk", MAX_PK_BYTES), ("gsi1sk", MAX_SK_BYTES), ("lsi1sk", 1024)):
        with pytest.raises(InvalidRequest):
            engine.apply(Patch(KEY, Update(set={name: "x" * (length + 1)})))
    assert engine.get(KEY) == item("p", "s")


def any_of(comparisons: int) -> ConditionBase:
    """So many comparisons, and operators between them."""
    return reduce(or_, [Attr("n").eq(n) for n in range(comparisons)])


def hundreds(count: int) -> ConditionBase:
    """Comparisons with so many hundreds of values."""
    return reduce(or_, [Attr("n").is_in([*range(99), n]) for n in range(count)])


def negated(condition: ConditionBase, times: int) -> ConditionBase:
    """A condition with so many NOTs before it."""
    return reduce(lambda inner, _: ~inner, range(times), condition)


def negations(count: int) -> ConditionBase:
    """So many comparisons with two NOTs before each."""
    return reduce(and_, [negated(Attr(f"a{n}").not_exists(), 2) for n in range(count)])


@pytest.mark.requires("expression_limits")
@pytest.mark.parametrize(
    ("fits", "long"),
    [
        pytest.param(hundreds(5), hundreds(7), id="4 KB"),
        pytest.param(any_of(150), any_of(151), id="300 operators"),
        pytest.param(negations(60), negations(98), id="4 KB with NOT"),
        pytest.param(
            negated(Attr("n").exists(), 298), negated(Attr("n").exists(), 300), id="300 times NOT"
        ),
    ],
)
def test_a_condition_has_an_end(engine, fits, long):
    """A condition or filter of more than 4 KB, or of more than 300 operators, is refused."""
    engine.apply(Put(item("p", "s", n=1)))
    engine.apply(Put(item("p", "s", n=2), condition=fits))
    assert engine.query(Query("p", filter=fits)).items == [item("p", "s", n=2)]
    for request in (
        lambda: engine.apply(Put(item("p", "s"), condition=long)),
        lambda: engine.apply(Delete(KEY, condition=long)),
        lambda: engine.query(Query("p", filter=long)),
        lambda: engine.scan(Scan(filter=long)),
        lambda: engine.transact([Check(KEY, long)], token()),
    ):
        with pytest.raises(InvalidRequest):
            request()
    assert engine.get(KEY) == item("p", "s", n=2)


@pytest.mark.requires("expression_limits")
def test_an_update_ends_at_4_kb(engine):
    """An update whose expression is longer is refused and changes nothing."""
    few = {f"a{n}": n for n in range(200)}
    engine.apply(Patch(KEY, Update(set=few)))
    for update in (
        Update(set={f"a{n}": n for n in range(300)}),
        Update(remove=tuple(f"a{n}" for n in range(800))),
        Update(if_absent={f"b{n}": n for n in range(130)}),
    ):
        with pytest.raises(InvalidRequest):
            engine.apply(Patch(KEY, update))
    assert engine.get(KEY) == item("p", "s", **few)


@pytest.mark.requires("expression_limits")
def test_in_takes_100_values(engine):
    """One more is an invalid request."""
    engine.apply(Put(item("p", "s", n=1)))
    hundred = Attr("n").is_in(list(range(100)))
    assert engine.query(Query("p", filter=hundred)).items == [item("p", "s", n=1)]
    with pytest.raises(InvalidRequest):
        engine.query(Query("p", filter=Attr("n").is_in(list(range(101)))))


def nested(levels: int):
    """A list in a list, so many times."""
    return [nested(levels - 1)] if levels else 1


@pytest.mark.requires("nesting_limits")
def test_values_are_nested_32_levels_deep(engine):
    """The attribute is the first level."""
    engine.apply(Put(item("p", "s", deep=nested(31))))
    assert engine.get(KEY) == item("p", "s", deep=nested(31))
    engine.apply(Patch(KEY, Update(set={"more": {"a": nested(30)}})))
    for request in (
        lambda: engine.apply(Put(item("p", "s", deep=nested(32)))),
        lambda: engine.apply(Patch(KEY, Update(set={"deep": nested(32)}))),
    ):
        with pytest.raises(InvalidRequest):
            request()


@pytest.mark.requires("operand_limits")
def test_operands_are_nested_32_levels_deep(engine):
    """A value that a condition compares with is the first level."""
    engine.apply(Put(item("p", "s"), condition=Attr("n").ne(nested(32))))
    assert engine.query(Query("p", filter=Attr("n").ne(nested(32)))).items == [item("p", "s")]
    deep = Attr("n").ne(nested(33))
    for request in (
        lambda: engine.apply(Put(item("p", "s"), condition=deep)),
        lambda: engine.transact([Check(KEY, deep)], token()),
        lambda: engine.query(Query("p", filter=deep)),
    ):
        with pytest.raises(InvalidRequest):
            request()


def test_a_transaction_of_nothing_is_refused(engine):
    """A transaction holds at least one operation."""
    with pytest.raises(InvalidRequest):
        engine.transact([], token())


@pytest.mark.requires("collection_limit")
def test_a_full_partition_refuses_to_grow(misbehaving):
    """A partition past its limit refuses growth, and takes deletes and other partitions' writes."""
    engine = misbehaving("collection_limit=50000")
    fill(engine, [item("p", f"{n}", body="x" * 10_000) for n in range(4)])
    for growth in (
        Put(item("p", "more", body="x" * 20_000)),
        Patch(Key("p", "0"), Update(set={"more": "x" * 20_000})),
    ):
        with pytest.raises(CollectionFull):
            engine.apply(growth)
        outcome, beside = engine.apply_many([growth, Put(item("q", "s"))])
        assert (outcome.status, beside.status) == ("failed", "applied")
        assert isinstance(outcome.error, CollectionFull)
    engine.apply(Delete(Key("p", "1")))
    engine.apply(Put(item("p", "0", body="small")))
    engine.apply(Put(item("p", "more", body="x" * 20_000)))


@pytest.mark.requires("collection_limit")
def test_a_full_partition_cancels_a_transaction(misbehaving):
    """In a transaction the operation that would overfill a partition is named."""
    engine = misbehaving("collection_limit=50000")
    with pytest.raises(TransactionCancelled) as cancelled:
        engine.transact(
            [
                Put(item("q", "s")),
                Put(item("p", "s", body="x" * 60_000)),
                Check(Key("p", "t"), Attr("PK").not_exists()),
            ],
            token(),
        )
    assert [r.code if r else None for r in cancelled.value.reasons] == [
        None,
        "CollectionFull",
        None,
    ]
    assert engine.get(Key("q", "s")) is None
