"""Through a server of two processes: tokens of others, revocation, forms, routes of admins."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace

import pytest
import requests
from requests.auth import HTTPBasicAuth

from mlflow_dynamodbstore.auth.cache import SECONDS
from tests.auth.server import ADMIN_PASSWORD, USER_PASSWORD, Caller
from tests.auth.test_server import cleo, grant, make_experiment, revoke  # noqa: F401  # a fixture
from tests.releases import needs
from tests.traces.making import NOON

TRIES = 24
"""Calls on connections of their own, so that both processes of the server answer some."""
EXPERIMENTS = "2.0/mlflow/experiments/search"
MODELS = "2.0/mlflow/registered-models/search"
EVIL = {"Origin": "https://evil.example", "Referer": "https://evil.example/"}


def ids_in(answer):
    return {one["experiment_id"] for one in answer.json().get("experiments", [])}


def anew(caller, method, path, **arguments):
    """The status of a call on a connection of its own."""
    answer = requests.request(
        method,
        f"{caller.url}/api/{path}",
        auth=HTTPBasicAuth(caller.name.encode(), caller.password.encode()),
        headers={"X-MLFLOW-WORKSPACE": caller.workspace, "Connection": "close"},
        timeout=60,
        **arguments,
    )
    return answer.status_code


# --- page tokens ----------------------------------------------------------------------------------


@pytest.fixture
def token(admin):
    """The token of a second page of team-a's experiments, and the ids in team-a."""
    made = {make_experiment(admin) for _ in range(4)}
    page = admin.must(EXPERIMENTS, max_results=2, order_by=["experiment_id ASC"])
    everything = ids_in(admin.post(EXPERIMENTS, max_results=1000))
    assert made <= everything
    return page["next_page_token"], everything


@needs("denials")
def test_another_users_token_shows_nothing_that_is_denied(admin, cleo, token):  # noqa: F811
    page_token, everything = token
    hidden = max(everything, key=int)
    grant(admin, cleo.name, "experiment", hidden, "DENY")
    given = {"max_results": 1000, "order_by": ["experiment_id ASC"], "page_token": page_token}
    assert hidden in ids_in(admin.post(EXPERIMENTS, **given))
    answer = cleo.post(EXPERIMENTS, **given)
    assert answer.status_code in (200, 400)
    assert hidden not in ids_in(answer)


def test_a_token_of_another_workspace_shows_nothing_of_it(bob, token):
    page_token, everything = token
    for order in ([], ["experiment_id ASC"]):
        answer = bob.post(EXPERIMENTS, max_results=1000, order_by=order, page_token=page_token)
        assert answer.status_code in (200, 400), answer.text
        assert not ids_in(answer) & everything


@pytest.mark.parametrize(
    "given",
    [
        {"filter": "name LIKE 'a%'"},
        {"order_by": ["name DESC"]},
        {"view_type": "DELETED_ONLY"},
    ],
    ids=str,
)
def test_a_token_of_another_query_is_refused_or_answers_this_one(admin, token, given):
    page_token, _ = token
    answer = admin.post(EXPERIMENTS, max_results=1000, page_token=page_token, **given)
    assert answer.status_code in (200, 400), answer.text
    if answer.status_code == 200:
        assert ids_in(answer) <= ids_in(admin.post(EXPERIMENTS, max_results=1000, **given))


def test_a_token_of_another_kind_of_search_is_refused(admin, ada, token):
    for caller in (admin, ada):
        answer = caller.get(MODELS, max_results=10, page_token=token[0])
        assert answer.status_code == 400, answer.text
        assert answer.json()["error_code"] == "INVALID_PARAMETER_VALUE"


# --- revocation -----------------------------------------------------------------------------------


