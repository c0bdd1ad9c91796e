"""Encrypting secrets as MLflow does, with the same envelope and the same passphrase.

MLflow's SQL store can decrypt a secret encrypted here, and the other way round.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from typing import Any

from mlflow.utils.crypto import (
    CRYPTO_KEK_PASSPHRASE_ENV_VAR,
    CRYPTO_KEK_VERSION_ENV_VAR,
    KEKManager,
)

from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.mlflow_compat.crypto import (
    decrypt_secret,
    encrypt_secret,
    mask_secret_value,
)
from mlflow_dynamodbstore.shared.encryption_keys import SecretKind
from mlflow_dynamodbstore.table.values import Item


def encrypted_attributes(secret_id: str, name: str, value: Mapping[str, str]) -> Item:
    """The attributes of a secret that hold its value, bound to its id and name."""
    envelope = encrypt_secret(
        secret_value=json.dumps(value),
        kek_manager=key_manager(),
        secret_id=secret_id,
        secret_name=name,
    )
    return {
        "encrypted_value": envelope.encrypted_value,
        "wrapped_dek": envelope.wrapped_dek,
        "kek_version": envelope.kek_version,
        "masked_value": json.dumps(mask_secret_value(dict(value))),
    }


def decrypted_value(secret: Item) -> dict[str, Any]:
    """The value of a secret."""
    value = decrypt_secret(
        encrypted_value=secret["encrypted_value"],
        wrapped_dek=secret["wrapped_dek"],
        kek_manager=key_manager(),
        secret_id=secret["secret_id"],
        secret_name=secret["name"],
    )
    assert isinstance(value, dict)
    return value


def key_manager() -> KEKManager:
    """MLflow's holder of the key that it derives from the passphrase in the environment."""
    return _key_manager_of(
        os.environ.get(CRYPTO_KEK_PASSPHRASE_ENV_VAR, ""),
        int(os.environ.get(CRYPTO_KEK_VERSION_ENV_VAR, "1")),
    )


@functools.lru_cache(maxsize=4)
def _key_manager_of(passphrase: str, version: int) -> KEKManager:
    """Kept, because deriving a key takes a large part of a second, on purpose."""
    return KEKManager(passphrase=passphrase or None, kek_version=version)


GATEWAY = SecretKind(
    "gateway",
    CRYPTO_KEK_PASSPHRASE_ENV_VAR,
    lambda: bytes(key_manager().get_kek()),
    gateway_keys.SECRETS,
    "encrypted_value",
)
"""The key that secrets of the AI gateway are encrypted with."""
