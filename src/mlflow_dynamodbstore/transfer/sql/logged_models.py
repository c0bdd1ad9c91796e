"""Logged models, in a database and in a table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from mlflow.entities import Metric
from mlflow.entities.lifecycle_stage import LifecycleStage

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.shared.places import RunPlace
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import TTL, Item, Value
from mlflow_dynamodbstore.tracking.logged_models import SCHEMA_VERSION
from mlflow_dynamodbstore.tracking.model_records import (
    MEASURED,
    LoggedModelPlace,
    ModelRecord,
    new_texts,
    read_children,
)
from mlflow_dynamodbstore.transfer.sql.database import Row
from mlflow_dynamodbstore.transfer.sql.entities import UNHELD, Entity, EntityKey, Side
from mlflow_dynamodbstore.transfer.sql.items import ListedItems, too_large
from mlflow_dynamodbstore.transfer.sql.numbers import in_columns
from mlflow_dynamodbstore.transfer.sql.rows import Children, RowSide

STAGES = (LifecycleStage.ACTIVE, LifecycleStage.DELETED)
_COLUMNS = (
    "experiment_id",
    "name",
    "artifact_location",
    "creation_timestamp_ms",
    "last_updated_timestamp_ms",
    "status",
    "lifecycle_stage",
    "model_type",
    "source_run_id",
    "status_message",
)
_MEASURED = ("metric_name", "metric_timestamp_ms", "metric_step", "run_id")


class Measurements(Children):
    """Metrics of logged models. A value that is not a number is none there, as SQLite has it."""

    def said(self, row: Row) -> Value:
        value = row["metric_value"]
        none = value is None or math.isnan(value)
        return {**super().said(row), "metric_value": None if none else value}


class LoggedModelRows(RowSide):
    """Logged models in a database."""

    table = "logged_models"
    key = ("model_id",)
    columns = _COLUMNS
    below: ClassVar = {
        "tags": Children(
            "logged_model_tags", ("model_id",), ("tag_key",), ("tag_value",), ("experiment_id",)
        ),
        "params": Children(
            "logged_model_params",
            ("model_id",),
            ("param_key",),
            ("param_value",),
            ("experiment_id",),
        ),
        "metrics": Measurements(
            "logged_model_metrics",
            ("model_id",),
            _MEASURED,
            ("metric_value", "dataset_name", "dataset_digest"),
            ("experiment_id",),
        ),
    }

    def _entities(self, rows: Sequence[Row]) -> list[Entity]:
        made = super()._entities(rows)
        runs = [(entity.values["source_run_id"],) for entity in made]
        known = [one for one in dict.fromkeys(runs) if one != (None,)]
        found = self.database.having("runs", ("run_uuid",), known)
        homes = {row["run_uuid"]: str(row["experiment_id"]) for row in found}
        for entity in made:
            entity.hints["run_experiment"] = homes.get(entity.values["source_run_id"])
        return made


class LoggedModelItems(ListedItems):
    """Logged models in a table."""

    def count(self) -> int:
        return sum(1 for _ in self._own_items(keys_only=True))

    def read(self, like: Sequence[Entity]) -> dict[EntityKey, Entity]:
        found = self.table.get_many(_place(entity).key for entity in like)
        return {entity.key: entity for entity in self._entities(list(found.values()))}

    def _own_items(self, *, keys_only: bool = False) -> Iterator[Item]:
        for experiment_id in self.shelf.experiment_ids():
            for stage in STAGES:
                yield from self.table.items(
                    Query(
                        experiment_keys.experiment_pk(experiment_id),
                        where=index_keys.logged_models_by_lifecycle(stage).on("lsi1sk"),
                        index="LSI1",
                        keys_only=keys_only,
                    )
                )

    def _entities(self, items: Sequence[Item]) -> list[Entity]:
        below = self.table.map(lambda item: read_children(self.table, item), items)
        return [
            _entity(ModelRecord(item, children))
            for item, children in zip(items, below, strict=True)
        ]

    # --- writing --------------------------------------------------------------------------------

    def refusals(self, entities: Sequence[Entity]) -> dict[EntityKey, str]:
        made = {entity.key: _items(entity, None) for entity in entities}
        why = {key: too_large([own, *below]) for key, (own, below) in made.items()}
        return {key: sentence for key, sentence in why.items() if sentence}

    def write(self, entities: Sequence[Entity], source: Side) -> None:
        del source
        deleted = self.shelf.deleted_experiments(str(e.experiment_id) for e in entities)
        expiry = self.shelf.deletion_expiry()
        below: dict[tuple[str, str], Item] = {}
        own: list[Item] = []
        for entity in entities:
            gone = entity.values["lifecycle_stage"] == LifecycleStage.DELETED
            dated = gone and entity.experiment_id not in deleted
            model, children = _items(entity, expiry if dated else None)
            own.append(model)
            below.update({(item["PK"], item["SK"]): item for item in children})
        # The models last: a model that is there is whole.
        self.shelf.put(below.values())
        self.shelf.put(own)


def _items(entity: Entity, ttl: int | None) -> tuple[Item, list[Item]]:
    """A model's own item, and those that are written before it."""
    place, values = _place(entity), entity.values
    texts = new_texts(place, {"TAG": values["tags"], "PARAM": values["params"]})
    dated: Item = {} if ttl is None else {TTL: ttl}
    metrics = [
        place.metric(RunPlace("", run_id), _metric(place, name, timestamp, step, said))
        for (name, timestamp, step, run_id), said in values["metrics"].items()
    ]
    optional = {name: values[name] for name in ("model_type", "source_run_id", "status_message")}
    own: Item = {
        "PK": place.pk,
        "SK": place.key.sk,
        "v": SCHEMA_VERSION,
        "name": values["name"],
        "artifact_location": values["artifact_location"],
        "created": values["creation_timestamp_ms"],
        "updated": values["last_updated_timestamp_ms"],
        "status": values["status"],
        "lifecycle": values["lifecycle_stage"],
        **{name: value for name, value in optional.items() if value is not None},
        **texts.attributes,
        **({MEASURED: True} if metrics else {}),
        **index_keys.logged_model_index(
            model_id=place.model_id,
            experiment_id=place.experiment_id,
            lifecycle=values["lifecycle_stage"],
            creation_time=values["creation_timestamp_ms"],
        ),
        **dated,
    }
    below = [{**item, **dated} for item in (*(put.item for put in texts.children), *metrics)]
    return own, [*below, *_entry_of_run(entity)]


