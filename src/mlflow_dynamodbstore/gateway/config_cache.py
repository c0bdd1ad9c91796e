"""MLflow's own cache of decrypted endpoint configurations, which its server reads."""

from __future__ import annotations

import os
from functools import cached_property

from mlflow.store.tracking._secret_cache import (
    _DEFAULT_CACHE_MAX_SIZE,
    _DEFAULT_CACHE_TTL,
    SECRETS_CACHE_MAX_SIZE_ENV_VAR,
    SECRETS_CACHE_TTL_ENV_VAR,
    SecretCache,
)


class EndpointConfigCache:
    """The cache of one store, made when it is first asked for."""

    @cached_property
    def secret_cache(self) -> SecretCache:
        """MLflow's encrypted cache."""
        return SecretCache(
            ttl_seconds=int(os.environ.get(SECRETS_CACHE_TTL_ENV_VAR, _DEFAULT_CACHE_TTL)),
            max_size=int(os.environ.get(SECRETS_CACHE_MAX_SIZE_ENV_VAR, _DEFAULT_CACHE_MAX_SIZE)),
        )

    def invalidate(self) -> None:
        """Forget all configurations, because one of them may have changed."""
        if "secret_cache" in vars(self):
            self.secret_cache.clear()
