"""Keys of background jobs: a partition for each workspace.

The id of a job begins with the millisecond of its creation, so the partition lists jobs by age.
``LSI1``, which carries whole items, lists those of a status by age.
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
from mlflow_dynamodbstore.keys.section_types import ItemDescription, KeySection
from mlflow_dynamodbstore.table.values import Item, Key

_MILLISECOND_DIGITS = 12
_DASH_AFTER = 8
_AFTER_DASH = "."
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


def lsi1_job(job_id: str, status: str) -> str:
    """A job by status, then age."""
    return join("JOB", bounded(status, WORD), bounded(job_id, ID))


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


SECTION = KeySection(
    partitions={"JOBS": _describe},
)
