"""The AI gateway: secrets, model definitions, endpoints, bindings, budgets and guardrails.

Secrets stay encrypted: both stores use MLflow's envelope and the same passphrase.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from mlflow_dynamodbstore.evaluation.attributes import CONTENTS
from mlflow_dynamodbstore.gateway.endpoint_records import GUARDRAILS, MAPPINGS, TAG, tags_of
from mlflow_dynamodbstore.gateway.items import REVISION, USES
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.keys import scorers as scorer_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.keys.experiments import experiment_pk
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.workspaces import all_workspaces
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key, Value
from mlflow_dynamodbstore.transfer.sql.database import Row
from mlflow_dynamodbstore.transfer.sql.entities import (
    NOT_EXPORTABLE,
    Entity,
    EntityKey,
    EntitySource,
)
from mlflow_dynamodbstore.transfer.sql.gateway_kinds import (
    AUTHORS,
    BUDGET,
    ENDPOINT,
    GUARDRAIL,
    MODEL_DEFINITION,
    SECRET,
    GatewayKind,
)
from mlflow_dynamodbstore.transfer.sql.items import AT_ONCE, ItemStore, ListedItemStore
from mlflow_dynamodbstore.transfer.sql.rows import ChildTable, RowStore

COPY_OF_SCORER = "copy of the scorer"
FALLBACK = "FALLBACK"


def _in_workspaces(table: Table, within: Range) -> Iterator[Item]:
    """The items of a range in the partitions of all workspaces."""
    for workspace in all_workspaces(table):
        yield from table.items(Query(access_keys.workspace_pk(workspace), where=within.on()))


class GatewayItems(ListedItemStore):
    """Entities of one kind in the partitions of their workspaces, each with one own item.

    If names are unique in a workspace, each name has a guard.
    """

    kind: ClassVar[GatewayKind]

    def _own_items(self) -> Iterator[Item]:
        return _in_workspaces(self.table, self.kind.within)

    def _keys(self, entities: Sequence[Entity]) -> Iterable[Key]:
        return map(self.key_of, entities)

    def key_of(self, entity: Entity) -> Key:
        """The key of an entity's own item."""
        return self.kind.item_key(entity.key[0], entity.values["workspace"])

    def _entities(self, items: Sequence[Item]) -> list[Entity]:
        return [self.entity(item) for item in items]

    def entity(self, item: Item) -> Entity:
        """The entity that an own item stands for."""
        values = {theirs: item.get(ours) for ours, theirs in self.kind.fields.items()}
        workspace = access_keys.workspace_of(str(item["PK"]))
        return Entity((item[self.kind.id_attribute],), {"workspace": workspace, **values})

    def own_item(self, entity: Entity) -> Item:
        """An entity's own item."""
        key = self.key_of(entity)
        fields = {ours: entity.values.get(theirs) for ours, theirs in self.kind.fields.items()}
        return {"PK": key.pk, "SK": key.sk, self.kind.id_attribute: entity.key[0], **fields}

    def refusals(self, entities: Sequence[Entity]) -> dict[EntityKey, str]:
        guards = self._guards(entities)
        taken = self.table.get_many(guards.values())
        named_twice = {
            key: "another of its workspace has its name"
            for key, guard in guards.items()
            if guard in taken and taken[guard][self.kind.id_attribute] != key[0]
        }
        return {**super().refusals(entities), **named_twice}

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        del source
        # The guards first: an entity that exists is complete.
        self.transfer_table.put(
            {"PK": guard.pk, "SK": guard.sk, self.kind.id_attribute: key[0]}
            for key, guard in self._guards(entities).items()
        )
        for workspace in sorted({str(e.values["workspace"]) for e in entities}):
            self.transfer_table.workspaces.note(workspace)
        self.transfer_table.put(map(self.own_item, entities))

    def _guards(self, entities: Sequence[Entity]) -> dict[EntityKey, Key]:
        """The guards of the names of entities."""
        guard, name = self.kind.guard, self.kind.fields.get("name", "")
        if guard is None:
            return {}
        return {one.key: guard(one.values[name], one.values["workspace"]) for one in entities}


# --- secrets ------------------------------------------------------------------------------------


