"""Scorers with their versions, in a database and in a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from mlflow_dynamodbstore.evaluation.attributes import CONTENTS, REVISION
from mlflow_dynamodbstore.evaluation.experiment_lists import listed_experiments
from mlflow_dynamodbstore.evaluation.online_scoring import ONLINE, online_entry
from mlflow_dynamodbstore.evaluation.scorer_endpoints import endpoint_ref
from mlflow_dynamodbstore.evaluation.scorer_items import (
    BOUND,
    LATEST,
    ScorerPlace,
    scorer_locator,
    version_key,
)
from mlflow_dynamodbstore.keys import scorers as scorer_keys
from mlflow_dynamodbstore.keys.experiments import experiment_pk
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.table.contract import Put, Query
from mlflow_dynamodbstore.table.values import Item, Key, Value
from mlflow_dynamodbstore.transfer.sql.entities import Entity, EntityKey, EntitySource
from mlflow_dynamodbstore.transfer.sql.items import ListedItemStore
from mlflow_dynamodbstore.transfer.sql.rows import ChildTable, RowStore


class ScorerRows(RowStore):
    """Scorers in a database."""

    table = "scorers"
    key = ("scorer_id",)
    columns = ("experiment_id", "scorer_name")
    children: ClassVar = {
        "versions": ChildTable(
            "scorer_versions",
            ("scorer_id",),
            ("scorer_version",),
            ("serialized_scorer", "creation_time"),
        ),
        "online": ChildTable(
            "online_scoring_configs",
            ("scorer_id",),
            ("online_scoring_config_id",),
            ("sample_rate", "filter_string"),
            ("experiment_id",),
        ),
    }


class ScorerItems(ListedItemStore):
    """Scorers in a table."""

    def _keys(self, entities: Sequence[Entity]) -> Iterable[Key]:
        return (_place(entity).key for entity in entities)

    def refusals(self, entities: Sequence[Entity]) -> dict[EntityKey, str]:
        taken = self.table.get_many(_place(entity).key for entity in entities)
        why: dict[EntityKey, str] = {}
        for entity in entities:
            if _place(entity).key in taken:
                why[entity.key] = "another scorer of its experiment has its name"
            elif len(entity.values["online"]) > 1:
                why[entity.key] = "it has two configurations for scoring new traces"
        return why

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        del source
        made = [_items(entity) for entity in entities]
        below = [item for _, items in made for item in items]
        self.transfer_table.put({(item["PK"], item["SK"]): item for item in below}.values())
        # The scorers last: one that exists is complete.
        self.transfer_table.put(scorer for scorer, _ in made)

    def _own_items(self) -> Iterator[Item]:
        for experiment_id in listed_experiments(
            self.table, scorer_keys.EXPERIMENTS_WITH_SCORERS_PK
        ):
            yield from self.table.items(
                Query(experiment_pk(experiment_id), where=scorer_keys.SCORERS.on())
            )

    def _entities(self, scorers: Sequence[Item]) -> list[Entity]:
        versions = self.table.map(self._versions, scorers)
        return [_entity(scorer, some) for scorer, some in zip(scorers, versions, strict=True)]

    def _versions(self, scorer: Item) -> dict[int, Value]:
        where = scorer_keys.scorer_versions(str(scorer["scorer_id"])).on()
        found = self.table.items(Query(str(scorer["PK"]), where=where))
        heads = [item for item in found if scorer_keys.is_scorer_version(str(item["SK"]))]
        texts = large_values.load_many(self.table, heads, CONTENTS)
        return {
            scorer_keys.scorer_version_of(str(head["SK"])): {
                "serialized_scorer": str(text),
                "creation_time": head["created"],
            }
            for head, text in zip(heads, texts, strict=True)
        }


def _items(entity: Entity) -> tuple[Item, list[Item]]:
    """A scorer's own item, and those that are written before it."""
    place, values = _place(entity), entity.values
    scorer: Item = {
        "PK": place.key.pk,
        "SK": place.key.sk,
        "scorer_id": entity.key[0],
        "name": place.name,
        LATEST: max(values["versions"], default=0),
        REVISION: 1,
    }
    listed = scorer_keys.experiment_with_scorers_key(place.experiment_id)
    below = [scorer_locator(place, scorer), {"PK": listed.pk, "SK": listed.sk}]
    for number, row in values["versions"].items():
        key = version_key(scorer, number)
        stored = large_values.store(key, CONTENTS, row["serialized_scorer"])
        below += [put.item for put in stored.parts]
        created = row["creation_time"]
        below.append({"PK": key.pk, "SK": key.sk, "created": created, **stored.attributes})
        if endpoint_ref(row["serialized_scorer"]) is not None:
            scorer[BOUND] = True
    for config_id, row in values["online"].items():
        scorer[ONLINE] = {"id": config_id, **row}
        entry = online_entry(place, row["sample_rate"])
        below += [entry.item] if isinstance(entry, Put) else []
    return scorer, below


def _place(entity: Entity) -> ScorerPlace:
    return ScorerPlace(str(entity.experiment_id), str(entity.values["scorer_name"]))


def _entity(scorer: Item, versions: dict[int, Value]) -> Entity:
    online = dict(scorer.get(ONLINE) or {})
    config_id = online.pop("id", None)
    values: dict[str, Any] = {
        "experiment_id": experiment_id_of(scorer),
        "scorer_name": scorer["name"],
        "versions": versions,
        "online": {} if config_id is None else {config_id: online},
    }
    return Entity((scorer["scorer_id"],), values)
