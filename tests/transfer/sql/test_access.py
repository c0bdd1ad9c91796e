"""Users and roles, from a database of MLflow's auth app and back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mlflow.server.auth.sqlalchemy_store import SqlAlchemyStore

from mlflow_dynamodbstore.auth.store import DynamoDBAuthStore
from mlflow_dynamodbstore.cli import main
from mlflow_dynamodbstore.transfer.sql import kinds
from mlflow_dynamodbstore.transfer.sql.database import Database
from tests.transfer.sql.helpers import imported, moved, verified

PASSWORD = "a long password"  # not one of anybody's


def opened(uri: str) -> SqlAlchemyStore:
    store = SqlAlchemyStore()
    store.init_db(uri)
    return store


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with users, roles and grants; not to be changed."""
    path = tmp_path_factory.mktemp("auth") / "basic_auth.db"
    store = opened(f"sqlite:///{path}")
    for name in ("gone", "ada", "bob"):
        store.create_user(name, PASSWORD, is_admin=name == "ada")
    store.delete_user("gone")
    role = store.create_role("readers", "default", "those who read")
    store.add_role_permission(role.id, "experiment", "*", "READ")
    store.add_role_permission(role.id, "registered_model", "iris", "EDIT")
    store.assign_role_to_user(store.get_user("bob").id, role.id)
    store.create_experiment_permission("7", "bob", "MANAGE")
    store.create_registered_model_permission("iris", "ada", "READ")
    store.create_role("empty", "default")
    return path


@pytest.fixture
def theirs(template: Path, tmp_path: Path) -> str:
    """The URI of a copy of it."""
    shutil.copyfile(template, tmp_path / "basic_auth.db")
    return f"sqlite:///{tmp_path}/basic_auth.db"


def answers(store: Any) -> dict[str, Any]:
    """What a store says of users and roles, but for the numbers of grants."""
    users = store.list_users()
    return {
        "users": [(u.id, u.username, u.password_hash, u.is_admin) for u in users],
        "roles": sorted(
            (r.id, r.name, r.workspace, r.description, _granted(r))
            for r in store.list_roles(["default"])
        ),
        "held": {u.username: [r.id for r in store.list_user_roles(u.id)] for u in users},
        "own": store.get_experiment_permission("7", "bob").permission,
        "right": store.authenticate_user("bob", PASSWORD),
        "wrong": store.authenticate_user("bob", PASSWORD + "!"),
    }


def _granted(role: Any) -> list[tuple[str, str, str]]:
    return sorted((p.resource_type, p.resource_pattern, p.permission) for p in role.permissions)


def test_users_and_roles_come_over_and_go_back(theirs: str, table, tmp_path: Path):
    move = imported(theirs, table)
    assert move.findings.first == []
    assert list(move.tallies) == ["users", "roles"]
    ours = DynamoDBAuthStore("", table=table)
    assert answers(ours) == answers(opened(theirs))
    again = imported(theirs, table)
    assert all(tally.same == tally.found > 0 for tally in again.tallies.values())
    back = f"sqlite:///{tmp_path}/back.db"
    opened(back)
    target = Database.to_read(back)
    *_, users, roles = kinds.exporting(table, target)
    assert moved([users, roles]).findings.first == []
    assert verified([users, roles]).findings.first == []
    assert answers(opened(back)) == answers(ours)


def test_users_are_exported_to_a_new_database(theirs: str, table, tmp_path: Path):
    """The tables of the auth app are made in it, as those of the tracking server are."""
    imported(theirs, table)
    target = f"sqlite:///{tmp_path}/new.db"
    counted = CliRunner().invoke(
        main, ["--uri", table.engine.uri, "export", target, "--dry-run", "--json"]
    )
    assert json.loads(counted.stdout)["found"]["users"] == 2
    assert not (tmp_path / "new.db").exists()
    for _ in range(2):
        done = CliRunner().invoke(main, ["--uri", table.engine.uri, "export", target, "--json"])
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["verified"]["users"]["same"] == 2
    assert answers(opened(target)) == answers(DynamoDBAuthStore("", table=table))


def test_without_users_no_tables_of_the_auth_app_are_made(table, tmp_path: Path):
    target = f"sqlite:///{tmp_path}/new.db"
    done = CliRunner().invoke(main, ["--uri", table.engine.uri, "export", target])
    assert done.exit_code == 0, done.output
    assert not Database.to_read(target).has_auth


def test_numbers_are_not_given_again(theirs: str, table):
    imported(theirs, table)
    ours = DynamoDBAuthStore("", table=table)
    assert ours.create_user("new", PASSWORD).id == 4
    before = max(role.id for role in ours.list_roles(["default"]))
    assert ours.create_role("new", "default").id == before + 1
    role = ours.get_role_by_name("default", "readers")
    added = ours.add_role_permission(role.id, "experiment", "9", "READ")
    assert added.id not in [permission.id for permission in role.permissions]


def test_a_user_of_the_same_name_gets_nothing(theirs: str, table):
    ours = DynamoDBAuthStore("", table=table)
    ours.create_user("bob", PASSWORD)
    move = imported(theirs, table)
    assert [(f.kind, f.sentence) for f in move.findings.first] == [
        ("users", "cannot be moved: another user has its name or number"),
        ("roles", "cannot be moved: its member, user 3, is missing or another user"),
        ("roles", "cannot be moved: its member, user 3, is missing or another user"),
    ]
    assert ours.list_user_roles(ours.get_user("bob").id) == []
    assert [role.name for role in ours.list_user_roles(ours.get_user("ada").id)] == ["__user_2__"]
