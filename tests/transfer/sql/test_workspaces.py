"""What lies in a workspace is moved into that workspace."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from mlflow.entities import ViewType
from mlflow.exceptions import MlflowException
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.transfer.sql import kinds
from mlflow_dynamodbstore.transfer.sql.database import Database
from tests.sql import empty_database
from tests.transfer.sql.helpers import exported, imported, stores, verified
from tests.transfer.sql.mlflow_database import Theirs
from tests.transfer.sql.test_round_trip import rows

TEAM = "team-a"
TABLES = (
    "registered_models",
    "model_versions",
    "registered_model_tags",
    "model_version_tags",
    "registered_model_aliases",
    "webhooks",
    "evaluation_datasets",
)


@pytest.fixture
def divided(source: Theirs) -> Theirs:
    """The database with experiment 1 and the whole registry in a workspace of their own."""
    database = Database.to_read(source.uri)
    with database.transaction() as transaction:
        settings = {"default_artifact_root": "s3://team/root", "description": "a team"}
        transaction.insert("workspaces", [{"name": TEAM, **settings}])
        transaction.connection.execute(
            sa.text(f"UPDATE experiments SET workspace = '{TEAM}' WHERE experiment_id = 1")
        )
        for table in TABLES:
            transaction.connection.execute(sa.text(f"UPDATE {table} SET workspace = '{TEAM}'"))
    database.close()
    return source


def test_workspaces_are_kept_there_and_back(divided: Theirs, table, tmp_path, monkeypatch):
    assert imported(divided.uri, table).findings.first == []
    assert verified(kinds.importing(Database.to_read(divided.uri), table)).findings.first == []
    target = empty_database(tmp_path)
    assert exported(table, target).findings.first == []
    before, after = rows(divided.uri), rows(target)
    assert all(after[name] == before[name] for name in before)
    monkeypatch.setenv("MLFLOW_ENABLE_WORKSPACES", "true")
    tracking, registry = stores(table)
    with WorkspaceContext(TEAM):
        assert [e.name for e in tracking.search_experiments(ViewType.ALL)] == ["first"]
        assert len(tracking.search_runs(["1"], "", ViewType.ALL, 100)) == 6
        assert int(registry.get_model_version_by_alias("iris", "champion").version) == 2
        assert len(registry.list_webhooks()) == 2
    with WorkspaceContext("default"):
        with pytest.raises(MlflowException, match="No Experiment with id=1"):
            tracking.get_experiment("1")
        assert not registry.search_registered_models()


def test_settings_of_the_default_workspace_are_taken_over_once(source: Theirs, table):
    database = Database.to_read(source.uri)
    with database.transaction() as transaction:
        root = "UPDATE workspaces SET default_artifact_root = 's3://all' WHERE name = 'default'"
        transaction.connection.execute(sa.text(root))
    move = imported(source.uri, table)
    assert move.findings.first == []
    assert move.tallies["workspaces"].merged == 1
    with database.transaction() as transaction:
        transaction.connection.execute(sa.text(root.replace("all", "others")))
    assert [f.kind for f in imported(source.uri, table).findings.first] == ["workspaces"]
