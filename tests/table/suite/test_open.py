"""Opening, closing and refusing tables."""

from __future__ import annotations

import pytest

from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.errors import SchemaMismatch, TableMissing
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE, Index, Schema
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Key
from tests.table.suite.samples import item


def test_its_uri_opens_the_same_table(subject, engine):
    """An engine's URI opens the same table again."""
    engine.apply(Put(item("p", "s", a=1)))
    assert subject.open(engine.uri).get(Key("p", "s")) == item("p", "s", a=1)


def test_closing_twice_is_fine(subject, engine):
    """Closing a handle lets go of it, twice too, and leaves other handles alone."""
    engine.apply(Put(item("p", "s")))
    other = subject.open()
    assert other.get(Key("p", "s")) is not None
    other.close()
    other.close()
    assert engine.get(Key("p", "s")) is not None


def test_preparing_again_keeps_everything(engine):
    """Preparing a table that is there changes nothing in it."""
    engine.apply(Put(item("p", "s")))
    engine.prepare(create=True)
    engine.prepare(create=False)
    assert engine.get(Key("p", "s")) is not None


def test_a_missing_table_is_named(subject):
    """A table that is not there, and may not be created, is an error."""
    with pytest.raises(TableMissing):
        open_engine(subject.uri.replace("suite", "missing"), create=False)


@pytest.mark.parametrize(
    "other",
    [
        Schema("mlflow-without"),
        Schema("mlflow-other", indexes=(Index("GSI1", sk="x", pk="y"), *MLFLOW_TABLE.indexes[1:])),
    ],
    ids=["no indexes", "another key"],
)
def test_a_table_of_another_schema_is_refused(subject, other):
    """A table that was made by another schema is refused, and left as it is."""
    uri = subject.uri.replace("suite", other.kind)
    first = open_engine(uri, other)
    with pytest.raises(SchemaMismatch):
        open_engine(uri, MLFLOW_TABLE)
    first.prepare(create=False)
    first.close()
