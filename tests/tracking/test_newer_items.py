"""What a newer release has written is refused, in one sentence, by whoever meets it."""

from __future__ import annotations

import pytest
from mlflow.entities import Metric, Param, RunTag

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from tests.places import run_place
from tests.stores import open_tracking_store, refused
from tests.table.fakes import FakeTime

SENTENCE = r"has version 7, but this release of \S+ knows versions up to \d: upgrade"

CALLS = {
    "get_run": lambda s, run: s.get_run(run),
    "log_param": lambda s, run: s.log_param(run, Param("lr", "1")),
    "set_tag": lambda s, run: s.set_tag(run, RunTag("team", "red")),
    "log_metric": lambda s, run: s.log_metric(run, Metric("loss", 0.5, 1, 0)),
    "log_batch": lambda s, run: s.log_batch(run, [Metric("loss", 0.5, 1, 0)], [], []),
    "update_run_info": lambda s, run: s.update_run_info(run, 3, 5, None),
    "delete_run": lambda s, run: s.delete_run(run),
    "search_runs": lambda s, _: s.search_runs(["0"], "", 1),
}


@pytest.fixture
def newer(tmp_path):
    """A store, and a run that a newer release has written."""
    maker, store = (open_tracking_store(tmp_path, FakeTime()) for _ in range(2))
    run_id = maker.create_run("0", "ada", 0, [], "newer").info.run_id
    key = run_place(run_id).key
    maker.table.put({**(maker.table.get(key) or {}), "v": 7})
    return store, run_id


@pytest.mark.parametrize("call", CALLS)
def test_a_newer_run_is_refused(newer, call):
    store, run_id = newer
    with refused("INVALID_STATE", SENTENCE):
        CALLS[call](store, run_id)


def test_a_newer_experiment_is_refused(tmp_path):
    store = open_tracking_store(tmp_path, FakeTime())
    key = experiment_keys.experiment_key("0")
    store.table.put({**(store.table.get(key) or {}), "v": 7})
    for call in (
        lambda: store.get_experiment("0"),
        lambda: store.create_run("0", "ada", 0, [], "new"),
        lambda: store.rename_experiment("0", "other"),
    ):
        with refused("INVALID_STATE", SENTENCE):
            call()
