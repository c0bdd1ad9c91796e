"""What clients send becomes text or a bounded number, or is refused; it can always be read back."""

from __future__ import annotations

import pytest
from mlflow.entities import ExperimentTag, Param, RunStatus, RunTag

from tests.stores import everything_in, open_tracking_store, refused
from tests.table.fakes import FakeTime
from tests.traces.making import make_info, trace_id

TEXTS = {5: "5", 5.5: "5.5", True: "1", "ü": "ü", "": ""}
BAD = [{"epoch": 5}, [1], b"x", object(), "\ud800"]
TRACE = trace_id(1)


@pytest.fixture
def store(tmp_path):
    opened = open_tracking_store(tmp_path, FakeTime())
    yield opened
    opened.table.close()


def new_run(store, **changes):
    given = {"user_id": "ada", "start_time": 1, "tags": [], "run_name": "run", **changes}
    return store.create_run("0", **given).info.run_id


WAYS = {
    "tag of a new run": (
        lambda store, value: new_run(store, tags=[RunTag("k", value)]),
        lambda store, run: store.get_run(run).data.tags["k"],
    ),
    "tag": (
        lambda store, value: store.set_tag(store.subject, RunTag("k", value)),
        lambda store, _: store.get_run(store.subject).data.tags["k"],
    ),
    "param": (
        lambda store, value: store.log_param(store.subject, Param("k", value)),
        lambda store, _: store.get_run(store.subject).data.params["k"],
    ),
    "params of a batch": (
        lambda store, value: store.log_batch(store.subject, [], [Param("k", value)], []),
        lambda store, _: store.get_run(store.subject).data.params["k"],
    ),
    "tags of a batch": (
        lambda store, value: store.log_batch(store.subject, [], [], [RunTag("k", value)]),
        lambda store, _: store.get_run(store.subject).data.tags["k"],
    ),
    "user": (
        lambda store, value: new_run(store, user_id=value),
        lambda store, run: store.get_run(run).info.user_id,
    ),
    "experiment tag": (
        lambda store, value: store.set_experiment_tag("0", ExperimentTag("k", value)),
        lambda store, _: store.get_experiment("0").tags["k"],
    ),
    "tag of a new trace": (
        lambda store, value: store.start_trace(make_info(TRACE, "0", tags={"k": value})),
        lambda store, _: store.get_trace_info(TRACE).tags["k"],
    ),
    "metadata of a trace": (
        lambda store, value: store.start_trace(make_info(TRACE, "0", metadata={"k": value})),
        lambda store, _: store.get_trace_info(TRACE).trace_metadata["k"],
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("given", "stored"), TEXTS.items(), ids=map(repr, TEXTS))
def test_values_become_text(store, way, given, stored):
    write, read = WAYS[way]
    store.subject = new_run(store)
    assert read(store, write(store, given)) == stored


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("given", BAD, ids=["dict", "list", "bytes", "object", "half a pair"])
def test_what_is_no_text_is_refused_and_nothing_is_written(store, way, given):
    store.subject = new_run(store)
    before = everything_in(store.table)
    with refused("INVALID_PARAMETER_VALUE", "must be text"):
        WAYS[way][0](store, given)
    assert everything_in(store.table) == before


@pytest.mark.parametrize("given", [10**30, -(2**63) - 1, 5.5, "5", [1]], ids=repr)
def test_times_are_whole_numbers_of_64_bits(store, given):
    run_id = new_run(store)
    with refused("INVALID_PARAMETER_VALUE", "whole number"):
        new_run(store, start_time=given)
    with refused("INVALID_PARAMETER_VALUE", "whole number"):
        store.update_run_info(run_id, RunStatus.FINISHED, given, None)
    assert store.get_run(run_id).info.status == "RUNNING"


def test_other_values_that_are_stored_already_are_read_as_text(store):
    run_id = new_run(store)
    place = store.run_lookup.find_place(run_id)
    store.table.put(place.tag("k", {"epoch": 5}))
    assert store.get_run(run_id).data.tags["k"] == "{'epoch': 5}"
    store.update_run_info(run_id, RunStatus.FINISHED, 2, None)
    assert store.get_run(run_id).data.tags["k"] == "{'epoch': 5}"
