"""Whether a process has the keys that the secrets in its table are encrypted with.

MLflow encrypts the secrets of webhooks and of the AI gateway with keys from the environment. A key
that is missing or another one would be noticed when a secret is first read, hours later maybe. So
whoever stores a secret leaves a digest of the key in the table (:func:`remember_key`), and a
server looks at it when it starts (:func:`check_key`). Programs that use a table directly are not
asked for keys that they may not need.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from boto3.dynamodb.conditions import Attr
from mlflow.environment_variables import MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_STATE
from mlflow.utils.crypto import (
    CRYPTO_KEK_PASSPHRASE_ENV_VAR,
    CRYPTO_KEK_VERSION_ENV_VAR,
    KEKManager,
)

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.keys.base import DEFAULT_WORKSPACE, Range
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.table import Table

HANDLERS = "mlflow.server.handlers"
"""A process that has loaded this serves, or is about to start those that do."""
WORKER_VARIABLE = "_MLFLOW_SERVER_FILE_STORE"
"""MLflow sets it in each process of its server."""


@dataclass(frozen=True)
class SecretKind:
    """A kind of secret: the variable its key comes from, and where its secrets lie."""

    name: str
    variable: str
    key: Callable[[], bytes | None]  # None: MLflow would make one up in each process
    listed: Range
    value: str  # the attribute that holds a secret

    def digest(self) -> str | None:
        """What tells the key from others without giving it away."""
        key = self.key()
        if key is None:
            return None
        return hmac.new(
            key, f"mlflow-dynamodbstore {self.name}".encode(), hashlib.sha256
        ).hexdigest()


def _webhook_key() -> bytes | None:
    text: str | None = MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY.get()
    if not text:
        return None
    from cryptography.fernet import Fernet  # noqa: PLC0415 - only where there is a key

    try:
        Fernet(text)
    except ValueError as error:
        raise MlflowException(
            f"{MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY.name} holds no key: it must be 32 bytes in "
            "URL-safe base64, as cryptography's Fernet.generate_key() makes them.",
            INVALID_STATE,
        ) from error
    return text.encode()


def gateway_key_manager() -> KEKManager:
    """MLflow's holder of the key that it derives from the passphrase in the environment."""
    return _key_manager_of(
        os.environ.get(CRYPTO_KEK_PASSPHRASE_ENV_VAR, ""),
        int(os.environ.get(CRYPTO_KEK_VERSION_ENV_VAR, "1")),
    )


@functools.lru_cache(maxsize=4)
def _key_manager_of(passphrase: str, version: int) -> KEKManager:
    """Kept, because deriving a key takes a large part of a second, on purpose."""
    return KEKManager(passphrase=passphrase or None, kek_version=version)


def _gateway_key() -> bytes:
    return bytes(gateway_key_manager().get_kek())


WEBHOOK = SecretKind(
    "webhook",
    MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY.name,
    _webhook_key,
    access_keys.WEBHOOKS,
    "secret",
)
GATEWAY = SecretKind(
    "gateway",
    CRYPTO_KEK_PASSPHRASE_ENV_VAR,
    _gateway_key,
    gateway_keys.SECRETS,
    "encrypted_value",
)


def check_key(table: Table, kind: SecretKind) -> None:
    """Refuse to serve a table whose secrets this process could not read; one read."""
    if HANDLERS not in sys.modules:
        return
    if kind is WEBHOOK:
        _webhook_key()  # one that is no key is told at once
    known = table.get(access_keys.key_check_key(kind.name))
    if known is None or known["digest"] == kind.digest():
        return
    if any(_secrets(table, kind)):
        raise _wrong_key(kind)
    # The last secret is gone, and with it the need for the key it had.
    table.delete(access_keys.key_check_key(kind.name), condition=Attr("digest").eq(known["digest"]))


def remember_key(table: Table, kind: SecretKind) -> None:
    """Leave a digest of the key in the table, before a secret is encrypted with it.

    Raises when others have stored theirs with another key, and in a server that has none.
    """
    digest = kind.digest()
    if digest is None:
        if WORKER_VARIABLE in os.environ:
            raise MlflowException(
                f"This server has no key to encrypt {kind.name} secrets with: set "
                f"{kind.variable} and start it again.",
                INVALID_STATE,
            )
        return
    key = access_keys.key_check_key(kind.name)
    try:
        table.put(
            {"PK": key.pk, "SK": key.sk, "digest": digest},
            condition=ABSENT | Attr("digest").eq(digest),
        )
    except ConditionFailed as refused:
        if any(_secrets(table, kind)):
            raise _wrong_key(kind) from refused
        table.put({"PK": key.pk, "SK": key.sk, "digest": digest})


def _secrets(table: Table, kind: SecretKind) -> Iterator[bool]:
    """True for each secret of a kind, in all workspaces."""
    entries = table.items(Query(access_keys.CONFIG_PK, where=access_keys.WORKSPACES.on()))
    named = {str(access_keys.workspace_entry_of(str(entry["SK"]))) for entry in entries}
    for workspace in sorted(named | {DEFAULT_WORKSPACE}):
        query = Query(
            access_keys.workspace_pk(workspace),
            where=kind.listed.on(),
            filter=Attr(kind.value).exists(),
        )
        for _ in table.items(query):
            yield True


def _wrong_key(kind: SecretKind) -> MlflowException:
    given = "holds another one" if os.environ.get(kind.variable) else "is not set"
    return MlflowException(
        f"The {kind.name} secrets in this table were encrypted with a key that this process does "
        f"not have: {kind.variable} {given}. Set it to what it was when they were stored, or "
        f"delete them.",
        INVALID_STATE,
    )
