"""Another passphrase for the gateway's secrets: ``mlflow crypto rotate-kek`` for this store.

A secret is encrypted with a key of its own, and only that key is encrypted with the passphrase's.
So nothing but the wrapped keys is written anew. All are unwrapped before the first is written, so
that a wrong passphrase changes nothing; what was interrupted is finished when it is run again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from boto3.dynamodb.conditions import Attr
from mlflow.utils.crypto import KEKManager, rotate_secret_encryption

from mlflow_dynamodbstore.gateway.encryption import key_manager
from mlflow_dynamodbstore.gateway.secret_key import GATEWAY
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.shared.workspaces import all_workspaces
from mlflow_dynamodbstore.table.contract import Patch, Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item


def rotate_key(table: Table, new_passphrase: str) -> tuple[int, int]:
    """Let the secrets be read with another passphrase than that of the environment.

    Returns how many there were to change, and the version of the new key, which must stand in the
    environment together with the new passphrase. Nobody may write secrets meanwhile.
    """
    old = key_manager()
    new = KEKManager(passphrase=new_passphrase, kek_version=old.kek_version + 1)
    for secret in _secrets(table, new):  # of a rotation that was interrupted, or that is over
        _rewrapped(table, secret, new, new)
    changes = [_rewrapped(table, secret, old, new) for secret in _secrets(table, old)]
    table.write(changes)
    check = access_keys.key_check_key(GATEWAY.name)
    digest = replace(GATEWAY, key=lambda: bytes(new.get_kek())).digest()
    table.put({"PK": check.pk, "SK": check.sk, "digest": digest})
    return len(changes), int(new.kek_version)


def _secrets(table: Table, manager: KEKManager) -> Iterator[Item]:
    """The secrets of all workspaces whose keys are encrypted with this one's."""
    for workspace in all_workspaces(table):
        query = Query(
            access_keys.workspace_pk(workspace),
            where=gateway_keys.SECRETS.on(),
            filter=Attr("kek_version").eq(manager.kek_version),
        )
        yield from table.items(query)


def _rewrapped(table: Table, secret: Item, old: KEKManager, new: KEKManager) -> Patch:
    """The change of a secret. Raises when it was not encrypted with the old passphrase."""
    rotated = rotate_secret_encryption(secret["encrypted_value"], secret["wrapped_dek"], old, new)
    return Patch(
        table.schema.key_of(secret),
        Update(set={"wrapped_dek": rotated.wrapped_dek, "kek_version": new.kek_version}),
        condition=Attr("wrapped_dek").eq(secret["wrapped_dek"]),
    )
