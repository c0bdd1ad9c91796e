"""Every query walks one index in order, from where it begins."""

from __future__ import annotations

import itertools

import pytest
from boto3.dynamodb.conditions import Key as KeyCondition
from hypothesis import given
from hypothesis import strategies as st

from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.embedded.ranges import range_of
from mlflow_dynamodbstore.table.embedded.reads import _plan

WHERES = {
    "everything": lambda sort: None,
    "equal": lambda sort: KeyCondition(sort).eq("m"),
    "prefix": lambda sort: KeyCondition(sort).begins_with("m"),
    "below": lambda sort: KeyCondition(sort).lt("n"),
    "above": lambda sort: KeyCondition(sort).gte("m"),
}


def plan_of(engine, query):
    view = engine._reader._views[query.index]
    reading = _plan(query, view)
    sql, values = view.statement(reading), reading.values(query.partition, 10)
    explained = engine._file.read(
        lambda connection: connection.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
    )
    return [row[3] for row in explained]


@pytest.mark.parametrize("index", [None, "LSI1", "LSI2", "GSI1"])
@pytest.mark.parametrize("where", WHERES)
def test_a_query_is_one_search_of_its_index(embedded, index, where):
    """No query sorts or scans, and a later page begins at its cursor, not at the range's start."""
    view = embedded._reader._views[index]
    cursor = view.cursor(dict.fromkeys(view.keys, "m"))
    condition = WHERES[where](view.sort_key)
    for descending, resumed, keys_only in itertools.product([False, True], repeat=3):
        query = Query(
            "m",
            condition,
            index,
            descending=descending,
            cursor=cursor if resumed else None,
            keys_only=keys_only,
        )
        (step,) = plan_of(embedded, query)
        name = "PRIMARY KEY" if index is None else "INDEX index_"
        assert step.startswith("SEARCH items USING ")
        assert name in step
        if resumed:
            places = [embedded._layout.columns[name] for name in view.sort_attributes]
            start = places[0] if len(places) == 1 else f"({','.join(places)})"
            assert f"{start}{'<' if descending else '>'}" in step


def test_keys_alone_are_read_from_the_index_alone(embedded):
    """An index of keys answers without a look at the items."""
    for index, keys_only in (("GSI1", False), ("GSI1", True), ("LSI2", True)):
        (step,) = plan_of(embedded, Query("m", index=index, keys_only=keys_only))
        assert "COVERING INDEX" in step


texts = st.text(alphabet=st.sampled_from("a#\x00\ud7ff\ue000\U0010fffe\U0010ffff"), max_size=4)


@given(prefix=texts, text=texts)
def test_a_prefix_is_exactly_the_range_of_what_begins_with_it(prefix, text):
    """The bounds of a prefix hold all texts that begin with it and no other, by UTF-8 order."""
    low, high = range_of(KeyCondition("SK").begins_with(prefix), "SK")
    inside = (low is None or text.encode() >= low.text.encode()) and (
        high is None or text.encode() < high.text.encode()
    )
    assert inside is text.startswith(prefix)
