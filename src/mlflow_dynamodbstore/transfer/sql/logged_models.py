"""Logged models, in a database and in a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from mlflow.entities import Metric
from mlflow.entities.lifecycle_stage import LifecycleStage

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import logged_models as logged_model_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared.places import RunPlace
from mlflow_dynamodbstore.table.values import TTL, Item, Key, Value
from mlflow_dynamodbstore.tracking.logged_models import SCHEMA_VERSION
from mlflow_dynamodbstore.tracking.model_records import (
    MEASURED,
    LoggedModelPlace,
    ModelRecord,
    new_texts,
    read_children,
)
from mlflow_dynamodbstore.tracking.run_models import entry_of
from mlflow_dynamodbstore.transfer.sql.column_values import to_columns
from mlflow_dynamodbstore.transfer.sql.database import Row
from mlflow_dynamodbstore.transfer.sql.entities import (
    NOT_EXPORTABLE,
    Entity,
    EntitySource,
)
from mlflow_dynamodbstore.transfer.sql.items import (
    VOLUME,
    StagedItemStore,
    too_large,
    volume_of,
)
from mlflow_dynamodbstore.transfer.sql.rows import ChildTable, RowStore

RUN_VOLUME = "run_volume"
"""Hint of a model: the volume in which the run lies that logged it."""
_FIELDS = {
    "name": "name",
    "artifact_location": "artifact_location",
    "created": "creation_timestamp_ms",
    "updated": "last_updated_timestamp_ms",
    "status": "status",
    "lifecycle": "lifecycle_stage",
    "model_type": "model_type",
    "source_run_id": "source_run_id",
    "status_message": "status_message",
}
"""The attributes of a model's item, and the columns of its row. The last three may be missing."""
_MEASURED = ("metric_name", "metric_timestamp_ms", "metric_step", "run_id")


class Measurements(ChildTable):
    """Metrics of logged models; NaN is None, as in SQLite."""

    def value_of(self, row: Row) -> Value:
        value = row["metric_value"]
        none = value is None or math.isnan(value)
        return {**super().value_of(row), "metric_value": None if none else value}