@needs("denials")
def test_what_is_revoked_or_denied_is_refused_by_every_process(admin, cleo):  # noqa: F811
    experiment = make_experiment(admin)
    path, query = "2.0/mlflow/experiments/get", {"experiment_id": experiment}
    grant(admin, cleo.name, "experiment", experiment, "EDIT")
    assert {anew(cleo, "GET", path, params=query) for _ in range(TRIES)} == {200}
    body = {"experiment_id": experiment, "key": "k", "value": "v"}
    write = "2.0/mlflow/experiments/set-experiment-tag"
    assert {anew(cleo, "POST", write, json=body) for _ in range(TRIES)} == {200}
    revoke(admin, cleo.name, "experiment", experiment)
    grant(admin, cleo.name, "experiment", experiment, "DENY")
    time.sleep(SECONDS + 1)
    assert {anew(cleo, "POST", write, json=body) for _ in range(TRIES)} == {403}
    assert {anew(cleo, "GET", path, params=query) for _ in range(TRIES)} == {403}


def test_a_deleted_user_is_refused_by_every_process(admin, cleo):  # noqa: F811
    path = "2.0/mlflow/users/current"
    assert {anew(cleo, "GET", path) for _ in range(TRIES)} == {200}
    answer = admin.call("DELETE", "2.0/mlflow/users/delete", json={"username": cleo.name})
    assert answer.status_code == 200, answer.text
    time.sleep(SECONDS + 1)
    assert {anew(cleo, "GET", path) for _ in range(TRIES)} == {401}


def test_an_old_password_is_refused_by_every_process(admin, cleo):  # noqa: F811
    path = "2.0/mlflow/users/current"
    assert {anew(cleo, "GET", path) for _ in range(TRIES)} == {200}
    body = {"username": cleo.name, "password": "another password"}
    answer = admin.call("PATCH", "2.0/mlflow/users/update-password", json=body)
    assert answer.status_code == 200, answer.text
    time.sleep(SECONDS + 1)
    changed = replace(cleo, password="another password")
    assert {anew(changed, "GET", path) for _ in range(TRIES)} == {200}
    assert {anew(cleo, "GET", path) for _ in range(4)} == {401}


# --- forms ----------------------------------------------------------------------------------------


def test_a_form_that_another_site_sends_is_refused(admin):
    """A browser sends the admin's credentials along, but the other site knows no token."""
    name = f"eve-{uuid.uuid4().hex}"
    form = {"username": name, "password": USER_PASSWORD}
    for given in (form, {**form, "csrf_token": ""}, {**form, "csrf_token": "x" * 40}):
        for headers, refusal in ((EVIL, 403), ({}, 400)):
            path = "2.0/mlflow/users/create-ui"
            answer = admin.call("POST", path, data=given, headers=headers)
            assert answer.status_code == refusal, answer.text
    assert admin.get("2.0/mlflow/users/get", username=name).status_code == 404


def test_a_token_of_another_visitors_form_is_refused(admin):
    """The token belongs to the session cookie that came with the form."""
    name = f"eve-{uuid.uuid4().hex}"
    login = HTTPBasicAuth(admin.name, ADMIN_PASSWORD)
    page = requests.get(f"{admin.url}/signup", auth=login, timeout=60)
    token = page.text.partition('name="csrf_token" value="')[2].partition('"')[0]
    assert token
    form = {"username": name, "password": USER_PASSWORD, "csrf_token": token}
    answer = requests.post(
        f"{admin.url}/api/2.0/mlflow/users/create-ui", auth=login, data=form, timeout=60
    )
    assert answer.status_code == 400, answer.text
    assert admin.get("2.0/mlflow/users/get", username=name).status_code == 404


# --- routes of admins -----------------------------------------------------------------------------


