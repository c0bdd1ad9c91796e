"""MLflow's own cache of endpoint configurations with decrypted secrets."""

from __future__ import annotations

import os
from functools import cached_property

from mlflow_dynamodbstore.mlflow_compat.crypto import (
    DEFAULT_CACHE_MAX_SIZE,
    DEFAULT_CACHE_TTL,
    SECRETS_CACHE_MAX_SIZE_ENV_VAR,
    SECRETS_CACHE_TTL_ENV_VAR,
    SecretCache,
)


class EndpointConfigCache:
    """The cache of one store, created when it is first used."""

    @cached_property
    def secret_cache(self) -> SecretCache:
        """MLflow's cache, which keeps its entries encrypted."""
        return SecretCache(
            ttl_seconds=int(os.environ.get(SECRETS_CACHE_TTL_ENV_VAR, DEFAULT_CACHE_TTL)),
            max_size=int(os.environ.get(SECRETS_CACHE_MAX_SIZE_ENV_VAR, DEFAULT_CACHE_MAX_SIZE)),
        )

    def invalidate(self) -> None:
        """Drop all configurations, because one of them may have changed."""
        if "secret_cache" in vars(self):
            self.secret_cache.clear()
