"""Secrets: encrypted credentials for model providers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from boto3.dynamodb.conditions import Attr
from mlflow.entities import GatewaySecretInfo

from mlflow_dynamodbstore.gateway.config_cache import EndpointConfigCache
from mlflow_dynamodbstore.gateway.encryption import GATEWAY, decrypted_value, encrypted_attributes
from mlflow_dynamodbstore.gateway.items import (
    REVISION,
    GatewayItems,
    check_given,
    check_one_of,
    new_guard,
    new_item,
    no_such,
    unchanged,
    update_existing,
    update_time,
)
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.encryption_keys import remember_key
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.shared.refusals import already_exists
from mlflow_dynamodbstore.shared.workspaces import WorkspacesInUse
from mlflow_dynamodbstore.table.contract import MAX_TRANSACTION, Delete, Patch, Put, Query, Write
from mlflow_dynamodbstore.table.errors import TransactionCancelled
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item

ENTITY = "GatewaySecret"


class Secrets:
    """The secrets of a workspace."""

    def __init__(
        self,
        context: Context,
        workspaces_in_use: WorkspacesInUse,
        gateway_items: GatewayItems,
        endpoint_config_cache: EndpointConfigCache,
    ) -> None:
        self.context = context
        self.table = context.table
        self.workspaces_in_use = workspaces_in_use
        self.gateway_items = gateway_items
        self.endpoint_config_cache = endpoint_config_cache

    def create_gateway_secret(
        self,
        secret_name: str,
        secret_value: dict[str, str],
        provider: str | None = None,
        auth_config: dict[str, Any] | None = None,
        created_by: str | None = None,
    ) -> GatewaySecretInfo:
        check_given(secret_name=secret_name)
        remember_key(self.table, GATEWAY)
        workspace = self.context.workspace()
        self.workspaces_in_use.note(workspace)
        secret_id = f"s-{ids.new_id()}"
        key = gateway_keys.secret_key(secret_id, workspace)
        guard = gateway_keys.secret_name_guard(secret_name, workspace)
        item: Item = {
            **new_item(key, created_by),
            "secret_id": secret_id,
            "name": secret_name,
            "provider": provider,
            "auth_config": json.dumps(auth_config) if auth_config else None,
            REVISION: 0,
            **encrypted_attributes(secret_id, secret_name, secret_value),
        }
        try:
            self.table.transact([new_guard(guard, secret_id=secret_id), Put(item)])
        except TransactionCancelled as cancelled:
            if not cancelled.any_refused:
                raise
            raise already_exists(f"Secret with name '{secret_name}' already exists") from cancelled
        return _to_secret_info(item)

    def get_secret_info(
        self, secret_id: str | None = None, secret_name: str | None = None
    ) -> GatewaySecretInfo:
        check_one_of(secret_id=secret_id, secret_name=secret_name)
        if secret_id:
            return _to_secret_info(self._get_item(secret_id))
        workspace = self.context.workspace()
        guard = gateway_keys.secret_name_guard(secret_name or "", workspace)
        secret = self.gateway_items.find_by_guard(
            guard, lambda item: gateway_keys.secret_key(item["secret_id"], workspace)
        )
        if secret is None:
            raise no_such(ENTITY, secret_name=secret_name)
        return _to_secret_info(secret)

    def update_gateway_secret(
        self,
        secret_id: str,
        secret_value: dict[str, str] | None = None,
        auth_config: dict[str, Any] | None = None,
        updated_by: str | None = None,
    ) -> GatewaySecretInfo:
        before = self._get_item(secret_id)
        changes: Item = {"updated_by": updated_by}
        if secret_value is not None:
            remember_key(self.table, GATEWAY)
            changes |= encrypted_attributes(secret_id, before["name"], secret_value)
        if auth_config is not None:  # an empty one removes it
            changes["auth_config"] = json.dumps(auth_config) if auth_config else None
        item = update_existing(
            self.table,
            self.table.schema.key_of(before),
            Update(set={**changes, "updated_at": update_time(before)}),
            no_such(ENTITY, secret_id=secret_id),
        )
        self.endpoint_config_cache.invalidate()
        return _to_secret_info(item)

    def delete_gateway_secret(self, secret_id: str) -> None:
        """Delete a secret; model definitions that refer to it lose it."""
        optimistically(f"Secret '{secret_id}'", lambda: self._delete(secret_id))
        self.endpoint_config_cache.invalidate()

    def list_secret_infos(self, provider: str | None = None) -> list[GatewaySecretInfo]:
        partition = access_keys.workspace_pk(self.context.workspace())
        items = self.table.items(Query(partition, where=gateway_keys.SECRETS.on()))
        return [_to_secret_info(item) for item in items if provider in (None, item["provider"])]

    def get_decrypted_secret(self, secret_id: str) -> dict[str, Any]:
        """The value of a secret, for the server only, never for its clients."""
        return decrypted_value(self._get_item(secret_id))

    # --- helpers --------------------------------------------------------------------------------

    def _get_item(self, secret_id: str) -> Item:
        key = gateway_keys.secret_key(secret_id, self.context.workspace())
        item = self.table.get(key)
        if item is None:
            raise no_such(ENTITY, secret_id=secret_id)
        return item

    def _delete(self, secret_id: str) -> None:
        # The secret is read first: a reference made after that raises its revision.
        secret = self._get_item(secret_id)
        detached = [self._detach(item) for item in self._definitions_with(secret_id)]
        # The definitions that the transaction has no room for are detached before it, so that the
        # secret still exists if the process stops between the two.
        room = MAX_TRANSACTION - 2
        self.table.write(detached[room:])
        guard = gateway_keys.secret_name_guard(secret["name"], self.context.workspace())
        self.table.transact(
            [
                Delete(self.table.schema.key_of(secret), condition=unchanged(secret)),
                Delete(guard),
                *detached[:room],
            ]
        )

    def _definitions_with(self, secret_id: str) -> Iterator[Item]:
        """The model definitions that refer to a secret."""
        query = Query(
            access_keys.workspace_pk(self.context.workspace()),
            where=gateway_keys.MODEL_DEFINITIONS.on(),
            filter=Attr("secret_id").eq(secret_id),
        )
        return self.table.items(query)

    def _detach(self, definition: Item) -> Write:
        return Patch(
            self.table.schema.key_of(definition),
            Update(remove=("secret_id", "secret_name")),
            condition=Attr("secret_id").eq(definition["secret_id"]),
        )


def _to_secret_info(item: Item) -> GatewaySecretInfo:
    """A secret as MLflow shows it, without its value."""
    return GatewaySecretInfo(
        secret_id=item["secret_id"],
        secret_name=item["name"],
        masked_values=json.loads(item["masked_value"]),
        created_at=item["created_at"],
        last_updated_at=item["updated_at"],
        provider=item["provider"],
        auth_config=auth_config_of(item),
        workspace=access_keys.workspace_of(item["PK"]),
        created_by=item["created_by"],
        last_updated_by=item["updated_by"],
    )


def auth_config_of(secret: Item) -> dict[str, Any] | None:
    """The settings that a provider needs besides the secret."""
    text = secret["auth_config"]
    return json.loads(text) if text else None
