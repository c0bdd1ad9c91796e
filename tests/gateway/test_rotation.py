"""A rotation changes the passphrase of all secrets, or of none."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.cli import main
from mlflow_dynamodbstore.gateway.rotation import rotate_key
from mlflow_dynamodbstore.table.table import Table
from tests.faults import CrashingEngine, SimulatedCrash
from tests.gateway.making import a_secret
from tests.stores import everything_in, refused

OLD, NEW = "a passphrase for tests", "another one for tests"


@pytest.fixture
def secrets(store, monkeypatch):
    """Secrets in two workspaces: their ids, and how to read them all."""
    monkeypatch.setenv("MLFLOW_ENABLE_WORKSPACES", "true")
    made = {}
    for team in ("default", "team"):
        with WorkspaceContext(team):
            made[team] = [a_secret(store, name, f"{team} {name}") for name in ("a", "b")]
    return made


def read(store, secrets):
    found = []
    for team, ids in secrets.items():
        with WorkspaceContext(team):
            found += [store._get_decrypted_secret(one)["api_key"] for one in ids]
    return found


def use(monkeypatch, passphrase, version):
    monkeypatch.setenv("MLFLOW_CRYPTO_KEK_PASSPHRASE", passphrase)
    monkeypatch.setenv("MLFLOW_CRYPTO_KEK_VERSION", str(version))


def test_the_command_makes_all_secrets_readable_with_the_new_passphrase_only(
    store, secrets, tmp_path, monkeypatch
):
    uri = f"dynamodb:///{tmp_path / 'mlflow.ddb'}?synchronous=NORMAL"
    arguments = ["--uri", uri, "gateway", "rotate-key"]
    done = CliRunner().invoke(main, arguments, input=f"{NEW}\n{NEW}\n")
    assert done.exit_code == 0, done.output
    assert "4 secrets changed" in done.output
    assert "MLFLOW_CRYPTO_KEK_VERSION=2" in done.output
    with refused("INVALID_PARAMETER_VALUE", "Failed to decrypt"):
        read(store, secrets)
    use(monkeypatch, NEW, 2)
    assert read(store, secrets) == ["default a", "default b", "team a", "team b"]
    with WorkspaceContext("team"):
        a_secret(store, "new")  # the table expects the new key


def test_an_interrupted_rotation_is_finished_by_the_same_call(store, secrets, time, monkeypatch):
    with pytest.raises(SimulatedCrash):
        rotate_key(Table(CrashingEngine(store.table.engine, at=1, when="during"), clock=time), NEW)
    rotate_key(store.table, NEW)
    assert rotate_key(store.table, NEW) == (0, 2)
    use(monkeypatch, NEW, 2)
    assert read(store, secrets) == ["default a", "default b", "team a", "team b"]


def test_a_wrong_passphrase_changes_nothing(store, secrets, monkeypatch):
    before = everything_in(store.table)
    use(monkeypatch, "not it", 1)
    with refused("INVALID_PARAMETER_VALUE", "Check old KEK passphrase"):
        rotate_key(store.table, NEW)
    assert everything_in(store.table) == before
    use(monkeypatch, OLD, 1)
    rotate_key(store.table, NEW)
    after = everything_in(store.table)
    with refused("INVALID_PARAMETER_VALUE", "Check old KEK passphrase"):
        rotate_key(store.table, "a third one")  # the first rotation is over
    assert everything_in(store.table) == after
