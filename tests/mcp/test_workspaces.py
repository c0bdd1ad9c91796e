"""No workspace sees the servers of another; they are removed or moved with their workspace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mlflow.entities.workspace import Workspace, WorkspaceDeletionMode
from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.shared.names import claims
from mlflow_dynamodbstore.workspaces.store import DynamoDBWorkspaceStore
from tests.mcp.making import ACTIVE, FILES, MAIL, add, keys_of, noise
from tests.stores import refused, settle_claims

CASCADE, SET_DEFAULT = WorkspaceDeletionMode.CASCADE, WorkspaceDeletionMode.SET_DEFAULT


@pytest.fixture(autouse=True)
def _enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MLFLOW_ENABLE_WORKSPACES.name, "true")


def fill(store, workspace: str) -> str:
    """A server with a long version, an alias and an endpoint, whose id is returned."""
    with WorkspaceContext(workspace):
        add(store, "1.0.0", title=noise(300_000))
        add(store, "2.0.0", status=ACTIVE, description=f"of {workspace}")
        store.set_mcp_server_alias(FILES, "prod", "1.0.0")
        store.set_mcp_server_tag(FILES, "team", workspace)
        endpoint = store.create_mcp_access_endpoint(
            FILES, f"https://{workspace}", server_alias="prod"
        )
    return str(endpoint.id)


def test_equal_names_in_two_workspaces_are_two_servers(store, other):
    ids = {workspace: fill(store, workspace) for workspace in ("one", "two")}
    for workspace, endpoint_id in ids.items():
        with WorkspaceContext(workspace):
            (server,) = other.search_mcp_servers()
            assert server == other.get_mcp_server(FILES)
            assert (server.workspace, server.tags) == (workspace, {"team": workspace})
            assert server.description == f"of {workspace}"
            assert [e.id for e in server.access_endpoints] == [endpoint_id]
            assert [e.id for e in other.search_mcp_access_endpoints()] == [endpoint_id]
            versions = other.search_mcp_server_versions(FILES)
            assert [(v.version, v.workspace) for v in versions] == [
                ("1.0.0", workspace),
                ("2.0.0", workspace),
            ]


CALLS: dict[str, Callable[[Any, str], Any]] = {
    "get": lambda s, _: s.get_mcp_server(FILES),
    "update": lambda s, _: s.update_mcp_server(FILES, description="x"),
    "delete": lambda s, _: s.delete_mcp_server(FILES),
    "tag": lambda s, _: s.set_mcp_server_tag(FILES, "k", "v"),
    "untag": lambda s, _: s.delete_mcp_server_tag(FILES, "team"),
    "version": lambda s, _: s.get_mcp_server_version(FILES, "1.0.0"),
    "latest": lambda s, _: s.get_latest_mcp_server_version(FILES),
    "by alias": lambda s, _: s.get_mcp_server_version_by_alias(FILES, "prod"),
    "update version": lambda s, _: s.update_mcp_server_version(FILES, "1.0.0", status=ACTIVE),
    "delete version": lambda s, _: s.delete_mcp_server_version(FILES, "1.0.0"),
    "tag version": lambda s, _: s.set_mcp_server_version_tag(FILES, "1.0.0", "k", "v"),
    "untag version": lambda s, _: s.delete_mcp_server_version_tag(FILES, "1.0.0", "k"),
    "alias": lambda s, _: s.set_mcp_server_alias(FILES, "prod", "2.0.0"),
    "no alias": lambda s, _: s.delete_mcp_server_alias(FILES, "prod"),
    "new endpoint": lambda s, _: s.create_mcp_access_endpoint(FILES, "u", server_alias="prod"),
    "endpoint": lambda s, e: s.get_mcp_access_endpoint(FILES, e),
    "update endpoint": lambda s, e: s.update_mcp_access_endpoint(FILES, e, url="u"),
    "delete endpoint": lambda s, e: s.delete_mcp_access_endpoint(FILES, e),
}


def test_what_is_in_another_workspace_looks_non_existent(store):
    endpoint_id = fill(store, "one")
    before = keys_of(store.table)
    with WorkspaceContext("two"):
        for call in CALLS.values():
            with refused("RESOURCE_DOES_NOT_EXIST", "not found"):
                call(store, endpoint_id)
        assert store.search_mcp_servers() == []
        assert store.search_mcp_server_versions(FILES) == []
        assert store.search_mcp_access_endpoints() == []
        assert store.search_mcp_access_endpoints(server_name=FILES) == []
    assert keys_of(store.table) == before


@pytest.fixture
def workspaces(store):
    made = DynamoDBWorkspaceStore("", table=store.table)
    made.create_workspace(Workspace("one"))
    return made


def test_servers_are_deleted_with_their_workspace(store, workspaces):
    fill(store, "one")
    workspaces.delete_workspace("one", CASCADE)
    assert keys_of(store.table) == []


def test_servers_move_to_the_default_workspace(store, other, workspaces):
    endpoint_id = fill(store, "one")
    with WorkspaceContext("one"):
        before = store.get_mcp_server(FILES)
    workspaces.delete_workspace("one", SET_DEFAULT)
    with WorkspaceContext("default"):
        after = other.get_mcp_server(FILES)
        assert other.get_mcp_access_endpoint(FILES, endpoint_id).resolved_version.version == "1.0.0"
        assert [e.id for e in other.search_mcp_access_endpoints()] == [endpoint_id]
    assert (after.aliases, after.tags, after.latest_version) == (
        before.aliases,
        before.tags,
        before.latest_version,
    )
    assert not [key for key in keys_of(store.table) if "one" in key[0].split("#")]


def test_a_name_that_is_taken_is_not_moved(store, workspaces):
    fill(store, "one")
    fill(store, "default")
    before = keys_of(store.table)
    with refused("INVALID_STATE", "already exist in the default workspace"):
        workspaces.delete_workspace("one", SET_DEFAULT)
    assert keys_of(store.table) == before


class Interruption(BaseException):
    """Stands for the end of a process."""


def test_a_deletion_interrupted_anywhere_can_be_finished(store, time, monkeypatch):
    """Each try dies one write later; the name is free again once the claim has expired."""
    table = store.table
    with WorkspaceContext("default"):
        add(store, name=MAIL)
        kept = keys_of(table)
        for allowed in range(20):
            add(store, "1.0.0", title=noise(300_000))
            store.create_mcp_access_endpoint(FILES, "https://x", server_version="1.0.0")
            left, done = allowed, True
            with monkeypatch.context() as patch:
                for method in ("write", "transact", "delete"):
                    real = getattr(table, method)

                    def limited(*args, real=real, **options):
                        nonlocal left
                        if left == 0:
                            raise Interruption
                        left -= 1
                        return real(*args, **options)

                    patch.setattr(table, method, limited)
                try:
                    store.delete_mcp_server(FILES)
                except Interruption:
                    done = False
            if allowed:
                with refused("RESOURCE_DOES_NOT_EXIST", "not found"):
                    store.get_mcp_server(FILES)
                assert [s.name for s in store.search_mcp_servers()] == [MAIL]
                assert store.search_mcp_access_endpoints() == []
            else:
                store.delete_mcp_server(FILES)
            time.sleep(claims.LEASE_SECONDS + 1)
            settle_claims(table)
            assert keys_of(table) == kept
            if done:
                break
        assert allowed > 1
