"""Model definitions: a provider's model with the secret for it, shared by endpoints."""

from __future__ import annotations

from boto3.dynamodb.conditions import Attr, ConditionBase
from mlflow.entities import GatewayModelDefinition
from mlflow.exceptions import MlflowException
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.gateway import secrets
from mlflow_dynamodbstore.gateway.config_cache import EndpointConfigCache
from mlflow_dynamodbstore.gateway.items import (
    REVISION,
    USES,
    GatewayItems,
    check_given,
    check_one_of,
    new_guard,
    new_item,
    no_such,
    update_existing,
)
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.shared.refusals import already_exists, invalid_state
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, Query, TransactWrite
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

ENTITY = "GatewayModelDefinition"


class ModelDefinitions:
    """The model definitions of a workspace."""

    def __init__(
        self,
        context: Context,
        gateway_items: GatewayItems,
        endpoint_config_cache: EndpointConfigCache,
    ) -> None:
        self.context = context
        self.table = context.table
        self.gateway_items = gateway_items
        self.endpoint_config_cache = endpoint_config_cache

    def create_gateway_model_definition(
        self,
        name: str,
        secret_id: str,
        provider: str,
        model_name: str,
        created_by: str | None = None,
    ) -> GatewayModelDefinition:
        check_given(name=name, provider=provider, model_name=model_name)
        workspace = self.context.workspace()
        definition_id = f"d-{ids.new_id()}"
        key = gateway_keys.model_definition_key(definition_id, workspace)
        secret_key = gateway_keys.secret_key(secret_id, workspace)
        guard = gateway_keys.model_definition_name_guard(name, workspace)

        def attempt() -> GatewayModelDefinition:
            seen = self.table.get_many([secret_key, guard])
            item: Item = {
                **new_item(key, created_by),
                "definition_id": definition_id,
                "name": name,
                **_reference(secret_id, seen.get(secret_key)),
                "provider": provider,
                "model_name": model_name,
                USES: 0,
            }
            if guard in seen:
                raise _name_taken(name)
            name_guard = new_guard(guard, definition_id=definition_id)
            self.table.transact([Put(item), name_guard, _counting_reference(secret_key)])
            return to_definition(item)

        return optimistically(f"Model definition '{name}'", attempt)

    def get_gateway_model_definition(
        self, model_definition_id: str | None = None, name: str | None = None
    ) -> GatewayModelDefinition:
        check_one_of(model_definition_id=model_definition_id, name=name)
        if model_definition_id:
            return to_definition(self._get_item(model_definition_id))
        workspace = self.context.workspace()
        item = self.gateway_items.find_by_guard(
            gateway_keys.model_definition_name_guard(name or "", workspace),
            lambda guard: gateway_keys.model_definition_key(guard["definition_id"], workspace),
        )
        if item is None:
            raise no_such(ENTITY, name=name)
        return to_definition(item)

    def list_gateway_model_definitions(
        self, provider: str | None = None, secret_id: str | None = None
    ) -> list[GatewayModelDefinition]:
        partition = access_keys.workspace_pk(self.context.workspace())
        items = self.table.items(Query(partition, where=gateway_keys.MODEL_DEFINITIONS.on()))
        return [
            to_definition(item)
            for item in items
            if provider in (None, item["provider"]) and secret_id in (None, item.get("secret_id"))
        ]

    def update_gateway_model_definition(
        self,
        model_definition_id: str,
        name: str | None = None,
        secret_id: str | None = None,
        model_name: str | None = None,
        updated_by: str | None = None,
        provider: str | None = None,
    ) -> GatewayModelDefinition:
        given = {"model_name": model_name, "provider": provider, "updated_by": updated_by or None}
        changes: Item = {key: value for key, value in given.items() if value is not None}
        item = optimistically(
            f"Model definition '{model_definition_id}'",
            lambda: self._update(model_definition_id, changes, name, secret_id),
        )
        self.endpoint_config_cache.invalidate()
        return to_definition(item)

    def delete_gateway_model_definition(self, model_definition_id: str) -> None:
        """Delete a model definition that no endpoint uses."""
        optimistically(
            f"Model definition '{model_definition_id}'",
            lambda: self._delete(model_definition_id),
        )
        self.endpoint_config_cache.invalidate()

    # --- helpers --------------------------------------------------------------------------------

    def _key(self, definition_id: str) -> Key:
        return gateway_keys.model_definition_key(definition_id, self.context.workspace())

    def _get_item(self, definition_id: str) -> Item:
        item = self.table.get(self._key(definition_id))
        if item is None:
            raise no_such(ENTITY, model_definition_id=definition_id)
        return item

    def _update(
        self, definition_id: str, given: Item, name: str | None, secret_id: str | None
    ) -> Item:
        workspace = self.context.workspace()
        key = self._key(definition_id)
        missing = no_such(ENTITY, model_definition_id=definition_id)
        changes: Item = {**given, "updated_at": get_current_time_millis()}
        if name is None and secret_id is None:
            return update_existing(self.table, key, Update(set=changes), missing)
        guard = gateway_keys.model_definition_name_guard(name or "", workspace)
        secret_key = gateway_keys.secret_key(secret_id or "", workspace)
        seen = self.table.get_many([key, guard, secret_key])
        before = seen.get(key)
        if before is None:
            raise missing
        together: list[TransactWrite] = []
        if secret_id is not None:
            changes |= _reference(secret_id, seen.get(secret_key))
            together.append(_counting_reference(secret_key))
        if name is not None and name != before["name"]:
            if guard in seen:
                raise _name_taken(name)
            changes["name"] = name
            old = gateway_keys.model_definition_name_guard(before["name"], workspace)
            together += [new_guard(guard, definition_id=definition_id), Delete(old)]
        update = Update(set=changes)
        self.table.transact([Patch(key, update, _still_named(before)), *together])
        return update.apply(before)

    def _delete(self, definition_id: str) -> None:
        item = self._get_item(definition_id)
        if item[USES]:
            raise invalid_state(
                "Cannot delete model definition that is currently in use by endpoints. "
                "Detach it from all endpoints first."
            )
        guard = gateway_keys.model_definition_name_guard(item["name"], self.context.workspace())
        unused = Attr(USES).eq(0) & _still_named(item)
        self.table.transact(
            [Delete(self.table.schema.key_of(item), condition=unused), Delete(guard)]
        )


def to_definition(item: Item) -> GatewayModelDefinition:
    """A model definition as MLflow shows it."""
    return GatewayModelDefinition(
        model_definition_id=item["definition_id"],
        name=item["name"],
        secret_id=item.get("secret_id"),
        secret_name=item.get("secret_name"),
        provider=item["provider"],
        model_name=item["model_name"],
        created_at=item["created_at"],
        last_updated_at=item["updated_at"],
        created_by=item["created_by"],
        last_updated_by=item["updated_by"],
        workspace=access_keys.workspace_of(item["PK"]),
    )


def _reference(secret_id: str, secret: Item | None) -> Item:
    """The attributes of a definition that refer to its secret, whose name never changes."""
    if secret is None:
        raise no_such(secrets.ENTITY, secret_id=secret_id)
    return {"secret_id": secret_id, "secret_name": secret["name"]}


def _counting_reference(secret_key: Key) -> Patch:
    """The write that counts a new reference to a secret."""
    return Patch(secret_key, Update(add={REVISION: 1}), condition=PRESENT)


def _still_named(item: Item) -> ConditionBase:
    return Attr("name").eq(item["name"])


def _name_taken(name: str) -> MlflowException:
    return already_exists(f"Model definition with name '{name}' already exists")
