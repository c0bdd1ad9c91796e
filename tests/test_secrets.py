"""Keys of secrets: a server without the one its table needs says so when it starts."""

from __future__ import annotations

import subprocess
import sys

import pytest
from cryptography.fernet import Fernet
from mlflow.entities.webhook import WebhookAction, WebhookEntity, WebhookEvent
from mlflow.environment_variables import MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY
from mlflow.utils.crypto import CRYPTO_KEK_PASSPHRASE_ENV_VAR, CRYPTO_KEK_VERSION_ENV_VAR

from mlflow_dynamodbstore.mlflow_compat.server_settings import BACKEND_STORE_URI
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.stores import refused

WEBHOOK_VARIABLE = MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY.name
CREATED = WebhookEvent(WebhookEntity.REGISTERED_MODEL, WebhookAction.CREATED)
KEYS = [Fernet.generate_key().decode() for _ in range(2)]
SHORT = "n" * 32


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for variable in (WEBHOOK_VARIABLE, CRYPTO_KEK_PASSPHRASE_ENV_VAR, CRYPTO_KEK_VERSION_ENV_VAR):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def serving(monkeypatch):
    """This process serves, as far as our stores can tell."""
    monkeypatch.setenv(BACKEND_STORE_URI, "dynamodb:///mlflow.ddb")


@pytest.fixture
def not_serving(monkeypatch):
    monkeypatch.delenv(BACKEND_STORE_URI, raising=False)


@pytest.fixture
def uri(tmp_path):
    return f"dynamodb:///{tmp_path / 'mlflow.ddb'}?synchronous=NORMAL"


@pytest.fixture
def table(uri):
    made = Table(MeteredEngine(open_engine(uri)))
    yield made
    made.close()


class Webhooks:
    """The registry and one secret in it."""

    variable, values, name = WEBHOOK_VARIABLE, KEYS, "webhook"

    def start(self, table):
        return DynamoDBRegistryStore("", table=table)

    def store(self, opened):
        made = opened.create_webhook("hook", "https://93.184.215.14/hook", [CREATED], secret="mine")
        return made.webhook_id

    def read(self, opened, made):
        return opened.get_webhook(made).secret

    def replace(self, opened, made):
        opened.update_webhook(made, secret="other")

    def remove(self, opened, made):
        opened.delete_webhook(made)


class Gateway:
    """The tracking store and one secret of the gateway in it."""

    variable, values, name = CRYPTO_KEK_PASSPHRASE_ENV_VAR, [SHORT, SHORT + "2"], "gateway"

    def start(self, table):
        return DynamoDBTrackingStore("", "s3://bucket", table=table)

    def store(self, opened):
        return opened.create_gateway_secret("key", {"api_key": "mine"}, "openai").secret_id

    def read(self, opened, made):
        return opened._get_decrypted_secret(made)["api_key"]

    def replace(self, opened, made):
        opened.update_gateway_secret(made, {"api_key": "other"})

    def remove(self, opened, made):
        opened.delete_gateway_secret(made)


@pytest.fixture(params=[Webhooks(), Gateway()], ids=["webhook", "gateway"])
def side(request, monkeypatch):
    # MLflow's cipher of webhooks takes its key when it is loaded, once in a process.
    module = "mlflow_dynamodbstore.registry.webhooks._cipher"
    monkeypatch.setattr(module, lambda: Cipher(KEYS[0]))
    return request.param


class Cipher:
    """MLflow's cipher with a given key."""

    def __init__(self, key):
        self._fernet = Fernet(key)

    def process_bind_param(self, value, _):
        return self._fernet.encrypt(value.encode()).decode()

    def process_result_value(self, value, _):
        return self._fernet.decrypt(value.encode()).decode()


def test_a_server_starts_with_the_key_that_secrets_were_stored_with(
    side, table, serving, monkeypatch
):
    monkeypatch.setenv(side.variable, side.values[0])
    made = side.store(side.start(table))
    assert side.read(side.start(table), made) == "mine"


def test_a_server_without_the_key_does_not_start(side, table, serving, monkeypatch):
    monkeypatch.setenv(side.variable, side.values[0])
    side.store(side.start(table))
    monkeypatch.delenv(side.variable)
    with refused("INVALID_STATE", f"{side.name} secrets .* {side.variable} is not set"):
        side.start(table)


def test_a_server_with_another_key_does_not_start_and_stores_nothing(
    side, table, serving, monkeypatch
):
    monkeypatch.setenv(side.variable, side.values[0])
    running = side.start(table)
    made = side.store(running)
    monkeypatch.setenv(side.variable, side.values[1])
    with refused("INVALID_STATE", f"{side.variable} holds another one"):
        side.start(table)
    with refused("INVALID_STATE", f"{side.variable} holds another one"):
        side.replace(running, made)
    monkeypatch.setenv(side.variable, side.values[0])
    assert side.read(running, made) == "mine"


def test_once_the_last_secret_is_gone_another_key_will_do(side, table, serving, monkeypatch):
    monkeypatch.setenv(side.variable, side.values[0])
    opened = side.start(table)
    side.remove(opened, side.store(opened))
    monkeypatch.setenv(side.variable, side.values[1])
    side.store(side.start(table))
    monkeypatch.delenv(side.variable)
    with refused("INVALID_STATE", "is not set"):
        side.start(table)


def test_a_program_that_uses_the_table_directly_needs_no_key(side, table, not_serving, monkeypatch):
    monkeypatch.setenv(side.variable, side.values[0])
    side.store(side.start(table))
    monkeypatch.delenv(side.variable)
    side.start(table)


def test_the_check_costs_one_read_in_a_server_and_none_elsewhere(side, table, monkeypatch):
    def reads():
        with table.engine.meter.measure() as used:
            side.start(table)
        return used.total_requests

    monkeypatch.delenv(BACKEND_STORE_URI, raising=False)
    reads()  # makes what a new table needs
    elsewhere = reads()
    monkeypatch.setenv(BACKEND_STORE_URI, "dynamodb:///mlflow.ddb")
    assert reads() == elsewhere + 1


def test_a_server_without_a_key_stores_no_secret_of_a_webhook(table, monkeypatch):
    """MLflow would make up a key that no other process has, not even after a restart."""
    side = Webhooks()
    opened = side.start(table)
    monkeypatch.setenv(BACKEND_STORE_URI, "dynamodb:///mlflow.ddb")
    with refused("INVALID_STATE", f"set {side.variable} and start it again"):
        side.store(opened)
    assert list(opened.list_webhooks()) == []


def test_what_is_no_key_is_refused_at_start(table, serving, monkeypatch):
    monkeypatch.setenv(WEBHOOK_VARIABLE, "too short")
    with refused("INVALID_STATE", f"{WEBHOOK_VARIABLE} holds no key"):
        Webhooks().start(table)


def test_mlflow_server_says_it_before_it_listens(uri, table, tmp_path, monkeypatch):
    monkeypatch.setenv(CRYPTO_KEK_PASSPHRASE_ENV_VAR, SHORT)
    Gateway().store(Gateway().start(table))
    monkeypatch.delenv(CRYPTO_KEK_PASSPHRASE_ENV_VAR)
    monkeypatch.setenv("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri, "--port", "1"]
    ended = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 1
    assert f"{CRYPTO_KEK_PASSPHRASE_ENV_VAR} is not set. Set it to" in ended.stderr
