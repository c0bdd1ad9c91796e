"""Attaching model definitions to endpoints, and detaching them."""

from __future__ import annotations

from mlflow.entities import GatewayEndpointModelConfig, GatewayEndpointModelMapping
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.gateway import model_definitions
from mlflow_dynamodbstore.gateway.config_cache import EndpointConfigCache
from mlflow_dynamodbstore.gateway.endpoint_items import EndpointItems, check_room_for_definitions
from mlflow_dynamodbstore.gateway.endpoint_records import (
    ENTITY,
    MAPPINGS,
    EndpointRecord,
    new_mappings,
    uses_of,
)
from mlflow_dynamodbstore.gateway.items import no_such
from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.shared.refusals import not_found
from mlflow_dynamodbstore.table.values import Item


class ModelMappings:
    """The mappings of endpoints to model definitions."""

    def __init__(
        self,
        context: Context,
        endpoint_items: EndpointItems,
        endpoint_config_cache: EndpointConfigCache,
    ) -> None:
        self.context = context
        self.table = context.table
        self.endpoint_items = endpoint_items
        self.endpoint_config_cache = endpoint_config_cache

    def attach_model_to_endpoint(
        self,
        endpoint_id: str,
        model_config: GatewayEndpointModelConfig,
        created_by: str | None = None,
    ) -> GatewayEndpointModelMapping:
        mapping = optimistically(
            f"Endpoint '{endpoint_id}'",
            lambda: self._attach(endpoint_id, model_config, created_by),
        )
        self.endpoint_config_cache.invalidate()
        return mapping

    def detach_model_from_endpoint(
        self, endpoint_id: str, model_definition_id: str, linkage_type: str | None = None
    ) -> None:
        """Remove the first mapping to a model definition, or the first of a linkage type."""
        optimistically(
            f"Endpoint '{endpoint_id}'",
            lambda: self._detach(endpoint_id, model_definition_id, linkage_type),
        )
        self.endpoint_config_cache.invalidate()

    def _attach(
        self, endpoint_id: str, config: GatewayEndpointModelConfig, by: str | None
    ) -> GatewayEndpointModelMapping:
        key, definition_id = self.endpoint_items.key(endpoint_id), config.model_definition_id
        definition = gateway_keys.model_definition_key(definition_id, self.context.workspace())
        seen = self.table.get_many([key, definition])
        if key not in seen:
            raise no_such(ENTITY, endpoint_id=endpoint_id)
        if definition not in seen:
            raise no_such(model_definitions.ENTITY, model_definition_id=definition_id)
        before, now = seen[key], get_current_time_millis()
        mappings = new_mappings(endpoint_id, [config], by, now, existing=before[MAPPINGS])
        check_room_for_definitions(uses_of(mappings))
        changes: Item = {MAPPINGS: mappings, "updated_at": now}
        if by:
            changes["updated_by"] = by
        after = self._change_mappings(before, changes)
        return EndpointRecord(after, seen).to_mapping(mappings[-1])

    def _detach(self, endpoint_id: str, definition_id: str, linkage_type: str | None) -> None:
        before = self.endpoint_items.get(endpoint_id)
        matching = [
            mapping
            for mapping in before[MAPPINGS]
            if mapping["definition_id"] == definition_id
            and (not linkage_type or mapping["linkage"] == linkage_type)
        ]
        if not matching:
            of_type = f" with linkage type '{linkage_type}'" if linkage_type else ""
            raise not_found(
                f"Model definition '{definition_id}' is not attached to endpoint "
                f"'{endpoint_id}'{of_type}"
            )
        kept = [mapping for mapping in before[MAPPINGS] if mapping is not matching[0]]
        self._change_mappings(before, {MAPPINGS: kept})

    def _change_mappings(self, before: Item, changes: Item) -> Item:
        uses = uses_of(before[MAPPINGS]), uses_of(changes[MAPPINGS])
        return self.endpoint_items.change(before, changes, self.endpoint_items.count_uses(*uses))
