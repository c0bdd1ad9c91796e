"""Through a real server: every level of permission against the calls it allows and denies."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.auth import matrix
from tests.auth.matrix import KINDS, LEVELS, NEW, OLD, delete, get, new_name, patch, post
from tests.releases import needs

CHECKED_LATER = {"run", "dataset", "issue"}
"""Kinds that MLflow 3.15 checks in part or not at all."""
CHECKED_KINDS = [
    pytest.param(
        kind,
        id=kind.name,
        marks=[needs("checks of datasets and issues")] if kind.name in CHECKED_LATER else [],
    )
    for kind in KINDS
]


def grant(admin, user, kind, things, level):
    return admin.post(
        f"{NEW}/users/permissions/grant",
        username=user,
        resource_type=kind.granted,
        resource_id=things["id"],
        permission=level,
    )


def problems(admin, caller, kind, level):
    """The calls on a new thing that were not answered as a level demands."""
    things = kind.make(admin)
    if level is not None:
        answer = grant(admin, caller.name, kind, things, level)
        assert answer.status_code == 200, answer.text
    found = []
    for call in kind.calls:
        answer = call.by(caller, things)
        expected = 200 if call.needs in LEVELS[level] else 403
        if answer.status_code != expected:
            found.append((level, expected, answer.status_code, call.path, answer.text[:200]))
    return found


@pytest.mark.parametrize("kind", CHECKED_KINDS)
def test_each_level_allows_its_calls_and_no_others(admin, ada, kind):
    with ThreadPoolExecutor(len(LEVELS)) as pool:
        found = pool.map(lambda level: problems(admin, ada, kind, level), LEVELS)
    assert [problem for each in found for problem in each] == []


@pytest.mark.parametrize("kind", CHECKED_KINDS)
def test_nothing_of_one_workspace_is_reached_from_another(admin, ada, bob, kind):
    """Neither by a user of the other workspace, nor from there by the admin."""
    things = kind.make(admin)
    assert grant(admin, "ada", kind, things, "MANAGE").status_code == 200
    for call in kind.calls:
        answer = call.by(bob, things)
        assert answer.status_code in (400, 403, 404), (call.path, answer.text)
    reading = next(call for call in kind.calls if call.needs == "read")
    for workspace in ("team-a", None):
        assert reading.by(replace(bob, workspace=workspace), things).status_code in (403, 404)
    assert reading.by(replace(admin, workspace="team-b"), things).status_code in (400, 404)
    assert reading.by(ada, things).status_code == 200  # it still exists


def test_no_permissions_cannot_be_granted_and_is_what_holds_without_a_grant(admin, ada):
    things = matrix.EXPERIMENT.make(admin)
    answer = grant(admin, "ada", matrix.EXPERIMENT, things, matrix.UNGRANTABLE)
    assert answer.status_code == 400
    assert "Resource-level grants accept only" in answer.text


# --- what is not about single things ------------------------------------------------------------

MANAGER, ADMIN, MEMBER = "manager", "admin", "member"
ROLE = {"role_id": "{role}"}
GRANT = {"resource_type": "experiment", "resource_pattern": "*"}
ADMINISTRATION = (
    get(ADMIN, f"{NEW}/workspaces/team-a"),
    patch(ADMIN, f"{NEW}/workspaces/team-a", description="d"),
    post(ADMIN, f"{NEW}/workspaces", name="{workspace}"),
    delete(ADMIN, f"{NEW}/workspaces/{{workspace}}"),
    get(MEMBER, f"{NEW}/roles/get", **ROLE),
    get(MEMBER, f"{NEW}/roles/list", workspace="team-a"),
    get(MEMBER, f"{NEW}/roles/permissions/list", **ROLE),
    get(MANAGER, f"{NEW}/roles/users/list", **ROLE),
    post(MANAGER, f"{NEW}/roles/create", name="{new}", workspace="team-a"),
    patch(MANAGER, f"{NEW}/roles/update", **ROLE, description="d"),
    post(MANAGER, f"{NEW}/roles/permissions/add", **ROLE, **GRANT, permission="READ"),
    post(MANAGER, f"{NEW}/roles/assign", username="{user}", **ROLE),
    delete(MANAGER, f"{NEW}/roles/unassign", username="{user}", **ROLE),
    delete(MANAGER, f"{NEW}/roles/delete", **ROLE),
    get(ADMIN, f"{OLD}/webhooks"),
    post(ADMIN, f"{NEW}/gateway/guardrails/create", name="{new}"),
    post(ADMIN, f"{NEW}/gateway/budgets/create", name="{new}"),
    get(MEMBER, f"{NEW}/gateway/budgets/list"),
    get(MEMBER, f"{OLD}/users/current"),
    get(MEMBER, f"{NEW}/users/current/permissions"),
    patch(ADMIN, f"{OLD}/users/update-admin", username="{user}", is_admin=False),
    delete(ADMIN, f"{OLD}/users/delete", username="{user}"),
)


def administered(admin):
    role = admin.must(f"{NEW}/roles/create", name=new_name(), workspace="team-a")["role"]["id"]
    user = new_name()
    admin.must(f"{OLD}/users/create", username=user, password="a long password")
    return {"role": role, "user": user, "new": new_name(), "workspace": f"w-{new_name()[:20]}"}


@needs("checks of datasets and issues")
@pytest.mark.parametrize("who", [MEMBER, MANAGER, ADMIN])
def test_members_managers_and_admins_may_do_what_is_theirs(admin, ada, mia, who):
    caller = {MEMBER: ada, MANAGER: mia, ADMIN: admin}[who]
    order = [MEMBER, MANAGER, ADMIN]
    things = administered(admin)
    found = []
    for call in ADMINISTRATION:
        status = call.by(caller, things).status_code
        allowed = order.index(call.needs) <= order.index(who)
        # Allowed calls may be refused for their arguments; calls that are denied never get so far.
        if (status == 403) == allowed or status in (401, 500):
            found.append((call.needs, call.method, call.path, status))
    assert found == []


def test_only_admins_change_and_delete_workspaces(admin, ada, mia):
    """MLflow up to 3.16 lets every user do it."""
    name = f"w-{new_name()[:20]}"
    assert post(ADMIN, f"{NEW}/workspaces", name=name).by(admin, {}).status_code == 201
    changes = (
        delete(ADMIN, f"{NEW}/workspaces/{name}"),
        patch(ADMIN, f"{NEW}/workspaces/{name}", description="d"),
    )
    for caller in (ada, mia):
        assert [call.by(caller, {}).status_code for call in changes] == [403, 403]
    assert delete(ADMIN, f"{NEW}/workspaces/{name}").by(admin, {}).status_code == 204


def test_a_manager_of_one_workspace_manages_no_other(admin, mia):
    role = admin.must(f"{NEW}/roles/create", name=new_name(), workspace="team-b")["role"]["id"]
    things = administered(admin) | {"role": role}
    for call in ADMINISTRATION:
        if call.needs == MANAGER and call.arguments.get("workspace") != "team-a":
            assert call.by(mia, things).status_code == 403, call.path


@needs("denials")
def test_the_matrix_has_every_type_of_thing_that_grants_can_be_for():
    from mlflow.server.auth.permissions import TYPE, PatternKind

    by_id = {name for name, grains in TYPE.items() if PatternKind.ID in grains}
    assert {kind.granted for kind in KINDS} == by_id
