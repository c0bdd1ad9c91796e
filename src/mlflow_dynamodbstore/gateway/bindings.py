"""Bindings: which resources, such as scorers, use which endpoints."""

from __future__ import annotations

from boto3.dynamodb.conditions import Attr, ConditionBase
from mlflow.entities import GatewayEndpointBinding
from mlflow.entities.gateway_endpoint import GatewayResourceType

from mlflow_dynamodbstore.gateway.config_cache import EndpointConfigCache
from mlflow_dynamodbstore.gateway.endpoint_records import ENTITY
from mlflow_dynamodbstore.gateway.items import REVISION, check_given, new_item, no_such
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.shared.conditions import ABSENT, PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.refusals import already_exists, invalid
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, Query
from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.table import Table
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
        check_given(endpoint_id=endpoint_id, resource_id=resource_id)
        item = self._new_item(endpoint_id, resource_type, resource_id, created_by)
        try:
            self._write(item, condition=ABSENT)
        except TransactionCancelled as cancelled:
            if cancelled.refused(0):
                raise no_such(ENTITY, endpoint_id=endpoint_id) from cancelled
            if not cancelled.any_refused:
                raise
            raise already_exists(
                f"Endpoint '{endpoint_id}' is already bound to {resource_type} '{resource_id}'"
            ) from cancelled
        return _to_binding(item)

    def delete_endpoint_binding(
        self, endpoint_id: str, resource_type: str, resource_id: str
    ) -> None:
        workspace = self.context.workspace()
        key = gateway_keys.binding_key(resource_type, resource_id, endpoint_id, workspace)
        try:
            self.table.delete(key, condition=PRESENT)
        except ConditionFailed as refused:
            raise no_such(
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
            _to_binding(item)
            for item in self._read(resource_type, resource_id)
            if endpoint_id in (None, item["endpoint_id"])
            and resource_id in (None, item["resource_id"])
        ]

    # --- of a resource --------------------------------------------------------------------------

    def rebind_resource(
        self, endpoint_id: str, resource_type: str, resource_id: str, display_name: str
    ) -> bool:
        """Bind a resource to this endpoint only; False when the endpoint does not exist."""
        old = self._read(resource_type, resource_id)
        item = self._new_item(endpoint_id, resource_type, resource_id, None)
        try:
            self._write({**item, "display_name": display_name})
        except TransactionCancelled as cancelled:
            if not cancelled.refused(0):
                raise
            return False
        others = [other for other in old if other["endpoint_id"] != endpoint_id]
        self.table.write([Delete(self.table.schema.key_of(other)) for other in others])
        return True

    def unbind_resource(self, resource_type: str, resource_id: str) -> None:
        """Delete the bindings of a resource that is deleted."""
        items = self._read(resource_type, resource_id)
        self.table.write([Delete(self.table.schema.key_of(item)) for item in items])

    # --- helpers --------------------------------------------------------------------------------

    def _new_item(
        self, endpoint_id: str, resource_type: str, resource_id: str, by: str | None
    ) -> Item:
        kind = _type_of(resource_type).value
        key = gateway_keys.binding_key(kind, resource_id, endpoint_id, self.context.workspace())
        return {
            **new_item(key, by),
            "endpoint_id": endpoint_id,
            "resource_type": kind,
            "resource_id": resource_id,
        }

    def _write(self, item: Item, condition: ConditionBase | None = None) -> None:
        """Write a binding, and raise its endpoint's revision: a deletion then finds the binding."""
        endpoint = gateway_keys.endpoint_key(item["endpoint_id"], self.context.workspace())
        self.table.transact(
            [
                Patch(endpoint, Update(add={REVISION: 1}), condition=PRESENT),
                Put(item, condition=condition),
            ]
        )
        self.endpoint_config_cache.invalidate()

    def _read(self, resource_type: str | None, resource_id: str | None) -> list[Item]:
        partition = access_keys.workspace_pk(self.context.workspace())
        where = gateway_keys.bindings(resource_type, resource_id).on()
        return list(self.table.items(Query(partition, where=where)))


def bindings_of_endpoint(table: Table, endpoint: Item) -> list[Item]:
    """The bindings of an endpoint, in its workspace."""
    query = Query(
        str(endpoint["PK"]),
        where=gateway_keys.bindings().on(),
        filter=Attr("endpoint_id").eq(endpoint["endpoint_id"]),
    )
    return list(table.items(query))


def _to_binding(item: Item) -> GatewayEndpointBinding:
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
        raise invalid(f"Invalid resource type '{resource_type}'. Valid types: {known}.") from error
