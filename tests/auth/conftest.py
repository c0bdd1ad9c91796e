"""One server with two workspaces and a user in each, for all tests that need one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.auth.server import ADMIN, ADMIN_PASSWORD, USER_PASSWORD, Caller, auth_server


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with auth_server(tmp_path_factory.mktemp("auth-server")) as address:
        yield address


@pytest.fixture(scope="session")
def admin(url: str) -> Caller:
    """The admin, with two workspaces and a user in each: ada in team-a, bob in team-b."""
    admin = Caller(url, ADMIN, ADMIN_PASSWORD)
    for workspace, name in (("team-a", "ada"), ("team-b", "bob")):
        answer = admin.post("3.0/mlflow/workspaces", name=workspace)
        assert answer.status_code in (200, 201), answer.text
        join(admin, name, workspace, "members", "USE")
    return replace(admin, workspace="team-a")


def join(admin: Caller, name: str, workspace: str, role: str, permission: str) -> None:
    """Create a user, and a role by which the user belongs to a workspace."""
    admin.must("2.0/mlflow/users/create", username=name, password=USER_PASSWORD)
    made = admin.must("3.0/mlflow/roles/create", name=role, workspace=workspace)["role"]
    admin.must(
        "3.0/mlflow/roles/permissions/add",
        role_id=made["id"],
        resource_type="workspace",
        resource_pattern="*",
        permission=permission,
    )
    admin.must("3.0/mlflow/roles/assign", username=name, role_id=made["id"])


@pytest.fixture(scope="session")
def ada(url: str, admin: Caller) -> Caller:
    return Caller(url, "ada", workspace="team-a")


@pytest.fixture(scope="session")
def bob(url: str, admin: Caller) -> Caller:
    return Caller(url, "bob", workspace="team-b")


@pytest.fixture(scope="session")
def mia(url: str, admin: Caller) -> Caller:
    """A manager of team-a."""
    join(admin, "mia", "team-a", "managers", "MANAGE")
    return Caller(url, "mia", workspace="team-a")
