"""Whether a process has the keys that the secrets in its table are encrypted with.

MLflow encrypts the secrets of webhooks and of the AI gateway with keys from the environment. A
missing or wrong key would show only when a secret is first read, perhaps hours later. So a process
that stores a secret leaves a digest of the key in the table (:func:`remember_key`), and a server
checks it when it starts (:func:`check_key`). Programs that use a table directly are not asked for
keys that they may not need.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from boto3.dynamodb.conditions import Attr
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.mlflow_compat.server_settings import BACKEND_STORE_URI, is_server
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.refusals import invalid_state
from mlflow_dynamodbstore.shared.workspaces import all_workspaces
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.table import Table


@dataclass(frozen=True)
class SecretKind:
    """A kind of secret: the variable its key comes from, and where its secrets lie."""

    name: str
    variable: str
    key: Callable[[], bytes | None]  # None: MLflow makes one up in each process
    listed: Range
    value: str  # the attribute that holds a secret
    validate: Callable[[], object] = lambda: None  # raises for what cannot be a key

    def digest(self) -> str | None:
        """A digest of the key; None when there is no key."""
        key = self.key()
        if key is None:
            return None
        return hmac.new(
            key, f"mlflow-dynamodbstore {self.name}".encode(), hashlib.sha256
        ).hexdigest()


def check_key(table: Table, kind: SecretKind) -> None:
    """Refuse to serve a table whose secrets this process could not read; one read."""
    if not is_server():
        return
    kind.validate()
    known = table.get(access_keys.key_check_key(kind.name))
    if known is None or known["digest"] == kind.digest():
        return
    if any(_secrets(table, kind)):
        raise _wrong_key(kind)
    # No secret is left that needs the old key.
    table.delete(access_keys.key_check_key(kind.name), condition=Attr("digest").eq(known["digest"]))


def remember_key(table: Table, kind: SecretKind) -> None:
    """Store a digest of the key, before a secret is encrypted with it.

    Raises when the secrets in the table have another key, and in a server without a key.
    """
    digest = kind.digest()
    if digest is None:
        if BACKEND_STORE_URI in os.environ:
            raise invalid_state(
                f"This server has no key to encrypt {kind.name} secrets with: set "
                f"{kind.variable} and start it again."
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
    for workspace in all_workspaces(table):
        query = Query(
            access_keys.workspace_pk(workspace),
            where=kind.listed.on(),
            filter=Attr(kind.value).exists(),
        )
        for _ in table.items(query):
            yield True


def _wrong_key(kind: SecretKind) -> MlflowException:
    given = "holds another one" if os.environ.get(kind.variable) else "is not set"
    return invalid_state(
        f"The {kind.name} secrets in this table were encrypted with a key that this process does "
        f"not have: {kind.variable} {given}. Set it to what it was when they were stored, or "
        f"delete them."
    )
