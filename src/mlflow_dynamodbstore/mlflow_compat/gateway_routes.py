"""Letting MLflow's server serve gateway calls from our store.

The server's routes ask whether the store is MLflow's SQL store, and read its tables for the
configuration of an endpoint. There is no other way in. So in a process that has loaded the routes
we replace the functions that ask and read by ones that know our store, too; other stores are
handled as before.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from typing import Any, Protocol

from mlflow.version import VERSION

from mlflow_dynamodbstore.mlflow_compat.names import private_later, unavailable
from mlflow_dynamodbstore.mlflow_compat.post_import import replace

_logger = logging.getLogger(__name__)

ROUTES = "mlflow.server.gateway_api"
RESOLVER = "mlflow.store.tracking.gateway.config_resolver"

# Its module imports ours: MLflow loads our tracking store from there.
get_current_store: Any = private_later(
    "mlflow.tracking._tracking_service.utils",
    "_get_store",
    unavailable("Finding the current tracking store"),
)


class GatewayStore(Protocol):
    """A store that knows how to call the models of its endpoints."""

    def gateway_endpoint_config(self, endpoint_name: str) -> Any:
        """How to call an endpoint."""

    def gateway_resource_configs(self, resource_type: str, resource_id: str) -> Any:
        """How to call the endpoints that a resource uses."""


def serve_gateway_calls(ours: type[GatewayStore]) -> None:
    """Let the server in this process, if there is one, read endpoints from stores of a class."""
    replaced: dict[str, dict[str, Callable[..., Any]]] = {
        RESOLVER: {
            "get_endpoint_config": _endpoint_config,
            "get_resource_endpoint_configs": _resource_configs,
        },
        ROUTES: {"_validate_store": _validate_store, "get_endpoint_config": _endpoint_config},
    }
    missing = [
        f"{module_name}.{name}()"
        for module_name, functions in replaced.items()
        if (module := sys.modules.get(module_name)) is not None
        for name, function in functions.items()
        if not replace(module, name, functools.partial(function, ours))
    ]
    if missing:
        _logger.warning(
            "The gateway routes of MLflow %s will not accept this store: it has no %s.",
            VERSION,
            ", ".join(missing),
        )


def _validate_store(ours: type[GatewayStore], theirs: Callable[..., None], store: object) -> None:
    if not isinstance(store, ours):
        theirs(store)


def _endpoint_config(
    ours: type[GatewayStore],
    theirs: Callable[..., Any],
    endpoint_name: str,
    store: object | None = None,
) -> Any:
    found = get_current_store() if store is None else store
    if isinstance(found, ours):
        return found.gateway_endpoint_config(endpoint_name)
    return theirs(endpoint_name=endpoint_name, store=store)


def _resource_configs(
    ours: type[GatewayStore],
    theirs: Callable[..., Any],
    resource_type: str,
    resource_id: str,
    store: object | None = None,
) -> Any:
    found = get_current_store() if store is None else store
    if isinstance(found, ours):
        return found.gateway_resource_configs(resource_type, resource_id)
    return theirs(resource_type=resource_type, resource_id=resource_id, store=store)
