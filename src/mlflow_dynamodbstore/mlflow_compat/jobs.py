"""MLflow's entities of background jobs.

From 3.16 on a job names its creator, from 3.17 on it reports progress and may need recovery. Jobs
are stored alike whatever the release; an older one is not shown what it does not know.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE

from mlflow_dynamodbstore.mlflow_compat.names import private, unavailable

STORE = "mlflow.store.jobs.abstract_store"


class _Status(str, Enum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    NEEDS_RECOVERY = "NEEDS_RECOVERY"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    CANCELED = "CANCELED"

    def __str__(self) -> str:
        return self.value

    @classmethod
    def is_finalized(cls, status: _Status) -> bool:
        return status not in (cls.PENDING, cls.RUNNING, cls.NEEDS_RECOVERY)


@dataclass
class _Progress:
    phase: str | None = None
    completed: int | None = None
    total: int | None = None
    unit: str | None = None

    @classmethod
    def from_dict(cls, payload: dict[str, Any]) -> _Progress:
        return cls(*(payload.get(name) for name in ("phase", "completed", "total", "unit")))

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}


class _UpdateStatus(str, Enum):
    APPLIED = "APPLIED"
    WRONG_STATE = "WRONG_STATE"


class _TerminalStateUpdateError(MlflowException):
    def __init__(self, job_id: str, status: str):
        super().__init__(
            f"The Job {job_id} is already finalized with status: {status}, it can't be updated.",
            INVALID_PARAMETER_VALUE,
        )


if TYPE_CHECKING:
    from mlflow.entities._job import Job, JobProgress
    from mlflow.entities._job_status import JobStatus
    from mlflow.store.jobs.abstract_store import JobTerminalStateUpdateException, JobUpdateStatus

    NEEDS_RECOVERY = JobStatus.NEEDS_RECOVERY
else:
    Job = private("mlflow.entities._job", "Job", unavailable("Background jobs"))
    JobProgress = private("mlflow.entities._job", "JobProgress", _Progress)
    JobStatus = private("mlflow.entities._job_status", "JobStatus", _Status)
    JobUpdateStatus = private(STORE, "JobUpdateStatus", _UpdateStatus)
    JobTerminalStateUpdateException = private(
        STORE, "JobTerminalStateUpdateException", _TerminalStateUpdateError
    )
    # A release that does not know this status leaves a job whose runner is lost in RUNNING.
    NEEDS_RECOVERY = private(
        "mlflow.entities._job_status", "JobStatus.NEEDS_RECOVERY", JobStatus.RUNNING
    )

__all__ = [
    "NEEDS_RECOVERY",
    "Job",
    "JobProgress",
    "JobStatus",
    "JobTerminalStateUpdateException",
    "JobUpdateStatus",
    "job_status",
    "lease_seconds",
    "make_job",
    "stored_statuses",
]

_JOB_FIELDS = frozenset(inspect.signature(Job).parameters)


class _LeaseTtl:
    def get(self) -> float:
        return float(os.environ.get("MLFLOW_SERVER_JOB_LEASE_TTL") or 60)


_lease_ttl: Any = private(
    "mlflow.environment_variables", "MLFLOW_SERVER_JOB_LEASE_TTL", _LeaseTtl()
)


def lease_seconds() -> float:
    """How long a job belongs to its runner without a sign of life."""
    return float(_lease_ttl.get())


def make_job(**fields: Any) -> Job:
    """A job with as many of the fields as this release has."""
    known = {name: value for name, value in fields.items() if name in _JOB_FIELDS}
    return Job(**known)  # type: ignore[abstract]  # from_proto, which jobs do without


def job_status(stored: str) -> JobStatus:
    """The status that an item names."""
    return NEEDS_RECOVERY if stored == _Status.NEEDS_RECOVERY else JobStatus(stored)


def stored_statuses(statuses: Iterable[JobStatus]) -> list[str]:
    """What items name that are in one of these statuses."""
    shown = dict.fromkeys(statuses)
    lost = [_Status.NEEDS_RECOVERY.value] if NEEDS_RECOVERY in shown else []
    return list(dict.fromkeys([*(status.value for status in shown), *lost]))
