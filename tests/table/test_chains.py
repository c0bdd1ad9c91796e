"""Counting the longest chain of requests of a call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.table.contract import Patch, Put, Query
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from tests.chains import counted_chain
from tests.engines import moto_server

FIRST, SECOND = Key("p", "1"), Key("p", "2")


@pytest.fixture(scope="module")
def engine() -> Iterator[MeteredEngine]:
    with moto_server() as host:
        engine = MeteredEngine(open_engine(f"dynamodb://{host}/chains"))
        yield engine
        engine.close()


@pytest.fixture
def table(engine: MeteredEngine) -> Table:
    return Table(engine)


def test_requests_after_one_another_are_a_chain(engine, table):
    """A refused request counts as one that was answered."""
    with counted_chain(engine) as chain:
        table.put({"PK": "p", "SK": "1"})
        with pytest.raises(ConditionFailed):
            table.put({"PK": "p", "SK": "1"}, condition=Attr("PK").not_exists())
        table.get(FIRST)
    assert chain.length == 3
    assert str(chain) == "3 in a chain, 3 requests: 1 PutItem, then 1 PutItem, then 1 GetItem"


def test_requests_at_the_same_time_are_one_step(engine, table):
    """Whoever waits for them goes on when the longest of them ends."""

    def both(key):
        return table.get(key), table.query(Query(key.pk))

    with counted_chain(engine) as chain:
        table.together(lambda: table.get(FIRST), lambda: both(SECOND), lambda: table.get(SECOND))
        table.get(FIRST)
    assert (chain.length, len(chain.requests)) == (3, 5)


def test_nested_calls_overlap_too(engine, table):
    """Two steps, however many calls there are on the two levels."""
    with counted_chain(engine) as chain:
        table.map(lambda _: (table.get(FIRST), table.map(table.get, [FIRST, SECOND])), range(4))
    assert (chain.length, len(chain.requests)) == (2, 12)


def test_a_bulk_write_is_as_long_as_the_pool_makes_it(engine, table):
    """Batches and single writes go out together, 32 at a time."""
    puts = [Put({"PK": "p", "SK": f"{n:03}"}) for n in range(60)]  # 3 batches
    patches = [Patch(Key("q", f"{n:03}"), Update(add={"n": 1})) for n in range(29)]
    with counted_chain(engine) as chain:
        table.write(puts + patches)
    assert (chain.length, len(chain.requests)) == (1, 32)
    with counted_chain(engine) as chain:
        table.write(puts + patches, then=patches[:1])
    assert (chain.length, len(chain.requests)) == (2, 33)
    with counted_chain(engine) as chain:
        table.write([*puts, *patches, Patch(Key("q", "more"), Update(add={"n": 1}))])
    assert (chain.length, len(chain.requests)) == (2, 33)


def test_metering_goes_on_meanwhile(engine, table):
    """The units are those of the same calls."""
    engine.meter.reset()
    with counted_chain(engine):
        table.get(FIRST)
    table.get(FIRST)
    assert engine.meter.requests["GetItem"] == 2


def test_a_file_has_no_requests(tmp_path):
    """It says so instead of counting none."""
    engine = open_engine(f"dynamodb:///{tmp_path / 't.ddb'}")
    with pytest.raises(TypeError, match="not on a file"), counted_chain(engine):
        pass
    engine.close()
