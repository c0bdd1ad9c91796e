"""Pages of a partition: order, ranges, limits, cursors and filters."""

from __future__ import annotations

from dataclasses import replace

import pytest
from boto3.dynamodb.conditions import Attr
from boto3.dynamodb.conditions import Key as SortKey

from mlflow_dynamodbstore.table.contract import Delete, Put, Query
from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.values import Item, Key
from tests.table.suite.samples import fill, item, sort_keys, walk

KIB = 1024


def numbered(count: int, pk: str = "p", **attributes) -> list[Item]:
    return [item(pk, f"{n:03}", n=n, **attributes) for n in range(count)]


def test_an_empty_partition_is_an_empty_page(engine):
    """A partition that holds nothing is one empty page without a cursor."""
    page = engine.query(Query("p"))
    assert (page.items, page.cursor) == ([], None)


def test_a_partition_holds_its_own_items_only(engine):
    """Items of partitions whose names begin alike are not in the answer."""
    fill(engine, [item(pk, "s") for pk in ("p", "p#", "p1", "P", "o", "q")])
    assert engine.query(Query("p")).items == [item("p", "s")]


def test_items_come_in_order_of_utf8_bytes(engine):
    """Sort keys order by their UTF-8 bytes, not by UTF-16 and not by a language's rules."""
    keys = ["a", "A", "b", "B", "é", "z", "Z", "~", "\uffff", "\U00010000", "1", "10", "2", "\x00"]
    fill(engine, [item("p", sk) for sk in keys])
    ordered = sorted(keys, key=str.encode)
    assert sort_keys(engine.query(Query("p")).items) == ordered
    assert sort_keys(engine.query(Query("p", descending=True)).items) == ordered[::-1]


RANGES = {
    "eq": (SortKey("SK").eq("b1"), ["b1"]),
    "eq absent": (SortKey("SK").eq("b"), []),
    "lt": (SortKey("SK").lt("b1"), ["a", "b0"]),
    "lte": (SortKey("SK").lte("b1"), ["a", "b0", "b1"]),
    "gt": (SortKey("SK").gt("b2"), ["b\U0010ffff", "c"]),
    "gte": (SortKey("SK").gte("b2"), ["b2", "b\U0010ffff", "c"]),
    "between": (SortKey("SK").between("b0", "b2"), ["b0", "b1", "b2"]),
    "between between": (SortKey("SK").between("aa", "b01"), ["b0"]),
    "begins_with": (
        SortKey("SK").begins_with("b"),
        ["b0", "b1", "b2", "b\U0010ffff"],
    ),
    "begins_with whole": (SortKey("SK").begins_with("b1"), ["b1"]),
}


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(("where", "wanted"), RANGES.values(), ids=RANGES.keys())
def test_ranges_of_the_sort_key(engine, where, wanted, descending):
    """Each condition on the sort key gives its range, in either direction, in one page or many."""
    keys = ["a", "b0", "b1", "b2", "b\U0010ffff", "c"]
    fill(engine, [item("p", sk) for sk in keys])
    wanted = wanted[::-1] if descending else wanted
    query = Query("p", where, descending=descending)
    assert sort_keys(engine.query(query).items) == wanted
    assert sort_keys(walk(engine, replace(query, limit=1))) == wanted


@pytest.mark.requires("exact_prefixes")
def test_a_prefix_has_no_end(engine):
    """A prefix also covers keys that go on behind the last character there is."""
    last = "b\U0010ffff"
    fill(engine, [item("p", sk) for sk in ("b", last, last + "x", last + "\U0010ffff", "c")])
    found = engine.query(Query("p", SortKey("SK").begins_with("b"))).items
    assert sort_keys(found) == ["b", last, last + "x", last + "\U0010ffff"]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("limit", [1, 3, 7, 10, 11])
def test_pages_of_any_size_give_each_item_once(engine, limit, descending):
    """Pages hold at most ``limit`` items; together they hold each item once, in order."""
    fill(engine, numbered(10))
    query, sizes, found = Query("p", limit=limit, descending=descending), [], []
    while True:
        page = engine.query(query)
        sizes.append(len(page.items))
        found += [one["n"] for one in page.items]
        if page.cursor is None:
            break
        query = replace(query, cursor=page.cursor)
    assert found == sorted(range(10), reverse=descending)
    assert max(sizes) == min(limit, 10)


def test_a_cursor_survives_changes_around_it(engine):
    """A cursor goes on behind its item, though that item be gone and others be added."""
    fill(engine, numbered(6))
    first = engine.query(Query("p", limit=3))
    engine.apply(Delete(Key("p", "002")))
    fill(engine, [item("p", "0015", n=-1), item("p", "0035", n=35)])
    rest = walk(engine, Query("p", limit=3, cursor=first.cursor))
    assert sort_keys(rest) == ["003", "0035", "004", "005"]


