"""Keys of background jobs: a partition for each workspace, and one for the leases of runners.

The id of a job begins with the millisecond of its creation, so the partition lists jobs by age.
``LSI1``, which carries whole items, lists those of a status by age. Leases belong to no workspace:
a runner serves all of them.
"""

from __future__ import annotations

from mlflow_dynamodbstore.keys.base import (
    DEFAULT_WORKSPACE,
    ID,
    LONE_NAME,
    PARTITION_NAME,
    WORD,
    Range,
    children,
    join,
    key_text,
    pieces_of,
)
from mlflow_dynamodbstore.keys.encoding import bounded
from mlflow_dynamodbstore.keys.section_types import ItemDescription, KeySection
from mlflow_dynamodbstore.table.values import Item, Key

_MILLISECOND_DIGITS = 12
_DASH_AFTER = 8
_AFTER_DASH = "."
_UUID_LENGTH, _VERSION_AT = 36, 14
_LAST_MILLISECOND = (1 << 48) - 1


def jobs_pk(workspace: str = DEFAULT_WORKSPACE) -> str:
    """The partition of the jobs of a workspace."""
    return join("JOBS", bounded(workspace, PARTITION_NAME))


def jobs_workspace_of(pk: str) -> str | None:
    """The workspace whose jobs lie in this partition."""
    return key_text(pieces_of(pk, "JOBS")[0])


def job(job_id: str) -> str:
    """A job."""
    return join("J", bounded(job_id, ID))


def job_key(job_id: str, workspace: str = DEFAULT_WORKSPACE) -> Key:
    """The whole key of a job."""
    return Key(jobs_pk(workspace), job(job_id))


def lsi1_job(order: str, status: str) -> str:
    """A job by status, then age; ``order`` is what :func:`job_order` says."""
    return join("JOB", bounded(status, WORD), bounded(order, ID))


def job_order(job_id: str, created: int) -> str:
    """What sorts a job by age: our own ids begin with their time, imported ones do not."""
    return job_id if begins_with_time(job_id) else f"{_first_at(created)}-{job_id}"


def begins_with_time(job_id: str) -> bool:
    """Whether a job's id is one of ours: a UUID of the seventh version."""
    return len(job_id) == _UUID_LENGTH and job_id[_VERSION_AT] == "7"


def leases_pk() -> str:
    """The partition of all leases."""
    return "JOBLEASES"


def lease(name: str) -> str:
    """A lease: of a queue, or of a lock that keeps two jobs apart."""
    return join("L", bounded(name, LONE_NAME))


def lease_key(name: str) -> Key:
    """The whole key of a lease."""
    return Key(leases_pk(), lease(name))


def jobs_made(since: int | None = None, until: int | None = None) -> Range:
    """Jobs created from one millisecond to another, both included, with their parts."""
    return _in_time("J", since, until)


def jobs_of_status(status: str, since: int | None = None, until: int | None = None) -> Range:
    """In LSI1: jobs of a status, created from one millisecond to another, both included."""
    return _in_time(join("JOB", bounded(status, WORD)), since, until)


def _in_time(key: str, since: int | None, until: int | None) -> Range:
    everything = children(key)
    low = everything.low if since is None else everything.low + _first_at(since)
    high = everything.high if until is None else everything.low + _first_at(until) + _AFTER_DASH
    return Range(low, high)


def _first_at(millisecond: int) -> str:
    """The beginning of all ids of a millisecond."""
    digits = f"{min(max(millisecond, 0), _LAST_MILLISECOND):0{_MILLISECOND_DIGITS}x}"
    return f"{digits[:_DASH_AFTER]}-{digits[_DASH_AFTER:]}"


def _describe(_pk: str, words: list[str], _item: Item) -> ItemDescription | None:
    return ItemDescription("Job") if words[0] == "J" and len(words) == 2 else None


def _describe_lease(_pk: str, words: list[str], _item: Item) -> ItemDescription | None:
    return ItemDescription("Job lease") if words[0] == "L" and len(words) == 2 else None


SECTION = KeySection(
    partitions={"JOBS": _describe, "JOBLEASES": _describe_lease},
)
