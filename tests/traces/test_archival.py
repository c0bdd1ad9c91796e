"""Archiving: old spans go to an artifact repository and are read from there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import pytest
from mlflow.entities import ExperimentTag
from mlflow.entities.trace_state import TraceState
from mlflow.tracing.constant import TraceExperimentTagKey
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.traces import archival
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup
from tests.faults import SimulatedCrash
from tests.stores import everything_in, refused
from tests.traces.making import client_metadata, make_info, make_spans, trace_id

HOUR = 60 * 60 * 1000


@pytest.fixture
def archive(tmp_path: Path) -> str:
    return f"file://{tmp_path}/archive"


@pytest.fixture
def traced(store, experiment):
    """Traces of one, two, ... hours ago; the fourth is not finished."""
    now = get_current_time_millis()
    for n in range(1, 6):
        start = now - n * HOUR + 60_000
        state = TraceState.IN_PROGRESS if n == 4 else TraceState.OK
        store.log_spans(experiment, make_spans(trace_id(n), start=start))
        info = make_info(
            trace_id(n), experiment, start=start, state=state, metadata=client_metadata()
        )
        store.start_trace(info)
    return experiment


def archived(store, experiment):
    found, _ = store.search_traces(
        [experiment], "tags.`mlflow.trace.spansLocation` = 'ARCHIVE_REPO'"
    )
    return sorted(int(info.trace_id[3:], 16) for info in found)


def archive_older(store, archive, retention, **rest):
    return store.archive_traces(
        resolved_trace_archival_location=archive, broader_retention=retention, **rest
    )


def test_what_is_older_than_the_retention_is_archived_and_still_read_whole(
    store, other, traced, archive
):
    before = store.get_trace(trace_id(3))
    assert archive_older(store, archive, "2h") == 2
    assert archived(store, traced) == [3, 5]
    after = other.get_trace(trace_id(3))
    assert [s.to_dict() for s in after.data.spans] == [s.to_dict() for s in before.data.spans]
    assert len(other.batch_get_traces([trace_id(3), trace_id(5)])) == 2
    kept = [i["SK"] for i in everything_in(store.table) if trace_id(3) in i["SK"]]
    assert not [sk for sk in kept if "SPANS" in sk]
    assert len(other.search_traces([traced], "span.name = 'step-3'")[0]) == 5
    assert archive_older(store, archive, "2h") == 0


def test_a_pass_takes_the_oldest_first_up_to_its_limit(store, traced, archive):
    assert archive_older(store, archive, "1m", max_traces_per_pass=2) == 2
    assert archived(store, traced) == [3, 5]


def test_an_archived_trace_takes_no_more_spans(store, other, traced, archive):
    archive_older(store, archive, "2h")
    for one in (store, other):
        with refused("INVALID_STATE", "Cannot log spans to archived traces"):
            one.log_spans(traced, make_spans(trace_id(3)))
    with refused("INVALID_STATE", "no longer DB-backed"):
        store.start_trace(make_info(trace_id(3), traced))


def test_spans_that_a_killed_process_left_behind_are_cleaned_up(
    store, other, traced, archive, monkeypatch
):
    """It is killed between the mark of the trace and the removal of its spans."""
    monkeypatch.setattr(archival, "Delete", lambda _key: killed())
    with pytest.raises(SimulatedCrash):
        archive_older(store, archive, "2h", max_traces_per_pass=1)
    assert archived(other, traced) == [5]
    # Somebody says of a trace that its spans are in an archive, which is not true.
    other.set_trace_tag(trace_id(2), "mlflow.trace.spansLocation", "ARCHIVE_REPO")
    before = spans_in(other)
    Cleanup(other.table, grace=0, sleep=lambda _: None).run()
    assert before - spans_in(other) == {5}
    assert spans_in(other) == {1, 2, 3, 4}
    assert len(other.get_trace(trace_id(5)).data.spans) == len(make_spans(trace_id(5)))
    # Somebody takes the spans back to the table: those that come then stay.
    other.set_trace_tag(trace_id(5), "mlflow.trace.spansLocation", "TRACKING_STORE")
    other.log_spans(traced, make_spans(trace_id(5)))
    Cleanup(other.table, grace=0, sleep=lambda _: None).run()
    assert spans_in(other) == {1, 2, 3, 4, 5}


def killed() -> NoReturn:
    raise SimulatedCrash


def spans_in(store) -> set[int]:
    """The numbers of the traces whose spans are in the table."""
    found = [str(item["SK"]) for item in everything_in(store.table)]
    return {int(sk.split("#")[1][3:], 16) for sk in found if "#SPANS" in sk}


def test_deleting_an_archived_trace_deletes_its_archive(store, traced, archive, tmp_path):
    archive_older(store, archive, "2h")
    assert len([p for p in (tmp_path / "archive").rglob("*") if p.is_file()]) == 2
    assert store.delete_traces(traced, trace_ids=[trace_id(3), trace_id(5)]) == 2
    assert not [p for p in (tmp_path / "archive").rglob("*") if p.is_file()]


def test_an_experiment_can_ask_to_be_archived_now(store, traced, archive):
    tag = ExperimentTag(TraceExperimentTagKey.ARCHIVE_NOW, json.dumps({"older_than": "3h"}))
    store.set_experiment_tag(traced, tag)
    assert archive_older(store, archive, "30d") == 1
    assert archived(store, traced) == [5]
    # An unfinished trace may be archived later.
    assert TraceExperimentTagKey.ARCHIVE_NOW in store.get_experiment(traced).tags
    store.delete_traces(traced, trace_ids=[trace_id(4)])
    assert archive_older(store, archive, "30d") == 0
    assert TraceExperimentTagKey.ARCHIVE_NOW not in store.get_experiment(traced).tags


def test_an_upload_that_fails_is_tried_again(store, traced, archive, monkeypatch):
    from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository

    with monkeypatch.context() as patched:

        def fail(*_):
            raise OSError("disk full")

        patched.setattr(LocalArtifactRepository, "upload_archived_trace_data_bytes", fail)
        assert archive_older(store, archive, "2h") == 0
    assert archived(store, traced) == []
    assert archive_older(store, archive, "2h") == 2


def test_spans_that_come_while_a_trace_is_archived_keep_it_here(
    store, other, traced, archive, monkeypatch
):
    upload = store.trace_archival._finish

    def late(item, uri):
        other.log_spans(traced, make_spans(trace_id(5), 12)[10:])
        return upload(item, uri)

    monkeypatch.setattr(store.trace_archival, "_finish", late)
    assert archive_older(store, archive, "4h") == 0
    assert len(store.get_trace(trace_id(5)).data.spans) == 12
