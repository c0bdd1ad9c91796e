"""Through a real server: searches, changes of permissions, and attacks."""

from __future__ import annotations

import base64
import json
import time
import uuid
from dataclasses import replace

import pytest
import requests

from mlflow_dynamodbstore.auth.cache import SECONDS
from mlflow_dynamodbstore.auth.passwords import MOST_FAILURES
from tests.auth.server import USER_PASSWORD, Caller
from tests.releases import needs


def make_experiment(admin):
    name = uuid.uuid4().hex
    return admin.must("2.0/mlflow/experiments/create", name=name)["experiment_id"]


def make_model(admin):
    name = uuid.uuid4().hex
    admin.must("2.0/mlflow/registered-models/create", name=name)
    return name


def make_server(admin):
    name = f"com.example/{uuid.uuid4().hex}"
    admin.must("3.0/mlflow/mcp-servers", name=name)
    return name


def grant(admin, user, kind, thing, permission):
    admin.must(
        "3.0/mlflow/users/permissions/grant",
        username=user,
        resource_type=kind,
        resource_id=thing,
        permission=permission,
    )


def revoke(admin, user, kind, thing):
    admin.must(
        "3.0/mlflow/users/permissions/revoke",
        username=user,
        resource_type=kind,
        resource_id=thing,
    )


@pytest.fixture
def cleo(url, admin):
    """A new member of team-a. Members see everything in lists that they are not denied."""
    name = f"cleo-{uuid.uuid4().hex}"
    admin.must("2.0/mlflow/users/create", username=name, password=USER_PASSWORD)
    roles = admin.get("3.0/mlflow/roles/list", workspace="team-a").json()["roles"]
    (role,) = [role for role in roles if role["name"] == "members"]
    admin.must("3.0/mlflow/roles/assign", username=name, role_id=role["id"])
    return Caller(url, name, workspace="team-a")


def all_pages(search, size):
    """What a search finds, page by page; only the last page may be short."""
    pages, token = [], None
    while True:
        page, token = search(size, token)
        pages.append(page)
        if not token:
            break
    assert [len(page) for page in pages[:-1]] == [size] * (len(pages) - 1)
    return [row for page in pages for row in page]


@needs("denials")
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_searches_show_what_a_caller_may_read_at_once_and_nothing_else(admin, cleo, size):
    """Pages are filled from the next ones, as if the other rows did not exist."""

    def experiments(size, token):
        more = {"page_token": token} if token else {}
        found = cleo.must("2.0/mlflow/experiments/search", max_results=size, **more)
        rows = found.get("experiments", [])
        return [row["experiment_id"] for row in rows], found.get("next_page_token")

    def models(size, token):
        path, more = "2.0/mlflow/registered-models/search", {"page_token": token} if token else {}
        found = cleo.get(path, max_results=size, **more).json()
        return [row["name"] for row in found.get("registered_models", [])], found.get(
            "next_page_token"
        )

    searches = (experiments, models)
    before = [set(all_pages(search, 100)) for search in searches]
    made = [(make_experiment(admin), make_model(admin)) for _ in range(7)]
    hidden = [made[number] for number in (1, 2, 5)]
    for things in hidden:
        for kind, thing in zip(("experiment", "registered_model"), things, strict=True):
            grant(admin, cleo.name, kind, thing, "DENY")
    shown = [things for things in made if things not in hidden]
    for number, search in enumerate(searches):
        found = all_pages(search, size)
        assert sorted(found) == sorted(before[number] | {things[number] for things in shown})


def test_searches_of_mcp_servers_show_what_was_granted(admin, cleo):
    def servers(size, token):
        more = {"page_token": token} if token else {}
        found = cleo.get("3.0/mlflow/mcp-servers", max_results=size, **more).json()
        return [row["name"] for row in found["mcp_servers"]], found.get("next_page_token")

    made = [make_server(admin) for _ in range(7)]
    shown = [made[number] for number in (0, 3, 4, 6)]
    for server in shown:
        grant(admin, cleo.name, "mcp_server", server, "READ")
    time.sleep(SECONDS)  # these calls are checked outside Flask, see docs/auth.md
    for size in (1, 2, 3, 100):
        assert sorted(all_pages(servers, size)) == sorted(shown), size


def test_a_grant_holds_at_once_and_a_revocation_within_seconds_in_all_processes(admin, ada):
    experiment = make_experiment(admin)

    def statuses():
        answers = (
            ada.get("2.0/mlflow/experiments/get", experiment_id=experiment) for _ in range(12)
        )
        return {answer.status_code for answer in answers}

    assert statuses() == {403}
    grant(admin, "ada", "experiment", experiment, "READ")
    assert statuses() == {200}
    revoke(admin, "ada", "experiment", experiment)
    time.sleep(2.5)
    assert statuses() == {403}


def test_who_creates_something_may_use_it_in_every_process_at_once(ada):
    for _ in range(4):
        experiment = make_experiment(ada)
        for _ in range(4):
            answer = ada.get("2.0/mlflow/experiments/get", experiment_id=experiment)
            assert answer.status_code == 200, answer.text


