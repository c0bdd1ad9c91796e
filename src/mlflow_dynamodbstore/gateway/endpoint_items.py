"""The items of endpoints: reading them with what they refer to, and changing them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from mlflow_dynamodbstore.gateway.endpoint_records import (
    ENTITY,
    MAPPINGS,
    EndpointRecord,
    endpoint_references,
)
from mlflow_dynamodbstore.gateway.items import REVISION, USES, GatewayItems, no_such, unchanged
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.table.contract import MAX_TRANSACTION, Patch, Query, TransactWrite
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

MAX_DEFINITIONS = MAX_TRANSACTION - 3
"""A transaction holds the endpoint, two guards of names, and the model definitions."""


class EndpointItems:
    """The items of the endpoints of a workspace."""

    def __init__(self, context: Context, gateway_items: GatewayItems) -> None:
        self.context = context
        self.table = context.table
        self.gateway_items = gateway_items

    # --- reading --------------------------------------------------------------------------------

    def key(self, endpoint_id: str) -> Key:
        return gateway_keys.endpoint_key(endpoint_id, self.context.workspace())

    def get(self, endpoint_id: str) -> Item:
        """An endpoint's own item alone."""
        item = self.table.get(self.key(endpoint_id))
        if item is None:
            raise no_such(ENTITY, endpoint_id=endpoint_id)
        return item

    def get_record(
        self,
        *,
        endpoint_id: str | None = None,
        name: str | None = None,
        with_secrets: bool = False,
    ) -> EndpointRecord:
        """An endpoint with all that it refers to, by its id or its name."""
        workspace = self.context.workspace()
        if endpoint_id:
            start, named = self.key(endpoint_id), {"endpoint_id": endpoint_id}
        else:
            start = gateway_keys.endpoint_name_guard(name or "", workspace)
            named = {"name": str(name)}
        references = endpoint_references(workspace, with_secrets=with_secrets)
        found = self.gateway_items.follow(start, references)
        item = next((item for item in found.values() if MAPPINGS in item), None)
        if item is None:
            raise no_such(ENTITY, **named)
        return EndpointRecord(item, found)

    def list_records(self) -> list[EndpointRecord]:
        """All endpoints with what they refer to, the oldest first."""
        workspace = self.context.workspace()
        query = Query(access_keys.workspace_pk(workspace), where=gateway_keys.ENDPOINTS.on())
        items = list(self.table.items(query))
        references = endpoint_references(workspace)
        found = self.table.get_many(key for item in items for key in references(item))
        return [EndpointRecord(item, found) for item in items]

    # --- changing -------------------------------------------------------------------------------

    def change(self, before: Item, changes: Item, together: Sequence[TransactWrite] = ()) -> Item:
        """Change an endpoint if it is as it was read, and other items in the same transaction."""
        update = Update(set={**changes, REVISION: before[REVISION] + 1})
        key = self.table.schema.key_of(before)
        if together:
            self.table.transact([Patch(key, update, unchanged(before)), *together])
        else:
            self.table.update(key, update, condition=unchanged(before))
        return update.apply(before)

    def count_uses(self, before: Counter[str], after: Counter[str]) -> list[TransactWrite]:
        """The writes that count the uses of model definitions; a used one cannot be deleted."""
        changed = {n: after[n] - before[n] for n in {*before, *after} if after[n] != before[n]}
        check_room_for_definitions(changed)
        workspace = self.context.workspace()
        return [
            Patch(
                gateway_keys.model_definition_key(n, workspace),
                Update(add={USES: by}),
                condition=PRESENT,
            )
            for n, by in sorted(changed.items())
        ]


def check_room_for_definitions(definitions: Iterable[str]) -> None:
    """Refuse more model definitions than a transaction can change."""
    if len(list(definitions)) > MAX_DEFINITIONS:
        raise invalid(
            f"An endpoint can have at most {MAX_DEFINITIONS} different model definitions, and one "
            "update can change at most as many."
        )
