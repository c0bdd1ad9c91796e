"""Webhooks, in a database and in a table. Their secrets stay encrypted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.shared.workspaces import all_workspaces
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.transfer.sql.entities import Entity, EntitySource
from mlflow_dynamodbstore.transfer.sql.items import ListedItemStore
from mlflow_dynamodbstore.transfer.sql.rows import ChildTable, RowStore

_FIELDS = {
    "name": "name",
    "url": "url",
    "description": "description",
    "status": "status",
    "secret": "secret",
    "created": "creation_timestamp",
    "updated": "last_updated_timestamp",
}


class WebhookRows(RowStore):
    """Webhooks in a database, which keeps deleted ones; those are skipped."""

    table = "webhooks"
    key = ("webhook_id",)
    columns = ("workspace", *_FIELDS.values(), "deleted_timestamp")
    children: ClassVar = {
        "events": ChildTable("webhook_events", ("webhook_id",), ("entity", "action"), ())
    }

    def count(self) -> int:
        return self.database.count(self.table, {"deleted_timestamp": None})

    def pages(self) -> Iterator[list[Entity]]:
        for page in super().pages():
            yield [e for e in page if e.values["deleted_timestamp"] is None]


class WebhookItems(ListedItemStore):
    """Webhooks in a table."""

    def _keys(self, entities: Sequence[Entity]) -> Iterable[Key]:
        return (access_keys.webhook_key(e.key[0], e.values["workspace"]) for e in entities)

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        del source
        for workspace in sorted({e.values["workspace"] for e in entities}):
            self.transfer_table.workspaces.note(workspace)
        self.transfer_table.put(_item(entity) for entity in entities)

    def _own_items(self) -> Iterator[Item]:
        for workspace in all_workspaces(self.table):
            query = Query(access_keys.workspace_pk(workspace), where=access_keys.WEBHOOKS.on())
            yield from self.table.items(query)

    def _entities(self, items: Sequence[Item]) -> list[Entity]:
        return [_entity(item) for item in items]


def _item(entity: Entity) -> Item:
    (webhook_id,), values = entity.key, entity.values
    key = access_keys.webhook_key(webhook_id, values["workspace"])
    fields = {ours: values[theirs] for ours, theirs in _FIELDS.items()}
    return {
        "PK": key.pk,
        "SK": key.sk,
        "webhook_id": webhook_id,
        "events": [".".join(event) for event in sorted(values["events"])],
        **{name: value for name, value in fields.items() if value is not None},
    }


def _entity(item: Item) -> Entity:
    values: dict[str, Any] = {
        "workspace": access_keys.workspace_of(str(item["PK"])),
        "deleted_timestamp": None,
        **{theirs: item.get(ours) for ours, theirs in _FIELDS.items()},
        "events": {tuple(event.split(".")): {} for event in item["events"]},
    }
    return Entity((item["webhook_id"],), values)