def admins_routes(role, permission, victim):
    """What only an admin may do: the method, the path and the body of each call."""
    grants = {"resource_type": "workspace", "resource_pattern": "*", "permission": "MANAGE"}
    return [
        ("POST", "2.0/mlflow/users/create", {"username": "mallory", "password": USER_PASSWORD}),
        ("PATCH", "2.0/mlflow/users/update-password", {"username": victim, "password": "x" * 12}),
        ("PATCH", "2.0/mlflow/users/update-admin", {"username": victim, "is_admin": True}),
        ("DELETE", "2.0/mlflow/users/delete", {"username": victim}),
        ("POST", "3.0/mlflow/roles/create", {"name": "mine", "workspace": "team-a"}),
        ("PATCH", "3.0/mlflow/roles/update", {"role_id": role, "name": "other"}),
        ("DELETE", "3.0/mlflow/roles/delete", {"role_id": role}),
        ("POST", "3.0/mlflow/roles/permissions/add", {"role_id": role, **grants}),
        (
            "PATCH",
            "3.0/mlflow/roles/permissions/update",
            {"role_permission_id": permission, "permission": "MANAGE"},
        ),
        ("DELETE", "3.0/mlflow/roles/permissions/remove", {"role_permission_id": permission}),
        ("POST", "3.0/mlflow/roles/assign", {"role_id": role, "username": "ada"}),
        ("DELETE", "3.0/mlflow/roles/unassign", {"role_id": role, "username": victim}),
    ]


def test_no_route_of_users_and_roles_is_open_to_others(admin, ada, bob, cleo):  # noqa: F811
    made = admin.must("3.0/mlflow/roles/create", name=uuid.uuid4().hex, workspace="team-a")["role"]
    added = admin.must(
        "3.0/mlflow/roles/permissions/add",
        role_id=made["id"],
        resource_type="workspace",
        resource_pattern="*",
        permission="MANAGE",
    )
    permission = next(iter(added.values()))["id"]
    admin.must("3.0/mlflow/roles/assign", username=cleo.name, role_id=made["id"])

    def state():
        users = admin.get("2.0/mlflow/users/list").json()
        roles = admin.get("3.0/mlflow/roles/list", workspace="team-a").json()
        members = admin.get("3.0/mlflow/roles/users/list", role_id=made["id"]).json()
        return users, roles, members

    before = state()
    nobody = Caller(admin.url, "nobody", workspace="team-a")
    for caller, refusal in ((ada, 403), (bob, 403), (nobody, 401)):
        for method, path, body in admins_routes(made["id"], permission, cleo.name):
            answer = caller.call(method, path, json=body)
            assert answer.status_code == refusal, (caller.name, method, path, answer.text)
    assert state() == before


def test_a_user_cannot_become_an_admin(admin, ada):
    body = {"username": "ada", "is_admin": True}
    assert ada.call("PATCH", "2.0/mlflow/users/update-admin", json=body).status_code == 403
    user = admin.get("2.0/mlflow/users/get", username="ada").json()["user"]
    assert user["is_admin"] is False


# --- traces ---------------------------------------------------------------------------------------


def test_others_cannot_delete_traces(admin, ada, bob, cleo):  # noqa: F811
    experiment = make_experiment(admin)
    trace = f"tr-{uuid.uuid4().hex}"
    info = {
        "trace_id": trace,
        "trace_location": {
            "type": "MLFLOW_EXPERIMENT",
            "mlflow_experiment": {"experiment_id": experiment},
        },
        "request_time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOON / 1000)),
        "state": "OK",
    }
    admin.must("3.0/mlflow/traces", trace={"trace_info": info})
    grant(admin, cleo.name, "experiment", experiment, "READ")
    for path in ("2.0/mlflow/traces/delete-traces", "3.0/mlflow/traces/delete-traces"):
        for given in (
            {"request_ids": [trace]},
            {"trace_ids": [trace]},
            {"max_timestamp_millis": NOON * 2},
        ):
            for caller in (ada, bob, cleo):
                answer = caller.post(path, experiment_id=experiment, **given)
                assert answer.status_code in (400, 403, 404), (caller.name, path, answer.text)
    assert admin.get(f"3.0/mlflow/traces/{trace}").status_code == 200