class SecretRows(RowStore):
    """Secrets in a database."""

    table, key, columns = SECRET.table, SECRET.key, SECRET.columns


class SecretItems(GatewayItems):
    """Secrets in a table."""

    kind = SECRET

    def own_item(self, entity: Entity) -> Item:
        return {**super().own_item(entity), REVISION: 0}


# --- model definitions --------------------------------------------------------------------------


class ModelDefinitionRows(RowStore):
    """Model definitions in a database, with a hint of how often endpoints use them."""

    table, key, columns = MODEL_DEFINITION.table, MODEL_DEFINITION.key, MODEL_DEFINITION.columns

    def _entities(self, rows: Sequence[Row]) -> list[Entity]:
        entities = super()._entities(rows)
        mappings = self.database.rows_with(
            "endpoint_model_mappings", self.key, [entity.key for entity in entities]
        )
        uses = Counter(row["model_definition_id"] for row in mappings)
        for entity in entities:
            entity.hints[USES] = uses[entity.key[0]]
        return entities


class ModelDefinitionItems(GatewayItems):
    """Model definitions in a table."""

    kind = MODEL_DEFINITION

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        secrets = self.table.get_many(
            key for entity in entities if (key := _secret_key(entity)) is not None
        )
        for entity in entities:
            secret = secrets.get(_secret_key(entity) or Key("", ""))
            entity.hints["secret_name"] = None if secret is None else secret["name"]
        super().write(entities, source)

    def own_item(self, entity: Entity) -> Item:
        item = {**super().own_item(entity), USES: entity.hints.get(USES, 0)}
        if entity.hints.get("secret_name") is None:  # a secret that is gone leaves no reference
            del item["secret_id"]
            return item
        return {**item, "secret_name": entity.hints["secret_name"]}


def _secret_key(definition: Entity) -> Key | None:
    secret_id = definition.values["secret_id"]
    if secret_id is None:
        return None
    return gateway_keys.secret_key(secret_id, definition.values["workspace"])


# --- endpoints ----------------------------------------------------------------------------------

_MAPPING = {
    "model_definition_id": "definition_id",
    "weight": "weight",
    "linkage_type": "linkage",
    "fallback_order": "order",
    "created_by": "created_by",
    "created_at": "created_at",
}


class EndpointRows(RowStore):
    """Endpoints in a database, with their models and tags."""

    table, key, columns = ENDPOINT.table, ENDPOINT.key, ENDPOINT.columns
    children: ClassVar = {
        "mappings": ChildTable(
            "endpoint_model_mappings", ("endpoint_id",), ("mapping_id",), tuple(_MAPPING)
        ),
        "tags": ChildTable("endpoint_tags", ("endpoint_id",), ("key",), ("value",)),
    }

    def normalised(self, entity: Entity, row: Row) -> Entity:
        stated = json.loads(row["fallback_config_json"] or "null")
        entity.values["fallback_config_json"] = stated and {
            "strategy": stated.get("strategy"),
            "max_attempts": stated.get("max_attempts"),
        }
        return entity

    def own_row(self, entity: Entity) -> Row:
        row = super().own_row(entity)
        stated = entity.values["fallback_config_json"]
        if stated is not None:
            last = sorted(
                (m for m in entity.values["mappings"].values() if m["linkage_type"] == FALLBACK),
                key=lambda mapping: mapping["fallback_order"] or 0,
            )
            ids = [mapping["model_definition_id"] for mapping in last]
            row["fallback_config_json"] = json.dumps({**stated, "model_definition_ids": ids})
        return row


