"""Experiments: names, numbers, tags, deletion, and the default one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import ExperimentTag, Metric, Param, RunStatus, ViewType
from mlflow.entities.lifecycle_stage import LifecycleStage
from mlflow.exceptions import MlflowException
from mlflow.utils.validation import MAX_EXPERIMENT_TAG_VAL_LENGTH

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.shared.policies import DAY
from mlflow_dynamodbstore.tracking import experiment_deletion
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.places import items_in
from tests.stores import ARTIFACTS, everything_in, open_tracking_store, refused
from tests.table.fakes import FakeTime

NASTY = [
    "#",
    "a#b",
    "100% sure",
    "  spaces  ",
    "a/b\\c",
    "EXPNAME#x",
    "\U0001f600" * 500,
    "ż" * 500,
    "x" * 500,
    "tab\tand\nline",
]


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture(params=["", "&index_lag=60"], ids=["at once", "indexes lag"])
def store(
    tmp_path: Path, time: FakeTime, request: pytest.FixtureRequest
) -> Iterator[DynamoDBTrackingStore]:
    """A store; nothing may differ while the global indexes lag."""
    store = open_tracking_store(tmp_path, time, options=f"synchronous=NORMAL{request.param}")
    yield store
    store.table.close()


def names(store: DynamoDBTrackingStore, view_type: int = ViewType.ACTIVE_ONLY) -> set[str]:
    return {experiment.name for experiment in store.search_experiments(view_type)}


# --- names and numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [123, -1.2, ["A"], {1: 2}], ids=str)
def test_a_name_that_is_no_text_is_refused_in_mlflows_words(
    store: DynamoDBTrackingStore, name: Any
) -> None:
    expected = re.escape(f"Invalid experiment name: {name}. Expects a string.")
    with pytest.raises(MlflowException, match=expected):
        store.create_experiment(name)
    with pytest.raises(MlflowException, match=expected):
        store.rename_experiment("0", name)


def test_what_was_created_can_be_read_at_once(store):
    tags = [ExperimentTag("team", "nlp")]
    experiment_id = store.create_experiment("one", tags=tags)
    for found in (store.get_experiment(experiment_id), store.get_experiment_by_name("one")):
        assert found.experiment_id == experiment_id == "1"
        assert found.name == "one"
        assert found.artifact_location == f"{ARTIFACTS}/1"
        assert found.lifecycle_stage == LifecycleStage.ACTIVE
        assert found.tags == {"team": "nlp"}
        assert found.creation_time == found.last_update_time > 0
    assert names(store) == {"Default", "one"}


def test_an_artifact_location_is_kept_as_given(store):
    experiment_id = store.create_experiment("one", artifact_location="s3://elsewhere/x")
    assert store.get_experiment(experiment_id).artifact_location == "s3://elsewhere/x"


@pytest.mark.parametrize("name", NASTY, ids=lambda name: f"{name[:8]!r}x{len(name)}")
def test_any_name_is_found_and_comes_back_as_it_was(store, name):
    experiment_id = store.create_experiment(name)
    assert store.get_experiment_by_name(name).experiment_id == experiment_id
    assert store.get_experiment_by_name(name + "?") is None
    assert names(store) == {"Default", name}
    store.rename_experiment(experiment_id, "plain")
    store.rename_experiment(experiment_id, name)
    assert names(store) == {"Default", name}


def test_a_name_is_taken_once_and_a_refused_one_uses_up_no_number(store):
    store.create_experiment("one")
    with refused("RESOURCE_ALREADY_EXISTS", r"^Experiment\(name=one\) already exists\. Error: "):
        store.create_experiment("one", tags=[ExperimentTag("k", "v")])
    assert store.create_experiment("two") == "2"


def test_the_name_of_a_deleted_experiment_stays_taken(store):
    store.delete_experiment(store.create_experiment("one"))
    with refused("RESOURCE_ALREADY_EXISTS", "already exists"):
        store.create_experiment("one")
    assert store.get_experiment_by_name("one").lifecycle_stage == LifecycleStage.DELETED


def test_a_number_that_an_imported_experiment_has_is_passed_over(store):
    meta = store.table.get(experiment_keys.experiment_key(store.create_experiment("one")))
    store.table.put({**meta, "PK": experiment_keys.experiment_pk("2")})
    assert store.create_experiment("two", tags=[ExperimentTag("k", "v")]) == "3"


@pytest.mark.parametrize("name", ["", None, 7, "x" * 501])
def test_an_invalid_name_is_refused_before_anything_is_written(store, name):
    before = everything_in(store.table)
    with pytest.raises(MlflowException):
        store.create_experiment(name)
    assert everything_in(store.table) == before


def test_renaming_frees_the_old_name_and_takes_the_new_one(store):
    experiment_id = store.create_experiment("old")
    before = store.get_experiment(experiment_id)
    store.rename_experiment(experiment_id, "new")
    assert store.get_experiment_by_name("old") is None
    after = store.get_experiment_by_name("new")
    assert after.experiment_id == experiment_id
    assert after.creation_time == before.creation_time
    assert after.last_update_time >= before.last_update_time
    assert store.create_experiment("old") == "2"


def test_renaming_to_a_taken_name_changes_nothing(store):
    experiment_id = store.create_experiment("one")
    store.create_experiment("two")
    before = everything_in(store.table)
    with refused("RESOURCE_ALREADY_EXISTS", "already exists"):
        store.rename_experiment(experiment_id, "two")
    assert everything_in(store.table) == before


def test_renaming_to_the_same_name_is_no_conflict(store):
    experiment_id = store.create_experiment("one")
    store.rename_experiment(experiment_id, "one")
    assert store.get_experiment_by_name("one").experiment_id == experiment_id
    assert names(store) == {"Default", "one"}


def test_a_deleted_experiment_cannot_be_renamed(store):
    experiment_id = store.create_experiment("one")
    store.delete_experiment(experiment_id)
    with refused("INVALID_STATE", "Cannot rename a non-active experiment."):
        store.rename_experiment(experiment_id, "two")


def test_of_many_who_want_a_name_one_gets_it(store):
    def create(_: int) -> Any:
        try:
            return store.create_experiment("wanted")
        except MlflowException:
            return None

    with ThreadPoolExecutor(8) as pool:
        winners = [found for found in pool.map(create, range(8)) if found]
    assert len(winners) == 1
    assert store.get_experiment_by_name("wanted").experiment_id == winners[0]


def test_many_at_once_get_numbers_of_their_own(store):
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda n: store.create_experiment(f"name {n}"), range(24)))
    assert len(set(numbers)) == 24
    assert len(names(store)) == 25


def test_of_many_who_rename_to_one_name_one_succeeds(store):
    numbers = [store.create_experiment(f"name {n}") for n in range(6)]

    def rename(experiment_id: str) -> bool:
        try:
            store.rename_experiment(experiment_id, "wanted")
        except MlflowException:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(rename, numbers)) == 1
    assert len(names(store)) == 7
    assert "wanted" in names(store)


def test_renaming_one_experiment_from_many_sides_leaves_one_name(store):
    experiment_id = store.create_experiment("first")
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda n: store.rename_experiment(experiment_id, f"name {n}"), range(12)))
    name = store.get_experiment(experiment_id).name
    assert names(store) == {"Default", name}
    assert store.get_experiment_by_name(name).experiment_id == experiment_id


@pytest.mark.parametrize("experiment_id", [7, "7", "007", "-1", "9" * 30])
def test_an_experiment_that_is_not_there_is_not_found(store, experiment_id):
    with refused("RESOURCE_DOES_NOT_EXIST", f"No Experiment with id={int(experiment_id)} exists"):
        store.get_experiment(experiment_id)


def test_numbers_are_accepted_where_ids_are_texts(store):
    experiment_id = int(store.create_experiment("one"))
    assert store.get_experiment(experiment_id).name == "one"
    store.rename_experiment(experiment_id, "two")
    store.set_experiment_tag(experiment_id, ExperimentTag("k", "v"))
    store.delete_experiment(experiment_id)
    store.restore_experiment(experiment_id)
    assert store.filter_active_experiment_ids([experiment_id, 0, 99]) == ["1", "0"]


# --- tags -----------------------------------------------------------------------------------------


def test_a_tag_can_be_set_replaced_and_deleted(store):
    experiment_id = store.create_experiment("one")
    for value in ("short", "l" * MAX_EXPERIMENT_TAG_VAL_LENGTH, "ż" * 1024, "", "short again"):
        store.set_experiment_tag(experiment_id, ExperimentTag("k", value))
        assert store.get_experiment(experiment_id).tags == {"k": value}
        assert store.search_experiments(filter_string="name = 'one'")[0].tags == {"k": value}
    store.delete_experiment_tag(experiment_id, "k")
    assert store.get_experiment(experiment_id).tags == {}


def test_a_long_tag_can_be_deleted_and_searched(store):
    experiment_id = store.create_experiment("one", tags=[ExperimentTag("note", "n" * 5_000)])
    assert names_where(store, "tags.note LIKE 'nnn%'") == ["one"]
    store.delete_experiment_tag(experiment_id, "note")
    assert names_where(store, "tags.note IS NOT NULL") == []


def names_where(store: DynamoDBTrackingStore, filter_string: str) -> list[str]:
    return [e.name for e in store.search_experiments(filter_string=filter_string)]


def test_more_tags_than_one_item_holds(store):
    tags = {f"{n:03d}" + "k" * 240: f"{n}" + "v" * 1000 for n in range(450)}
    given = [ExperimentTag(key, value) for key, value in tags.items()]
    experiment_id = store.create_experiment("one", tags=given)
    assert store.get_experiment(experiment_id).tags == tags
    store.set_experiment_tag(experiment_id, ExperimentTag("one", "more"))
    store.rename_experiment(experiment_id, "\U0001f600" * 500)
    assert store.get_experiment(experiment_id).tags == {**tags, "one": "more"}


def test_tags_set_one_by_one_never_fill_the_item(store):
    experiment_id = store.create_experiment("one")
    for n in range(260):
        store.set_experiment_tag(experiment_id, ExperimentTag(f"k{n}", "v" * 1000))
    assert len(store.get_experiment(experiment_id).tags) == 260


def test_deleting_a_tag_that_is_not_there_says_so(store):
    experiment_id = store.create_experiment("one")
    with refused("RESOURCE_DOES_NOT_EXIST", "No tag with name: k in experiment with id 1"):
        store.delete_experiment_tag(experiment_id, "k")


def test_tags_of_a_deleted_experiment_do_not_change(store):
    experiment_id = store.create_experiment("one", tags=[ExperimentTag("k", "v")])
    store.delete_experiment(experiment_id)
    with refused("INVALID_PARAMETER_VALUE", "must be in the 'active' state"):
        store.set_experiment_tag(experiment_id, ExperimentTag("k", "w"))
    with refused("INVALID_PARAMETER_VALUE", "must be in the 'active' state"):
        store.delete_experiment_tag(experiment_id, "k")
    assert store.get_experiment(experiment_id).tags == {"k": "v"}


# --- deleting and restoring -----------------------------------------------------------------------


def some_runs(store: DynamoDBTrackingStore, experiment_id: str) -> list[str]:
    """A live run, a sealed one, and one that was deleted by itself."""
    run_ids = []
    for n in range(3):
        run = store.create_run(experiment_id, "me", 10 + n, [], f"run {n}").info.run_id
        store.log_batch(run, [Metric("m", float(n), 1, 1)], [Param("p", str(n))], [])
        run_ids.append(run)
    for run in run_ids[1:]:
        store.update_run_info(run, RunStatus.FINISHED, 99, None)
    store.delete_run(run_ids[2])
    return run_ids


def run_ids_in(store: DynamoDBTrackingStore, experiment_id: str, view_type: int) -> list[str]:
    return [
        run.info.run_id
        for run in store.search_runs([experiment_id], "", view_type, order_by=["metrics.m ASC"])
    ]


def test_runs_are_deleted_and_restored_with_their_experiment(store):
    experiment_id = store.create_experiment("one")
    runs = some_runs(store, experiment_id)
    store.delete_experiment(experiment_id)
    assert run_ids_in(store, experiment_id, ViewType.ACTIVE_ONLY) == []
    assert run_ids_in(store, experiment_id, ViewType.DELETED_ONLY) == runs
    assert set(store._get_deleted_runs()) == set(runs)
    with refused("INVALID_PARAMETER_VALUE", "must be in the 'active' state"):
        store.log_metric(runs[0], Metric("m", 5.0, 2, 2))
    store.restore_experiment(experiment_id)
    assert run_ids_in(store, experiment_id, ViewType.ACTIVE_ONLY) == runs
    assert store._get_deleted_runs() == []
    assert [
        run.info.run_id for run in store.search_runs([experiment_id], "metrics.m > 0.5", 1)
    ] == [
        runs[2],
        runs[1],
    ]


def test_runs_of_a_restored_experiment_do_not_expire(store, time):
    experiment_id = store.create_experiment("one")
    runs = some_runs(store, experiment_id)
    store.delete_experiment(experiment_id)
    store.restore_experiment(experiment_id)
    time.sleep(91 * DAY)
    assert store.get_experiment(experiment_id).lifecycle_stage == LifecycleStage.ACTIVE
    assert store.get_experiment_by_name("one") is not None
    assert run_ids_in(store, experiment_id, ViewType.ACTIVE_ONLY) == runs
    assert store.get_run(runs[2]).data.params == {"p": "2"}


def test_a_deleted_experiment_expires_and_its_name_with_it(store, time):
    experiment_id = store.create_experiment("one")
    store.delete_experiment(experiment_id)
    time.sleep(89 * DAY)
    assert names(store, ViewType.DELETED_ONLY) == {"one"}
    time.sleep(2 * DAY)
    assert store.get_experiment_by_name("one") is None
    assert names(store, ViewType.ALL) == {"Default"}
    with refused("RESOURCE_DOES_NOT_EXIST", "No Experiment"):
        store.restore_experiment(experiment_id)
    assert store.create_experiment("one") == "2"


def test_without_a_retention_nothing_expires(store, time):
    store.policies.set("soft_deleted_retention_days", 0)
    experiment_id = store.create_experiment("one")
    store.delete_experiment(experiment_id)
    time.sleep(10_000 * DAY)
    store.restore_experiment(experiment_id)
    assert names(store) == {"Default", "one"}


def test_deleting_and_restoring_want_the_other_stage(store):
    experiment_id = store.create_experiment("one")
    with refused("RESOURCE_DOES_NOT_EXIST", "No Experiment with id=1 exists"):
        store.restore_experiment(experiment_id)
    store.delete_experiment(experiment_id)
    with refused("RESOURCE_DOES_NOT_EXIST", "No Experiment with id=1 exists"):
        store.delete_experiment(experiment_id)


class Interruption(BaseException):
    """Stands for the end of a process."""


@pytest.mark.parametrize("operation", ["delete_experiment", "restore_experiment"])
def test_an_interrupted_change_of_stage_is_finished_by_the_next_call(store, monkeypatch, operation):
    experiment_id = store.create_experiment("one")
    runs = [store.create_run(experiment_id, "me", n, [], "r").info.run_id for n in range(5)]
    if operation == "restore_experiment":
        store.delete_experiment(experiment_id)
    monkeypatch.setattr(experiment_deletion, "RUNS_AT_ONCE", 2)
    change, calls = store.experiment_deletion._set_stage_of_runs, []

    def change_once(*args: object) -> object:
        calls.append(args)
        if len(calls) == 2:
            raise Interruption
        return change(*args)

    monkeypatch.setattr(store.experiment_deletion, "_set_stage_of_runs", change_once)
    with pytest.raises(Interruption):
        getattr(store, operation)(experiment_id)
    getattr(store, operation)(experiment_id)
    view = ViewType.DELETED_ONLY if operation == "delete_experiment" else ViewType.ACTIVE_ONLY
    assert set(run_ids_in(store, experiment_id, view)) == set(runs)
    with refused("RESOURCE_DOES_NOT_EXIST", "No Experiment"):
        getattr(store, operation)(experiment_id)


# --- for good -------------------------------------------------------------------------------------


def test_nothing_is_left_of_an_experiment_removed_for_good(store):
    before = everything_in(store.table)
    experiment_id = store.create_experiment("one", tags=[ExperimentTag("k", "v" * 5_000)])
    some_runs(store, experiment_id)
    store.delete_experiment(experiment_id)
    store._hard_delete_experiment(experiment_id)
    counter = access_keys.sequence_key("experiment")
    left = [item for item in everything_in(store.table) if item["SK"] != counter.sk]
    assert left == before
    assert store.create_experiment("one") == "2"


def test_an_active_experiment_is_not_removed_for_good(store):
    experiment_id = store.create_experiment("one")
    with refused("RESOURCE_DOES_NOT_EXIST", "No Experiment"):
        store._hard_delete_experiment(experiment_id)
    assert store.get_experiment(experiment_id).name == "one"


def test_an_interrupted_removal_is_finished_by_the_next_call(store, monkeypatch):
    experiment_id = store.create_experiment("one")
    some_runs(store, experiment_id)
    store.delete_experiment(experiment_id)
    with monkeypatch.context() as patch:
        patch.setattr(store.table, "transact", lambda _: (_ for _ in ()).throw(Interruption))
        with pytest.raises(Interruption):
            store._hard_delete_experiment(experiment_id)
    assert names(store, ViewType.DELETED_ONLY) == {"one"}
    store._hard_delete_experiment(experiment_id)
    assert items_in(store.table, experiment_id) == []
    assert store.get_experiment_by_name("one") is None


# --- the default experiment -----------------------------------------------------------------------


def test_many_who_open_a_new_store_at_once_make_one_default_experiment(tmp_path, time):
    with ThreadPoolExecutor(6) as pool:
        opened = list(pool.map(lambda _: open_tracking_store(tmp_path, time), range(6)))
    for store in opened:
        assert [e.experiment_id for e in store.search_experiments()] == ["0"]
        assert store.get_experiment("0").name == "Default"
        assert store.get_experiment("0").artifact_location == f"{ARTIFACTS}/0"
        store.table.close()


def test_a_default_experiment_that_was_renamed_or_deleted_is_left_so(tmp_path, time):
    store = open_tracking_store(tmp_path, time)
    store.rename_experiment("0", "mine")
    store.delete_experiment("0")
    again = open_tracking_store(tmp_path, time)
    assert again.get_experiment("0").name == "mine"
    assert names(again) == set()


def test_a_default_experiment_that_is_gone_is_made_again(tmp_path, time):
    store = open_tracking_store(tmp_path, time)
    store.delete_experiment("0")
    store._hard_delete_experiment("0")
    again = open_tracking_store(tmp_path, time)
    assert again.get_experiment("0").lifecycle_stage == LifecycleStage.ACTIVE


def test_another_experiment_in_the_default_one_s_place_is_an_error(tmp_path, time):
    store = open_tracking_store(tmp_path, time)
    store.delete_experiment("0")
    store._hard_delete_experiment("0")
    store.create_experiment("Default")
    with refused("RESOURCE_ALREADY_EXISTS", r"Experiment\(name=Default\) already exists"):
        open_tracking_store(tmp_path, time)
