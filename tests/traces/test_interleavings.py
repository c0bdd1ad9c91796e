"""Two processes change one trace: it ends as if one had come after the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, permutations
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities.assessment import FeedbackValue
from mlflow.tracing.constant import SpansLocation, TraceTagKey

from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.traces import overflow
from mlflow_dynamodbstore.traces.items import early_links, is_located, located_place
from mlflow_dynamodbstore.traces.records import record
from tests.interleaving import (
    Operation,
    Two,
    at_every_moment,
    error_of,
    interleaved,
    two_stores,
)
from tests.places import partitions
from tests.traces.making import feedback, make_info, make_prompt, make_span, make_spans, trace_id

HERE, THERE = "1", "2"
LONG = "x" * 3000

_numbers = count(1)


def begin(store: Any) -> str:
    """A trace with a bit of everything."""
    trace = trace_id(next(_numbers))
    store.log_spans(HERE, make_spans(trace, 2))
    store.start_trace(make_info(trace, HERE, tags={"short": "1", "long": LONG}))
    for name, value in (("old", 1), ("long", LONG)):
        assess(name, value)(store, trace)
    return trace


def assess(name: str, value: Any) -> Operation:
    def assessed(store: Any, trace: str) -> None:
        made = feedback(trace, name, value)
        made.assessment_id = f"{name}-{trace}"
        store.create_assessment(made)

    return assessed


OPERATIONS: dict[str, Operation] = {
    "move": lambda store, trace: store.start_trace(make_info(trace, THERE, tags={"moved": "1"})),
    "start": lambda store, trace: store.start_trace(make_info(trace, HERE, tags={"again": "1"})),
    "tag": lambda store, trace: store.set_trace_tag(trace, "late", "1"),
    "long tag": lambda store, trace: store.set_trace_tag(trace, "late", LONG),
    "lengthen tag": lambda store, trace: store.set_trace_tag(trace, "short", LONG),
    "shorten tag": lambda store, trace: store.set_trace_tag(trace, "long", "2"),
    "change tag": lambda store, trace: store.set_trace_tag(trace, "long", LONG + "y"),
    "untag": lambda store, trace: store.delete_trace_tag(trace, "short"),
    "untag long": lambda store, trace: store.delete_trace_tag(trace, "long"),
    "name": lambda store, trace: store.set_trace_tag(trace, "mlflow.traceName", "new"),
    "assess": assess("new", 2),
    "assess at length": assess("longer", LONG),
    "lengthen assessment": lambda store, trace: store.update_assessment(
        trace, f"old-{trace}", rationale=LONG
    ),
    "shorten assessment": lambda store, trace: store.update_assessment(
        trace, f"long-{trace}", feedback=FeedbackValue(value="short")
    ),
    "rewrite assessment": lambda store, trace: store.update_assessment(
        trace, f"long-{trace}", feedback=FeedbackValue(value=LONG + "y")
    ),
    "drop assessment": lambda store, trace: store.delete_assessment(trace, f"long-{trace}"),
    "span": lambda store, trace: store.log_spans(HERE, [make_span(trace, 7)]),
    "link": lambda store, trace: store.link_traces_to_run([trace], "some-run"),
    "prompt": lambda store, trace: store.link_prompts_to_trace(trace, [make_prompt("p", 1)]),
    "prolong": lambda store, trace: store.trace_retention._prolong(
        store.trace_lookup.get(trace), days=60
    ),
    "delete": lambda store, trace: store.delete_traces(HERE, trace_ids=[trace]),
}


@pytest.fixture(scope="module", params=["one item", "overflow"])
def two(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Two stores whose traces are one item each, or all have an overflow."""
    two = two_stores(tmp_path_factory.mktemp("traces"))
    for name in "here", "there":
        two.second.create_experiment(name)
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "overflow":
            patch.setattr(overflow, "OWN_ITEM_ROOM", 1)
            patch.setattr(overflow, "INLINE_OVERFLOW", 0)
        yield two


