"""Changing the passphrase of the gateway's secrets, as ``mlflow crypto rotate-kek`` does in SQL.

Each secret is encrypted with its own key, and that key with the key from the passphrase. So only
the wrapped keys are rewritten. All of them are unwrapped before the first is written, so a wrong
passphrase changes nothing. Run again, an interrupted rotation finishes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from boto3.dynamodb.conditions import Attr
from mlflow.utils.crypto import KEKManager, rotate_secret_encryption

from mlflow_dynamodbstore.gateway.encryption import GATEWAY, key_manager
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.shared.workspaces import all_workspaces
from mlflow_dynamodbstore.table.contract import Patch, Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item


def rotate_key(table: Table, new_passphrase: str) -> tuple[int, int]:
    """Wrap the keys of all secrets with a key from a new passphrase.

    The passphrase so far is that of the environment. Returns how many secrets were changed, and the
    version of the new key, which servers need in their environment with the new passphrase. No
    secret may be written during a rotation.
    """
    old = key_manager()
    new = KEKManager(passphrase=new_passphrase, kek_version=old.kek_version + 1)
    for secret in _secrets(table, new):  # rotated before: check the new passphrase
        _rewrapped(table, secret, new, new)
    changes = [_rewrapped(table, secret, old, new) for secret in _secrets(table, old)]
    table.write(changes)
    check = access_keys.key_check_key(GATEWAY.name)
    digest = replace(GATEWAY, key=lambda: bytes(new.get_kek())).digest()
    table.put({"PK": check.pk, "SK": check.sk, "digest": digest})
    return len(changes), int(new.kek_version)


def _secrets(table: Table, manager: KEKManager) -> Iterator[Item]:
    """The secrets of all workspaces whose keys are wrapped with the key of a manager."""
    for workspace in all_workspaces(table):
        query = Query(
            access_keys.workspace_pk(workspace),
            where=gateway_keys.SECRETS.on(),
            filter=Attr("kek_version").eq(manager.kek_version),
        )
        yield from table.items(query)


def _rewrapped(table: Table, secret: Item, old: KEKManager, new: KEKManager) -> Patch:
    """The write that wraps a secret's key anew. Raises when the old passphrase is wrong."""
    rotated = rotate_secret_encryption(secret["encrypted_value"], secret["wrapped_dek"], old, new)
    return Patch(
        table.schema.key_of(secret),
        Update(set={"wrapped_dek": rotated.wrapped_dek, "kek_version": new.kek_version}),
        condition=Attr("wrapped_dek").eq(secret["wrapped_dek"]),
    )
