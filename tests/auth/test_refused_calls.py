"""A refused call of the user store writes nothing, on a file and on an endpoint."""

from __future__ import annotations

import pytest
from mlflow.exceptions import MlflowException
from werkzeug.security import generate_password_hash

from mlflow_dynamodbstore.auth import users as users_module
from mlflow_dynamodbstore.auth.store import DynamoDBAuthStore
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Key
from tests.auth.stores import PASSWORD, open_auth_store
from tests.engines import moto_server
from tests.stores import everything_in, refused

LONG = "n" * 450_000
KNOWN = "known"
TOO_LONG = {
    "create_user": ("username", (LONG, PASSWORD)),
    "create_role": ("name", (LONG, "default")),
    "create_role with a long workspace": ("workspace", ("r", LONG)),
    "create_role with a long description": ("description", ("r", "default", LONG)),
    "update_role": ("name", (1, LONG)),
    "update_role with a long description": ("description", (1, None, LONG)),
    "add_role_permission": ("resource_pattern", (1, "experiment", LONG, "READ")),
    "create_experiment_permission": ("resource_pattern", (LONG, "ada", "READ")),
    "create_registered_model_permission": ("resource_pattern", (LONG, "ada", "READ")),
    "create_scorer_permission": ("resource_pattern", ("1", LONG, "ada", "READ")),
    "create_gateway_secret_permission": ("resource_pattern", (LONG, "ada", "READ")),
    "create_mcp_server_permission": ("resource_pattern", (LONG, "ada", "READ")),
    "grant_user_permission": ("resource_pattern", ("ada", "experiment", LONG, "READ")),
    "grant_user_resource_permission": ("resource_pattern", ("ada", "experiment", LONG, "READ")),
    "set_workspace_permission": ("workspace", (LONG, "ada", "USE")),
}
TAKEN = {
    "create_user": (KNOWN, PASSWORD),
    "create_role": (KNOWN, "default"),
    "update_role": (2, KNOWN),
    "add_role_permission": (1, "experiment", "1", "READ"),
    "assign_role_to_user": (1, 1),
    "create_experiment_permission": ("1", KNOWN, "READ"),
    "grant_user_resource_permission": (KNOWN, "experiment", "1", "READ"),
}


@pytest.fixture(scope="module")
def endpoint():
    with moto_server() as address:
        yield address


@pytest.fixture(params=["file", "endpoint"])
def store(request, tmp_path, monkeypatch):
    """A store with a user that has a role and a grant, and a user that has nothing."""
    monkeypatch.setattr(
        users_module,
        "generate_password_hash",
        lambda text: generate_password_hash(text, "pbkdf2:sha256:1"),
    )
    if request.param == "file":
        store = open_auth_store(tmp_path)
    else:
        uri = f"dynamodb://{request.getfixturevalue('endpoint')}/refused-{tmp_path.name}"
        store = DynamoDBAuthStore(uri, table=Table(open_engine(uri)))
    known = store.create_user(KNOWN, PASSWORD)
    role = store.create_role(KNOWN, "default")
    store.create_role("other", "default")
    store.add_role_permission(role.id, "experiment", "1", "READ")
    store.assign_role_to_user(known.id, role.id)
    store.create_experiment_permission("1", KNOWN, "READ")
    store.create_user("ada", PASSWORD)
    return store


def items(store):
    return sorted(map(repr, everything_in(store.table)))


@pytest.mark.parametrize("call", TOO_LONG)
def test_a_text_that_is_too_long_is_refused_before_anything_is_written(store, call):
    method, *_ = call.split()
    if not hasattr(store, method):
        pytest.skip("this release of MLflow has no such method")
    named, given = TOO_LONG[call]
    before = items(store)
    with refused("INVALID_PARAMETER_VALUE", rf"(?i){named}:? (it )?has 450.* is the most"):
        getattr(store, method)(*given)
    assert items(store) == before


@pytest.mark.parametrize("method", TAKEN)
def test_what_exists_already_is_refused_before_a_number_is_drawn(store, method):
    before = items(store)
    with refused("RESOURCE_ALREADY_EXISTS", "already exists"):
        getattr(store, method)(*TAKEN[method])
    assert items(store) == before


def test_an_item_that_would_grow_too_large_is_refused_as_the_callers_fault(store):
    """A role of an older table may hold a longer text than a new one may."""
    role = store.create_role("old", "default")
    key = Key(f"ROLE#{role.id:010d}", "RL#META")
    store.table.update(key, Update(set={"note": "n" * 350_000}))
    before = items(store)
    with pytest.raises(MlflowException) as caught:
        store.update_role(role.id, "new", "d" * 99_000)
    assert caught.value.error_code == "INVALID_PARAMETER_VALUE"
    assert items(store) == before
