"""Datasets and models that runs read and produce."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import (
    Dataset,
    DatasetInput,
    InputTag,
    LoggedModelInput,
    LoggedModelOutput,
    RunStatus,
    ViewType,
)
from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.tracking import sealing
from mlflow_dynamodbstore.tracking.inputs import datasets_of
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.places import items_in
from tests.stores import everything_in, open_tracking_store, refused
from tests.table.fakes import FakeTime


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DynamoDBTrackingStore]:
    store = open_tracking_store(tmp_path, FakeTime(), options="synchronous=NORMAL&index_lag=60")
    yield store
    store.table.close()


@pytest.fixture
def run_id(store: DynamoDBTrackingStore) -> str:
    return new_run(store)


def new_run(store: DynamoDBTrackingStore, experiment_id: str = "0") -> str:
    run_id: str = store.create_run(experiment_id, "me", 1, [], "run").info.run_id
    return run_id


def dataset(name: str = "mnist", digest: str = "9f", **changes: str) -> Dataset:
    given: dict[str, Any] = {
        "source_type": "s3",
        "source": "s3://b",
        "schema": "{}",
        "profile": None,
        **changes,
    }
    return Dataset(name=name, digest=digest, **given)


def used(data: Dataset, **tags: str) -> DatasetInput:
    return DatasetInput(data, [InputTag(key, value) for key, value in tags.items()])


def in_context(data: Dataset, context: str) -> DatasetInput:
    return DatasetInput(data, [InputTag(MLFLOW_DATASET_CONTEXT, context)])


def inputs_of(store: DynamoDBTrackingStore, run_id: str) -> list[tuple[Dataset, dict[str, str]]]:
    """The inputs of a run as `get_run` shows them, which a search must show, too."""
    run: Any = store.get_run(run_id)
    found: Any = store.search_runs([run.info.experiment_id], "", ViewType.ALL)
    again = next(other for other in found if other.info.run_id == run_id)
    assert again.inputs.to_dictionary() == run.inputs.to_dictionary()
    return [(i.dataset, {tag.key: tag.value for tag in i.tags}) for i in run.inputs.dataset_inputs]


def noise(size: int) -> str:
    """A text that does not compress to nothing."""
    return random.Random(0).randbytes(size // 2).hex()


# --- datasets -------------------------------------------------------------------------------------


def test_a_dataset_comes_back_as_it_was_logged(store, run_id):
    data = dataset(schema="ż" * 100, profile='{"rows": 1}')
    store.log_inputs(run_id, [used(data, k="v", other="")])
    [(found, tags)] = inputs_of(store, run_id)
    assert found.to_dictionary() == data.to_dictionary()
    assert tags == {"k": "v", "other": ""}


@pytest.mark.parametrize("size", [300_000, 1_000_000, 16_777_215 // 2 * 2])
def test_schemas_and_profiles_may_be_larger_than_an_item(store, run_id, size):
    data = dataset(source="s" * 65_535, schema="x" * 1_048_575, profile=noise(size))
    store.log_inputs(run_id, [used(data)])
    [(found, _)] = inputs_of(store, run_id)
    assert found.to_dictionary() == data.to_dictionary()


@pytest.mark.parametrize(
    ("name", "digest"),
    [("#", "%"), ("a#b", "c"), ("a", "b#c"), ("\U0001f600" * 500, "\U0001f600" * 36), ("", "")],
)
def test_any_name_and_digest_can_be_used(store, run_id, name, digest):
    store.log_inputs(run_id, [used(dataset(name, digest)), used(dataset("a", "b"))])
    found = {(data.name, data.digest) for data, _ in inputs_of(store, run_id)}
    assert found == {(name, digest), ("a", "b")}
    assert {(s.name, s.digest) for s in store._search_datasets(["0"])} == found


def test_one_name_with_two_digests_is_two_datasets(store, run_id):
    store.log_inputs(run_id, [used(dataset(digest="1"), n="1"), used(dataset(digest="2"), n="2")])
    assert [(data.digest, tags) for data, tags in inputs_of(store, run_id)] == [
        ("1", {"n": "1"}),
        ("2", {"n": "2"}),
    ]


def test_the_first_description_and_the_first_tags_stay(store, run_id):
    first = dataset(source="first")
    store.log_inputs(run_id, [used(first, k="1"), used(dataset(source="same call"), k="2")])
    store.log_inputs(run_id, [used(dataset(source="second"), k="3", more="x")])
    [(found, tags)] = inputs_of(store, run_id)
    assert found.to_dictionary() == first.to_dictionary()
    assert tags == {"k": "1"}


def test_a_tag_of_an_input_may_have_an_empty_name(store, run_id):
    """As in MLflow, though a map in DynamoDB cannot hold one; the context is found beside it."""
    tags = [InputTag("", "x"), InputTag(MLFLOW_DATASET_CONTEXT, "train")]
    for _ in range(2):
        store.log_inputs(run_id, [DatasetInput(dataset(), tags)])
    assert inputs_of(store, run_id) == [(dataset(), {"": "x", MLFLOW_DATASET_CONTEXT: "train"})]
    store.update_run_info(run_id, RunStatus.FINISHED, 9, None)
    assert inputs_of(store, run_id) == [(dataset(), {"": "x", MLFLOW_DATASET_CONTEXT: "train"})]


def test_another_run_has_tags_of_its_own_for_the_same_dataset(store, run_id):
    other = new_run(store)
    store.log_inputs(run_id, [used(dataset(source="first"), k="1")])
    store.log_inputs(other, [used(dataset(source="second"), k="2")])
    [(found, tags)] = inputs_of(store, other)
    assert found.source == "first"
    assert tags == {"k": "2"}


def test_experiments_have_datasets_of_their_own(store):
    runs = {}
    for n in range(2):
        experiment_id = store.create_experiment(f"e{n}")
        runs[experiment_id] = new_run(store, experiment_id)
        store.log_inputs(runs[experiment_id], [used(dataset(source=f"source {n}"))])
    found = store.search_runs(list(runs), "", ViewType.ALL)
    sources = {r.info.experiment_id: r.inputs.dataset_inputs[0].dataset.source for r in found}
    assert sources == {"1": "source 0", "2": "source 1"}


def test_logging_a_known_dataset_again_does_not_send_its_description(store, run_id, monkeypatch):
    data = dataset(profile=noise(1_000_000))
    store.log_inputs(run_id, [in_context(data, "train")])
    written = []
    write = store.table.write

    def watched(writes, then=()):
        written.extend([*writes, *then])
        return write(writes, then)

    monkeypatch.setattr(store.table, "write", watched)
    store.log_inputs(new_run(store), [in_context(data, "train")])
    puts = [w.item["SK"] for w in written if isinstance(w, Put)]
    assert puts
    assert not [sk for sk in puts if sk in experiment_keys.DATASETS]


def test_who_loses_the_race_to_describe_a_dataset_leaves_no_parts_behind(store, run_id):
    store.log_inputs(run_id, [in_context(dataset(profile=noise(1_000_000)), "train")])
    before = [
        item["SK"] for item in everything_in(store.table) if item["SK"] in experiment_keys.DATASETS
    ]
    # In another context the dataset is not yet known, so its description is sent again.
    late = dataset(profile=noise(1_000_000) + "ff")
    store.log_inputs(new_run(store), [in_context(late, "test")])
    after = [
        item["SK"] for item in everything_in(store.table) if item["SK"] in experiment_keys.DATASETS
    ]
    assert after == before


def test_inputs_survive_sealing_and_may_follow_it(store, run_id):
    store.log_inputs(run_id, [used(dataset("before"), k="1")])
    store.update_run_info(run_id, RunStatus.FINISHED, 9, None)
    assert [data.name for data, _ in inputs_of(store, run_id)] == ["before"]
    store.log_inputs(run_id, [used(dataset("late"), k="2")], [LoggedModelInput("m-1")])
    assert [data.name for data, _ in inputs_of(store, run_id)] == ["before", "late"]
    assert [m.model_id for m in store.get_run(run_id).inputs.model_inputs] == ["m-1"]


def test_runs_can_be_searched_by_dataset(store, run_id):
    other = new_run(store)
    store.log_inputs(run_id, [in_context(dataset("one", "d1"), "train")])
    store.log_inputs(other, [in_context(dataset("two", "d2"), "eval")])
    for filter_string in (
        "dataset.name = 'one'",
        "dataset.digest = 'd1'",
        "dataset.context = 'train'",
    ):
        found = store.search_runs(["0"], filter_string, ViewType.ALL)
        assert [run.info.run_id for run in found] == [run_id]


def test_each_run_has_links_to_its_datasets(store, run_id):
    store.log_inputs(run_id, [used(dataset(digest="1")), used(dataset(digest="2"))])
    assert len(items_in(store.table, "0", experiment_keys.dataset_links(run_id))) == 2


def test_many_datasets_at_once(store, run_id):
    data = [dataset(f"d{n}", source=f"source {n}") for n in range(300)]
    store.log_inputs(run_id, [used(each, n=each.name) for each in data])
    found = {each.name: (each.source, tags) for each, tags in inputs_of(store, run_id)}
    assert found == {f"d{n}": (f"source {n}", {"n": f"d{n}"}) for n in range(300)}


def test_a_dataset_that_many_runs_name_is_read_once(store, monkeypatch):
    runs = [new_run(store) for _ in range(5)]
    for run_id in runs:
        store.log_inputs(run_id, [used(dataset())])
    records = [sealing.read(store.table, store.run_lookup.get(run_id)) for run_id in runs]
    asked = []
    get_many = store.table.get_many

    def watched(wanted):
        asked.extend(wanted := list(wanted))
        return get_many(wanted)

    monkeypatch.setattr(store.table, "get_many", watched)
    assert len(datasets_of(store.table, records)) == 1
    assert len(asked) == 1


# --- what is refused ------------------------------------------------------------------------------


def test_inputs_of_a_deleted_run_are_refused(store, run_id):
    store.delete_run(run_id)
    before = everything_in(store.table)
    with refused("INVALID_PARAMETER_VALUE", "must be in the 'active' state"):
        store.log_inputs(run_id, [used(dataset())])
    with refused("INVALID_PARAMETER_VALUE", "must be in the 'active' state"):
        store.log_outputs(run_id, [LoggedModelOutput("m-1", 0)])
    assert everything_in(store.table) == before


def test_a_run_that_is_not_there_is_not_found(store):
    with refused("RESOURCE_DOES_NOT_EXIST", "Run with id=.* not found"):
        store.log_inputs("0" * 32, [used(dataset())])


def test_datasets_must_be_a_list_of_valid_ones(store, run_id):
    with pytest.raises(TypeError, match="should be a list"):
        store.log_inputs(run_id, (used(dataset()),))
    with refused("INVALID_PARAMETER_VALUE", "'name' exceeds the maximum length"):
        store.log_inputs(run_id, [used(dataset("x" * 501))])


def test_nothing_to_log_writes_nothing(store, run_id):
    before = everything_in(store.table)
    store.log_inputs(run_id)
    store.log_inputs(run_id, [], [])
    store.log_outputs(run_id, [])
    assert everything_in(store.table) == before


# --- models ---------------------------------------------------------------------------------------


def test_models_that_a_run_read_and_produced(store, run_id):
    store.log_inputs(run_id, models=[LoggedModelInput("m-1"), LoggedModelInput("m-2")])
    store.log_inputs(run_id, models=[LoggedModelInput("m-2")])
    store.log_outputs(run_id, [LoggedModelOutput("m-3", 7), LoggedModelOutput("m-4", 0)])
    run = store.get_run(run_id)
    assert [m.model_id for m in run.inputs.model_inputs] == ["m-1", "m-2"]
    assert [(m.model_id, m.step) for m in run.outputs.model_outputs] == [("m-3", 7), ("m-4", 0)]


# --- which datasets an experiment has -------------------------------------------------------------


def summaries(store: DynamoDBTrackingStore, experiment_ids: list[Any]) -> set[Any]:
    found = store._search_datasets(experiment_ids)
    rows = {(s.experiment_id, s.name, s.digest, s.context) for s in found}
    assert len(rows) == len(found)
    return rows


def test_each_dataset_is_listed_once_for_each_context(store, run_id):
    one, two = dataset("one", "d1"), dataset("two", "d2")
    store.log_inputs(run_id, [in_context(one, "train"), used(two, k="v")])
    for context in ("train", "eval", "c" * 500, ""):
        store.log_inputs(new_run(store), [in_context(one, context)])
    assert summaries(store, ["0"]) == {
        ("0", "one", "d1", "train"),
        ("0", "one", "d1", "eval"),
        ("0", "one", "d1", "c" * 500),
        ("0", "one", "d1", ""),
        ("0", "two", "d2", None),
    }


def test_only_the_experiments_asked_for_are_listed(store):
    for n in range(3):
        experiment_id = store.create_experiment(f"e{n}")
        store.log_inputs(new_run(store, experiment_id), [used(dataset(f"d{n}", "x"))])
    assert summaries(store, [1, "3", "3", 99]) == {("1", "d0", "x", None), ("3", "d2", "x", None)}


def test_at_most_a_thousand_are_listed(store, run_id):
    store.log_inputs(run_id, [used(dataset(f"d{n}")) for n in range(1_005)])
    assert len(store._search_datasets(["0"])) == 1_000


def test_a_context_that_no_input_has_is_not_listed(store, run_id):
    store.log_inputs(run_id, [in_context(dataset(), "train")])
    store.log_inputs(run_id, [in_context(dataset(), "eval")])
    [(_, tags)] = inputs_of(store, run_id)
    assert tags == {MLFLOW_DATASET_CONTEXT: "train"}
    assert {context for *_, context in summaries(store, ["0"])} == {"train"}


def test_logging_that_was_interrupted_can_be_repeated(store, run_id, monkeypatch):
    write, calls = store.table.write, []

    def write_twice(*args: object, **more: object) -> object:
        calls.append(args)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return write(*args, **more)

    given = [in_context(dataset(profile=noise(1_000_000)), "train")]
    with monkeypatch.context() as patch:
        patch.setattr(store.table, "write", write_twice)
        with pytest.raises(KeyboardInterrupt):
            store.log_inputs(run_id, given)
    store.log_inputs(run_id, given)
    assert summaries(store, ["0"]) == {("0", "mnist", "9f", "train")}
    assert len(inputs_of(store, run_id)) == 1


def test_inputs_and_outputs_come_back_in_the_order_they_were_logged(store):
    """In one call and over several, while the run is live and once it is sealed."""
    run_id = store.create_run("0", "ada", 1, [], "run").info.run_id
    names = ["zebra", "ant", "mole", "bee"]
    for some in (names[:3], names[3:]):
        store.log_inputs(run_id, [DatasetInput(dataset(name), []) for name in some])
    models = ["m-9", "m-1", "m-5"]
    store.log_inputs(run_id, models=[LoggedModelInput(one) for one in models])
    store.log_outputs(run_id, [LoggedModelOutput(one, 0) for one in reversed(models)])
    for ended in (False, True):
        if ended:
            store.update_run_info(run_id, RunStatus.FINISHED, 2, None)
        run = store.get_run(run_id)
        assert [one.dataset.name for one in run.inputs.dataset_inputs] == names
        assert [one.model_id for one in run.inputs.model_inputs] == models
        assert [one.model_id for one in run.outputs.model_outputs] == models[::-1]
