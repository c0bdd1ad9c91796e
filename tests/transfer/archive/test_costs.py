"""What a copy costs on DynamoDB: pages read, batches of 25 written, and a note for each page."""

from __future__ import annotations

import pytest

from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.transfer.archive.estimate import estimate
from mlflow_dynamodbstore.transfer.archive.fill import TableFill
from mlflow_dynamodbstore.transfer.archive.sources import TableSource

ITEMS = 500


def metered(table):
    engine = MeteredEngine(table.engine)
    return Table(engine, clock=table.clock), engine.meter


@pytest.fixture
def plain(opened):
    """A table of small items, some of them in indexes."""
    table = opened("plain")
    table.write(
        [
            Put(
                {"PK": f"EXP#{n % 9}", "SK": f"R#{n:04}", "value": "x" * 50}
                | ({"lsi1sk": f"ACTIVE#{n:04}"} if n % 2 else {})
            )
            for n in range(ITEMS)
        ]
    )
    return table


def test_a_copy_to_dynamodb_takes_a_request_for_25_items(plain, opened, dynoxide_host):
    target, meter = metered(opened(f"{dynoxide_host}/target"))
    source = TableSource(plain)
    expected = estimate(source, plain.schema, plain.clock())
    with meter.measure() as usage:
        TableFill(target, source).run()
    notes = 3  # at the beginning, behind the one page, at the end
    assert usage.requests == {
        "GetItem": 1,
        "Scan": 1,
        "BatchWriteItem": ITEMS // 25,
        "PutItem": notes,
    }
    assert usage.write_units == expected.write_units + notes == ITEMS * 3 / 2 + notes


def test_a_copy_from_dynamodb_reads_each_segment_in_pages(plain, opened, dynoxide_host):
    there = opened(f"{dynoxide_host}/there")
    TableFill(there, TableSource(plain)).run()
    source, meter = metered(there)
    with meter.measure() as usage:
        TableFill(opened("back"), TableSource(source)).run()
    assert usage.requests == {"Scan": 4}
    expected = estimate(TableSource(there), there.schema, there.clock())
    assert usage.read_units == pytest.approx(expected.read_units, abs=4)


def test_an_estimate_says_what_is_stored_and_leaves_out_what_has_expired(source):
    found = estimate(TableSource(source), source.schema, source.clock())
    assert found.amount.items > 100
    assert found.expired == 3
    assert found.amount.bytes > 100_000
    assert found.write_units > found.amount.items
