"""No secret is in what commands print and write, in logs, in errors or in tracebacks."""

from __future__ import annotations

import gzip
import logging
import traceback

import pytest
from click.testing import CliRunner
from cryptography.fernet import Fernet
from mlflow.environment_variables import MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY
from mlflow.exceptions import MlflowException
from mlflow.utils.crypto import CRYPTO_KEK_PASSPHRASE_ENV_VAR

from mlflow_dynamodbstore.auth.store import DynamoDBAuthStore
from mlflow_dynamodbstore.cli.main import main
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.table.errors import Unavailable
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.sql import empty_database
from tests.test_secrets import CREATED, Cipher
from tests.upkeep.helpers import make_run

PASSPHRASE = "the passphrase of the gateway, " * 2
WEBHOOK_KEY = Fernet.generate_key().decode()
API_KEY = "sk-the-key-of-a-provider"
HUSH = "the-secret-of-a-webhook"
PASSWORD = "the password of ada"
SECRETS = (PASSPHRASE, WEBHOOK_KEY, API_KEY, HUSH, PASSWORD)
URL = "https://93.184.215.14/hook"


def leaked(text):
    return [secret for secret in SECRETS if secret in text]


@pytest.fixture
def uri(tmp_path):
    return f"dynamodb:///{tmp_path / 'mlflow.ddb'}?synchronous=NORMAL"


@pytest.fixture
def stores(uri, monkeypatch):
    """The stores of a table with a secret of each kind."""
    monkeypatch.setenv(CRYPTO_KEK_PASSPHRASE_ENV_VAR, PASSPHRASE)
    monkeypatch.setenv(MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY.name, WEBHOOK_KEY)
    # MLflow's cipher takes its key when it is loaded, once in a process.
    cipher = "mlflow_dynamodbstore.registry.webhooks._cipher"
    monkeypatch.setattr(cipher, lambda: Cipher(WEBHOOK_KEY))
    table = Table(open_engine(uri))
    tracking = DynamoDBTrackingStore(uri, "s3://bucket/root", table=table)
    registry = DynamoDBRegistryStore(uri, uri, table=table)
    auth = DynamoDBAuthStore(uri, table=table)
    tracking.create_gateway_secret("key", {"api_key": API_KEY}, "openai")
    registry.create_webhook("hook", URL, [CREATED], secret=HUSH)
    auth.create_user("ada", PASSWORD)
    make_run(tracking)
    yield tracking, registry, auth
    table.close()


COMMANDS = {
    "doctor": ["doctor"],
    "doctor --json": ["doctor", "--json"],
    "stats": ["stats"],
    "explain": ["explain", "metrics.loss < 1"],
    "config": ["config", "list"],
    "ttl": ["ttl", "show"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints_none(stores, uri, command, caplog):
    with caplog.at_level(logging.DEBUG):
        result = CliRunner().invoke(main, ["--uri", uri, *COMMANDS[command]])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    assert result.exit_code != 2, result.output
    assert leaked(result.output + caplog.text) == []


def test_an_archive_holds_none(stores, uri, tmp_path, caplog):
    archive = tmp_path / "table.jsonl.gz"
    with caplog.at_level(logging.DEBUG):
        result = CliRunner().invoke(main, ["--uri", uri, "dump", str(archive)])
    assert result.exit_code == 0, result.output
    content = gzip.decompress(archive.read_bytes()).decode()
    assert '"GWSECRET#' in content or "GWSECRET" in content
    assert leaked(content + result.output + caplog.text) == []


def test_an_exported_database_holds_none(stores, uri, tmp_path, caplog):
    target = empty_database(tmp_path)
    with caplog.at_level(logging.DEBUG):
        result = CliRunner().invoke(main, ["--uri", uri, "export", target])
    assert result.exit_code == 0, result.output
    written = (tmp_path / "theirs.db").read_bytes().decode("latin-1")
    assert "night-owl" in written
    assert leaked(written + result.output + caplog.text) == []


def test_the_password_of_a_database_is_not_printed(uri, stores, tmp_path):
    address = "postgresql://mlflow:the-database-password@127.0.0.1:1/mlflow"
    for command in (["export", address], ["import", address]):
        result = CliRunner().invoke(main, ["--uri", uri, *command])
        assert result.exit_code != 0
        assert "the-database-password" not in result.output


def error_of(call):
    try:
        call()
    except MlflowException as error:
        return error
    return None


def calls(stores):
    tracking, registry, auth = stores
    return {
        "a new secret": lambda: tracking.create_gateway_secret("new", {"api_key": API_KEY}),
        "a secret that is no dict": lambda: tracking.create_gateway_secret("new", API_KEY),
        "a secret that is a number": lambda: tracking.create_gateway_secret(
            "new", {"api_key": [API_KEY]}
        ),
        "a webhook": lambda: registry.create_webhook("new", URL, [CREATED], secret=HUSH),
        "a webhook's list": lambda: registry.create_webhook("new", URL, [CREATED], secret=[HUSH]),
        "a user": lambda: auth.create_user("bob", PASSWORD),
        "a user's list": lambda: auth.create_user("bob", [PASSWORD]),
        "a changed password": lambda: auth.update_user("ada", password=PASSWORD + "2"),
        "a wrong password": lambda: auth.authenticate_user("bob", [PASSWORD]),
    }


FAILURES = [Unavailable("the table does not answer"), ZeroDivisionError("a mistake")]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("call", calls((None, None, None)))
def test_no_error_and_no_log_shows_one(stores, call, failure, monkeypatch, caplog):
    table = stores[0].table

    def fails(*_args, **_kwargs):
        raise failure

    call_it = calls(stores)[call]
    for name in ("put", "update", "transact", "write"):
        monkeypatch.setattr(table, name, fails)
    with caplog.at_level(logging.DEBUG):
        error = error_of(call_it)
    assert error is not None
    assert leaked("".join(traceback.format_exception(error)) + caplog.text) == []
