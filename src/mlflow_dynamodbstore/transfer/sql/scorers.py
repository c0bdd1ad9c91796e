"""Scorers with their versions, in a database and in a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from mlflow_dynamodbstore.keys import evaluation as evaluation_keys
from mlflow_dynamodbstore.keys.experiments import experiment_pk
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.table.contract import Put, Query
from mlflow_dynamodbstore.table.values import Item, Value
from mlflow_dynamodbstore.transfer.sql.entities import Entity, EntityKey, Side
from mlflow_dynamodbstore.transfer.sql.items import ListedItems
from mlflow_dynamodbstore.transfer.sql.rows import Children, RowSide


class ScorerRows(RowSide):
    """Scorers in a database."""

    table = "scorers"
    key = ("scorer_id",)
    columns = ("experiment_id", "scorer_name")
    below: ClassVar = {
        "versions": Children(
            "scorer_versions",
            ("scorer_id",),
            ("scorer_version",),
            ("serialized_scorer", "creation_time"),
        ),
        "online": Children(
            "online_scoring_configs",
            ("scorer_id",),
            ("online_scoring_config_id",),
            ("sample_rate", "filter_string"),
            ("experiment_id",),
        ),
    }


class ScorerItems(ListedItems):
    """Scorers in a table."""

    def read(self, like: Sequence[Entity]) -> dict[EntityKey, Entity]:
        found = list(self.table.get_many(_place(entity).key for entity in like).values())
        return {entity.key: entity for entity in self._entities(found)}

    def refusals(self, entities: Sequence[Entity]) -> dict[EntityKey, str]:
        taken = self.table.get_many(_place(entity).key for entity in entities)
        why: dict[EntityKey, str] = {}
        for entity in entities:
            if _place(entity).key in taken:
                why[entity.key] = "another scorer of its experiment has its name"
            elif len(entity.values["online"]) > 1:
                why[entity.key] = "it is configured to score traces twice"
        return why

    def write(self, entities: Sequence[Entity], source: Side) -> None:
        del source
        made = [_items(entity) for entity in entities]
        below = [item for _, items in made for item in items]
        self.shelf.put({(item["PK"], item["SK"]): item for item in below}.values())
        # The scorers last: one that is there is whole.
        self.shelf.put(scorer for scorer, _ in made)

    def _own_items(self) -> Iterator[Item]:
        for experiment_id in listed_experiments(self.table, evaluation_keys.WITH_SCORERS_PK):
            yield from self.table.items(
                Query(experiment_pk(experiment_id), where=evaluation_keys.SCORERS.on())
            )

    def _entities(self, scorers: Sequence[Item]) -> list[Entity]:
        versions = self.table.map(self._versions, scorers)
        return [_entity(scorer, some) for scorer, some in zip(scorers, versions, strict=True)]

    def _versions(self, scorer: Item) -> dict[int, Value]:
        where = evaluation_keys.scorer_versions(str(scorer["scorer_id"])).on()
        found = self.table.items(Query(str(scorer["PK"]), where=where))
        heads = [item for item in found if evaluation_keys.is_scorer_version(str(item["SK"]))]
        texts = large_values.load_many(self.table, heads, CONTENTS)
        return {
            evaluation_keys.scorer_version_of(str(head["SK"])): {
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
    listed = evaluation_keys.with_scorers_key(place.experiment_id)
    below = [scorer_locator(place, scorer), {"PK": listed.pk, "SK": listed.sk}]
    for number, said in values["versions"].items():
        key = version_key(scorer, number)
        stored = large_values.store(key, CONTENTS, said["serialized_scorer"])
        below += [put.item for put in stored.parts]
        created = said["creation_time"]
        below.append({"PK": key.pk, "SK": key.sk, "created": created, **stored.attributes})
        if endpoint_ref(said["serialized_scorer"]) is not None:
            scorer[BOUND] = True
    for config_id, said in values["online"].items():
        scorer[ONLINE] = {"id": config_id, **said}
        entry = online_entry(place, said["sample_rate"])
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
