"""Jobs: creating, reading, listing and deleting them, and what they report while they run."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any
from uuid import UUID

from boto3.dynamodb.conditions import Attr
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.jobs.records import (
    DETAILS,
    FINAL,
    OPEN,
    PARAMS,
    details_of,
    in_status,
    job_of,
    removals,
    status_of,
    stored,
)
from mlflow_dynamodbstore.jobs.status_changes import Change, StatusChanges, status_at_refusal
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import jobs as job_keys
from mlflow_dynamodbstore.mlflow_compat.jobs import (
    Job,
    JobProgress,
    JobStatus,
    JobTerminalStateUpdateException,
    stored_statuses,
)
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.mlflow_errors import translated
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.shared.search.streams import side_by_side
from mlflow_dynamodbstore.table.contract import Delete, Query
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Value

PAGE = 100


class Jobs:
    """Jobs, apart from running them."""

    def __init__(self, context: Context, changes: StatusChanges, queue: str | None = None) -> None:
        self.context = context
        self.table = context.table
        self.changes = changes
        self.queue = queue

    def create_job(
        self,
        job_name: str,
        params: str,
        timeout: float | None = None,
        creator: str | None = None,
        executor_backend: str | None = None,
    ) -> Job:
        now = get_current_time_millis()
        job_id = str(UUID(ids.new_id(now_ms=now)))
        key = self.changes.key(job_id)
        long_params = stored(key, PARAMS, params)
        given = {"timeout": timeout, "creator": creator, "backend": executor_backend}
        given["queue"] = self.queue
        item: Item = {
            "PK": key.pk,
            "SK": key.sk,
            "job_id": job_id,
            "name": job_name,
            "created": now,
            "updated": now,
            "retries": 0,
            **in_status(job_id, JobStatus.PENDING),
            **long_params.attributes,
            **{name: value for name, value in given.items() if value is not None},
        }
        self.table.write(long_params.parts)
        self.table.put(item, condition=ABSENT)
        return job_of(self.table, item)

    def get_job(self, job_id: str) -> Job:
        return job_of(self.table, self.changes.existing_job(job_id))

    # --- what a running job reports -------------------------------------------------------------

    def update_status_details(self, job_id: str, status_details: dict[str, Any]) -> None:
        def attempt() -> None:
            before = self.changes.existing_job(job_id)
            merged = {**(details_of(self.table, before) or {}), **status_details}
            details = stored(self.changes.key(job_id), DETAILS, json.dumps(merged))
            self.table.write(details.parts)
            count, seen = Attr("details_count"), before.get("details_count")
            unchanged = count.not_exists() if seen is None else count.eq(seen)
            update = Update(set=details.attributes, add={"details_count": 1})
            try:
                self.changes.change(job_id, Change(OPEN, update, unchanged))
            except ConditionFailed as refused:
                self.changes.discard(details)
                _check_is_open(job_id, refused)
                raise
            self.table.write(large_values.removal(before, DETAILS))

        optimistically(f"Job with ID {job_id}", attempt)

    def update_job_progress(
        self, job_id: str, message: str | None = None, progress: JobProgress | None = None
    ) -> None:
        if message is None and progress is None:
            return
        changes: dict[str, Value] = {"progress_at": get_current_time_millis()}
        if message is not None:
            changes["message"] = message
        if progress is not None:
            changes["progress"] = progress.to_dict()
        try:
            self.changes.change(job_id, Change(OPEN, Update(set=changes)))
        except ConditionFailed as refused:
            _check_is_open(job_id, refused)

    # --- lists ----------------------------------------------------------------------------------

    def list_jobs(
        self,
        job_name: str | None = None,
        statuses: list[JobStatus] | None = None,
        begin_timestamp: int | None = None,
        end_timestamp: int | None = None,
        params: dict[str, Any] | None = None,
    ) -> Iterator[Job]:
        items = self.items(statuses, begin_timestamp, end_timestamp)
        found = (
            job
            for item in items
            if job_name in (None, item["name"])
            if _has_params(job := job_of(self.table, item), params)
        )
        # Later pages are read after this method returns; their errors must become MLflow's, too.
        step = translated(lambda: next(found, None))
        return iter(step, None)  # None ends it

    def items(
        self, statuses: list[JobStatus] | None, since: int | None, until: int | None
    ) -> Iterator[Item]:
        """Jobs in the order they were created."""
        pk = job_keys.jobs_pk(self.context.workspace())
        queries = [
            Query(
                pk,
                where=job_keys.jobs_of_status(status, since, until).on("lsi1sk"),
                index="LSI1",
                limit=PAGE,
            )
            for status in stored_statuses(statuses or JobStatus)
        ]
        streams = side_by_side(self.table, map(self.table.pages, queries), PAGE)
        merged = heapq.merge(*streams, key=_order)
        # A job whose status changes between the queries may be found twice.
        return (next(same) for _, same in groupby(merged, key=_order))

    def delete_jobs(self, older_than: int = 0, job_ids: list[str] | None = None) -> list[str]:
        until = get_current_time_millis() - older_than - 1 if older_than > 0 else None
        deleted: list[str] = []
        for ended in batched(self._deletable(until, job_ids), PAGE):
            # A job that has ended does not change between reading and deleting it.
            self.table.write([Delete(self.table.schema.key_of(item)) for item in ended])
            self.table.write([delete for item in ended for delete in removals(item)])
            deleted += map(_job_id, ended)
        return deleted

    def _deletable(self, until: int | None, job_ids: list[str] | None) -> Iterator[Item]:
        if not job_ids:
            return self.items(list(FINAL), None, until)
        wanted = self.table.get_many(self.changes.key(job_id) for job_id in job_ids)
        return (
            item
            for item in wanted.values()
            if status_of(item) in FINAL and (until is None or int(item["created"]) <= until)
        )


def _job_id(item: Item) -> str:
    return str(item["job_id"])


def _order(item: Item) -> str:
    return job_keys.job_order(_job_id(item), int(item["created"]))


def _has_params(job: Job, wanted: dict[str, Any] | None) -> bool:
    if not wanted:
        return True
    known = json.loads(job.params)
    return all(name in known and known[name] == value for name, value in wanted.items())


def _check_is_open(job_id: str, refused: ConditionFailed) -> None:
    """Raise MLflow's error for a job that has ended."""
    status = status_at_refusal(refused)
    if JobStatus.is_finalized(status):
        raise JobTerminalStateUpdateException(job_id, status) from refused
