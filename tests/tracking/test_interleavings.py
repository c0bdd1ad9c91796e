"""Two processes change one run: it ends as if one had come after the other."""

from __future__ import annotations

from itertools import count, permutations
from typing import Any, NamedTuple

import pytest
from mlflow.entities import (
    Dataset,
    DatasetInput,
    InputTag,
    Metric,
    Param,
    RunStatus,
    RunTag,
    ViewType,
)
from mlflow.models import Model

from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.tracking import metric_log, sealing
from mlflow_dynamodbstore.tracking.run_search.search import forced_path
from tests.interleaving import Operation, Two, interleaved, two_stores
from tests.places import items_in, run_place

_numbers = count(1)


class Subject(NamedTuple):
    experiment_id: str
    run_id: str


def used(digest: str) -> DatasetInput:
    return DatasetInput(Dataset("ds", digest, "t", "s"), [InputTag("mlflow.data.context", "train")])


def model(run_id: str) -> Model:
    when = "2020-01-01 00:00:00.000000"
    return Model(artifact_path="a", run_id=run_id, utc_time_created=when, model_uuid="u")


def many_metrics(store: Any, of: Subject) -> None:
    """Calls that fill segments, so that they are folded on the way."""
    for step in range(4, 10):
        store.log_metric(of.run_id, Metric("m", float(step), 40 + step, step))


def rested(store: Any, of: Subject) -> None:
    """A search, which summarises or seals a run that has rested."""
    store.search_runs([of.experiment_id], "", ViewType.ALL, 9)


OPERATIONS: dict[str, Operation] = {
    "metric": lambda store, of: store.log_metric(of.run_id, Metric("m", 2.0, 20, 2)),
    "old metric": lambda store, of: store.log_metric(of.run_id, Metric("m", 3.0, 5, 0)),
    "same metric": lambda store, of: store.log_metric(of.run_id, Metric("m", 9.0, 20, 2)),
    "batch": lambda store, of: store.log_batch(
        of.run_id, [Metric("m", 4.0, 30, 3)], [Param("q", "a")], [RunTag("t", "2")]
    ),
    "metrics": many_metrics,
    "rest": rested,
    "param": lambda store, of: store.log_param(of.run_id, Param("q", "b")),
    "other param": lambda store, of: store.log_param(of.run_id, Param("q", "c")),
    "tag": lambda store, of: store.set_tag(of.run_id, RunTag("t", "1")),
    "untag": lambda store, of: store.delete_tag(of.run_id, "t"),
    "finish": lambda store, of: store.update_run_info(of.run_id, RunStatus.FINISHED, 99, None),
    "go on": lambda store, of: store.update_run_info(of.run_id, RunStatus.RUNNING, None, None),
    "rename": lambda store, of: store.update_run_info(of.run_id, None, None, "renamed"),
    "name": lambda store, of: store.set_tag(of.run_id, RunTag("mlflow.runName", "tagged")),
    "input": lambda store, of: store.log_inputs(of.run_id, datasets=[used("d1")]),
    "other input": lambda store, of: store.log_inputs(of.run_id, datasets=[used("d2")]),
    "model": lambda store, of: store.record_logged_model(of.run_id, model(of.run_id)),
    "delete": lambda store, of: store.delete_run(of.run_id),
    "restore": lambda store, of: store.restore_run(of.run_id),
    "delete all": lambda store, of: store.delete_experiment(of.experiment_id),
    "restore all": lambda store, of: store.restore_experiment(of.experiment_id),
}
ALIKE = (
    {"metric", "old metric", "same metric"},
    {"metrics", "metric", "rest"},
    {"metrics", "finish"},
    {"metrics", "go on"},
    {"metrics", "restore"},
    {"metrics", "tag"},
    {"rest", "tag", "finish", "delete"},
    {"rest", "param"},
    {"old metric", "batch", "finish"},
    {"param", "other param", "finish"},
    {"tag", "untag", "finish"},
    {"rename", "name", "finish", "go on", "delete"},
    {"input", "other input", "finish"},
    {"model", "finish", "name"},
    {"delete", "restore", "delete all", "restore all"},
    {"batch", "delete"},
    {"batch", "delete all"},
    {"tag", "delete"},
    {"untag", "delete"},
    {"input", "delete"},
    {"model", "delete"},
    {"param", "delete all"},
)
"""What changes the same thing of a run."""


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_log, "SEGMENT_BYTES", 60)
    monkeypatch.setattr(metric_log, "SEGMENTS_BEFORE_FOLDING", 2)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Two:
    return two_stores(tmp_path_factory.mktemp("runs"))


