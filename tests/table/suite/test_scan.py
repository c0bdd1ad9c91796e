"""Reading everything, for upkeep and export."""

from __future__ import annotations

from dataclasses import replace

import pytest
from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.table.contract import Scan
from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.values import Item
from tests.table.suite.samples import fill, item, keys_of


def scan_all(engine, scan: Scan) -> list[Item]:
    found: list[Item] = []
    while True:
        page = engine.scan(scan)
        found += page.items
        if page.cursor is None:
            return found
        scan = replace(scan, cursor=page.cursor)


def test_an_empty_table(engine):
    """A table that holds nothing is one empty page."""
    page = engine.scan(Scan())
    assert (page.items, page.cursor) == ([], None)


@pytest.mark.parametrize("limit", [None, 1, 7])
@pytest.mark.parametrize("segments", [1, 3, 8])
def test_segments_hold_each_item_once(engine, segments, limit):
    """All pages of all segments together hold each item once, whole."""
    written = [item(f"p{n % 11}", f"{n:02}", n=n) for n in range(40)]
    fill(engine, written)
    found = [
        one
        for segment in range(segments)
        for one in scan_all(engine, Scan(segment, segments, limit))
    ]
    assert sorted(found, key=lambda one: one["n"]) == written


def test_a_partition_stays_in_one_segment(engine):
    """Items of one partition come from one segment."""
    fill(engine, [item("p", f"{n}") for n in range(20)])
    sizes = [len(scan_all(engine, Scan(segment, 4))) for segment in range(4)]
    assert sorted(sizes) == [0, 0, 0, 20]


def test_a_filter_is_judged_after_the_limit(engine):
    """``limit`` counts items read, so that a page may be empty and still have a cursor."""
    fill(engine, [item("p", f"{n:02}", n=n) for n in range(20)])
    found = scan_all(engine, Scan(limit=3, filter=Attr("n").eq(13)))
    assert keys_of(found) == [("p", "13")]
    assert engine.scan(Scan(limit=3, filter=Attr("n").eq(-1))).cursor is not None


def test_a_page_ends_at_one_megabyte(engine):
    """A page ends when about 1 MB has been read, before the filter."""
    fill(engine, [item(f"p{n}", "s", n=n, body="x" * 100_000) for n in range(25)])
    page = engine.scan(Scan(filter=Attr("n").eq(-1)))
    assert page.items == []
    assert page.cursor is not None
    assert len(scan_all(engine, Scan())) == 25


@pytest.mark.parametrize("cursor", ["", "x", "bm90IGEgY3Vyc29y"])
def test_a_cursor_that_is_none_is_refused(engine, cursor):
    """Text that is not a cursor is an invalid request."""
    with pytest.raises(InvalidRequest):
        engine.scan(Scan(cursor=cursor))


@pytest.mark.parametrize(("segment", "segments"), [(1, 1), (2, 2), (-1, 2), (0, 0)])
def test_a_segment_out_of_range_is_refused(engine, segment, segments):
    """Segments count from 0 up to their number."""
    with pytest.raises(InvalidRequest):
        engine.scan(Scan(segment, segments))
