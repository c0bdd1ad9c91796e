"""Issues that were found in traces, in a database and in a table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mlflow_dynamodbstore.evaluation.attributes import CONTENTS
from mlflow_dynamodbstore.evaluation.experiment_lists import listed_experiments
from mlflow_dynamodbstore.evaluation.issue_items import IssueRow, Texts, new_issue
from mlflow_dynamodbstore.keys import issues as issue_keys
from mlflow_dynamodbstore.keys.experiments import experiment_pk
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.transfer.sql.database import Row
from mlflow_dynamodbstore.transfer.sql.entities import Entity, EntityKey, EntitySource
from mlflow_dynamodbstore.transfer.sql.items import ListedItemStore, in_another
from mlflow_dynamodbstore.transfer.sql.rows import RowStore

_LISTS = ("root_causes", "categories")
_PLAIN = ("name", "status", "severity", "source_run_id", "created_by")


class IssueRows(RowStore):
    """Issues in a database."""

    table = "issues"
    key = ("issue_id",)
    columns = (
        "experiment_id",
        *_PLAIN,
        "description",
        "created_timestamp",
        "last_updated_timestamp",
        *_LISTS,
    )

    def normalised(self, entity: Entity, row: Row) -> Entity:
        for name in _LISTS:
            entity.values[name] = (json.loads(row[name]) if row[name] else None) or None
        return entity

    def own_row(self, entity: Entity) -> Row:
        lists = {name: entity.values[name] for name in _LISTS}
        texts = {name: json.dumps(some) if some else None for name, some in lists.items()}
        return {**super().own_row(entity), **texts}


class IssueItems(ListedItemStore):
    """Issues in a table."""

    def _keys(self, entities: Sequence[Entity]) -> Iterable[Key]:
        return (issue_keys.issue_key(str(e.experiment_id), e.key[0]) for e in entities)

    def refusals(self, entities: Sequence[Entity]) -> dict[EntityKey, str]:
        located = {issue_keys.issue_locator_key(e.key[0]): e for e in entities}
        return {
            located[key].key: in_another(found["experiment_id"])
            for key, found in self.table.get_many(located).items()
            if found["experiment_id"] != located[key].experiment_id
        }

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        del source
        before: list[Item] = []
        own: list[Item] = []
        for entity in entities:
            values, experiment_id = entity.values, str(entity.experiment_id)
            texts = Texts(values["description"], values["root_causes"], values["categories"])
            stored = texts.stored(experiment_id, entity.key[0])
            attributes = {**{name: values[name] for name in _PLAIN}, **stored.attributes}
            issue = new_issue(experiment_id, entity.key[0], values["created_timestamp"], attributes)
            own.append({**issue, "updated": values["last_updated_timestamp"]})
            located = issue_keys.issue_locator_key(entity.key[0])
            before += [put.item for put in stored.parts]
            before.append({"PK": located.pk, "SK": located.sk, "experiment_id": experiment_id})
        listed = {
            issue_keys.experiment_with_issues_key(str(entity.experiment_id)) for entity in entities
        }
        before += [{"PK": key.pk, "SK": key.sk} for key in sorted(listed)]
        self.transfer_table.put(before)
        self.transfer_table.put(own)

    def _own_items(self) -> Iterator[Item]:
        for experiment_id in listed_experiments(self.table, issue_keys.EXPERIMENTS_WITH_ISSUES_PK):
            query = Query(experiment_pk(experiment_id), where=issue_keys.ISSUES.on())
            yield from (item for item in self.table.items(query) if CONTENTS in item)

    def _entities(self, items: Sequence[Item]) -> list[Entity]:
        contents = large_values.load_many(self.table, items, CONTENTS)
        return [_entity(item, Texts.of(c)) for item, c in zip(items, contents, strict=True)]


def _entity(item: Item, texts: Texts) -> Entity:
    values: dict[str, Any] = {
        "experiment_id": experiment_id_of(item),
        **{name: item[name] for name in _PLAIN},
        "description": texts.description,
        "created_timestamp": item["created"],
        "last_updated_timestamp": item["updated"],
        "root_causes": texts.root_causes,
        "categories": texts.categories,
    }
    return Entity((IssueRow(item).issue_id,), values)
