"""The items of a scorer, built and read in one place."""

from __future__ import annotations

from dataclasses import dataclass

from boto3.dynamodb.conditions import Attr, ConditionBase
from mlflow.entities.scorer import ScorerVersion

from mlflow_dynamodbstore.evaluation.attributes import REVISION
from mlflow_dynamodbstore.keys import evaluation as evaluation_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.table.contract import Patch
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

LATEST = "latest"
"""Attribute of a scorer: the number of its latest version, 0 when it has none."""
BOUND = "bound"
"""Attribute of a scorer: one of its versions has used an endpoint of the gateway."""


@dataclass(frozen=True)
class ScorerPlace:
    """Which scorer, and in which experiment."""

    experiment_id: str
    name: str

    @property
    def key(self) -> Key:
        return evaluation_keys.scorer_key(self.experiment_id, self.name)

    @property
    def online_key(self) -> Key:
        return evaluation_keys.online_scorer_key(self.experiment_id, self.name)


def new_scorer(place: ScorerPlace) -> Item:
    """The own item of a new scorer, without a version."""
    return {
        "PK": place.key.pk,
        "SK": place.key.sk,
        "scorer_id": ids.new_id(place.experiment_id),
        "name": place.name,
        LATEST: 0,
        REVISION: 1,
    }


def scorer_locator(place: ScorerPlace, scorer: Item) -> Item:
    """The item that leads from a scorer's id to its place."""
    key = evaluation_keys.scorer_locator_key(str(scorer["scorer_id"]))
    return {"PK": key.pk, "SK": key.sk, "experiment_id": place.experiment_id, "name": place.name}


def version_key(scorer: Item, number: int | None = None) -> Key:
    """The key of a version of a scorer, by default of the latest."""
    wanted = scorer[LATEST] if number is None else int(number)
    return Key(str(scorer["PK"]), evaluation_keys.scorer_version(str(scorer["scorer_id"]), wanted))


def is_unchanged(scorer: Item) -> ConditionBase:
    """The condition that a scorer is still the one that was read, and unchanged."""
    return Attr(REVISION).eq(scorer[REVISION]) & Attr("scorer_id").eq(scorer["scorer_id"])


def scorer_change(scorer: Item, changes: Item) -> Patch:
    """A change of a scorer, refused when it has changed since it was read."""
    key = Key(str(scorer["PK"]), str(scorer["SK"]))
    return Patch(key, Update(set=changes, add={REVISION: 1}), condition=is_unchanged(scorer))


def scorer_entity(scorer: Item, version: Item, serialized: str) -> ScorerVersion:
    """A version of a scorer as MLflow shows it."""
    return ScorerVersion(
        experiment_id=experiment_id_of(scorer),
        scorer_name=scorer["name"],
        scorer_version=evaluation_keys.scorer_version_of(str(version["SK"])),
        serialized_scorer=serialized,
        creation_time=version["created"],
        scorer_id=scorer["scorer_id"],
    )