def state_of(store: Any, trace: str) -> object:
    """What there is of a trace without ids and times, what is left elsewhere, and its expiries."""
    locator = store.table.get(trace_keys.trace_locator_key(trace))
    lying = {}
    for home in HERE, THERE:
        for pk in partitions(store.table, home):
            children = Query(pk, trace_keys.trace_children(trace).on())
            found = [
                store.table.get(Key(pk, trace_keys.trace(trace))),
                *store.table.items(children),
            ]
            lying[pk] = [item for item in found if item is not None]
    if locator is None:
        return {"left": [item["SK"] for found in lying.values() for item in found]}
    if not is_located(locator):
        return early_links(locator)
    place = located_place(locator, trace)
    own, *below = lying.pop(place.pk)
    expiries = {item.get("ttl") for item in [own, locator, *below]}
    shown = record(store.table, own)
    info = _without(shown.to_info().to_dict(), trace)
    for assessment in info.get("assessments", []):
        for name in "create_time", "last_update_time":
            assessment.pop(name, None)
    return {
        "home": place.experiment_id,
        "left elsewhere": [item["SK"] for found in lying.values() for item in found],
        "expiries": expiries,
        "tags": info.pop("tags"),
        "assessments": {one["assessment_id"]: one for one in info.pop("assessments", [])},
        "info": info,
        "spans": sorted(span.start_ns for span in shown.spans),
        "links": sorted(name for name in own if name.startswith(("r:", "p:"))),
    }


def _without(value: Any, trace: str) -> Any:
    if isinstance(value, dict):
        return {name: _without(some, trace) for name, some in value.items()}
    if isinstance(value, list):
        return [_without(some, trace) for some in value]
    return value.replace(trace, "") if isinstance(value, str) else value


WHOLE = {"move", "prolong", "delete"}
"""What changes a trace with all that belongs to it."""
PARTS = {"start", "long tag", "untag long", "name", "assess", "rewrite assessment", "span", "link"}
"""What changes some part of it, each in a way of its own."""
ALIKE = (
    {"tag", "long tag"},
    {"lengthen tag", "untag"},
    {"shorten tag", "change tag", "untag long"},
    {"lengthen assessment", "drop assessment", "assess"},
    {"shorten assessment", "rewrite assessment", "drop assessment"},
    {"start", "span", "tag"},
)
"""What changes the same thing of a trace."""


def pairs() -> list[tuple[str, str]]:
    found = [
        (one, other)
        for one, other in permutations(OPERATIONS, 2)
        if ({one, other} & WHOLE and {one, other} <= WHOLE | PARTS)
        or any({one, other} <= some for some in ALIKE)
    ]
    # A trace begun elsewhere before a deletion is complete takes over the old spans.
    found.remove(("delete", "move"))
    return found


@pytest.mark.parametrize(("one", "other"), pairs())
def test_it_is_as_if_in_some_order(
    request: pytest.FixtureRequest, two: Two, one: str, other: str
) -> None:
    if "overflow" in request.node.name and (one, other) == ("delete", "link"):
        pytest.skip("links stay in the own item, and this waits for traces that are begun")

    def state(trace: str) -> object:
        return state_of(two.second, trace)

    def fresh() -> str:
        return begin(two.second)

    for at, end, serial in interleaved(two, fresh, OPERATIONS[one], OPERATIONS[other], state):
        assert end in serial, at


@pytest.mark.parametrize("other", ["move", "span", "prolong", "delete"])
def test_spans_are_here_or_archived_whatever_happens_meanwhile(
    two: Two, tmp_path: Path, other: str
) -> None:
    """A trace that has changed is archived later, and is not marked as malformed."""

    def archive(store: Any, trace: str) -> None:
        store.trace_archival._archive(
            record(store.table, store.trace_lookup.get(trace)), f"file://{tmp_path}"
        )

    def state(trace: str) -> object:
        return state_of(two.second, trace)

    def fresh() -> str:
        return begin(two.second)

    for at, (_, _, found), _ in interleaved(two, fresh, archive, OPERATIONS[other], state):
        if not isinstance(found, dict):
            assert found == [], at  # it was deleted
            continue
        tags = found.get("tags", {})
        assert TraceTagKey.ARCHIVAL_FAILURE not in tags, at
        if tags:
            archived = tags[TraceTagKey.SPANS_LOCATION] == SpansLocation.ARCHIVE_REPO.value
            assert bool(found["spans"]) != archived, at
            assert found["left elsewhere"] == [], at


def test_a_move_that_is_refused_leaves_nothing_where_it_went(two: Two, tmp_path: Path) -> None:
    """An archived trace stays where it is."""
    trace = ""

    def archive() -> None:
        found = record(two.second.table, two.second.trace_lookup.get(trace))
        assert two.second.trace_archival._archive(found, f"file://{tmp_path}")

    for at in at_every_moment(two, archive):
        trace = begin(two.second)
        error_of(OPERATIONS["move"], two.first, trace)
        found = state_of(two.second, trace)
        assert isinstance(found, dict)
        assert found["left elsewhere"] == [], at
