"""The app dynamodb-auth: which table it uses, and its first user."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from mlflow.exceptions import MlflowException
from mlflow.server import auth
from mlflow.server.constants import BACKEND_STORE_URI_ENV_VAR

from mlflow_dynamodbstore.auth import app
from tests.auth.stores import PASSWORD, open_auth_store
from tests.releases import needs

TABLE = "dynamodb:///mlflow.ddb"


def test_users_lie_in_the_table_of_the_server_unless_configured_otherwise(monkeypatch):
    monkeypatch.setenv(BACKEND_STORE_URI_ENV_VAR, TABLE)
    assert app.table_uri("sqlite:///basic_auth.db") == TABLE
    assert app.table_uri("dynamodb://us-east-1/users") == "dynamodb://us-east-1/users"


def test_a_server_without_a_table_is_told_what_to_do(monkeypatch):
    monkeypatch.setenv(BACKEND_STORE_URI_ENV_VAR, "sqlite:///mlflow.db")
    with pytest.raises(MlflowException, match="--backend-store-uri dynamodb://"):
        app.table_uri("sqlite:///basic_auth.db")


@pytest.fixture
def store(tmp_path, monkeypatch):
    store = open_auth_store(tmp_path)
    monkeypatch.setattr(auth, "store", store)
    return store


def configure(monkeypatch, password):
    monkeypatch.setattr(auth, "auth_config", auth.auth_config._replace(admin_password=password))


def test_without_a_configured_password_one_is_made_up_and_shown_once(store, monkeypatch, capsys):
    configure(monkeypatch, None)
    app.ensure_admin(store, "root")
    (password,) = re.findall(r"^    (\S{20,})$", capsys.readouterr().err, re.MULTILINE)
    assert store.authenticate_user("root", password)
    assert store.get_user("root").is_admin
    app.ensure_admin(store, "root")
    assert capsys.readouterr().err == ""


def test_a_configured_password_is_taken_and_not_shown(store, monkeypatch, capsys):
    configure(monkeypatch, PASSWORD)
    app.ensure_admin(store, "root")
    assert store.authenticate_user("root", PASSWORD)
    assert PASSWORD not in "".join(capsys.readouterr())


@needs("refusal of the shipped password")
def test_the_password_that_older_versions_shipped_is_refused(store, monkeypatch):
    configure(monkeypatch, "password1234")
    with pytest.raises(MlflowException, match="Refusing to use the insecure default password"):
        app.ensure_admin(store, "root")
    assert not store.has_user("root")


def test_the_shipped_password_opens_nothing(store, monkeypatch):
    """MLflow 3.15 configures it; there one is made up in its place."""
    configure(monkeypatch, "password1234")
    with suppress(MlflowException):
        app.ensure_admin(store, "root")
    assert not store.has_user("root") or not store.authenticate_user("root", "password1234")


def test_a_process_that_comes_second_shows_no_password(store, monkeypatch, capsys):
    configure(monkeypatch, None)
    store.create_user("root", PASSWORD, is_admin=True)
    monkeypatch.setattr(store, "has_user", lambda *_, **__: False)  # as when it looked
    app.ensure_admin(store, "root")
    assert "password" not in capsys.readouterr().err
    assert store.authenticate_user("root", PASSWORD)


def test_all_processes_on_a_table_sign_forms_with_one_key(tmp_path, store):
    store.create_user("root", PASSWORD)
    key = app.secret_key(store, "root")
    assert app.secret_key(open_auth_store(tmp_path), "root") == key
    assert len(key) == 64