class LoggedModelRows(RowStore):
    """Logged models in a database."""

    table = "logged_models"
    key = ("model_id",)
    columns = ("experiment_id", *_FIELDS.values())
    children: ClassVar = {
        "tags": ChildTable(
            "logged_model_tags", ("model_id",), ("tag_key",), ("tag_value",), ("experiment_id",)
        ),
        "params": ChildTable(
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
        found = self.database.rows_with("runs", ("run_uuid",), known)
        experiments = {row["run_uuid"]: str(row["experiment_id"]) for row in found}
        firsts = self._first_of_names(known)
        for entity in made:
            entity.hints["run_experiment"] = experiments.get(entity.values["source_run_id"])
            entity.hints["first_of_name"] = entity.key[0] in firsts
        return made

    def _first_of_names(self, runs: Sequence[tuple[Any, ...]]) -> set[str]:
        """The models that were the first of their names in their runs."""
        firsts: dict[tuple[str, str], Row] = {}
        for row in self.database.rows_with("logged_models", ("source_run_id",), runs):
            first = firsts.setdefault((row["source_run_id"], row["name"]), row)
            if _age(row) < _age(first):
                firsts[row["source_run_id"], row["name"]] = row
        return {str(row["model_id"]) for row in firsts.values()}


class LoggedModelItems(StagedItemStore):
    """Logged models in a table."""

    def _in_stage(self, stage: str) -> Range:
        return index_keys.logged_models_by_lifecycle(stage)

    def _locator(self, own_id: str) -> str:
        return index_keys.logged_model_locator(own_id)

    def _sort_key(self, own_id: str) -> str:
        return logged_model_keys.logged_model(own_id)

    def _entities(self, items: Sequence[Item]) -> list[Entity]:
        below = self.table.map(lambda item: read_children(self.table, item), items)
        return [
            _entity(ModelRecord(item, children))
            for item, children in zip(items, below, strict=True)
        ]

    # --- writing --------------------------------------------------------------------------------

    def refusal(self, entity: Entity) -> str | None:
        own, below = _items(entity, None)
        return too_large([own, *below])

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        del source
        self.transfer_table.place(entities, self._write)

    def _write(self, entities: Sequence[Entity]) -> None:
        self._find_runs(entities)
        deleted = self.transfer_table.deleted_experiments(str(e.experiment_id) for e in entities)
        expiry = self.transfer_table.deletion_expiry()
        below: dict[tuple[str, str], Item] = {}
        own: list[Item] = []
        for entity in entities:
            is_deleted = entity.values["lifecycle_stage"] == LifecycleStage.DELETED
            expires = is_deleted and entity.experiment_id not in deleted
            model, children = _items(entity, expiry if expires else None)
            own.append(model)
            below.update({(item["PK"], item["SK"]): item for item in children})
        # The models last: a model that exists is complete.
        self.transfer_table.put(below.values())
        self.transfer_table.put(own)

    def _find_runs(self, entities: Sequence[Entity]) -> None:
        """Note with models in which volumes the runs lie that logged them."""
        runs = {
            Key(pk, run_keys.run(run_id)): run_id
            for entity in entities
            if (experiment_id := entity.hints.get("run_experiment")) is not None
            for run_id in [str(entity.values["source_run_id"])]
            for pk in self.transfer_table.volumes.partitions(experiment_id)
        }
        volumes = {
            runs[key]: experiment_keys.volume_of(key.pk) for key in self.table.get_many(runs)
        }
        for entity in entities:
            entity.hints[RUN_VOLUME] = volumes.get(str(entity.values["source_run_id"]), 0)


def _items(entity: Entity, ttl: int | None) -> tuple[Item, list[Item]]:
    """A model's own item, and those that are written before it."""
    place, values = _place(entity), entity.values
    texts = new_texts(place, {"TAG": values["tags"], "PARAM": values["params"]})
    dated: Item = {} if ttl is None else {TTL: ttl}
    metrics = [
        place.metric(RunPlace("", run_id), _metric(place, name, timestamp, step, row))
        for (name, timestamp, step, run_id), row in values["metrics"].items()
    ]
    fields = {ours: values[theirs] for ours, theirs in _FIELDS.items()}
    own: Item = {
        "PK": place.pk,
        "SK": place.key.sk,
        "v": SCHEMA_VERSION,
        **{name: value for name, value in fields.items() if value is not None},
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
    """The item of the run that logged a model, if that run exists."""
    experiment_id = entity.hints.get("run_experiment")
    if experiment_id is None:
        return []
    run = RunPlace(experiment_id, entity.values["source_run_id"], entity.hints.get(RUN_VOLUME, 0))
    later = not entity.hints["first_of_name"]
    return [entry_of(run, entity.values["name"], _place(entity), with_id=later).item]


def _age(row: Row) -> tuple[int, str]:
    return row["creation_timestamp_ms"], row["model_id"]


def _metric(place: LoggedModelPlace, name: str, timestamp: int, step: int, row: Row) -> Metric:
    value = row["metric_value"]
    return Metric(
        key=name,
        value=math.nan if value is None else value,
        timestamp=timestamp,
        step=step,
        model_id=place.model_id,
        dataset_name=row["dataset_name"],
        dataset_digest=row["dataset_digest"],
    )


def _place(entity: Entity) -> LoggedModelPlace:
    return LoggedModelPlace(str(entity.experiment_id), str(entity.key[0]), volume_of(entity))


def _entity(record: ModelRecord) -> Entity:
    item = record.item
    values: dict[str, Any] = {
        "experiment_id": record.place.experiment_id,
        **{theirs: item.get(ours) for ours, theirs in _FIELDS.items()},
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
    entity = Entity((record.place.model_id,), values, {VOLUME: record.place.volume})
    if len(values["metrics"]) < len(record.metrics):
        entity.hints[NOT_EXPORTABLE] = (
            "a metric has values for several datasets at one step and time"
        )
    return entity


def _value(value: float) -> float | None:
    """A value as MLflow's database stores it; an infinite one as the greatest number."""
    number, is_nan = to_columns(value)
    return None if is_nan else number
