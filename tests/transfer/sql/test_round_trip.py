"""What is imported answers as it did, and what is exported again is there row by row."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
import sqlalchemy as sa
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.jobs.job_runs import Runner
from mlflow_dynamodbstore.jobs.store import DynamoDBJobStore
from mlflow_dynamodbstore.transfer.sql import kinds
from mlflow_dynamodbstore.transfer.sql.database import DERIVED, Database
from tests.sql import empty_database
from tests.traces.making import make_info, make_spans, trace_id
from tests.transfer.sql.answers import answers, of_gateway_mcp_and_reviews
from tests.transfer.sql.helpers import exported, imported, stores, verified
from tests.transfer.sql.mlflow_database import Theirs
from tests.transfer.sql.other_stores import NEVER_FILLED, empty_columns, fill, fill_rest

pytestmark = pytest.mark.index_at_once


def test_an_imported_store_answers_as_the_database_does(source: Theirs, table):
    move = imported(source.uri, table)
    assert move.findings.first == []
    ours = dict(answers(*stores(table)))
    theirs = dict(answers(source.tracking, source.registry))
    assert ours.keys() == theirs.keys()
    for question, answer in theirs.items():
        assert ours[question] == answer, question


def test_an_imported_job_store_answers_as_the_database_does(source: Theirs, table):
    imported(source.uri, table)
    ours = jobs_of(DynamoDBJobStore("", table=table))
    assert ours == jobs_of(source.jobs)
    assert len(ours) == 4


def jobs_of(store: Any) -> list[dict[str, Any]]:
    """All jobs. Those of one millisecond come in any order from a database."""
    found = [dict(vars(job)) for job in store.list_jobs()]
    return sorted(found, key=lambda job: (job["_creation_time"], job["_job_id"]))


def test_an_imported_job_is_run_and_deleted_as_any_other(source: Theirs, table):
    """Though its id does not begin with the time of its creation."""
    imported(source.uri, table)
    store = DynamoDBJobStore("", table=table, queue="here")
    now = get_current_time_millis()
    lost = list(store.lost_jobs.take_over(now))
    assert sorted(job.job_name for job in lost) == ["invoke_scorer", "optimize_prompts"]
    for job in lost:
        store.start_job(job.job_id)
        store.finish_job(job.job_id, "1")
    assert list(store.lost_jobs.take_over(now)) == []
    assert [job.creation_time for job in store.list_jobs(end_timestamp=0)] == []
    assert len(store.delete_jobs()) == 4
    assert list(store.list_jobs()) == []


def test_both_sides_are_verified_to_be_the_same(source: Theirs, table):
    imported(source.uri, table)
    verification = verified(kinds.importing(Database.to_read(source.uri), table))
    assert verification.findings.first == []
    assert all(one.compared == one.same > 0 for one in verification.tallies.values())


def test_an_export_has_the_rows_of_the_database_that_was_imported(source: Theirs, table, tmp_path):
    imported(source.uri, table)
    target = empty_database(tmp_path)
    move = exported(table, target)
    assert move.findings.first == []
    before, after = rows(source.uri), rows(target)
    for name in before:
        assert after[name] == before[name], name


def test_every_column_of_jobs_gateway_mcp_servers_and_reviews_is_moved_there_and_back(
    source: Theirs, table, tmp_path
):
    """The rows say the same, though MLflow itself fills some of these columns rarely."""
    fill_rest(source.uri)
    assert empty_columns(source.uri) <= NEVER_FILLED
    assert imported(source.uri, table).findings.first == []
    assert verified(kinds.importing(Database.to_read(source.uri), table)).findings.first == []
    target = empty_database(tmp_path)
    assert exported(table, target).findings.first == []
    before, after = rows(source.uri), rows(target)
    for name in before:
        assert after[name] == before[name], name


def test_what_our_stores_wrote_of_jobs_gateway_mcp_servers_and_reviews_is_exported(table, tmp_path):
    """And not only what was imported."""
    tracking, _ = stores(table)
    jobs = DynamoDBJobStore("", table=table, queue="here", runner=Runner("a machine/1", 60))
    experiment_id = tracking.create_experiment("first")
    for n in range(4):
        tracking.log_spans(experiment_id, make_spans(trace_id(n)))
        tracking.start_trace(make_info(trace_id(n), experiment_id))
    fill(tracking, jobs, experiment_id)
    target = Theirs(empty_database(tmp_path))
    assert exported(table, target.uri).findings.first == []
    ours = dict(of_gateway_mcp_and_reviews(tracking, [experiment_id, "0"]))
    assert ours == dict(of_gateway_mcp_and_reviews(target.tracking, [experiment_id, "0"]))
    assert jobs_of(jobs) == jobs_of(target.jobs)
    assert len(jobs_of(jobs)) == 4


IGNORED = {
    "dataset_uuid": "made anew",
    "input_uuid": "made anew",
    "association_id": "made anew",
    "source_id": "of a dataset: made anew",
}


def rows(uri: str, wanted: Collection[str] | None = None) -> dict[str, Any]:
    """The rows of all tables that say something, but for what is made anew."""
    database = Database.to_read(uri)
    hooks = database.rows(sa.select(database.table("webhooks")))
    alive = {row["webhook_id"] for row in hooks if row["deleted_timestamp"] is None}
    found = {}
    for name in sorted(wanted or database.names - DERIVED):
        made = database.rows(sa.select(database.table(name)))
        ignored = IGNORED.keys() - ({"source_id"} if name != "inputs" else set())
        if name == "entity_associations":
            ignored |= {"created_time"}  # when a trace was linked is not kept
        plain = [{k: v for k, v in row.items() if k not in ignored} for row in made]
        if name in ("webhooks", "webhook_events"):  # deleted ones are not moved
            plain = [row for row in plain if row["webhook_id"] in alive]
        if name == "model_versions":  # of deleted versions only the last is needed
            plain = [row for row in plain if row["current_stage"] != "Deleted_Internal"]
        if name == "model_version_tags":
            plain = [row for row in plain if (row["name"], row["version"]) != ("iris", 4)]
        if name == "mcp_server_versions":  # of a deleted version the number is kept, no more
            plain = [row for row in plain if row["status"] != "deleted"]
        found[name] = sorted(plain, key=repr)
    database.close()
    return found
