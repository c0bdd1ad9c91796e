"""Renaming and deleting a model: one or the other for every reader, whatever happens on the way."""

from __future__ import annotations

from typing import Any

import pytest
from mlflow.entities.model_registry import ModelVersionTag, RegisteredModelTag
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.registry.items import RegisteredModelPlace
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.shared.names import claims
from mlflow_dynamodbstore.table.errors import Unavailable
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine
from tests.faults import (
    CrashingEngine,
    FaultyEngine,
    SimulatedCrash,
    When,
)
from tests.registry.helpers import check_repeats, left_behind, registry_on
from tests.stores import refused, settle_claims
from tests.table.fakes import FakeTime

LONG = "x" * 3000


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    """Few items at a time, so that there are many places to stop at."""
    monkeypatch.setattr(claims, "PAGE", 4)


def fill(store: DynamoDBRegistryStore, name: str = "old") -> None:
    """A model with everything a model can have."""
    tags = [RegisteredModelTag("short", "v"), RegisteredModelTag("long", LONG)]
    store.create_registered_model(name, tags, "a model")
    for n in range(3):
        version_tags = [ModelVersionTag("n", str(n)), ModelVersionTag("long", LONG)]
        store.create_model_version(name, f"s3://b/{n}", f"run-{n}", version_tags)
    store.transition_model_version_stage(name, 2, "Staging", False)
    for number in (1, 2, 3, 1, 3, 2):  # more changes than META carries
        store.set_registered_model_alias(name, "champion", number)
    store.split_registered_model_alias(name, "champion", 3, 10)
    store.delete_model_version(name, 1)


def seen(store: DynamoDBRegistryStore, name: str) -> Any:
    """Everything a reader can learn about a model, but for its name and its last changes."""
    if name not in [model.name for model in store.search_registered_models()]:
        check_absence(store, name)
        return None
    check_repeats(store)
    model = store.get_registered_model(name)
    versions = store.search_model_versions(f"name = '{name}'", order_by=["version_number"])
    by_run = store.search_model_versions("run_id IN ('run-0', 'run-1', 'run-2')")
    assert {v.version for v in by_run if v.name == name} == {v.version for v in versions}
    assert [m.name for m in store.search_registered_models(f"name LIKE '{name}%'")] == [name]
    return {
        "description": model.description,
        "tags": model.tags,
        "aliases": model.aliases,
        "target": store.get_registered_model_alias(name, "champion") if model.aliases else None,
        "latest": {v.current_stage: v.version for v in model.latest_versions},
        "versions": [(v.version, v.source, v.run_id, v.tags, v.current_stage) for v in versions],
        "history": [
            (c.alias, c.before, c.after) for c in store.list_registered_model_alias_changes(name)
        ],
    }


def check_absence(store: DynamoDBRegistryStore, name: str) -> None:
    """That no way of reading a model leads to anything."""
    for read in (
        lambda: store.get_registered_model(name),
        lambda: store.get_model_version(name, 2),
        lambda: store.get_model_version_by_alias(name, "champion"),
    ):
        with refused("RESOURCE_DOES_NOT_EXIST", "not found"):
            read()
    assert store.search_registered_models(f"name = '{name}'") == []
    assert store.search_model_versions(f"name = '{name}'") == []
    assert name not in [v.name for v in store.search_model_versions("run_id = 'run-1'")]


@pytest.fixture
def whole(store) -> Any:
    """What a reader sees of the model while nothing happens."""
    fill(store)
    return seen(store, "old")


def crash_points(engine, time, work) -> list[tuple[int, When]]:
    """Every place at which a process can die while it does something to a model like ours."""
    counting = CrashingEngine(engine)
    store = registry_on(counting, time)
    fill(store, "rehearsal")
    before = counting.writes
    work(store, "rehearsal")
    count = counting.writes - before
    assert count > 5
    moments: tuple[When, ...] = ("before", "during", "after")
    return [(at, when) for at in range(1, count + 1) for when in moments]


def test_a_renamed_model_is_all_there_and_nothing_is_left_of_the_old_one(store, other, whole):
    store.rename_registered_model("old", "new")
    assert seen(other, "new") == seen(store, "new") == whole
    assert seen(other, "old") is None
    assert not [key for key in left_behind(store) if "old" in "".join(key)]


def test_a_deleted_model_leaves_nothing_behind(store, whole):
    store.delete_registered_model("old")
    assert left_behind(store) == []


def test_a_rename_that_dies_anywhere_leaves_one_whole_model(engine, time, store, whole):
    """Readers see the old name or the new one, never both, neither or half of one."""
    points = crash_points(engine, time, lambda s, name: s.rename_registered_model(name, "other"))
    store.delete_registered_model("other")
    for at, when in points:
        dying = registry_on(CrashingEngine(engine, at=at, when=when), time)
        with pytest.raises(SimulatedCrash):
            dying.rename_registered_model("old", "new")
        reader = registry_on(engine, time)
        views = [seen(reader, "old"), seen(reader, "new")]
        assert views in ([whole, None], [None, whole]), (at, when)
        # A minute later the other name is free, and whoever takes it starts with nothing.
        time.sleep(claims.LEASE_SECONDS + 1)
        free = "old" if views[0] is None else "new"
        assert reader.create_registered_model(free).tags == {}
        assert reader.search_model_versions(f"name = '{free}'") == []
        reader.delete_registered_model(free)
        if views[0] is None:
            reader.rename_registered_model("new", "old")
        assert seen(reader, "old") == whole, (at, when)
    store.delete_registered_model("old")
    assert left_behind(store) == []


