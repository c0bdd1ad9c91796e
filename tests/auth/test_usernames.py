"""Which names a new user may have, through the store and over HTTP."""

from __future__ import annotations

import pytest

from mlflow_dynamodbstore.auth import users as users_module
from tests.auth.server import USER_PASSWORD
from tests.auth.stores import PASSWORD, open_auth_store
from tests.stores import refused

BAD = {
    " ada": "begins or ends with white space",
    "ada\t": "begins or ends with white space",
    "ada\u00a0": "begins or ends with white space",
    "\u2003ada": "begins or ends with white space",
    " ": "begins or ends with white space",
    "a\x00da": "U\\+0000, which cannot be seen",
    "a\nda": "U\\+000A, which cannot be seen",
    "a\u200bda": "U\\+200B, which cannot be seen",
    "a\u202eda": "U\\+202E, which cannot be seen",
    "a\u2028da": "U\\+2028, which cannot be seen",
    "\ufeffada": "U\\+FEFF, which cannot be seen",
    "ada:x": "contains a colon",
    "\uff41da": "taken for 'ada'",
    "ad\u00aa": "taken for 'ada'",
    "a\u00a0b": "taken for 'a b'",
    "e\u0301va": "taken for '\u00e9va'",
    "\u0430da": "mixes Cyrillic and Latin letters",
    "\u03bfscar": "mixes Greek and Latin letters",
}
GOOD = [
    "ada",
    "Ada.Lovelace@example.com",
    "\u00e9va",
    "\u0410\u0434\u0430",
    "\u8276\u5b50",
    "ada b",
    "7",
    "*",
]


@pytest.fixture
def store(tmp_path):
    return open_auth_store(tmp_path, "synchronous=NORMAL")


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_can_be_taken_for_another_is_refused(store, name):
    with refused("INVALID_PARAMETER_VALUE", BAD[name]):
        store.create_user(name, PASSWORD)
    assert store.list_users() == []


def test_other_names_are_taken_as_they_are(store):
    assert [store.create_user(name, PASSWORD).username for name in GOOD] == GOOD


@pytest.mark.parametrize("name", BAD)
def test_a_user_of_an_earlier_release_keeps_such_a_name(store, name, monkeypatch):
    """They log in, are changed and are deleted as before."""
    with monkeypatch.context() as patch:
        patch.setattr(users_module, "check_username", lambda _name: None)
        store.create_user(name, PASSWORD)
    assert store.authenticate_user(name, PASSWORD)
    assert store.update_user(name, is_admin=True).is_admin
    store.create_experiment_permission("7", name, "READ")
    store.delete_user(name)
    assert not store.has_user(name)


@pytest.mark.parametrize("name", [" ada", "\uff41da", "ad\u200ba", "root:x"])
def test_the_routes_refuse_it_with_the_reason(admin, name):
    answer = admin.post("2.0/mlflow/users/create", username=name, password=USER_PASSWORD)
    assert answer.status_code == 400
    assert answer.json()["error_code"] == "INVALID_PARAMETER_VALUE"
    assert answer.json()["message"].startswith("This username cannot be used: it ")
    assert name not in [
        user["username"] for user in admin.get("2.0/mlflow/users/list").json()["users"]
    ]


def test_the_sign_up_form_refuses_it_with_the_reason(admin):
    """The page has a token, without which the form is refused for another reason."""
    page = admin.call("GET", "../signup")
    token = page.text.split('name="csrf_token" value="')[1].split('"')[0]
    form = {"username": "ad\u200ba", "password": USER_PASSWORD, "csrf_token": token}
    answer = admin.call("POST", "2.0/mlflow/users/create-ui", data=form)
    assert answer.status_code == 400
    assert "U+200B, which cannot be seen" in answer.text