class EndpointItems(GatewayItems):
    """Endpoints in a table."""

    kind = ENDPOINT

    def entity(self, item: Item) -> Entity:
        entity = super().entity(item)
        entity.values["mappings"] = {
            mapping["mapping_id"]: {theirs: mapping[ours] for theirs, ours in _MAPPING.items()}
            for mapping in item[MAPPINGS]
        }
        entity.values["tags"] = tags_of(item)
        return entity

    def own_item(self, entity: Entity) -> Item:
        item = super().own_item(entity)
        if item["experiment_id"] is None:
            del item["experiment_id"]
        mappings: list[Item] = [
            {"mapping_id": mapping_id, **{ours: row[theirs] for theirs, ours in _MAPPING.items()}}
            for mapping_id, row in entity.values["mappings"].items()
        ]
        mappings.sort(key=lambda mapping: (mapping["created_at"], mapping["mapping_id"]))
        tags = {TAG + key: value for key, value in entity.values["tags"].items()}
        return {**item, MAPPINGS: mappings, GUARDRAILS: [], REVISION: 0, **tags}

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        traced = {
            gateway_keys.traced_experiment_key(e.experiment_id, e.values["workspace"]): (
                e.experiment_id
            )
            for e in entities
            if e.experiment_id is not None
        }
        self.transfer_table.put(
            {"PK": key.pk, "SK": key.sk, "experiment_id": own} for key, own in traced.items()
        )
        super().write(entities, source)


# --- what refers to endpoints -------------------------------------------------------------------


class BindingRows(RowStore):
    """Bindings in a database, with a hint of the workspace of their endpoint."""

    table = "endpoint_bindings"
    key = ("endpoint_id", "resource_type", "resource_id")
    columns = ("display_name", *AUTHORS.values())

    def _entities(self, rows: Sequence[Row]) -> list[Entity]:
        entities = super()._entities(rows)
        wanted = sorted({(entity.key[0],) for entity in entities})
        found = self.database.rows_with("endpoints", ("endpoint_id",), wanted)
        workspaces = {row["endpoint_id"]: row["workspace"] for row in found}
        for entity in entities:
            entity.hints["workspace"] = workspaces[entity.key[0]]
        return entities


class BindingItems(ListedItemStore):
    """Bindings in a table."""

    fields: ClassVar = {"display_name": "display_name", **AUTHORS}

    def _own_items(self) -> Iterator[Item]:
        return _in_workspaces(self.table, gateway_keys.bindings())

    def _keys(self, entities: Sequence[Entity]) -> Iterable[Key]:
        return map(self.key_of, entities)

    def key_of(self, entity: Entity) -> Key:
        """The key of a binding's own item."""
        endpoint_id, kind, resource_id = entity.key
        return gateway_keys.binding_key(kind, resource_id, endpoint_id, entity.hints["workspace"])

    def _entities(self, items: Sequence[Item]) -> list[Entity]:
        return [
            Entity(
                tuple(item[name] for name in BindingRows.key),
                {theirs: item.get(ours) for ours, theirs in self.fields.items()},
                {"workspace": access_keys.workspace_of(str(item["PK"]))},
            )
            for item in items
        ]

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        del source
        self.transfer_table.put(map(self.own_item, entities))

    def own_item(self, entity: Entity) -> Item:
        """A binding's own item."""
        key = self.key_of(entity)
        named = dict(zip(BindingRows.key, entity.key, strict=True))
        fields = {ours: entity.values[theirs] for ours, theirs in self.fields.items()}
        if fields["display_name"] is None:
            del fields["display_name"]
        return {"PK": key.pk, "SK": key.sk, **named, **fields}


class BudgetRows(RowStore):
    """Budget policies in a database."""

    table, key, columns = BUDGET.table, BUDGET.key, BUDGET.columns


class BudgetItems(GatewayItems):
    """Budget policies in a table."""

    kind = BUDGET

    def own_item(self, entity: Entity) -> Item:
        return {"target": None, **super().own_item(entity)}


# --- guardrails ---------------------------------------------------------------------------------


class GuardrailRows(RowStore):
    """Guardrails in a database, with a hint of the scorer version that a table copies."""

    table, key, columns = GUARDRAIL.table, GUARDRAIL.key, GUARDRAIL.columns

    def _entities(self, rows: Sequence[Row]) -> list[Entity]:
        entities = super()._entities(rows)
        wanted = sorted({(e.values["scorer_id"],) for e in entities})
        scorers = {
            row["scorer_id"]: row
            for row in self.database.rows_with("scorers", ("scorer_id",), wanted)
        }
        versions = {
            (row["scorer_id"], row["scorer_version"]): row
            for row in self.database.rows_with("scorer_versions", ("scorer_id",), wanted)
        }
        for entity in entities:
            scorer = scorers.get(entity.values["scorer_id"])
            version = versions.get((entity.values["scorer_id"], entity.values["scorer_version"]))
            if scorer is not None and version is not None:
                entity.hints[COPY_OF_SCORER] = {
                    "scorer_name": scorer["scorer_name"],
                    "scorer_experiment_id": str(scorer["experiment_id"]),
                    "scorer_created": version["creation_time"],
                    "scorer": large_values.pack(version["serialized_scorer"]),
                }
        return entities