def begin(store: Any, *, ended: bool) -> Subject:
    store.table.clock.now -= sealing.REST_BEFORE_SEALING + 1  # so that the run has rested now
    home = store.create_experiment(f"e{next(_numbers)}")
    run_id = store.create_run(home, "ada", 5, [RunTag("t", "0")], "name").info.run_id
    store.log_batch(run_id, [Metric("m", 1.0, 10, 1)], [Param("p", "x")], [])
    if ended:
        store.update_run_info(run_id, RunStatus.FINISHED, 9, None)
    store.table.clock.now += sealing.REST_BEFORE_SEALING + 1
    return Subject(home, run_id)


def state_of(store: Any, of: Subject) -> object:
    """What there is of a run, and whether all paths to it show the same."""
    store.run_lookup.forget(of.run_id)
    run = store.get_run(of.run_id)
    own = store.table.get(run_place(of.run_id).key)
    children = items_in(store.table, of.experiment_id, run_keys.run_children(of.run_id))
    below = [item for item in children if "#MHIST#" not in item["SK"]]
    shown = run.data.to_dictionary()
    for path, order in (("ByTime", []), ("ByMetric", ["metrics.m"]), ("ByParam", ["params.p"])):
        token = forced_path.set(path)
        found = store.search_runs([of.experiment_id], "", ViewType.ALL, 9, order)
        forced_path.reset(token)
        assert [one.data.to_dictionary() for one in found] == [shown], path
    assert run.info.run_name == run.data.tags["mlflow.runName"]
    assert own["lsi4sk"] == index_keys.lsi4_run(of.run_id, run.info.run_name)
    assert own["lsi3sk"] == index_keys.lsi3_run(of.run_id, run.info.status, 5)
    return {
        "data": str(shown).replace(of.run_id, ""),
        "info": (run.info.status, run.info.end_time, run.info.run_name, run.info.lifecycle_stage),
        "history": {
            (point.step, point.value) for point in store.get_metric_history(of.run_id, "m")
        },
        "expiries": {own.get("ttl"), *(item.get("ttl") for item in below)},
        "inputs": sorted(one.dataset.digest for one in run.inputs.dataset_inputs),
        "experiment": store.get_experiment(of.experiment_id).lifecycle_stage,
    }


def cases() -> list[tuple[str, str, bool]]:
    """Pairs of operations on a run that is live, and of those on one that is sealed."""
    pairs = [
        (one, other)
        for one, other in permutations(OPERATIONS, 2)
        if any({one, other} <= some for some in ALIKE)
    ]
    of_whole_runs = {"rename", "name", "delete", "restore"}
    return [(*pair, ended) for pair in pairs for ended in {False, bool(of_whole_runs & {*pair})}]


@pytest.mark.parametrize(("one", "other", "ended"), cases())
def test_it_is_as_if_in_some_order(two: Two, one: str, other: str, ended: bool) -> None:
    def state(of: Subject) -> object:
        return state_of(two.second, of)

    def fresh() -> Subject:
        return begin(two.second, ended=ended)

    for at, end, serial in interleaved(two, fresh, OPERATIONS[one], OPERATIONS[other], state):
        assert end in serial, at
