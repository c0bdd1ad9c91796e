"""Lost jobs: finding those that no runner will finish, and taking them over.

A server's runner keeps its jobs in a queue of its own, which other servers cannot see. It holds a
lease on that queue, and each job that runs has a lease too. A job is lost when its own lease has
ended, when its runner is known to be gone, or when nobody holds the queue that it is in. Of several
servers one takes it over, by a conditional write.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from uuid import uuid4

from boto3.dynamodb.conditions import Attr, ConditionBase

from mlflow_dynamodbstore.jobs.jobs import Jobs
from mlflow_dynamodbstore.jobs.leases import Lease, Leases
from mlflow_dynamodbstore.jobs.processes import is_gone, name_of_process
from mlflow_dynamodbstore.jobs.records import in_status, job_of, status_of
from mlflow_dynamodbstore.jobs.status_changes import Change, StatusChanges, to_pending
from mlflow_dynamodbstore.mlflow_compat.jobs import NEEDS_RECOVERY, Job, JobStatus
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item

PENDING, RUNNING = JobStatus.PENDING, JobStatus.RUNNING
LEASE_OF_QUEUE, LEASE_OF_JOB = "queue ", "job "


class LostJobs:
    """Jobs that no runner will finish, as the server with a queue sees them."""

    def __init__(
        self, context: Context, changes: StatusChanges, jobs: Jobs, leases: Leases, queue: str
    ) -> None:
        self.context = context
        self.table = context.table
        self.changes = changes
        self.jobs = jobs
        self.leases = leases
        self.queue = queue

    def hold_queue(self, seconds: float) -> None:
        """Say that the runner in this process serves the queue, for some time.

        A runner that is started anew takes the queue of the one before it.
        """
        name = LEASE_OF_QUEUE + self.queue
        holder = name_of_process(os.getpid())
        if self.leases.acquire(name, holder, seconds) is None:
            self.leases.acquire(name, holder, seconds, instead_of=self.leases.find(name))

    def take_over(
        self, until: int, statuses: Sequence[JobStatus] = (PENDING, RUNNING, NEEDS_RECOVERY)
    ) -> Iterator[Job]:
        """Lost jobs created up to a millisecond, which wait in this server's queue from now on."""
        held: dict[str, bool] = {}
        for item in self.jobs.items(list(dict.fromkeys(statuses)), None, until):
            if self._is_lost(item, held) and (taken := self._take(item)) is not None:
                yield job_of(self.table, taken)

    def missing_from(self, queued: Iterable[str], until: int) -> Iterator[Job]:
        """Jobs created up to a millisecond that wait in this server's queue and are not in it."""
        known = set(queued)
        for item in self.jobs.items([PENDING], None, until):
            if item.get("queue") == self.queue and item["job_id"] not in known and self._due(item):
                yield job_of(self.table, item)

    def claim(self, job_id: str, seconds: float) -> Lease | None:
        """The right to run a job that waits and is due; None if there is nothing to run.

        A job may be in several queues, or twice in one, after it was taken over. One claim holds.
        """
        item = self.changes.existing_job(job_id)
        if status_of(item) != PENDING or not self._due(item):
            return None
        name, holder = LEASE_OF_JOB + job_id, f"{name_of_process(os.getpid())} {uuid4().hex}"
        lease = self.leases.acquire(name, holder, seconds)
        if lease is not None:
            return lease
        held = self.leases.find(name)
        if held is not None and not is_gone(held.holder.partition(" ")[0]):
            return None
        return self.leases.acquire(name, holder, seconds, instead_of=held)

    def _is_lost(self, item: Item, held: dict[str, bool]) -> bool:
        status = status_of(item)
        if status == PENDING:
            return self._due(item) and not self._is_held(item.get("queue"), held)
        if "runner" in item and is_gone(str(item["runner"])):
            return True
        if status == RUNNING and "lease_until" in item:
            return int(item["lease_until"]) < self.context.now_ms()
        return not self._is_held(item.get("queue"), held)

    def _due(self, item: Item) -> bool:
        return int(item.get("next_attempt", 0)) <= self.context.now_ms()

    def _is_held(self, queue: str | None, held: dict[str, bool]) -> bool:
        """Whether a runner serves a queue; each is looked up once."""
        if queue is None:
            return False
        if queue == self.queue:
            return True
        if queue not in held:
            lease = self.leases.find(LEASE_OF_QUEUE + queue)
            held[queue] = (
                lease is not None
                and lease.until >= self.context.now_ms()
                and not is_gone(lease.holder)
            )
        return held[queue]

    def _take(self, item: Item) -> Item | None:
        """The job in this server's queue; None if another was faster."""
        job_id, status = str(item["job_id"]), status_of(item)
        if status == PENDING:
            update = Update(set={**in_status(job_id, PENDING), "queue": self.queue})
        else:
            update = to_pending(job_id, queue=self.queue)
        try:
            return self.changes.change(job_id, Change([status], update, _unchanged(item)))
        except ConditionFailed:
            return None


def _unchanged(item: Item) -> ConditionBase:
    """The job is in the same queue, with the same lease."""
    condition = _same(item, "queue")
    return condition & _same(item, "lease_until")


def _same(item: Item, name: str) -> ConditionBase:
    return Attr(name).eq(item[name]) if name in item else Attr(name).not_exists()
