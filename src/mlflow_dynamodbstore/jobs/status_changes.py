"""Finding a job, and changing its status.

A status changes by one conditional write, so of several callers only one succeeds. A refused write
returns the item, which tells the reason without another read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from boto3.dynamodb.conditions import Attr, ConditionBase
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE, RESOURCE_DOES_NOT_EXIST
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.jobs.records import RESULT, in_status, status_of, stored
from mlflow_dynamodbstore.keys import jobs as job_keys
from mlflow_dynamodbstore.mlflow_compat.jobs import (
    JobStatus,
    JobUpdateStatus,
    job_status,
    stored_statuses,
)
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.table.contract import Delete
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key, Value

RUN_ATTRIBUTES = ("lease_until", "runner", "message", "progress", "progress_at", "next_attempt")
"""What a job has only while it runs or waits for its next attempt."""


@dataclass(frozen=True)
class Change:
    """A change of a job, allowed only in some statuses, and on a further condition if given."""

    statuses: Sequence[JobStatus]
    update: Update
    condition: ConditionBase | None = None


class StatusChanges:
    """The only way in which jobs change."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.table = context.table

    def key(self, job_id: str) -> Key:
        """The key of a job in the workspace of the current call."""
        return job_keys.job_key(job_id, self.context.workspace())

    def existing_job(self, job_id: str) -> Item:
        """The item of a job; raises when there is none."""
        return self.table.get(self.key(job_id)) or _not_found(job_id)

    def change(self, job_id: str, change: Change) -> Item:
        """Change a job; raise ``ConditionFailed`` if its status does not allow it."""
        condition = Attr("status").is_in(stored_statuses(change.statuses))
        if change.condition is not None:
            condition &= change.condition
        changes = {**change.update.set, "updated": get_current_time_millis()}
        if "status" in changes and not job_keys.begins_with_time(job_id):
            order = job_keys.job_order(job_id, int(self.existing_job(job_id)["created"]))
            changes |= in_status(order, job_status(changes["status"]))
        update = replace(change.update, set=changes)
        try:
            item = self.table.update(self.key(job_id), update, condition=condition, returns="new")
        except ConditionFailed as refused:
            if refused.old is None:
                _not_found(job_id)
            raise
        assert item is not None
        return item

    def try_change(self, job_id: str, change: Change) -> JobUpdateStatus:
        """Change a job, or say that its status does not allow it."""
        try:
            self.change(job_id, change)
        except ConditionFailed:
            return JobUpdateStatus.WRONG_STATE
        return JobUpdateStatus.APPLIED

    def must_change(self, job_id: str, action: str, change: Change) -> Item:
        """Change a job, or raise MLflow's error."""
        try:
            return self.change(job_id, change)
        except ConditionFailed as refused:
            raise _not_allowed(job_id, action, change, status_at_refusal(refused)) from refused

    def end(
        self,
        job_id: str,
        action: str,
        statuses: Sequence[JobStatus],
        status: JobStatus,
        payload: str | None,
    ) -> Item:
        """Set the final status of a job, with a result or an error."""
        key = self.key(job_id)
        result = large_values.Stored({}) if payload is None else stored(key, RESULT, payload)
        update = Update(
            set={**in_status(job_id, status), **result.attributes}, remove=RUN_ATTRIBUTES
        )
        self.table.write(result.parts)
        try:
            return self.must_change(job_id, action, Change(statuses, update))
        except MlflowException:
            self.discard(result)
            raise

    def discard(self, unused: large_values.Stored) -> None:
        """Remove the parts of a text that no job refers to."""
        self.table.write([Delete(self.table.schema.key_of(part.item)) for part in unused.parts])


def status_at_refusal(refused: ConditionFailed) -> JobStatus:
    """The status that a job had when its change was refused."""
    assert refused.old is not None  # otherwise `change` says that there is no such job
    return status_of(refused.old)


def to_pending(job_id: str, **more: Value) -> Update:
    """The change after which a job waits to run, without the attributes of an earlier run."""
    changes = {**in_status(job_id, JobStatus.PENDING), **more}
    return Update(
        set=changes,
        remove=tuple(name for name in (*RUN_ATTRIBUTES, RESULT) if name not in changes),
    )


def _not_found(job_id: str) -> Item:
    raise MlflowException(f"Job with ID {job_id} not found", RESOURCE_DOES_NOT_EXIST)


def _not_allowed(job_id: str, action: str, change: Change, status: JobStatus) -> MlflowException:
    if JobStatus.is_finalized(status):
        return MlflowException(
            f"The Job {job_id} is already finalized with status: {status}, it can't be updated.",
            INVALID_PARAMETER_VALUE,
        )
    wanted = ", ".join(allowed.name for allowed in change.statuses)
    return MlflowException(
        f"Job {job_id} is in {status} state, cannot {action} (must be {wanted})",
        INVALID_PARAMETER_VALUE,
    )
