"""Encrypting secrets as MLflow does, with the same envelope and the same passphrase.

MLflow's SQL store can decrypt a secret encrypted here, and the other way round.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mlflow.utils.crypto import _decrypt_secret, _encrypt_secret, _mask_secret_value

from mlflow_dynamodbstore.shared.encryption_keys import gateway_key_manager
from mlflow_dynamodbstore.table.values import Item


def encrypted_attributes(secret_id: str, name: str, value: Mapping[str, str]) -> Item:
    """The attributes of a secret that hold its value, bound to its id and name."""
    envelope = _encrypt_secret(
        secret_value=json.dumps(value),
        kek_manager=gateway_key_manager(),
        secret_id=secret_id,
        secret_name=name,
    )
    return {
        "encrypted_value": envelope.encrypted_value,
        "wrapped_dek": envelope.wrapped_dek,
        "kek_version": envelope.kek_version,
        "masked_value": json.dumps(_mask_secret_value(dict(value))),
    }


def decrypted_value(secret: Item) -> dict[str, Any]:
    """The value of a secret."""
    value = _decrypt_secret(
        encrypted_value=secret["encrypted_value"],
        wrapped_dek=secret["wrapped_dek"],
        kek_manager=gateway_key_manager(),
        secret_id=secret["secret_id"],
        secret_name=secret["name"],
    )
    assert isinstance(value, dict)
    return value
