"""Cursors lead back to their place, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_dynamodbstore.table.contract import Query, Scan
from mlflow_dynamodbstore.table.dynamodb import cursors
from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
NAMES = {
    None: ("PK", "SK"),
    "LSI2": ("PK", "SK", "lsi2sk"),
    "GSI3": ("PK", "SK", "gsi3pk", "gsi3sk"),
}


def place(index, *parts):
    return {name: {"S": part} for name, part in zip(NAMES[index], parts, strict=False)}


@given(st.sampled_from(list(NAMES)), st.lists(texts, min_size=4, max_size=4))
def test_a_cursor_leads_back(index, parts):
    """Any text may stand in a key, and the cursor is fit for a URL."""
    last = place(index, *parts)
    partition = last["gsi3pk" if index == "GSI3" else "PK"]["S"]
    query = Query(partition, index=index)
    cursor = cursors.after_query(MLFLOW_TABLE, query, last)
    assert cursor is not None
    assert all(c.isalnum() or c in "-_" for c in cursor)
    assert cursors.start_of_query(MLFLOW_TABLE, replace(query, cursor=cursor)) == last


def test_the_end_has_no_cursor():
    assert cursors.after_query(MLFLOW_TABLE, Query("p"), None) is None
    assert cursors.after_scan(MLFLOW_TABLE, Scan(), None) is None


@pytest.mark.parametrize(
    "query",
    [
        Query("other"),
        Query("p", index="LSI1"),
        Query("p", index="LSI3"),
        Query("p", index="GSI1"),
        Query("p"),
    ],
    ids=["another partition", "another index", "a third", "a global one", "the table"],
)
def test_a_cursor_of_another_query_is_refused(query):
    """A cursor that was given out for another partition or index never reads from there."""
    own = Query("p", index="LSI2")
    cursor = cursors.after_query(MLFLOW_TABLE, own, place("LSI2", "p", "s", "l"))
    with pytest.raises(InvalidRequest, match="cursor"):
        cursors.start_of_query(MLFLOW_TABLE, replace(query, cursor=cursor))


@pytest.mark.parametrize("cursor", ["", "x", "é", "!!!!", "bnVsbA", "WzFd", "W10", "e30"])
def test_nonsense_is_refused(cursor):
    """So is whatever was not given out at all."""
    with pytest.raises(InvalidRequest, match="cursor"):
        cursors.start_of_query(MLFLOW_TABLE, Query("p", cursor=cursor))
    with pytest.raises(InvalidRequest, match="cursor"):
        cursors.start_of_scan(MLFLOW_TABLE, Scan(cursor=cursor))


def test_a_scan_goes_on_in_its_own_segment():
    """A cursor of one segment is none of another, nor of a query."""
    scan = Scan(1, 4)
    cursor = cursors.after_scan(MLFLOW_TABLE, scan, place(None, "p", "s"))
    found = cursors.start_of_scan(MLFLOW_TABLE, replace(scan, cursor=cursor))
    assert found == place(None, "p", "s")
    for other in (Scan(2, 4, cursor=cursor), Scan(1, 5, cursor=cursor)):
        with pytest.raises(InvalidRequest):
            cursors.start_of_scan(MLFLOW_TABLE, other)
    with pytest.raises(InvalidRequest):
        cursors.start_of_query(MLFLOW_TABLE, Query("p", cursor=cursor))
