"""``alias``: what an operator does with the aliases of a model."""

from __future__ import annotations

import pytest
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.cli.exits import NO_TABLE, USAGE
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine


@pytest.fixture
def registry(uri):
    return DynamoDBRegistryStore("", table=Table(open_engine(uri)))


def make_model(registry, source="s3://b"):
    registry.create_registered_model("m")
    for n in range(3):
        registry.create_model_version("m", f"{source}/{n}")


@pytest.fixture
def champion(registry, run):
    """A model with three versions, the first of them the champion."""
    make_model(registry)
    run("alias", "set", "m", "champion", "1")


def test_set_shows_where_the_alias_leads_and_mlflow_sees_it(run, registry, champion):
    assert "points at 2" in run("alias", "set", "m", "champion", "2").stdout
    assert registry.get_model_version_by_alias("m", "champion").version == 2
    shown = run.json("alias", "show", "m", "champion")
    assert shown == {
        "model": "m",
        "alias": "champion",
        "version": 2,
        "secondary": None,
        "weight": 0,
    }


def test_split_gives_a_share_to_a_second_version(run, registry, champion):
    split = run.json("alias", "split", "m", "champion", "3", "--weight", "99")
    assert (split["version"], split["secondary"], split["weight"]) == (1, 3, 99)
    chosen = {
        run.json("alias", "show", "m", "champion", "--key", f"u{n}")["chosen"] for n in range(3)
    }
    assert 3 in chosen
    assert (
        "points at 1, 5 % to 2"
        in run("alias", "split", "m", "champion", "2", "--weight", "5").stdout
    )
    assert registry.get_registered_model("m").aliases == {"champion": 1}


def test_show_lists_all_aliases_of_a_model(run, registry, champion):
    registry.set_registered_model_alias("m", "shadow", 2)
    shown = run("alias", "show", "m", "--key", "ada").stdout
    assert "champion" in shown
    assert "shadow" in shown
    assert "for ada" in shown
    assert [one["alias"] for one in run.json("alias", "show", "m")] == ["champion", "shadow"]


def test_history_tells_who_when_and_what(run, champion, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ada")
    run("alias", "split", "m", "champion", "2", "--weight", "10")
    newest, oldest = run.json("alias", "history", "m", "champion")
    assert newest["after"] == {"version": 1, "secondary": 2, "weight": 10}
    assert (newest["user"], oldest["before"]) == ("ada", None)
    shown = run("alias", "history", "m").stdout
    assert "1, 10 % to 2" in shown
    assert "ada" in shown
    assert len(run.json("alias", "history", "m", "--limit", "1")) == 1


def test_rollback_takes_back_the_last_change_or_returns_to_one(run, champion):
    first = run.json("alias", "history", "m", "champion")[0]["change_id"]
    for version in ("2", "3"):
        run("alias", "set", "m", "champion", version)
    assert run.json("alias", "rollback", "m", "champion")["version"] == 2
    short = str(int(first))
    assert run.json("alias", "rollback", "m", "champion", "--to", short)["version"] == 1
    assert "no recorded change" in run("alias", "rollback", "m", "x", code=NO_TABLE).output


def test_delete_asks_first_and_rollback_brings_the_alias_back(run, registry, champion):
    run("alias", "delete", "m", "champion", typed="n\n", code=1)
    assert registry.get_registered_model("m").aliases == {"champion": 1}
    gone = run.json("alias", "delete", "m", "champion", "--yes")
    assert gone == {"model": "m", "alias": "champion", "deleted": True}
    assert registry.get_registered_model("m").aliases == {}
    assert "points at 1" in run("alias", "rollback", "m", "champion").stdout
    run("alias", "delete", "m", "champion", "--yes")
    assert "no alias" in run("alias", "delete", "m", "champion", "--yes", code=NO_TABLE).output


def test_a_workspace_has_aliases_of_its_own(run, registry, champion, monkeypatch):
    monkeypatch.setenv("MLFLOW_ENABLE_WORKSPACES", "true")
    with WorkspaceContext("team"):
        make_model(registry, "s3://team")
    run("alias", "set", "m", "champion", "3", "--workspace", "team")
    monkeypatch.delenv("MLFLOW_ENABLE_WORKSPACES")
    assert run.json("alias", "show", "m", "champion", "--workspace", "team")["version"] == 3
    assert run.json("alias", "show", "m", "champion")["version"] == 1
    assert "not found" in run("alias", "show", "m", "--workspace", "other", code=NO_TABLE).output


def test_what_is_wrong_is_told(run, champion):
    assert "version=9" in run("alias", "set", "m", "champion", "9", code=NO_TABLE).output
    assert "not found" in run("alias", "show", "nothing", code=NO_TABLE).output
    run("alias", "split", "m", "champion", "2", "--weight", "100", code=USAGE)
    run("alias", "split", "m", "champion", "2", code=USAGE)