class GuardrailItems(GatewayItems):
    """Guardrails in a table. MLflow's database holds only those whose scorer still exists."""

    kind = GUARDRAIL

    def refusal(self, entity: Entity) -> str | None:
        return None if COPY_OF_SCORER in entity.hints else "its scorer does not exist"

    def own_item(self, entity: Entity) -> Item:
        return {**super().own_item(entity), **entity.hints[COPY_OF_SCORER]}

    def _entities(self, items: Sequence[Item]) -> list[Entity]:
        entities = super()._entities(items)
        for entity, exists in zip(entities, self._scorers_exist(items), strict=True):
            if not exists:
                entity.hints[NOT_EXPORTABLE] = "its scorer has been deleted"
        return entities

    def _scorers_exist(self, items: Sequence[Item]) -> Iterator[bool]:
        keys = [
            Key(
                experiment_pk(str(item["scorer_experiment_id"])),
                scorer_keys.scorer_version(str(item["scorer_id"]), int(item["scorer_version"])),
            )
            for item in items
        ]
        found = self.table.get_many(keys)
        return (key in found and CONTENTS in found[key] for key in keys)


class GuardrailUseRows(RowStore):
    """Which guardrails an endpoint has, in a database."""

    table = "guardrail_configs"
    key = ("endpoint_id", "guardrail_id")
    columns = ("workspace", "execution_order", "created_by", "created_at")


class GuardrailUseItems(ItemStore):
    """Which guardrails an endpoint has: a list in the endpoint's own item."""

    def count(self) -> int:
        return sum(len(page) for page in self.pages())

    def pages(self) -> Iterator[list[Entity]]:
        page: list[Entity] = []
        for item in _in_workspaces(self.table, gateway_keys.ENDPOINTS):
            page += self._uses(item)
            if len(page) >= AT_ONCE:
                yield page
                page = []
        if page:
            yield page

    def read(self, like: Sequence[Entity]) -> dict[EntityKey, Entity]:
        found = self.table.get_many(map(_endpoint_key, like))
        uses = (use for item in found.values() for use in self._uses(item))
        wanted = {entity.key for entity in like}
        return {use.key: use for use in uses if use.key in wanted}

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        del source
        for key in dict.fromkeys(map(_endpoint_key, entities)):
            new = [e for e in entities if _endpoint_key(e) == key]
            endpoint = self.table.get(key) or {GUARDRAILS: []}
            entries = [*endpoint[GUARDRAILS], *map(_entry, new)]
            self.table.update(key, Update(set={GUARDRAILS: entries}))

    def refusals(self, entities: Sequence[Entity]) -> dict[EntityKey, str]:
        found = self.table.get_many(map(_endpoint_key, entities))
        return {
            entity.key: "its endpoint does not exist"
            for entity in entities
            if _endpoint_key(entity) not in found
        }

    def _uses(self, endpoint: Item) -> Iterator[Entity]:
        workspace = access_keys.workspace_of(str(endpoint["PK"]))
        for entry in endpoint[GUARDRAILS]:
            values: dict[str, Value] = {
                "workspace": workspace,
                "execution_order": entry["order"],
                "created_by": entry["created_by"],
                "created_at": entry["created_at"],
            }
            yield Entity((endpoint["endpoint_id"], entry["guardrail_id"]), values)


def _endpoint_key(use: Entity) -> Key:
    return gateway_keys.endpoint_key(use.key[0], use.values["workspace"])


def _entry(use: Entity) -> dict[str, Any]:
    return {
        "guardrail_id": use.key[1],
        "order": use.values["execution_order"],
        "created_by": use.values["created_by"],
        "created_at": use.values["created_at"],
    }