def _entry_of_run(entity: Entity) -> list[Item]:
    """The item by which the run that logged a model knows it."""
    home = entity.hints.get("run_experiment")
    if home is None:
        return []
    name = entity.values["name"]
    run = RunPlace(home, entity.values["source_run_id"])
    sk = run_keys.run_logged_model(run.run_id, name)
    return [run.child(sk, name, {"model_id": entity.key[0]})]


def _metric(place: LoggedModelPlace, name: str, timestamp: int, step: int, said: Row) -> Metric:
    value = said["metric_value"]
    return Metric(
        key=name,
        value=math.nan if value is None else value,
        timestamp=timestamp,
        step=step,
        model_id=place.model_id,
        dataset_name=said["dataset_name"],
        dataset_digest=said["dataset_digest"],
    )


def _place(entity: Entity) -> LoggedModelPlace:
    return LoggedModelPlace(str(entity.experiment_id), str(entity.key[0]))


def _entity(record: ModelRecord) -> Entity:
    item = record.item
    values: dict[str, Any] = {
        "experiment_id": record.place.experiment_id,
        "name": item["name"],
        "artifact_location": item["artifact_location"],
        "creation_timestamp_ms": item["created"],
        "last_updated_timestamp_ms": item["updated"],
        "status": item["status"],
        "lifecycle_stage": item["lifecycle"],
        "model_type": item.get("model_type"),
        "source_run_id": item.get("source_run_id"),
        "status_message": item.get("status_message"),
        "tags": record.tags,
        "params": record.params,
        "metrics": {
            (metric.key, metric.timestamp, metric.step, metric.run_id): {
                "metric_value": _value(metric.value),
                "dataset_name": metric.dataset_name,
                "dataset_digest": metric.dataset_digest,
            }
            for metric in record.metrics
        },
    }
    entity = Entity((record.place.model_id,), values)
    if len(values["metrics"]) < len(record.metrics):
        entity.hints[UNHELD] = "it has values of one metric, step and time for several datasets"
    return entity


def _value(value: float) -> float | None:
    """A value as MLflow's database keeps it; infinite ones as the greatest."""
    number, is_nan = in_columns(value)
    return None if is_nan else number
