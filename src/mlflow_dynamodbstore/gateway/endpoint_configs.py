"""Endpoint configurations: endpoints with their models and decrypted secrets.

Only the server may read them, never its clients. MLflow's own resolver reads SQL tables;
:mod:`mlflow_dynamodbstore.mlflow_compat.gateway_routes` lets the server ask this store instead.
"""

from __future__ import annotations

from mlflow.entities.gateway_endpoint import GatewayModelLinkageType
from mlflow.store.tracking.gateway.entities import GatewayEndpointConfig, GatewayModelConfig

from mlflow_dynamodbstore.gateway import secrets
from mlflow_dynamodbstore.gateway.bindings import Bindings
from mlflow_dynamodbstore.gateway.config_cache import EndpointConfigCache
from mlflow_dynamodbstore.gateway.encryption import decrypted_value
from mlflow_dynamodbstore.gateway.endpoint_items import EndpointItems
from mlflow_dynamodbstore.gateway.endpoint_records import EndpointRecord, fallback_of, routing_of
from mlflow_dynamodbstore.gateway.items import no_such
from mlflow_dynamodbstore.gateway.secrets import auth_config_of
from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.table.values import Item, Key


class EndpointConfigs:
    """The configurations of endpoints, with their secrets."""

    def __init__(
        self,
        context: Context,
        gateway_bindings: Bindings,
        endpoint_items: EndpointItems,
        endpoint_config_cache: EndpointConfigCache,
    ) -> None:
        self.context = context
        self.table = context.table
        self.gateway_bindings = gateway_bindings
        self.endpoint_items = endpoint_items
        self.endpoint_config_cache = endpoint_config_cache

    def gateway_endpoint_config(self, endpoint_name: str) -> GatewayEndpointConfig:
        """The configuration of an endpoint, from MLflow's cache while it is there."""
        cache_key = f"endpoint_config:{self.context.workspace()}:{endpoint_name}"
        if isinstance(cached := self.endpoint_config_cache.secret_cache.get(cache_key), dict):
            return GatewayEndpointConfig.from_dict(cached)
        record = self.endpoint_items.get_record(name=endpoint_name, with_secrets=True)
        config = _config(record)
        config.experiment_id = record.experiment_id
        config.usage_tracking = record.item["usage_tracking"] and record.experiment_id is not None
        self.endpoint_config_cache.secret_cache.set(cache_key, config.to_dict())
        return config

    def gateway_resource_configs(
        self, resource_type: str, resource_id: str
    ) -> list[GatewayEndpointConfig]:
        """The configurations of all endpoints that a resource is bound to."""
        bound = self.gateway_bindings.list_endpoint_bindings(
            resource_type=resource_type, resource_id=resource_id
        )
        records = self.table.map(
            lambda binding: self.endpoint_items.get_record(
                endpoint_id=binding.endpoint_id, with_secrets=True
            ),
            bound,
        )
        return [_config(record) for record in records]


def _config(record: EndpointRecord) -> GatewayEndpointConfig:
    item = record.item
    return GatewayEndpointConfig(
        endpoint_id=record.endpoint_id,
        endpoint_name=item["name"],
        models=[
            _model(record, mapping, definition)
            for mapping, definition in record.definitions()
            if definition.get("secret_id") is not None
        ],
        routing_strategy=routing_of(item),
        fallback_config=fallback_of(item),
    )


def _model(record: EndpointRecord, mapping: Item, definition: Item) -> GatewayModelConfig:
    secret_id = definition["secret_id"]
    key = Key(definition["PK"], gateway_keys.secret_key(secret_id).sk)
    secret = record.found.get(key)
    if secret is None:
        raise no_such(secrets.ENTITY, secret_id=secret_id)
    return GatewayModelConfig(
        model_definition_id=definition["definition_id"],
        provider=definition["provider"],
        model_name=definition["model_name"],
        secret_value=decrypted_value(secret),
        auth_config=auth_config_of(secret),
        weight=mapping["weight"],
        linkage_type=GatewayModelLinkageType(mapping["linkage"]),
        fallback_order=mapping["order"],
    )
