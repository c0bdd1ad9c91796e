"""To PostgreSQL and back: it is strict with types, lengths and references, as SQLite is not.

Its server and MLflow's migrations on it take a while, so this runs with ``make fuzz``, where
PostgreSQL and psycopg2 are installed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from bench.postgres import postgres_server
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.transfer.sql import kinds
from mlflow_dynamodbstore.transfer.sql.database import Database
from tests.transfer.sql.answers import answers
from tests.transfer.sql.helpers import exported, imported, stores, verified
from tests.transfer.sql.mlflow_database import Theirs
from tests.transfer.sql.test_round_trip import rows

pytestmark = [
    pytest.mark.hypothesis,
    pytest.mark.skipif(os.environ.get("HYPOTHESIS_PROFILE") != "long", reason="see make fuzz"),
]


@pytest.fixture
def postgres() -> Iterator[str]:
    with postgres_server(print) as uri:
        if uri is None:
            pytest.skip("PostgreSQL or psycopg2 is not installed")
        yield uri


def test_there_and_back(source: Theirs, table, tmp_path, postgres: str):
    imported(source.uri, table)
    assert exported(table, postgres).findings.first == []
    assert verified(kinds.exporting(table, Database.to_write(postgres))).findings.first == []
    before, after = rows(source.uri), rows(postgres)
    assert [name for name in before if before[name] != after[name]] == []
    theirs = Theirs(postgres)
    assert theirs.tracking.create_experiment("its sequence goes on") == "4"
    second = Table(open_engine(f"dynamodb:///{tmp_path}/second.ddb?synchronous=NORMAL"))
    assert imported(postgres, second).findings.first == []
    ours = dict(answers(*stores(second)))
    for question, answer in answers(theirs.tracking, theirs.registry):
        assert ours[question] == answer, question
    theirs.tracking._dispose_engine()
    theirs.registry._dispose_engine()
    second.close()
