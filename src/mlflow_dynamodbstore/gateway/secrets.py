"""Secrets: credentials for model providers, encrypted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from boto3.dynamodb.conditions import Attr
from mlflow.entities import GatewaySecretInfo

from mlflow_dynamodbstore.gateway.base import (
    REVISION,
    GatewayItems,
    check_one_of,
    exists_already,
    later,
    made,
    not_found,
)
from mlflow_dynamodbstore.gateway.config_cache import EndpointConfigCache
from mlflow_dynamodbstore.gateway.encryption import decrypted, encrypted
from mlflow_dynamodbstore.gateway.secret_key import GATEWAY
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.encryption_keys import remember_key
from mlflow_dynamodbstore.shared.optimistic import optimistically
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
        remember_key(self.table, GATEWAY)
        workspace = self.context.workspace()
        self.workspaces_in_use.note(workspace)
        secret_id = f"s-{ids.new_id()}"
        key = gateway_keys.secret_key(secret_id, workspace)
        guard = gateway_keys.secret_name_guard(secret_name, workspace)
        item: Item = {
            "PK": key.pk,
            "SK": key.sk,
            "secret_id": secret_id,
            "name": secret_name,
            "provider": provider,
            "auth_config": json.dumps(auth_config) if auth_config else None,
            REVISION: 0,
            **encrypted(secret_id, secret_name, secret_value),
            **made(created_by),
        }
        taken = Put(
            {"PK": guard.pk, "SK": guard.sk, "secret_id": secret_id},
            condition=ABSENT,
        )
        try:
            self.table.transact([taken, Put(item)])
        except TransactionCancelled as cancelled:
            if not cancelled.any_refused:
                raise
            raise exists_already(f"Secret with name '{secret_name}' already exists") from cancelled
        return to_secret_info(item)

    def get_secret_info(
        self, secret_id: str | None = None, secret_name: str | None = None
    ) -> GatewaySecretInfo:
        check_one_of(secret_id=secret_id, secret_name=secret_name)
        if secret_id:
            return to_secret_info(self._secret_item(secret_id))
        workspace = self.context.workspace()
        guard = gateway_keys.secret_name_guard(secret_name or "", workspace)
        secret = self.gateway_items.named_by(
            guard, lambda item: gateway_keys.secret_key(item["secret_id"], workspace)
        )
        if secret is None:
            raise not_found(ENTITY, secret_name=secret_name)
        return to_secret_info(secret)

    def update_gateway_secret(
        self,
        secret_id: str,
        secret_value: dict[str, str] | None = None,
        auth_config: dict[str, Any] | None = None,
        updated_by: str | None = None,
    ) -> GatewaySecretInfo:
        before = self._secret_item(secret_id)
        changes: Item = {"updated_by": updated_by}
        if secret_value is not None:
            remember_key(self.table, GATEWAY)
            changes |= encrypted(secret_id, before["name"], secret_value)
        if auth_config is not None:  # an empty one clears it
            changes["auth_config"] = json.dumps(auth_config) if auth_config else None
        item = self.gateway_items.update_found(
            self.table.schema.key_of(before),
            Update(set={**changes, "updated_at": later(before)}),
            not_found(ENTITY, secret_id=secret_id),
        )
        self.endpoint_config_cache.invalidate()
        return to_secret_info(item)

    def delete_gateway_secret(self, secret_id: str) -> None:
        """Delete a secret; model definitions that refer to it lose it."""
        optimistically(f"Secret '{secret_id}'", lambda: self._delete_secret(secret_id))
        self.endpoint_config_cache.invalidate()

    def list_secret_infos(self, provider: str | None = None) -> list[GatewaySecretInfo]:
        partition = access_keys.workspace_pk(self.context.workspace())
        items = self.table.items(Query(partition, where=gateway_keys.SECRETS.on()))
        return [to_secret_info(item) for item in items if provider in (None, item["provider"])]

    def get_decrypted_secret(self, secret_id: str) -> dict[str, Any]:
        """The value of a secret: for the server itself, never for its clients."""
        return decrypted(self._secret_item(secret_id))

    # --- helpers --------------------------------------------------------------------------------

    def _secret_item(self, secret_id: str) -> Item:
        key = gateway_keys.secret_key(secret_id, self.context.workspace())
        item = self.table.get(key)
        if item is None:
            raise not_found(ENTITY, secret_id=secret_id)
        return item

    def _delete_secret(self, secret_id: str) -> None:
        # The secret is read first: whoever refers to it after that raises its revision.
        secret = self._secret_item(secret_id)
        losing = [self._without_secret(item) for item in self._definitions_with(secret_id)]
        # What a transaction cannot hold goes before. Should we stop then, the secret is there.
        room = MAX_TRANSACTION - 2
        self.table.write(losing[room:])
        guard = gateway_keys.secret_name_guard(secret["name"], self.context.workspace())
        unchanged = Attr(REVISION).eq(secret[REVISION])
        self.table.transact(
            [
                Delete(self.table.schema.key_of(secret), condition=unchanged),
                Delete(guard),
                *losing[:room],
            ]
        )

    def _definitions_with(self, secret_id: str) -> Iterator[Item]:
        """The model definitions that refer to a secret."""
        return self.table.items(
            Query(
                access_keys.workspace_pk(self.context.workspace()),
                where=gateway_keys.MODEL_DEFINITIONS.on(),
                filter=Attr("secret_id").eq(secret_id),
            )
        )

    def _without_secret(self, definition: Item) -> Write:
        return Patch(
            self.table.schema.key_of(definition),
            Update(remove=("secret_id", "secret_name")),
            condition=Attr("secret_id").eq(definition["secret_id"]),
        )


def to_secret_info(item: Item) -> GatewaySecretInfo:
    """What may be shown of a secret."""
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
    """What a provider needs beside the secret itself."""
    text = secret["auth_config"]
    return json.loads(text) if text else None