def test_a_cursor_works_on_another_handle(subject, engine):
    """A cursor is text that any process with the same table can go on from."""
    fill(engine, numbered(4))
    cursor = engine.query(Query("p", limit=2)).cursor
    assert isinstance(cursor, str)
    assert sort_keys(walk(subject.open(), Query("p", cursor=cursor))) == ["002", "003"]


@pytest.mark.parametrize("cursor", ["", "x", "{}", "W10", "bm90IGEgY3Vyc29y", "é📈", "null"])
def test_a_cursor_that_is_none_is_refused(engine, cursor):
    """Text that is not a cursor is an invalid request."""
    with pytest.raises(InvalidRequest):
        engine.query(Query("p", cursor=cursor))


def test_a_cursor_of_another_index_is_refused(engine):
    """A cursor of the table does not fit an index, nor the other way round."""
    fill(engine, [item("p", f"{n}", lsi1sk=f"{n}", gsi1pk="p", gsi1sk=f"{n}") for n in range(3)])
    cursors = {
        index: engine.query(Query("p", index=index, limit=1)).cursor
        for index in (None, "LSI1", "GSI1")
    }
    for index, cursor in cursors.items():
        for other in cursors:
            if other != index:
                with pytest.raises(InvalidRequest):
                    engine.query(Query("p", index=other, cursor=cursor))


def test_a_filter_is_judged_after_the_limit(engine):
    """``limit`` counts items read: a page may be empty and still have a cursor."""
    fill(engine, numbered(10))
    page = engine.query(Query("p", limit=4, filter=Attr("n").gte(8)))
    assert page.items == []
    assert page.cursor is not None
    found = walk(engine, Query("p", limit=4, filter=Attr("n").gte(8)))
    assert [one["n"] for one in found] == [8, 9]


def test_a_page_ends_at_one_megabyte(engine):
    """A page ends when about 1 MB has been read; the walk still gives everything in order."""
    fill(engine, numbered(25, body="x" * 100 * KIB))
    page = engine.query(Query("p"))
    assert 9 <= len(page.items) <= 11
    assert page.cursor is not None
    assert [one["n"] for one in walk(engine, Query("p"))] == list(range(25))
    back = walk(engine, Query("p", descending=True))
    assert [one["n"] for one in back] == list(range(24, -1, -1))


@pytest.mark.requires("pages_before_filter")
def test_one_megabyte_is_counted_before_the_filter(engine):
    """What the filter drops counts too: an empty page with a cursor is not the end."""
    fill(engine, numbered(25, body="x" * 100 * KIB))
    query = Query("p", filter=Attr("n").eq(24))
    page = engine.query(query)
    assert page.items == []
    assert page.cursor is not None
    assert [one["n"] for one in walk(engine, query)] == [24]


def test_one_megabyte_is_counted_of_whole_items(engine):
    """Asking for keys only does not make pages longer: the items are read all the same."""
    fill(engine, numbered(25, body="x" * 100 * KIB))
    page = engine.query(Query("p", keys_only=True))
    assert 9 <= len(page.items) <= 11
    assert page.cursor is not None
    assert len(walk(engine, Query("p", keys_only=True))) == 25


def test_keys_only_gives_keys_only(engine):
    """``keys_only`` returns the key of each item, though a filter look at more."""
    fill(engine, numbered(3, other="x"))
    page = engine.query(Query("p", keys_only=True, filter=Attr("n").gt(0)))
    assert page.items == [item("p", "001"), item("p", "002")]


def test_an_unknown_index_is_refused(engine):
    """A query of an index that the schema does not have is an invalid request."""
    with pytest.raises(InvalidRequest):
        engine.query(Query("p", index="GSI99"))


def test_a_condition_on_another_attribute_is_refused(engine):
    """``where`` is about the sort key asked for; anything else is an invalid request."""
    for query in (
        Query("p", where=SortKey("other").eq("x")),
        Query("p", where=SortKey("SK").eq("x"), index="LSI1"),
        Query("p", where=Attr("SK").contains("x")),
    ):
        with pytest.raises(InvalidRequest):
            engine.query(query)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(engine, limit):
    """A page of no items is an invalid request."""
    with pytest.raises(InvalidRequest):
        engine.query(Query("p", limit=limit))


def test_a_write_is_seen_by_the_next_query(engine):
    """A query of the table sees every write that has returned."""
    for n in range(20):
        engine.apply(Put(item("p", f"{n:03}")))
        assert len(engine.query(Query("p")).items) == n + 1


def test_a_table_walks_all_pages(table):
    """A table's ``items`` goes through all pages by itself."""
    table.write([Put(one) for one in numbered(30)])
    assert [one["n"] for one in table.items(Query("p", limit=7))] == list(range(30))
    odd = Query("p", limit=7, filter=Attr("n").gt(27))
    assert [one["n"] for one in table.items(odd)] == [28, 29]
