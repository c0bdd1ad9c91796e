"""Letting MLflow's server serve gateway calls from our store.

The server's routes ask whether the store is MLflow's SQL store, and read its tables for the
configuration of an endpoint. There is no hook for other stores, so a process that has loaded the
routes replaces these functions by ones that also know our store. Any other store works as before.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore

_logger = logging.getLogger(__name__)

ROUTES = "mlflow.server.gateway_api"
RESOLVER = "mlflow.store.tracking.gateway.config_resolver"
_OURS = "_knows_dynamodb_store"


def serve_gateway_calls() -> None:
    """Let the server in this process, if there is one, read endpoints from our store."""
    for module_name, replacements in _REPLACED.items():
        module = sys.modules.get(module_name)
        if module is not None:
            for name, replacement in replacements.items():
                _replace(module, name, replacement)


def _replace(module: ModuleType, name: str, replacement: Callable[..., Any]) -> None:
    theirs = vars(module).get(name)
    if hasattr(theirs, _OURS):
        return
    if not inspect.isfunction(theirs):
        _logger.warning(
            "This version of MLflow has no %s.%s(): its gateway routes will not accept this store.",
            module.__name__,
            name,
        )
    else:
        ours = functools.wraps(theirs)(functools.partial(replacement, theirs))
        setattr(ours, _OURS, True)
        setattr(module, name, ours)


def _validate_store(theirs: Callable[..., None], store: object) -> None:
    if not isinstance(store, DynamoDBTrackingStore):
        theirs(store)


def _endpoint_config(
    theirs: Callable[..., Any], endpoint_name: str, store: object | None = None
) -> Any:
    found = _current(store)
    if isinstance(found, DynamoDBTrackingStore):
        return found.gateway_endpoint_config(endpoint_name)
    return theirs(endpoint_name=endpoint_name, store=store)


def _resource_configs(
    theirs: Callable[..., Any],
    resource_type: str,
    resource_id: str,
    store: object | None = None,
) -> Any:
    found = _current(store)
    if isinstance(found, DynamoDBTrackingStore):
        return found.gateway_resource_configs(resource_type, resource_id)
    return theirs(resource_type=resource_type, resource_id=resource_id, store=store)


def _current(store: object | None) -> object:
    from mlflow.tracking._tracking_service.utils import _get_store  # noqa: PLC0415 - circular

    return _get_store() if store is None else store


_REPLACED: dict[str, dict[str, Callable[..., Any]]] = {
    RESOLVER: {
        "get_endpoint_config": _endpoint_config,
        "get_resource_endpoint_configs": _resource_configs,
    },
    ROUTES: {"_validate_store": _validate_store, "get_endpoint_config": _endpoint_config},
}
