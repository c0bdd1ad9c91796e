"""A store that has cached a trace behaves like one that has not.

Another process may have changed the trace since. The cache is a guess, and the table decides.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from mlflow.entities.trace_status import TraceStatus
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.traces.items import early_links, is_located
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.stores import everything_in, open_tracking_store
from tests.table.fakes import FakeTime
from tests.traces.making import (
    client_metadata,
    feedback,
    make_info,
    make_prompt,
    make_span,
    make_spans,
    trace_id,
)

TRACE = trace_id(1)
HERE, THERE = "1", "2"
LOCATION = "mlflow.trace.spansLocation"

Act = Callable[[DynamoDBTrackingStore], Any]


def begun_anew(store: DynamoDBTrackingStore, experiment: str) -> None:
    store.delete_traces(HERE, trace_ids=[TRACE])
    store.log_spans(experiment, [make_span(TRACE, 0, name="anew")])
    store.start_trace(make_info(TRACE, experiment, name="anew", tags={"anew": "yes"}))


FIRST: dict[str, Act] = {
    "spans": lambda store: store.log_spans(HERE, make_spans(TRACE, 3)),
    "info": lambda store: store.start_trace(make_info(TRACE, HERE, tags={"old": "yes"})),
    "kept elsewhere": lambda store: store.start_trace(
        make_info(TRACE, HERE, tags={LOCATION: "ARCHIVE_REPO"})
    ),
}

MEANWHILE: dict[str, Act] = {
    "deleted": lambda store: store.delete_traces(HERE, trace_ids=[TRACE]),
    "begun anew": lambda store: begun_anew(store, HERE),
    "begun anew elsewhere": lambda store: begun_anew(store, THERE),
    "moved": lambda store: store.start_trace(make_info(TRACE, THERE, tags={"moved": "yes"})),
    "tagged": lambda store: store.set_trace_tag(TRACE, "tagged", "yes"),
    "archived": lambda store: store.set_trace_tag(TRACE, LOCATION, "ARCHIVE_REPO"),
}

THEN: dict[str, Act] = {
    "start_trace": lambda store: info_of(store.start_trace(make_info(TRACE, HERE, name="again"))),
    "start_trace after spans": lambda store: info_of(
        store.start_trace(make_info(TRACE, HERE, metadata=client_metadata()))
    ),
    "start_trace elsewhere": lambda store: info_of(store.start_trace(make_info(TRACE, THERE))),
    "log_spans": lambda store: len(store.log_spans(HERE, make_spans(TRACE, 5)[3:])),
    "set_trace_tag": lambda store: store.set_trace_tag(TRACE, "colour", "red"),
    "set_trace_tag, long": lambda store: store.set_trace_tag(TRACE, "colour", "red" * 1000),
    "name": lambda store: store.set_trace_tag(TRACE, "mlflow.traceName", "named"),
    "delete_trace_tag": lambda store: store.delete_trace_tag(TRACE, "old"),
    "create_assessment": lambda store: (
        store.create_assessment(
            feedback(TRACE, "good", True, create_time_ms=1, last_update_time_ms=1)
        ).name
    ),
    "link_traces_to_run": lambda store: store.link_traces_to_run([TRACE], "run"),
    "link_prompts_to_trace": lambda store: store.link_prompts_to_trace(
        TRACE, [make_prompt("greeting", 1)]
    ),
    "end_trace": lambda store: info_of(
        store.deprecated_end_trace_v2(TRACE, 1_700_000_000_500, TraceStatus.ERROR, {"m": "1"}, {})
    ),
    "delete_traces": lambda store: store.delete_traces(HERE, trace_ids=[TRACE]),
    "get_trace_info": lambda store: info_of(store.get_trace_info(TRACE)),
    "get_trace": lambda store: trace_of(store.get_trace(TRACE, allow_partial=True)),
    "batch_get_trace_infos": lambda store: [
        info_of(info) for info in store.batch_get_trace_infos([TRACE])
    ],
    "batch_get_traces": lambda store: [
        trace_of(trace) for trace in store.batch_get_traces([TRACE])
    ],
}


def info_of(info: Any) -> dict[str, Any]:
    found: dict[str, Any] = info.to_dict()
    return {**found, "assessments": [made["feedback"] for made in found.get("assessments", ())]}


def trace_of(trace: Any) -> list[Any]:
    return [info_of(trace.info), *(span.to_dict() for span in trace.data.spans)]


def outcome(act: Act, store: DynamoDBTrackingStore) -> Any:
    try:
        return act(store)
    except MlflowException as error:
        return type(error), error.error_code, error.message


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_what_is_remembered_of_a_trace_changes_nothing(
    tmp_path: Path, first: str, meanwhile: str
) -> None:
    outcomes: dict[str, list[Any]] = {name: [] for name in THEN}
    for remembers in (True, False):
        folder = tmp_path / str(remembers)
        folder.mkdir()
        time = FakeTime()
        stores = [open_tracking_store(folder, time) for _ in range(4)]
        store, other, unaware, reader = stores
        for name in ("here", "there"):
            store.create_experiment(name)
        for name, act in THEN.items():
            FIRST[first](store)
            outcome(MEANWHILE[meanwhile], other)
            seen = [outcome(act, store if remembers else unaware)]
            seen += [outcome(THEN[read], reader) for read in ("get_trace_info", "get_trace")]
            for experiment in (HERE, THERE):
                reader.delete_traces(experiment, trace_ids=[TRACE])
            outcomes[name].append([*seen, left_of_it(reader)])
            for opened in stores:
                opened.trace_lookup.forget(TRACE)
        for opened in stores:
            opened.table.close()
    differing = {name: seen for name, seen in outcomes.items() if seen[0] != seen[1]}
    assert differing == {}
    assert all(left == [] for seen in outcomes.values() for *_, left in seen)


def left_of_it(store: DynamoDBTrackingStore) -> list[Any]:
    """All items of the trace, but for links that wait for it to come again."""
    found = [item for item in everything_in(store.table) if TRACE in str(item)]
    return [item for item in found if not early_links(item) or is_located(item)]


LONG = Random(0).randbytes(10_000).hex()

ADDING: dict[str, Act] = {
    "log_spans": lambda store: store.log_spans(HERE, make_spans(TRACE, 5)[3:]),
    "start_trace": lambda store: store.start_trace(make_info(TRACE, HERE, tags={"long": LONG})),
    "set_trace_tag": lambda store: store.set_trace_tag(TRACE, "long", LONG),
    "create_assessment": lambda store: store.create_assessment(
        feedback(TRACE, "good", LONG, create_time_ms=1, last_update_time_ms=1)
    ),
}


@pytest.mark.parametrize("add", ADDING)
@pytest.mark.parametrize("days", [0, 90])
def test_what_is_added_lives_as_long_as_a_trace_that_another_process_prolonged(
    tmp_path: Path, add: str, days: int
) -> None:
    time = FakeTime()
    store, other = stores = [open_tracking_store(tmp_path, time) for _ in range(2)]
    store.create_experiment("here")
    store.log_spans(HERE, make_spans(TRACE, 3))
    time.now += 86_400
    other.trace_retention.renew([HERE], days=days)
    before = len(left_of_it(other))
    ADDING[add](store)
    found = left_of_it(other)
    assert len(found) > before
    assert len({item.get("ttl") for item in found}) == 1
    assert ("ttl" in found[0]) == bool(days)
    for opened in stores:
        opened.table.close()
