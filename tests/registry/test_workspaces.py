"""Workspaces: the same names side by side, and nothing seen of the others."""

from __future__ import annotations

import pytest
from mlflow.entities.model_registry import RegisteredModelTag
from mlflow.entities.webhook import WebhookAction, WebhookEntity, WebhookEvent
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.registry.items import RegisteredModelPlace
from mlflow_dynamodbstore.shared.names import claims
from tests.registry.helpers import items_at, registry_on
from tests.stores import refused

MISSING = "RESOURCE_DOES_NOT_EXIST"


@pytest.fixture(autouse=True)
def enabled(monkeypatch):
    monkeypatch.setenv("MLFLOW_ENABLE_WORKSPACES", "true")


@pytest.fixture
def teams(store):
    """The same model in two workspaces and in the default one, each with its own run."""
    for team in ("default", "one", "two"):
        with WorkspaceContext(team):
            store.create_registered_model("m", [RegisteredModelTag("team", team)])
            store.create_model_version("m", f"s3://{team}", "run")
            store.set_registered_model_alias("m", "champion", 1)
    return ("default", "one", "two")


def test_each_workspace_sees_its_own(store, teams):
    for team in teams:
        with WorkspaceContext(team):
            (model,) = store.search_registered_models("name LIKE 'm%'")
            assert (model.workspace, model.tags) == (team, {"team": team})
            for wanted in ("", "name = 'm'", "run_id = 'run'"):
                (version,) = store.search_model_versions(wanted)
                assert (version.workspace, version.source) == (team, f"s3://{team}")
            assert store.get_model_version_by_alias("m", "champion").source == f"s3://{team}"


@pytest.mark.index_at_once
def test_models_with_an_alias_are_those_of_the_workspace(store, teams):
    """Also after one of them has moved to another workspace."""
    for team in teams:
        with WorkspaceContext(team):
            assert [*store.find_registered_models_with_alias("champion")] == ["m"]
    target = RegisteredModelPlace("from one", "default")
    claims.move(store.table, RegisteredModelPlace("m", "one"), target, None)
    with WorkspaceContext("one"):
        assert store.find_registered_models_with_alias("champion") == {}
    with WorkspaceContext("default"):
        assert [*store.find_registered_models_with_alias("champion")] == ["from one", "m"]


def test_what_one_workspace_does_the_others_do_not_feel(store, teams):
    with WorkspaceContext("one"):
        store.rename_registered_model("m", "n")
        assert store.get_registered_model("n").tags == {"team": "one"}
    with WorkspaceContext("two"):
        store.delete_registered_model("m")
    with WorkspaceContext("default"):
        assert store.get_registered_model("m").tags == {"team": "default"}
        with refused(MISSING, "name=n not found"):
            store.get_registered_model("n")
        assert len(store.search_model_versions("run_id = 'run'")) == 1


def test_the_default_workspace_has_the_plain_keys(store, teams):
    assert "M#META" in items_at(store, "RM#m")
    assert "M#META" in items_at(store, "RM#one#m")
    assert list(items_at(store, "RMRUN#two#run")) == ["RM#m#0000000001"]


def test_a_model_can_be_moved_to_another_workspace(store, teams):
    """What deleting a workspace does with its models."""
    target = RegisteredModelPlace("from one", "default")
    assert claims.move(store.table, RegisteredModelPlace("m", "one"), target, None) is not None
    with WorkspaceContext("one"):
        assert store.search_registered_models() == []
        assert store.search_model_versions("run_id = 'run'") == []
    with WorkspaceContext("default"):
        moved = store.get_registered_model("from one")
        assert (moved.workspace, moved.tags, moved.aliases) == (
            "default",
            {"team": "one"},
            {"champion": 1},
        )
        found = store.search_model_versions("run_id = 'run'")
        assert {version.name for version in found} == {"m", "from one"}


def test_without_workspaces_a_registry_that_has_some_is_refused(engine, time, store, monkeypatch):
    with WorkspaceContext("team"):
        store.create_registered_model("hidden")
    monkeypatch.setenv("MLFLOW_ENABLE_WORKSPACES", "false")
    with refused("INVALID_STATE", "model 'hidden' in workspace 'team'"):
        registry_on(engine, time)
    monkeypatch.setenv("MLFLOW_ENABLE_WORKSPACES", "true")
    with WorkspaceContext("team"):
        store.delete_registered_model("hidden")
    monkeypatch.setenv("MLFLOW_ENABLE_WORKSPACES", "false")
    registry_on(engine, time)


def test_webhooks_of_another_workspace_are_not_there(engine, time, store, monkeypatch):
    monkeypatch.setattr(
        "socket.getaddrinfo", lambda *_, **__: [(2, 1, 6, "", ("93.184.215.14", 443))]
    )
    event = WebhookEvent(WebhookEntity.MODEL_VERSION, WebhookAction.CREATED)
    with WorkspaceContext("team"):
        made = store.create_webhook("hook", "https://example.com", [event])
    with WorkspaceContext("default"):
        assert store.list_webhooks() == []
        with refused(MISSING, "not found"):
            store.get_webhook(made.webhook_id)
    monkeypatch.setenv("MLFLOW_ENABLE_WORKSPACES", "false")
    with refused("INVALID_STATE", "webhooks exist outside the default workspace"):
        registry_on(engine, time)
