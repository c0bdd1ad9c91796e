"""Bindings: which resources, such as scorers, use which endpoints."""

from __future__ import annotations

from mlflow.entities import GatewayEndpointBinding
from mlflow.entities.gateway_endpoint import GatewayResourceType
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE

from mlflow_dynamodbstore.gateway.base import (
    REVISION,
    exists_already,
    made,
    not_found,
)
from mlflow_dynamodbstore.gateway.config_cache import EndpointConfigCache
from mlflow_dynamodbstore.gateway.endpoint_items import ENTITY
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.shared.conditions import ABSENT, PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, Query
from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item


class Bindings:
    """The bindings of a workspace."""

    def __init__(self, context: Context, endpoint_config_cache: EndpointConfigCache) -> None:
        self.context = context
        self.table = context.table
        self.endpoint_config_cache = endpoint_config_cache

    def create_endpoint_binding(
        self,
        endpoint_id: str,
        resource_type: str,
        resource_id: str,
        created_by: str | None = None,
    ) -> GatewayEndpointBinding:
        item = self._binding_item(endpoint_id, resource_type, resource_id, created_by)
        try:
            self._bind_to_endpoint(item)
        except TransactionCancelled as cancelled:
            if cancelled.refused(0):
                raise not_found(ENTITY, endpoint_id=endpoint_id) from cancelled
            if not cancelled.any_refused:
                raise
            raise exists_already(
                f"Endpoint '{endpoint_id}' is already bound to {resource_type} '{resource_id}'"
            ) from cancelled
        return to_binding(item)

    def delete_endpoint_binding(
        self, endpoint_id: str, resource_type: str, resource_id: str
    ) -> None:
        workspace = self.context.workspace()
        key = gateway_keys.binding_key(resource_type, resource_id, endpoint_id, workspace)
        try:
            self.table.delete(key, condition=PRESENT)
        except ConditionFailed as refused:
            raise not_found(
                "GatewayEndpointBinding",
                endpoint_id=endpoint_id,
                resource_type=resource_type,
                resource_id=resource_id,
            ) from refused
        self.endpoint_config_cache.invalidate()

    def list_endpoint_bindings(
        self,
        endpoint_id: str | None = None,
        resource_type: str | None = None,
        resource_id: str | None = None,
    ) -> list[GatewayEndpointBinding]:
        return [
            to_binding(item)
            for item in self._binding_items(resource_type, resource_id)
            if endpoint_id in (None, item["endpoint_id"])
            and resource_id in (None, item["resource_id"])
        ]

    # --- for resources --------------------------------------------------------------------------

    def rebind_resource(
        self, endpoint_id: str, resource_type: str, resource_id: str, display_name: str
    ) -> bool:
        """Let a resource use this endpoint and no other; False when there is no such endpoint."""
        old = self._binding_items(resource_type, resource_id)
        item = self._binding_item(endpoint_id, resource_type, resource_id, None)
        try:
            self._bind_to_endpoint({**item, "display_name": display_name}, anew=True)
        except TransactionCancelled as cancelled:
            if not cancelled.refused(0):
                raise
            return False
        others = [other for other in old if other["endpoint_id"] != endpoint_id]
        self.table.write([Delete(self.table.schema.key_of(other)) for other in others])
        return True

    def unbind_resource(self, resource_type: str, resource_id: str) -> None:
        """Forget which endpoints a resource used; for a resource that is deleted."""
        items = self._binding_items(resource_type, resource_id)
        self.table.write([Delete(self.table.schema.key_of(item)) for item in items])

    # --- helpers --------------------------------------------------------------------------------

    def _binding_item(
        self, endpoint_id: str, resource_type: str, resource_id: str, by: str | None
    ) -> Item:
        kind = _type_of(resource_type).value
        key = gateway_keys.binding_key(kind, resource_id, endpoint_id, self.context.workspace())
        return {
            "PK": key.pk,
            "SK": key.sk,
            "endpoint_id": endpoint_id,
            "resource_type": kind,
            "resource_id": resource_id,
            **made(by),
        }

    def _bind_to_endpoint(self, item: Item, *, anew: bool = False) -> None:
        """Write a binding, and let its endpoint know, so that it is not deleted without it."""
        endpoint = gateway_keys.endpoint_key(item["endpoint_id"], self.context.workspace())
        self.table.transact(
            [
                Patch(endpoint, Update(add={REVISION: 1}), condition=PRESENT),
                Put(item, condition=None if anew else ABSENT),
            ]
        )
        self.endpoint_config_cache.invalidate()

    def _binding_items(
        self, resource_type: str | None = None, resource_id: str | None = None
    ) -> list[Item]:
        partition = access_keys.workspace_pk(self.context.workspace())
        where = gateway_keys.bindings(resource_type, resource_id).on()
        return list(self.table.items(Query(partition, where=where)))


def to_binding(item: Item) -> GatewayEndpointBinding:
    """A binding as MLflow shows it."""
    return GatewayEndpointBinding(
        endpoint_id=item["endpoint_id"],
        resource_type=GatewayResourceType(item["resource_type"]),
        resource_id=item["resource_id"],
        created_at=item["created_at"],
        last_updated_at=item["updated_at"],
        created_by=item["created_by"],
        last_updated_by=item["updated_by"],
        display_name=item.get("display_name"),
    )


def _type_of(resource_type: str) -> GatewayResourceType:
    try:
        return GatewayResourceType(resource_type)
    except ValueError as error:
        known = ", ".join(f"'{one.value}'" for one in GatewayResourceType)
        raise MlflowException(
            f"Invalid resource type '{resource_type}'. Valid types: {known}.",
            INVALID_PARAMETER_VALUE,
        ) from error
