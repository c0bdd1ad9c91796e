"""The key that secrets of the AI gateway are encrypted with."""

from __future__ import annotations

from mlflow.utils.crypto import CRYPTO_KEK_PASSPHRASE_ENV_VAR

from mlflow_dynamodbstore.gateway.encryption import key_manager
from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.shared.encryption_keys import SecretKind

GATEWAY = SecretKind(
    "gateway",
    CRYPTO_KEK_PASSPHRASE_ENV_VAR,
    lambda: bytes(key_manager().get_kek()),
    gateway_keys.SECRETS,
    "encrypted_value",
)
