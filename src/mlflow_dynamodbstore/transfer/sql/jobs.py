"""Background jobs, in a database and in a table.

A job that was waiting or running when it was moved is taken up by the first runner that finds it,
as after a restart of its server.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mlflow_dynamodbstore.jobs.records import DETAILS, LARGE, PARAMS, RESULT, in_status, stored
from mlflow_dynamodbstore.keys import jobs as job_keys
from mlflow_dynamodbstore.mlflow_compat.jobs import JobStatus, job_status
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.workspaces import all_workspaces
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.transfer.sql.database import TABLES, Row
from mlflow_dynamodbstore.transfer.sql.entities import Entity, EntitySource
from mlflow_dynamodbstore.transfer.sql.items import ListedItemStore
from mlflow_dynamodbstore.transfer.sql.rows import RowStore

_FIELDS = {
    "created": "creation_time",
    "name": "job_name",
    "timeout": "timeout",
    "retries": "retry_count",
    "updated": "last_update_time",
    "backend": "executor_backend",
    "lease_until": "lease_expires_at",
    "message": "status_message",
    "progress": "progress",
    "progress_at": "progress_updated_at",
    "creator": "creator",
    "next_attempt": "next_attempt_at",
}
"""Our attributes, and MLflow's columns; older releases lack some."""
_KNOWN = {ours: theirs for ours, theirs in _FIELDS.items() if theirs in TABLES["jobs"].c}


class JobRows(RowStore):
    """Jobs in a database, which numbers statuses."""

    table = "jobs"
    key = ("id",)
    columns = ("workspace", *_KNOWN.values(), "status", "params", "result", "status_details")

    def normalised(self, entity: Entity, row: Row) -> Entity:
        entity.values["status"] = JobStatus.from_int(row["status"]).value
        return entity

    def own_row(self, entity: Entity) -> Row:
        return {
            **super().own_row(entity),
            "status": job_status(entity.values["status"]).to_int(),
        }


class JobItems(ListedItemStore):
    """Jobs in a table."""

    def _keys(self, entities: Sequence[Entity]) -> Iterable[Key]:
        return (job_keys.job_key(e.key[0], e.values["workspace"]) for e in entities)

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        del source
        for workspace in sorted({str(e.values["workspace"]) for e in entities}):
            self.transfer_table.workspaces.note(workspace)
        made = [_items(entity) for entity in entities]
        self.transfer_table.put(part for _, parts in made for part in parts)
        self.transfer_table.put(job for job, _ in made)

    def _own_items(self) -> Iterator[Item]:
        for workspace in all_workspaces(self.table):
            query = Query(job_keys.jobs_pk(workspace), where=job_keys.jobs_made().on())
            yield from (item for item in self.table.items(query) if "job_id" in item)

    def _entities(self, items: Sequence[Item]) -> list[Entity]:
        texts = {name: large_values.load_many(self.table, items, name) for name in LARGE}
        return [
            _entity(item, texts[PARAMS][n], texts[RESULT][n], texts[DETAILS][n])
            for n, item in enumerate(items)
        ]


def _items(entity: Entity) -> tuple[Item, list[Item]]:
    """A job's own item, and the parts of its long texts."""
    (job_id,), values = entity.key, entity.values
    key = job_keys.job_key(job_id, values["workspace"])
    details = values["status_details"]
    texts = {
        PARAMS: values["params"],
        RESULT: values["result"],
        DETAILS: None if details is None else json.dumps(details),
    }
    written = [stored(key, name, text) for name, text in texts.items() if text is not None]
    fields = {ours: values[theirs] for ours, theirs in _KNOWN.items()}
    order = job_keys.job_order(job_id, int(values["creation_time"]))
    job: Item = {
        "PK": key.pk,
        "SK": key.sk,
        "job_id": job_id,
        **in_status(order, job_status(values["status"])),
        **{name: value for name, value in fields.items() if value is not None},
    }
    for text in written:
        job |= text.attributes
    return job, [put.item for text in written for put in text.parts]


def _entity(item: Item, params: Any, result: Any, details: Any) -> Entity:
    values: dict[str, Any] = {
        "workspace": job_keys.jobs_workspace_of(str(item["PK"])),
        **{theirs: item.get(ours) for ours, theirs in _KNOWN.items()},
        "status": job_status(item["status"]).value,
        "params": params,
        "result": result,
        "status_details": None if details is None else json.loads(details),
    }
    return Entity((item["job_id"],), values)