def test_users_do_not_manage_users(ada):
    mlflow = "2.0/mlflow/users"
    attempts = [
        ada.post(f"{mlflow}/create", username="eve", password=USER_PASSWORD),
        ada.get(f"{mlflow}/get", username="bob"),
        ada.call("PATCH", f"{mlflow}/update-admin", json={"username": "ada", "is_admin": True}),
        ada.call(
            "PATCH", f"{mlflow}/update-password", json={"username": "bob", "password": "x" * 20}
        ),
        ada.call("DELETE", f"{mlflow}/delete", json={"username": "bob"}),
        ada.post("3.0/mlflow/roles/create", name="mine", workspace="team-b"),
    ]
    assert [answer.status_code for answer in attempts] == [403] * len(attempts)


NAMES = [
    "ada#U#PERM#1",
    "ada%23U%23META",
    "USER#ada",
    "../ada",
    "ADA",
    "ada\x00",
    "*",
    "x" * 5000,
    "\u202eada",
]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_no_crafted_name_is_anybody(ada, name):
    answer = replace(ada, name=name).get("2.0/mlflow/users/current")
    assert answer.status_code == 401
    assert answer.text == replace(ada, password="wrong!").get("2.0/mlflow/users/current").text


@pytest.mark.parametrize(
    "header",
    ["Basic", "Basic !!!", "Basic YWRh", "Bearer x", "Basic " + "A" * 60_000],
    ids=["empty", "no base64", "no password", "bearer", "long"],
)
def test_a_forged_header_is_refused(url, admin, header):
    answer = requests.get(
        f"{url}/api/2.0/mlflow/users/current", headers={"Authorization": header}, timeout=60
    )
    assert 400 <= answer.status_code < 500


def test_a_header_that_is_too_large_is_refused(ada):
    try:
        answer = ada.call("GET", "2.0/mlflow/users/current", headers={"X-Large": "x" * 300_000})
    except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
        return  # the server hung up on it
    assert 400 <= answer.status_code < 500


IDS = ["1#E#META", "EXP#1", "../1", "1/../2", "0 OR 1=1", "9" * 400, "\x00", "%", "*"]


@pytest.mark.parametrize("crafted", IDS, ids=range(len(IDS)))
def test_no_crafted_id_reaches_anything(ada, crafted):
    mlflow = "2.0/mlflow"
    attempts = [
        ada.get(f"{mlflow}/experiments/get", experiment_id=crafted),
        ada.get(f"{mlflow}/runs/get", run_id=crafted),
        ada.get(f"{mlflow}/registered-models/get", name=crafted),
        ada.post(f"{mlflow}/runs/create", experiment_id=crafted),
        ada.get("3.0/mlflow/roles/get", role_id=crafted),
        ada.get("3.0/mlflow/roles/users/list", role_id=crafted),
    ]
    assert all(400 <= answer.status_code < 500 for answer in attempts), [
        (answer.request.url, answer.status_code, answer.text) for answer in attempts
    ]


CURSOR = {"PK": "WORKSPACE#team-b", "SK": "EXPNAME#", "offset": 0}
TOKENS = [
    "x",
    "' OR 1=1 --",
    "\u0000",
    "A" * 20_000,
    base64.b64encode(json.dumps(CURSOR).encode()).decode(),
]


@pytest.mark.parametrize("token", TOKENS, ids=range(len(TOKENS)))
def test_a_forged_page_token_is_refused(admin, ada, token):
    experiment = make_experiment(ada)
    attempts = [
        ada.post("2.0/mlflow/experiments/search", max_results=5, page_token=token),
        ada.post("2.0/mlflow/runs/search", experiment_ids=[experiment], page_token=token),
    ]
    if len(token) < 4000:  # longer ones do not fit into a URL
        attempts.append(
            ada.get("2.0/mlflow/registered-models/search", max_results=5, page_token=token)
        )
    assert [answer.status_code for answer in attempts] == [400] * len(attempts), [
        answer.text for answer in attempts
    ]


def test_bodies_that_are_no_requests_are_refused(ada):
    path = "2.0/mlflow/experiments/create"
    for body in (b"{", b"[]", b'"x"', b"\xff\xfe", b'{"name": "' + b"x" * 3_000_000 + b'"}'):
        answer = ada.call("POST", path, data=body, headers={"Content-Type": "application/json"})
        assert 400 <= answer.status_code < 500, (body[:20], answer.text[:200])


def test_guessing_passwords_comes_to_an_end(admin, url):
    admin.must("2.0/mlflow/users/create", username="carl", password=USER_PASSWORD)
    guesser = Caller(url, "carl", "a wrong password")
    for _ in range(MOST_FAILURES):  # in both processes together
        assert guesser.get("2.0/mlflow/users/current").status_code == 401
    knower = replace(guesser, password=USER_PASSWORD)
    assert {knower.get("2.0/mlflow/users/current").status_code for _ in range(10)} == {401}
