"""Runs in a database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, ClassVar

import sqlalchemy as sa
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME

from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.table.values import Value
from mlflow_dynamodbstore.tracking.points import Point
from mlflow_dynamodbstore.transfer.sql.column_values import from_columns, stable_id, to_columns
from mlflow_dynamodbstore.transfer.sql.database import Database, Row, Transaction
from mlflow_dynamodbstore.transfer.sql.datasets import dataset_uuid
from mlflow_dynamodbstore.transfer.sql.entities import Entity, EntityKey, EntitySource, HistoryChunk
from mlflow_dynamodbstore.transfer.sql.rows import ChildTable, ChildTables, NewRows, RowStore

POINTS_AT_ONCE = 1_000
"""How many points become one item: as many as MLflow's clients send in one call."""
RUN_COLUMNS = (
    "name",
    "source_type",
    "source_name",
    "entry_point_name",
    "user_id",
    "status",
    "start_time",
    "end_time",
    "deleted_time",
    "source_version",
    "lifecycle_stage",
    "artifact_uri",
    "experiment_id",
)


class ModelUses(ChildTable):
    """The logged models that a run read or produced."""

    def rows(self, entity: Entity, value: Value, rows: NewRows) -> None:
        before = len(rows[self.table])
        super().rows(entity, value, rows)
        for row in rows[self.table][before:]:
            ends = (row["source_type"], row["source_id"], row["destination_id"])
            row["input_uuid"] = stable_id(*ends)


class DatasetUses(ChildTables):
    """The datasets that a run read: a map from name and digest to the tags of the use."""

    tables = ("inputs", "input_tags")

    def read(self, database: Database, keys: Sequence[EntityKey]) -> dict[EntityKey, Value]:
        kinds = {"destination_type": "RUN", "source_type": "DATASET"}
        uses = list(database.rows_with("inputs", ("destination_id",), keys, kinds))
        ids = [(one,) for one in dict.fromkeys(use["source_id"] for use in uses)]
        datasets = {
            row["dataset_uuid"]: (row["name"], row["digest"])
            for row in database.rows_with("datasets", ("dataset_uuid",), ids)
        }
        tags: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for tag in database.rows_with(
            "input_tags", ("input_uuid",), [(u["input_uuid"],) for u in uses]
        ):
            tags[tag["input_uuid"]][tag["name"]] = tag["value"]
        found: defaultdict[EntityKey, dict[Any, Value]] = defaultdict(dict)
        for use in uses:
            if use["source_id"] in datasets:
                named = datasets[use["source_id"]]
                found[(use["destination_id"],)][named] = dict(tags[use["input_uuid"]])
        return dict(found)

    def rows(self, entity: Entity, value: Value, rows: NewRows) -> None:
        (run_id,) = entity.key
        for (name, digest), tags in value.items():
            used = dataset_uuid(str(entity.experiment_id), name, digest)
            input_uuid = stable_id("DATASET", used, run_id)
            rows["inputs"].append(
                {
                    "input_uuid": input_uuid,
                    "source_type": "DATASET",
                    "source_id": used,
                    "destination_type": "RUN",
                    "destination_id": run_id,
                    "step": 0,
                }
            )
            rows["input_tags"] += [
                {"input_uuid": input_uuid, "name": tag, "value": text} for tag, text in tags.items()
            ]


class RunRows(RowStore):
    """Runs in a database, with their histories."""

    table = "runs"
    key = ("run_uuid",)
    columns = RUN_COLUMNS
    children: ClassVar = {
        "params": ChildTable("params", ("run_uuid",), ("key",), ("value",)),
        "tags": ChildTable("tags", ("run_uuid",), ("key",), ("value",)),
        "latest_metrics": ChildTable(
            "latest_metrics", ("run_uuid",), ("key",), ("value", "timestamp", "step", "is_nan")
        ),
        "inputs": DatasetUses(),
        "model_inputs": ModelUses(
            "inputs", ("source_id",), ("destination_id",), ("step",),
            fixed={"source_type": "RUN_INPUT", "destination_type": "MODEL_INPUT"},
        ),
        "model_outputs": ModelUses(
            "inputs", ("source_id",), ("destination_id",), ("step",),
            fixed={"source_type": "RUN_OUTPUT", "destination_type": "MODEL_OUTPUT"},
        ),
    }  # fmt: skip

    @classmethod
    def tables(cls) -> set[str]:
        return {*super().tables(), "metrics"}

    def normalised(self, entity: Entity, row: Row) -> Entity:
        # Very old runs have their name only in a tag, and MLflow shows that.
        name = row["name"] or entity.values["tags"].get(MLFLOW_RUN_NAME) or ""
        entity.values["name"] = name
        return entity

    def histories(self, runs: Sequence[Entity]) -> Iterator[HistoryChunk]:
        metrics = self.database.table("metrics")
        order = ("run_uuid", "key", "step", "timestamp", "value", "is_nan")
        columns = [metrics.c[column] for column in order]
        wanted = metrics.c.run_uuid.in_([run.key[0] for run in runs])
        query = sa.select(*columns).where(wanted).order_by(*columns)
        rows = self.database.tuples(query)
        for (run_id, name), some in groupby(rows, key=itemgetter(0, 1)):
            for page in batched(some, POINTS_AT_ONCE):
                yield HistoryChunk(
                    run_id, name, [Point(row[2], row[3], from_columns(*row[4:])) for row in page]
                )

    def insert_histories(
        self, transaction: Transaction, entities: Sequence[Entity], source: EntitySource
    ) -> None:
        for some in source.histories(entities):
            transaction.insert("metrics", [_row(some, point) for point in some.points])


def _row(some: HistoryChunk, point: Point) -> Row:
    value, is_nan = to_columns(point.value)
    return {
        "run_uuid": some.run_id,
        "key": some.name,
        "value": value,
        "timestamp": point.timestamp,
        "step": point.step,
        "is_nan": is_nan,
    }
