"""MLflow's encryption of the AI gateway's secrets, and its cache of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mlflow_dynamodbstore.mlflow_compat.names import private, unavailable

CRYPTO = "mlflow.utils.crypto"
CACHE = "mlflow.store.tracking._secret_cache"
SECRETS = "Secrets of the AI gateway"


def _mask(secret_value: Mapping[str, str]) -> dict[str, str]:
    return dict.fromkeys(secret_value, "***")


encrypt_secret: Any = private(CRYPTO, "_encrypt_secret", unavailable(SECRETS))
decrypt_secret: Any = private(CRYPTO, "_decrypt_secret", unavailable(SECRETS))
mask_secret_value = private(CRYPTO, "_mask_secret_value", _mask)


class _NoCache:
    """Stands for MLflow's encrypted cache and keeps nothing."""

    def __init__(self, ttl_seconds: int, max_size: int):
        del ttl_seconds, max_size

    def get(self, cache_key: str) -> None:
        del cache_key

    def set(self, cache_key: str, value: object) -> None:
        del cache_key, value

    def clear(self) -> None:
        """There is nothing to forget."""


if TYPE_CHECKING:
    from mlflow.store.tracking._secret_cache import SecretCache
else:
    SecretCache = private(CACHE, "SecretCache", _NoCache)

DEFAULT_CACHE_TTL = private(CACHE, "_DEFAULT_CACHE_TTL", 60)
DEFAULT_CACHE_MAX_SIZE = private(CACHE, "_DEFAULT_CACHE_MAX_SIZE", 1000)
SECRETS_CACHE_TTL_ENV_VAR = private(
    CACHE, "SECRETS_CACHE_TTL_ENV_VAR", "MLFLOW_SERVER_SECRETS_CACHE_TTL"
)
SECRETS_CACHE_MAX_SIZE_ENV_VAR = private(
    CACHE, "SECRETS_CACHE_MAX_SIZE_ENV_VAR", "MLFLOW_SERVER_SECRETS_CACHE_MAX_SIZE"
)

__all__ = [
    "DEFAULT_CACHE_MAX_SIZE",
    "DEFAULT_CACHE_TTL",
    "SECRETS_CACHE_MAX_SIZE_ENV_VAR",
    "SECRETS_CACHE_TTL_ENV_VAR",
    "SecretCache",
    "decrypt_secret",
    "encrypt_secret",
    "mask_secret_value",
]
