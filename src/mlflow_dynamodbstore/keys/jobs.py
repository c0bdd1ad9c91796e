"""Keys of background jobs: a partition for each workspace.

An id of a job begins with the millisecond of its creation, so the partition lists jobs by age, and
``LSI1``, which carries whole items, those of one status.
"""

from __future__ import annotations

from mlflow_dynamodbstore.keys.base import (
    DEFAULT_WORKSPACE,
    ID,
    PARTITION_NAME,
    WORD,
    Range,
    children,
    join,
    key_text,
    pieces_of,
)
from mlflow_dynamodbstore.keys.encoding import bounded
from mlflow_dynamodbstore.keys.pattern_types import Anatomy, Area, Pattern
from mlflow_dynamodbstore.table.values import Item, Key

_ID = "0197c9b4-77aa"
_MILLISECOND_DIGITS = 12
_DASH_AFTER = 8
_AFTER_DASH = "."
_LAST_MILLISECOND = (1 << 48) - 1


def jobs_pk(workspace: str = DEFAULT_WORKSPACE) -> str:
    """The partition of the jobs of a workspace."""
    return join("JOBS", bounded(workspace, PARTITION_NAME))


def jobs_workspace_of(pk: str) -> str | None:
    """The workspace whose jobs lie in a partition."""
    return key_text(pieces_of(pk, "JOBS")[0])


def job(job_id: str) -> str:
    """A job."""
    return join("J", bounded(job_id, ID))


def job_key(job_id: str, workspace: str = DEFAULT_WORKSPACE) -> Key:
    """The whole key of a job."""
    return Key(jobs_pk(workspace), job(job_id))


def lsi1_job(job_id: str, status: str) -> str:
    """A job by status, then age."""
    return join("JOB", bounded(status, WORD), bounded(job_id, ID))


def jobs_made(since: int | None = None, until: int | None = None) -> Range:
    """Jobs created in a span of milliseconds with both ends included, and parts of them."""
    return _in_time("J", since, until)


def jobs_of_status(status: str, since: int | None = None, until: int | None = None) -> Range:
    """In LSI1: jobs of a status, created in a span of milliseconds with both ends included."""
    return _in_time(join("JOB", bounded(status, WORD)), since, until)


def _in_time(key: str, since: int | None, until: int | None) -> Range:
    everything = children(key)
    low = everything.low if since is None else everything.low + _first_at(since)
    high = everything.high if until is None else everything.low + _first_at(until) + _AFTER_DASH
    return Range(low, high)


def _first_at(millisecond: int) -> str:
    """What the ids of a millisecond begin with."""
    digits = f"{min(max(millisecond, 0), _LAST_MILLISECOND):0{_MILLISECOND_DIGITS}x}"
    return f"{digits[:_DASH_AFTER]}-{digits[_DASH_AFTER:]}"


def _read(pk: str, words: list[str], item: Item) -> Anatomy | None:
    del pk, item
    return Anatomy("Job") if words[0] == "J" and len(words) == 2 else None


AREA = Area(
    patterns=(
        Pattern("PK", "JOBS#<workspace>", "Jobs of a workspace", jobs_pk, ("default",)),
        Pattern("SK", "J#<job_id>", "Job", job, (_ID,)),
        Pattern("lsi1sk", "JOB#<status>#<job_id>", "Job", lsi1_job, (_ID, "PENDING")),
    ),
    partitions={"JOBS": _read},
)