def test_a_deletion_that_dies_anywhere_leaves_the_whole_model_or_none(engine, time, store, whole):
    for at, when in crash_points(engine, time, lambda s, name: s.delete_registered_model(name)):
        dying = registry_on(CrashingEngine(engine, at=at, when=when), time)
        with pytest.raises(SimulatedCrash):
            dying.delete_registered_model("old")
        reader = registry_on(engine, time)
        view = seen(reader, "old")
        assert view in (whole, None), (at, when)
        if view is None:
            time.sleep(claims.LEASE_SECONDS + 1)
            fill(reader)
        assert seen(reader, "old") == whole, (at, when)


def test_sweeping_finishes_what_a_dead_process_began(engine, time, store, whole):
    dying = registry_on(CrashingEngine(engine, at=2), time)
    with pytest.raises(SimulatedCrash):
        dying.delete_registered_model("old")
    assert left_behind(store)
    assert settle_claims(store.table) == 0  # it may still be alive
    time.sleep(claims.LEASE_SECONDS + 1)
    assert settle_claims(store.table) == 1
    assert left_behind(store) == []


def test_a_name_cannot_be_had_before_it_is_empty(engine, time, store, whole):
    """Whoever wants the name of a model that is being deleted waits, and gives up in the end."""

    class Interrupting(WrappedEngine):
        """Lets another process ask for the name in the middle of a deletion."""

        asked = False

        def query(self, query):
            if query.partition == "RM#old" and not self.asked:
                self.asked = True
                with refused("TEMPORARILY_UNAVAILABLE", "try again"):
                    waiting = registry_on(self.inner, FakeTime(time.now), patience=30)
                    waiting.create_registered_model("old")
            return self.inner.query(query)

    deleting = registry_on(Interrupting(engine), time)
    deleting.delete_registered_model("old")
    assert store.create_registered_model("old").tags == {}


def test_a_change_in_the_middle_of_a_rename_is_not_lost(engine, time, store, whole):
    class Interrupting(WrappedEngine):
        """Lets another process change the model after it was copied, three times."""

        times = 3

        def transact(self, writes, token):
            moving = any(getattr(w, "item", {}).get("name") == "new" for w in writes)
            if moving and self.times:
                self.times -= 1
                tag = ModelVersionTag(f"late-{self.times}", "v")
                registry_on(self.inner, time).set_model_version_tag("old", 3, tag)
            self.inner.transact(writes, token)

    registry_on(Interrupting(engine), time).rename_registered_model("old", "new")
    assert {"late-0", "late-1", "late-2"} < set(store.get_model_version("new", 3).tags)
    assert seen(store, "old") is None


def test_lost_answers_and_throttling_do_no_harm(engine, time, store, whole):
    faulty = FaultyEngine(engine, timeout_before=0.1, conflict=0.1)
    flaky = registry_on(faulty, time)
    for source, target in [("old", "a"), ("a", "b"), ("b", "old")] * 5:
        flaky.rename_registered_model(source, target)
        assert seen(store, target) == whole
        assert seen(store, source) is None
    assert sum(faulty.injected.values()) > 50
    flaky.delete_registered_model("old")
    assert left_behind(store) == []


def test_a_switch_whose_answer_is_lost_for_good_takes_no_model_away(engine, time, store, whole):
    """Cleaning up after a failed rename must not empty a partition that has become the model."""

    class Deaf(WrappedEngine):
        def transact(self, writes, token):
            self.inner.transact(writes, token)
            raise Unavailable("no answer", maybe_applied=True)

    with pytest.raises(MlflowException, match="no answer"):
        registry_on(Deaf(engine), time).rename_registered_model("old", "new")
    assert [seen(store, "old"), seen(store, "new")] == [None, whole]


def test_a_claim_that_was_lost_stops_the_work(engine, time, store, whole):
    place = RegisteredModelPlace("old", "default")
    claim = claims.Claim(store.table, RegisteredModelPlace("new", "default"))
    claim.acquire()
    time.sleep(claims.LEASE_SECONDS + 1)
    store.create_registered_model("new")
    with pytest.raises(Unavailable, match="lost"):
        claim.clear()
    assert store.get_registered_model("new").name == "new"
    assert claims.is_live(store.table.get(place.key))


def test_renaming_to_a_taken_name_is_refused_and_changes_nothing(store, whole):
    store.create_registered_model("new")
    before = left_behind(store)
    with refused("RESOURCE_ALREADY_EXISTS", r"Registered Model \(name=new\) already exists"):
        store.rename_registered_model("old", "new")
    assert left_behind(store) == before
    assert seen(store, "old") == whole


def test_renaming_what_is_not_there_leaves_the_new_name_free(store):
    with refused("RESOURCE_DOES_NOT_EXIST", "name=old not found"):
        store.rename_registered_model("old", "new")
    assert left_behind(store) == []


def test_renaming_a_model_to_its_own_name_touches_everything(store, whole):
    before = store.get_model_version("old", 3).last_updated_timestamp
    renamed = store.rename_registered_model("old", "old")
    assert seen(store, "old") == whole
    assert renamed.last_updated_timestamp >= before
    versions = store.search_model_versions("name = 'old'")
    assert {v.last_updated_timestamp for v in versions} == {renamed.last_updated_timestamp}


def test_a_renamed_model_goes_on_counting_its_versions(store, whole):
    store.rename_registered_model("old", "new")
    assert store.create_model_version("new", "s3://b/next").version == 4
    store.create_registered_model("old")
    assert store.create_model_version("old", "s3://b/first").version == 1
