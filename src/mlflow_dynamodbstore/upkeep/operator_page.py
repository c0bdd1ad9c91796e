"""The operator's page: what a table holds and costs, what servers do with it, and its health.

Looking costs a few read units: what needs the whole table was counted by ``stats``, ``ttl cleanup``
or ``doctor`` (:mod:`~mlflow_dynamodbstore.upkeep.surveys`), and what servers do they count anyway
(:mod:`~mlflow_dynamodbstore.table.counters`). The page is one file that needs no other.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from mlflow_dynamodbstore.jobs.records import DETAILS
from mlflow_dynamodbstore.keys import jobs as job_keys
from mlflow_dynamodbstore.mlflow_compat.jobs import JobStatus
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.counter_files import ServerCounters
from mlflow_dynamodbstore.shared.policies import (
    METRIC_HISTORY_RETENTION,
    SOFT_DELETED_RETENTION,
    TRACE_RETENTION,
    Policies,
)
from mlflow_dynamodbstore.shared.workspaces import all_workspaces
from mlflow_dynamodbstore.table import counters as counted
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.errors import Damaged
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.upkeep import backfill, cleanup
from mlflow_dynamodbstore.upkeep.fill_state import FillState
from mlflow_dynamodbstore.upkeep.hot_volumes import hot_volumes
from mlflow_dynamodbstore.upkeep.import_state import NOTES
from mlflow_dynamodbstore.upkeep.prices import dollars
from mlflow_dynamodbstore.upkeep.surveys import Notes, Survey, Surveys
from mlflow_dynamodbstore.upkeep.table_stats import COLLECTION_LIMIT

HOURS_A_MONTH = 730
MOST_HOT_VOLUMES = 12
MOST_JOBS = 5
"""Jobs of a status and workspace that are listed: a job may have some KB, all of which are read."""
_RETENTION = {
    "traces": TRACE_RETENTION,
    "histories of metrics": METRIC_HISTORY_RETENTION,
    "what was deleted": SOFT_DELETED_RETENTION,
}
_PER_OPERATION = (
    counted.CALLS,
    counted.ERRORS,
    counted.SECONDS,
    counted.SLOW,
    counted.REQUESTS,
    counted.READ_UNITS,
    counted.WRITE_UNITS,
    counted.RETRIES,
    counted.THROTTLES,
)
_TEMPLATE = "operator_page.html"
_DATA = "__DATA__"


def operator_page(table: Table, servers: ServerCounters | None = None) -> str:
    """The page as one file."""
    return rendered(page_data(table, servers))


def rendered(data: Mapping[str, Any]) -> str:
    """The page that shows some data, which are written so that no text in them ends the script."""
    template = files(__package__).joinpath(_TEMPLATE).read_text("utf-8")
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return template.replace(_DATA, text)


def page_data(table: Table, servers: ServerCounters | None = None) -> dict[str, Any]:
    """What the page shows."""
    notes, policies = Surveys(table).read(), Policies(table)
    settings = policies.all()
    return {
        "table": table.engine.uri,
        "at": table.clock(),
        "limit": COLLECTION_LIMIT,
        **_contents(notes),
        "retention": [
            {"what": what, "days": settings[name], "source": policies.source(name)}
            for what, name in _RETENTION.items()
        ],
        "servers": None if servers is None else _activity(servers, table, notes.survey),
        "work": [*_transfers(table, settings), *_upkeep(settings, notes.survey)],
        "jobs": list(_jobs(table)),
    }


# --- what the table holds -----------------------------------------------------------------------


def _contents(notes: Notes) -> dict[str, Any]:
    survey = notes.survey
    found: dict[str, Any] = {"survey": None, "growth": notes.growth, "health": notes.health}
    if survey is not None:
        found["survey"] = {
            "at": survey.at,
            "before": survey.before,
            "kinds": [
                {
                    "kind": kind,
                    "items": amount.items,
                    "bytes": amount.bytes,
                    "index_bytes": amount.index_bytes,
                    "expiring": amount.expiring,
                    "dollars": amount.monthly(),
                }
                for kind, amount in sorted(
                    survey.by_kind.items(), key=lambda one: -one[1].bytes - one[1].index_bytes
                )
            ],
            "experiments": survey.experiments,
            "expiring": [[day, *counts] for day, counts in survey.expiring.items()],
            "orphans": survey.orphans,
        }
    return found


# --- what servers do ----------------------------------------------------------------------------


def _activity(servers: ServerCounters, table: Table, survey: Survey | None) -> dict[str, Any]:
    sums: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    # Processes begin at different times, so periods are put together by the clock.
    periods: dict[float, dict[str, Any]] = {}
    for period in servers.periods:
        start = period.start // counted.PERIOD_SECONDS * counted.PERIOD_SECONDS
        shown = periods.setdefault(start, {"start": start, "seconds": 0.0, "operations": {}})
        ended = period.start + period.seconds - start
        shown["seconds"] = max(shown["seconds"], min(ended, counted.PERIOD_SECONDS))
        for key, amount in period.counts.items():
            if key.counter in _PER_OPERATION:
                of_operation = shown["operations"].setdefault(key.operation, {})
                of_operation[key.counter] = of_operation.get(key.counter, 0.0) + amount
                sums[key.operation][key.counter] += amount
    read = sum(one[counted.READ_UNITS] for one in sums.values())
    written = sum(one[counted.WRITE_UNITS] for one in sums.values())
    hours = sum(one["seconds"] for one in periods.values()) / 3600
    return {
        "processes": servers.processes,
        "live_runs": servers.live_runs,
        "hours": hours,
        "periods": [periods[start] for start in sorted(periods)],
        "operations": sums,
        "hot": _hot(servers, table, survey),
        "monthly_dollars": dollars(read, written) / hours * HOURS_A_MONTH if hours else 0.0,
    }


def _hot(servers: ServerCounters, table: Table, survey: Survey | None) -> list[dict[str, Any]]:
    names = {} if survey is None else {one["id"]: one["name"] for one in survey.experiments}
    return [one.to_value(names) for one in hot_volumes(servers, table)[:MOST_HOT_VOLUMES]]


# --- what is under way --------------------------------------------------------------------------


def _transfers(table: Table, settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    state = FillState.read(table)
    if state is not None and state.is_unfinished:
        written, total = state.progress.items, state.progress.total
        of = "" if total is None else f" of {total:,}"
        yield _work(f"transfer from {state.source}", written, total, f"{written:,}{of} items")
    for name, value in settings.items():
        if not name.startswith(NOTES):
            continue
        noted = value if isinstance(value, dict) else {"source": value}
        done, total = noted.get("done"), noted.get("total")
        detail = f"{noted['kind']}: {done:,} of {total:,}" if "kind" in noted else "begun"
        yield _work(f"import from {noted['source']}", done, total, detail, noted.get("at"))


def _upkeep(settings: Mapping[str, Any], survey: Survey | None) -> Iterator[dict[str, Any]]:
    position = settings.get(cleanup.POSITION)
    if position:
        total = survey.total.items if survey is not None else None
        read = position["read"]
        yield _work("ttl cleanup", read, total, f"{read:,} items read", position["noted"])
    for name, value in settings.items():
        if name.startswith(backfill.POSITION) and value:
            yield _work(name.removeprefix(backfill.POSITION), None, None, "to be resumed")


def _work(
    what: str, done: int | None, total: int | None, detail: str, at: float | None = None
) -> dict[str, Any]:
    return {"what": what, "done": done, "total": total, "detail": detail, "at": at}


def _jobs(table: Table) -> Iterator[dict[str, Any]]:
    """The jobs that wait or run, the oldest first."""
    for workspace in all_workspaces(table):
        for status in (JobStatus.RUNNING, JobStatus.PENDING):
            items = _some_jobs(table, workspace, status)
            for item in items[:MOST_JOBS]:
                yield {"workspace": workspace, "status": status.value, **_shown_job(item)}
            if len(items) > MOST_JOBS:
                more = f"more jobs of workspace {workspace}"
                yield _work(more, None, None, f"are {status.value.lower()}")


def _shown_job(job: Item) -> dict[str, Any]:
    try:
        return {"created": job["created"] / 1000, **_progress(job)}
    except (Damaged, *large_values.UNREADABLE):
        return _work("a job", None, None, f"whose item {job['SK']} is damaged: see `doctor --deep`")


def _progress(job: Item) -> dict[str, Any]:
    """How far a job is, by what it reported; most of MLflow's own report their stage alone."""
    reported: dict[str, Any] = job.get("progress") or {}
    done, total, unit = (reported.get(name) for name in ("completed", "total", "unit"))
    of = "" if total is None else f" of {total:,}"
    counted = "" if done is None else f"{done:,}{of} {unit or ''}".strip()
    said = (reported.get("phase") or job.get("message") or _stage(job), counted)
    detail = ": ".join(str(one) for one in said if one)
    return _work(job["name"], done, total, detail, job.get("progress_at", 0) / 1000 or None)


def _stage(job: Item) -> str | None:
    details = job.get(DETAILS)
    if not isinstance(details, bytes):
        return None  # none were reported, or they are too long for a page
    stage = json.loads(large_values.unpack(details, job, DETAILS)).get("stage")
    return None if stage is None else str(stage)


def _some_jobs(table: Table, workspace: str, status: JobStatus) -> list[Item]:
    query = Query(
        job_keys.jobs_pk(workspace),
        where=job_keys.jobs_of_status(status.value).on("lsi1sk"),
        index="LSI1",
        limit=MOST_JOBS + 1,
        consistent=False,
    )
    return table.query(query).items
