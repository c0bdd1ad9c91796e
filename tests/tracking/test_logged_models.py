"""Logged models: their tags, params and metrics, and how they go."""

from __future__ import annotations

import itertools
import math
import struct
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import (
    LoggedModelParameter,
    LoggedModelStatus,
    LoggedModelTag,
    Metric,
)
from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import logged_models as logged_model_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.shared.policies import DAY, SOFT_DELETED_RETENTION
from mlflow_dynamodbstore.table.contract import Patch, Write
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.tracking import logged_models
from mlflow_dynamodbstore.tracking.model_records import logged_model_place_of
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.places import items_in, model_place
from tests.stores import ARTIFACTS, everything_in, open_tracking_store, refused
from tests.table.fakes import FakeTime

LONG = "long " * 1000
NASTY = ["a.b", "a#b", "100%", "", "t:", "ttl", "\U0001f600" * 60, "k" * 250, "[0]"]


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


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Times of creation and update that go up by one."""
    times = itertools.count(1000)
    monkeypatch.setattr(logged_models, "get_current_time_millis", lambda: next(times))
    return times


def new_run(store: DynamoDBTrackingStore, experiment_id: str = "0") -> str:
    return str(store.create_run(experiment_id, "user", 0, [], "run").info.run_id)


def tags(**values: str) -> list[LoggedModelTag]:
    return [LoggedModelTag(key, value) for key, value in values.items()]


def params(values: dict[str, str]) -> list[LoggedModelParameter]:
    return [LoggedModelParameter(key, value) for key, value in values.items()]


def items_of(store: DynamoDBTrackingStore, model_id: str) -> list[Item]:
    within = logged_model_keys.logged_model_and_children(model_id)
    return items_in(store.table, "0", within)


# --- creating and reading -------------------------------------------------------------------------


def test_a_new_model_is_read_back_as_it_was_made(store, clock):
    run_id = new_run(store)
    made = store.create_logged_model(
        "0", "iris", run_id, tags(a="1"), params({"lr": "0.1", "long": LONG}), "agent"
    )
    assert model_place(made.model_id).experiment_id == "0"
    assert made.to_dictionary() == store.get_logged_model(made.model_id).to_dictionary()
    assert (made.name, made.source_run_id, made.model_type) == ("iris", run_id, "agent")
    assert (made.tags, made.params) == ({"a": "1"}, {"lr": "0.1", "long": LONG})
    assert (made.creation_timestamp, made.last_updated_timestamp) == (1000, 1000)
    assert made.status == LoggedModelStatus.PENDING
    assert made.metrics is None
    assert made.artifact_location == f"{ARTIFACTS}/0/models/{made.model_id}/artifacts"


def test_a_model_without_a_name_gets_one(store):
    assert store.create_logged_model("0").name


@pytest.mark.parametrize("experiment_id", ["77", "1"])
def test_a_model_needs_an_active_experiment(store, experiment_id):
    if experiment_id == "1":
        assert store.create_experiment("e") == "1"
        store.delete_experiment("1")
        expected = refused("INVALID_PARAMETER_VALUE", "must be in the 'active' state")
    else:
        expected = refused("RESOURCE_DOES_NOT_EXIST", "No Experiment with id=77 exists")
    with expected:
        store.create_logged_model(experiment_id)


def test_an_unknown_model_is_not_found_by_any_method(store):
    for model_id in ("m-" + "0" * 32, "nonsense", ids.new_model_id("0"), ids.new_model_id("77")):
        for call in (
            store.get_logged_model,
            lambda m: store.get_logged_model(m, allow_deleted=True),
            store.delete_logged_model,
            store._hard_delete_logged_model,
            lambda m: store.finalize_logged_model(m, LoggedModelStatus.READY),
            lambda m: store.set_logged_model_tags(m, tags(a="1")),
            lambda m: store.set_logged_model_tags(m, tags(a=LONG)),
            lambda m: store.set_logged_model_tags(m, []),
            lambda m: store.delete_logged_model_tag(m, "a"),
            lambda m: store.log_logged_model_params(m, params({"a": "1"})),
            lambda m: store.log_logged_model_params(m, []),
        ):
            with refused("RESOURCE_DOES_NOT_EXIST", f"Logged model with ID '{model_id}' not found"):
                call(model_id)
    assert not [item for item in everything_in(store.table) if item["SK"].startswith("LM#")]


def test_a_model_with_an_id_from_elsewhere_is_found(tmp_path, time, monkeypatch):
    """Once GSI1 shows it: such an id does not say where the model lies."""
    store = open_tracking_store(tmp_path, time, options="synchronous=NORMAL&index_lag=0")
    foreign = "m-" + uuid.UUID(int=7, version=4).hex
    monkeypatch.setattr(ids, "new_model_id", lambda *_, **__: foreign)
    store.create_logged_model("0", "imported")
    store.set_logged_model_tags(foreign, tags(a="1"))
    assert store.get_logged_model(foreign).tags == {"a": "1"}
    store.table.close()


def test_finalizing_sets_status_and_time(store, clock):
    model_id = store.create_logged_model("0", params=params({"a": "1"})).model_id
    model = store.finalize_logged_model(model_id, LoggedModelStatus.READY)
    assert (model.status, model.creation_timestamp) == (LoggedModelStatus.READY, 1000)
    assert (model.last_updated_timestamp, model.params) == (1001, {"a": "1"})
    assert store.get_logged_model(model_id).to_dictionary() == model.to_dictionary()


def entries_of(store, run_id):
    entries = items_in(store.table, "0", run_keys.run_logged_models(run_id))
    return [entry["model_id"] for entry in entries]


def test_a_run_lists_every_model_of_a_name(store):
    run_id = new_run(store)
    first, second, third = (store.create_logged_model("0", "iris", run_id) for _ in range(3))
    assert entries_of(store, run_id) == [first.model_id, second.model_id, third.model_id]
    store._hard_delete_logged_model(second.model_id)
    assert entries_of(store, run_id) == [first.model_id, third.model_id]
    store._hard_delete_logged_model(first.model_id)
    assert entries_of(store, run_id) == [third.model_id]
    fourth = store.create_logged_model("0", "iris", run_id)
    assert set(entries_of(store, run_id)) == {third.model_id, fourth.model_id}
    assert store.create_logged_model("0", "iris", "no-such-run").source_run_id == "no-such-run"


# --- tags and params ------------------------------------------------------------------------------


@pytest.mark.parametrize("key", NASTY)
def test_any_key_can_be_set_changed_and_removed(store, key):
    model_id = store.create_logged_model("0", tags=[LoggedModelTag(key, "0")]).model_id
    other = [LoggedModelTag(key + "x", "other")]
    store.set_logged_model_tags(model_id, other)
    store.log_logged_model_params(model_id, [LoggedModelParameter(key, "p")])
    for value in ("1", LONG, "2", "", LONG + "!", LONG):
        store.set_logged_model_tags(model_id, [LoggedModelTag(key, value)])
        assert store.get_logged_model(model_id).tags == {key: value, key + "x": "other"}
    store.delete_logged_model_tag(model_id, key)
    model = store.get_logged_model(model_id)
    assert (model.tags, model.params) == ({key + "x": "other"}, {key: "p"})
    with refused("RESOURCE_DOES_NOT_EXIST", "No tag with key"):
        store.delete_logged_model_tag(model_id, key)


def test_a_tag_that_was_long_and_became_short_is_gone_when_removed(store):
    model_id = store.create_logged_model("0", tags=tags(a=LONG)).model_id
    store.set_logged_model_tags(model_id, tags(a="short"))
    store.delete_logged_model_tag(model_id, "a")
    assert store.get_logged_model(model_id).tags == {}


def test_a_model_has_room_for_more_params_than_an_item(store):
    many = {f"param {n:04d}": f"{n} " + "x" * 900 for n in range(900)}
    first, second = dict(list(many.items())[:450]), dict(list(many.items())[450:])
    model_id = store.create_logged_model("0", params=params(first)).model_id
    for start in range(0, len(second), 100):
        chunk = dict(list(second.items())[start : start + 100])
        store.log_logged_model_params(model_id, params(chunk))
    store.set_logged_model_tags(model_id, tags(last="x" * 1000))
    model = store.get_logged_model(model_id)
    assert (model.params, model.tags) == (many, {"last": "x" * 1000})
    (found,) = store.search_logged_models(["0"], "params.`param 0899` LIKE '899 %'")
    assert found.params == many
    with refused("INVALID_PARAMETER_VALUE", "Changing param values is not allowed"):
        store.log_logged_model_params(model_id, params({"param 0899": "other"}))


def test_params_do_not_change_and_one_changed_writes_none(store):
    model_id = store.create_logged_model("0", params=params({"a": "1", "l": LONG})).model_id
    store.log_logged_model_params(model_id, params({"a": "1", "l": LONG, "b": "2"}))
    for changed in ({"a": "2"}, {"l": "short"}, {"b": LONG}):
        with refused("INVALID_PARAMETER_VALUE", "Changing param values is not allowed"):
            store.log_logged_model_params(model_id, params({"c": "3", **changed}))
    assert store.get_logged_model(model_id).params == {"a": "1", "l": LONG, "b": "2"}


def test_tags_set_side_by_side_are_all_there(store):
    model_id = store.create_logged_model("0").model_id
    names = [f"tag{n}" for n in range(24)]

    def set_one(name: str) -> None:
        value = LONG if int(name[3:]) % 3 == 0 else name
        store.set_logged_model_tags(model_id, [LoggedModelTag(name, value)])

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(set_one, names))
    assert set(store.get_logged_model(model_id).tags) == set(names)


def test_a_repeated_key_keeps_its_last_value(store):
    model_id = store.create_logged_model("0").model_id
    store.set_logged_model_tags(model_id, [LoggedModelTag("a", "1"), LoggedModelTag("a", "2")])
    assert store.get_logged_model(model_id).tags == {"a": "2"}


def test_a_registered_version_is_noted_on_the_model(store):
    model_id = store.create_logged_model("0").model_id
    for version in ("1", "2"):
        store.set_model_versions_tags("iris", version, model_id)
    noted = store.get_logged_model(model_id).tags["mlflow.modelVersions"]
    assert noted == '[{"name": "iris", "version": "1"}, {"name": "iris", "version": "2"}]'


# --- metrics --------------------------------------------------------------------------------------


def measured(key: str, value: float, model_id: str, **more: Any) -> Metric:
    return Metric(key, value, more.pop("timestamp", 5), more.pop("step", 0), model_id, **more)


def test_a_metric_of_a_run_is_shown_with_the_model_it_was_measured_on(store):
    run_id, model_id = new_run(store), store.create_logged_model("0").model_id
    named = {"dataset_name": "d", "dataset_digest": "1"}
    store.log_metric(run_id, measured("auc", 0.5, model_id, **named))
    store.log_batch(run_id, [measured("auc", 0.6, model_id, step=1), Metric("x", 1, 1, 1)], [], [])
    found = store.get_logged_model(model_id).metrics
    assert found == [
        measured("auc", 0.5, model_id, **named, run_id=run_id),
        measured("auc", 0.6, model_id, step=1, run_id=run_id),
    ]
    assert store.finalize_logged_model(model_id, LoggedModelStatus.READY).metrics == found
    assert store.search_logged_models(["0"])[0].metrics == found
    assert [m.value for m in store.get_metric_history(run_id, "auc")] == [0.5, 0.6]


def test_the_same_value_again_is_one(store):
    run_id, model_id = new_run(store), store.create_logged_model("0").model_id
    for _ in range(3):
        store.log_batch(run_id, [measured("auc", 0.5, model_id)] * 2, [], [])
    assert len(store.get_logged_model(model_id).metrics) == 1


def test_values_of_one_moment_on_two_datasets_and_of_two_runs_are_all_kept(store):
    model_id = store.create_logged_model("0").model_id
    runs = [new_run(store), new_run(store)]
    for run_id, name in itertools.product(runs, ["one", "two"]):
        metric = measured("auc", 0.5, model_id, dataset_name=name, dataset_digest="d")
        store.log_metric(run_id, metric)
    found = store.get_logged_model(model_id).metrics
    assert {(m.run_id, m.dataset_name) for m in found} == set(
        itertools.product(runs, ["one", "two"])
    )


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1e300, 5e-324, -0.0])
def test_every_double_comes_back_as_it_was_measured(store, value):
    run_id, model_id = new_run(store), store.create_logged_model("0").model_id
    store.log_metric(run_id, measured("m", value, model_id))
    (metric,) = store.get_logged_model(model_id).metrics
    assert struct.pack(">d", metric.value) == struct.pack(">d", value)


def test_a_metric_with_a_long_name_is_found_by_it(store):
    run_id, model_id = new_run(store), store.create_logged_model("0").model_id
    name = "漢" * 250
    store.log_metric(run_id, measured(name, 0.5, model_id))
    assert [m.key for m in store.get_logged_model(model_id).metrics] == [name]
    assert len(store.search_logged_models(["0"], f"metrics.`{name}` = 0.5")) == 1


def test_a_metric_of_an_unknown_model_is_refused_before_anything_is_written(store):
    run_id = new_run(store)
    with refused("RESOURCE_DOES_NOT_EXIST", "not found"):
        store.log_metric(run_id, measured("auc", 0.5, "m-" + "0" * 32))
    assert store.get_metric_history(run_id, "auc") == []
    assert store.get_run(run_id).data.metrics == {}


def test_measuring_again_and_again_costs_no_look_at_the_model(store, monkeypatch):
    run_id, model_id = new_run(store), store.create_logged_model("0").model_id
    store.log_metric(run_id, measured("auc", 0.5, model_id))
    apply, touched = store.table.engine.apply, []

    def recorded(write: Write) -> Item | None:
        touched.append(write)
        image: Item | None = apply(write)
        return image

    monkeypatch.setattr(store.table.engine, "apply", recorded)
    store.log_metric(run_id, measured("auc", 0.6, model_id, step=1))
    assert not [write for write in touched if isinstance(write, Patch)]


# --- deleting -------------------------------------------------------------------------------------


def test_a_deleted_model_is_hidden_and_still_there(store, clock):
    model = store.create_logged_model("0", tags=tags(a="1"))
    store.delete_logged_model(model.model_id)
    with refused("RESOURCE_DOES_NOT_EXIST", "not found"):
        store.get_logged_model(model.model_id)
    assert store.search_logged_models(["0"]) == []
    kept = store.get_logged_model(model.model_id, allow_deleted=True)
    assert (kept.tags, kept.last_updated_timestamp) == ({"a": "1"}, 1001)
    store.delete_logged_model(model.model_id)


def test_deleted_models_are_listed_by_how_long_ago_that_was(store, monkeypatch):
    models = [store.create_logged_model(e) for e in ("0", store.create_experiment("other"))]
    for now, model in zip((1000, 2000), models, strict=True):
        monkeypatch.setattr(logged_models, "get_current_time_millis", lambda now=now: now)
        store.delete_logged_model(model.model_id)
    assert store._get_deleted_logged_models() == [m.model_id for m in models]
    assert store._get_deleted_logged_models(older_than=1000) == [models[0].model_id]
    assert store._get_deleted_logged_models(older_than=1001) == []


def filled(store: DynamoDBTrackingStore) -> str:
    """A model with something of every kind."""
    run_id = new_run(store)
    made = store.create_logged_model("0", "m", run_id, tags(a="1", l=LONG), params({"p": LONG}))
    store.log_batch(
        run_id, [measured("auc", 0.5, made.model_id, step=n) for n in range(600)], [], []
    )
    return str(made.model_id)


def test_a_deleted_model_expires_with_all_that_belongs_to_it(store, time):
    model_id = filled(store)
    store.delete_logged_model(model_id)
    time.now += 90 * DAY - 1
    assert len(items_of(store, model_id)) == 603
    time.now += 2
    assert items_of(store, model_id) == []
    assert store._get_deleted_logged_models() == []
    with refused("RESOURCE_DOES_NOT_EXIST", "not found"):
        store.get_logged_model(model_id, allow_deleted=True)


def test_without_a_retention_policy_a_deleted_model_stays(store, time):
    store.policies.set(SOFT_DELETED_RETENTION, 0)
    model_id = filled(store)
    store.delete_logged_model(model_id)
    time.now += 10_000 * DAY
    assert len(items_of(store, model_id)) == 603


def test_a_model_removed_for_good_leaves_nothing_behind(store):
    untouched = store.create_logged_model("0", tags=tags(l=LONG)).model_id
    model_id = filled(store)
    store.delete_logged_model(model_id)
    store._hard_delete_logged_model(model_id)
    left = [i for i in everything_in(store.table) if i["SK"].startswith("LM#")]
    assert {logged_model_place_of(item) for item in left} == {model_place(untouched)}
    assert not [i for i in everything_in(store.table) if i.get("model_id") == model_id]


def test_deleting_a_run_keeps_the_models_it_made(store):
    run_id = new_run(store)
    model_id = store.create_logged_model("0", "m", run_id).model_id
    store.delete_run(run_id)
    assert store.get_logged_model(model_id).source_run_id == run_id


# --- workspaces -----------------------------------------------------------------------------------


def test_a_model_of_another_workspace_is_as_unknown_as_one_that_is_not(tmp_path, time, monkeypatch):
    monkeypatch.setenv(MLFLOW_ENABLE_WORKSPACES.name, "true")
    with WorkspaceContext("default"):
        store = open_tracking_store(tmp_path, time)
        model_id = store.create_logged_model("0").model_id
        run_id = new_run(store)
        store.log_metric(run_id, measured("auc", 0.5, model_id))
    with WorkspaceContext("team"):
        other = store.create_experiment("theirs")
        own_run = new_run(store, other)
        assert store.search_logged_models(["0"]) == []
        with refused("RESOURCE_DOES_NOT_EXIST", "not found"):
            store.get_logged_model(model_id)
        with refused("RESOURCE_DOES_NOT_EXIST", "not found"):
            store.log_metric(own_run, measured("auc", 0.6, model_id, step=1))
        with refused("RESOURCE_DOES_NOT_EXIST", "not found"):
            store.set_logged_model_tags(model_id, tags(a="1"))
    with WorkspaceContext("default"):
        (metric,) = store.get_logged_model(model_id).metrics or []
        assert metric.value == 0.5
    store.table.close()
