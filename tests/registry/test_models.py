"""Models, versions and tags: what is written where, and what a reader gets back."""

from __future__ import annotations

import pytest
from mlflow.entities.model_registry import ModelVersionTag, RegisteredModelTag
from mlflow.store.model_registry.abstract_store import AbstractStore
from mlflow.store.model_registry.sqlalchemy_store import SqlAlchemyStore

from mlflow_dynamodbstore.registry import items
from mlflow_dynamodbstore.registry.alias_changes import MOST_RECENT
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine
from tests.registry.helpers import check_repeats, items_at, left_behind, registry_on
from tests.stores import refused
from tests.table.fakes import FakeTime

MISSING = "RESOURCE_DOES_NOT_EXIST"
NASTY = ["#", "a#b", "%", " a", "é", "🙂" * 60, "x" * 2000, "M#META", "a$", "\x00"]


def test_every_public_method_of_mlflows_sql_store_is_ours():
    """Nothing that MLflow's own store does is left to a base class that cannot do it."""
    names = [name for name in vars(SqlAlchemyStore) if not name.startswith("_")]
    theirs = [name for name in names if callable(getattr(SqlAlchemyStore, name))]
    assert theirs
    missing = [
        name
        for name in theirs
        if getattr(DynamoDBRegistryStore, name, None) in (None, getattr(AbstractStore, name, None))
    ]
    assert missing == []


def test_the_items_are_those_of_the_schema(store):
    store.create_registered_model("m", [RegisteredModelTag("team", "nlp")])
    store.create_model_version("m", "s3://b/1", "r1", [ModelVersionTag("k", "v")])
    store.create_model_version("m", "s3://b/2")
    store.set_registered_model_alias("m", "champion", 1)
    for weight in range(MOST_RECENT):
        store.split_registered_model_alias("m", "champion", 2, weight)
    history = [sk for sk in items_at(store, "RM#m") if sk.startswith("M#ALIASHIST#champion#")]
    assert len(history) == 1
    assert left_behind(store) == sorted(
        [
            ("RM#m", "M#META"),
            ("RM#m", "M#TAG#team"),
            ("RM#m", "M#ALIAS#champion"),
            ("RM#m", "M#V#0000000001"),
            ("RM#m", "M#V#0000000002"),
            ("RM#m", history[0]),
            ("RMRUN#r1", "RM#m#0000000001"),
            ("WORKSPACE#default", "RMNAME#m"),
        ]
    )
    meta = items_at(store, "RM#m")["M#META"]
    assert (meta["gsi3pk"], meta["gsi3sk"]) == ("RMNAME#m", "RM#m")
    assert (meta["gsi5pk"], meta["gsi5sk"]) == ("RM_LIST", "m")


@pytest.mark.parametrize("name", NASTY)
def test_any_name_that_mlflow_takes_works(store, name):
    if name.strip() == "":
        pytest.skip("MLflow refuses it")
    store.create_registered_model(name)
    store.create_registered_model(name + "2")
    store.create_model_version(name, "s3://b/1", name)
    store.set_registered_model_tag(name, RegisteredModelTag("k", name))
    assert store.get_registered_model(name).tags == {"k": name}
    assert [m.name for m in store.search_registered_models()] == [name, name + "2"]
    assert [m.name for m in store.search_registered_models(f"name = '{name}'")] == [name]
    assert [v.name for v in store.search_model_versions(f"run_id = '{name}'")] == [name]
    store.rename_registered_model(name, "plain")
    assert [v.name for v in store.search_model_versions(f"run_id = '{name}'")] == ["plain"]
    store.delete_registered_model("plain")
    store.delete_registered_model(name + "2")
    assert left_behind(store) == []


def test_a_model_made_again_has_nothing_of_the_old_one(store, other):
    store.create_registered_model("m", [RegisteredModelTag("k", "v")])
    store.create_model_version("m", "s3://b/1")
    other.get_model_version("m", 1)
    store.delete_registered_model("m")
    store.create_registered_model("m")
    assert other.get_registered_model("m").tags == {}
    with refused(MISSING, r"version=1\) not found"):
        other.get_model_version("m", 1)
    assert other.create_model_version("m", "s3://b/2").source == "s3://b/2"


def test_numbers_of_deleted_versions_are_not_used_again(store):
    store.create_registered_model("m")
    for _ in range(3):
        store.create_model_version("m", "s3://b/1", "r1")
    store.delete_model_version("m", 3)
    store.delete_model_version("m", 2)
    assert store.create_model_version("m", "s3://b/1").version == 4
    assert {v.version for v in store.search_model_versions("run_id = 'r1'")} == {1}


@pytest.mark.parametrize("version", [0, -1, 10**10, 10**30])
def test_a_number_that_no_version_can_have_is_not_found(store, version):
    store.create_registered_model("m")
    with refused(MISSING, "not found"):
        store.get_model_version("m", version)


# --- tags ---------------------------------------------------------------------------------------


def model_tags(store):
    return store.get_registered_model("m").tags


def version_tags(store):
    return store.get_model_version("m", 1).tags


KINDS = {
    "model": (
        lambda s, k, v: s.set_registered_model_tag("m", RegisteredModelTag(k, v)),
        lambda s, k: s.delete_registered_model_tag("m", k),
        model_tags,
    ),
    "version": (
        lambda s, k, v: s.set_model_version_tag("m", 1, ModelVersionTag(k, v)),
        lambda s, k: s.delete_model_version_tag("m", 1, k),
        version_tags,
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_tags_may_be_short_or_long_and_change_between_them(store, other, kind):
    set_tag, delete_tag, read = KINDS[kind]
    store.create_registered_model("m")
    store.create_model_version("m", "s3://b/1")
    plain = left_behind(store)
    for value in ("short", "é" * 700, "x" * 100_000, "🙂" * 100_000, "short again", ""):
        set_tag(store, "k", value)
        set_tag(store, "other", "o")
        assert read(other) == read(store) == {"k": value, "other": "o"}
    set_tag(store, "k", "x" * 5000)
    delete_tag(store, "k")
    delete_tag(store, "other")
    delete_tag(store, "never there")
    assert read(other) == {}
    assert left_behind(store) == plain


@pytest.mark.parametrize("kind", KINDS)
def test_there_may_be_more_tags_than_one_item_should_hold(store, other, kind):
    set_tag, _, read = KINDS[kind]
    store.create_registered_model("m")
    store.create_model_version("m", "s3://b/1")
    expected = {f"k{n}": str(n) + "v" * 1000 for n in range(150)}
    for key, value in expected.items():
        set_tag(store, key, value)
    assert read(other) == expected
    limit = max(items.MAX_INLINE_MODEL_TAGS, items.MAX_INLINE_VERSION_TAGS) + 2048
    assert all(len(str(item)) < limit for item in items_at(store, "RM#m").values())


def test_a_model_and_a_version_may_be_created_with_very_many_tags(store, other):
    tags = {f"k{n}": str(n) + "v" * 2000 for n in range(130)}
    store.create_registered_model("m", [RegisteredModelTag(k, v) for k, v in tags.items()])
    created = store.create_model_version(
        "m", "s3://b/1", tags=[ModelVersionTag(k, v) for k, v in tags.items()]
    )
    assert created.tags == model_tags(other) == version_tags(other) == tags
    assert [v.tags for v in other.search_model_versions("name = 'm'")] == [tags]
    assert len(other.search_model_versions("tags.k7 LIKE '7v%'")) == 1
    store.delete_model_version("m", 1)
    store.delete_registered_model("m")
    assert left_behind(store) == []


def test_tags_by_their_long_values_can_be_searched(store):
    for name, value in (("a", "x" * 5000), ("b", "x" * 5000 + "y"), ("c", "x")):
        store.create_registered_model(name, [RegisteredModelTag("k", value)])
        store.create_model_version(name, "s3://b/1", tags=[ModelVersionTag("k", value)])
    assert [m.name for m in store.search_registered_models("tags.k LIKE 'x%y'")] == ["b"]
    assert [v.name for v in store.search_model_versions("tags.k LIKE 'x%y'")] == ["b"]


def test_a_long_tag_key_is_kept_whole(store):
    key = "k" * 250
    store.create_registered_model("m", [RegisteredModelTag(key, "x" * 2000)])
    assert model_tags(store) == {key: "x" * 2000}


# --- stages -------------------------------------------------------------------------------------


def stages(store):
    model = store.get_registered_model("m")
    return {v.current_stage: v.version for v in model.latest_versions}


def test_the_latest_version_of_each_stage_is_known(store, other):
    store.create_registered_model("m")
    for _ in range(5):
        store.create_model_version("m", "s3://b/1")
    for number in (1, 2, 4):
        store.transition_model_version_stage("m", number, "Staging", False)
    assert stages(other) == {"None": 5, "Staging": 4}
    store.transition_model_version_stage("m", 4, "Production", False)
    assert stages(other) == {"None": 5, "Staging": 2, "Production": 4}
    store.transition_model_version_stage("m", 5, "Staging", True)
    assert stages(other) == {"None": 3, "Staging": 5, "Production": 4, "Archived": 2}
    store.delete_model_version("m", 3)
    assert stages(other) == {"Staging": 5, "Production": 4, "Archived": 2}
    assert [v.version for v in other.get_latest_versions("m", ["staging"])] == [5]


def test_archiving_takes_more_versions_than_a_transaction_holds(store):
    store.create_registered_model("m")
    for number in range(1, 131):
        store.create_model_version("m", "s3://b/1")
        store.transition_model_version_stage("m", number, "Production", False)
    store.transition_model_version_stage("m", 7, "Production", True)
    versions = store.search_model_versions("name = 'm'", max_results=1000)
    assert {v.version for v in versions if v.current_stage == "Production"} == {7}
    assert stages(store) == {"Production": 7, "Archived": 130}
    assert len({v.last_updated_timestamp for v in versions}) == 1


# --- memory -------------------------------------------------------------------------------------


def test_a_version_that_another_process_changed_is_read_anew(store, other):
    store.create_registered_model("m")
    store.create_model_version("m", "s3://b/1")
    assert other.get_model_version("m", 1).description is None
    store.update_model_version("m", 1, "new")
    assert other.get_model_version("m", 1).description == "new"
    store.set_model_version_tag("m", 1, ModelVersionTag("k", "v"))
    assert other.get_model_version("m", 1).tags == {"k": "v"}
    store.transition_model_version_stage("m", 1, "Staging", False)
    assert other.get_registered_model("m").latest_versions[0].current_stage == "Staging"
    store.set_registered_model_alias("m", "a", 1)
    assert other.get_model_version("m", 1).aliases == ["a"]


def test_a_change_decided_on_an_outdated_model_is_decided_again(store, other):
    store.create_registered_model("m")
    other.get_registered_model("m")
    for n in range(3):
        store.set_registered_model_tag("m", RegisteredModelTag(f"k{n}", "v"))
    assert other.create_model_version("m", "s3://b/1").version == 1
    assert store.create_model_version("m", "s3://b/2").version == 2
    other.set_registered_model_alias("m", "a", 2)  # it has never seen version 2
    assert store.get_registered_model("m").aliases == {"a": 2}


def test_a_model_deleted_by_another_process_is_gone_at_once(store, other):
    store.create_registered_model("m")
    store.create_model_version("m", "s3://b/1")
    other.get_model_version("m", 1)
    store.delete_registered_model("m")
    with refused(MISSING, "name=m not found"):
        other.set_registered_model_tag("m", RegisteredModelTag("k", "v"))
    with refused(MISSING, "name=m not found"):
        other.create_model_version("m", "s3://b/1")
    with refused(MISSING, r"version=1\) not found"):
        other.set_registered_model_alias("m", "a", 1)
    assert left_behind(store) == []


def test_a_change_of_more_versions_than_a_transaction_holds_is_seen_by_all(store, other, engine):
    """A process that reads a version while the last of them are written does not keep it so."""
    store.create_registered_model("m")
    for n in range(120):
        store.create_model_version("m", f"s3://b/{n}")
        store.transition_model_version_stage("m", n + 1, "Staging", False)

    class Slow(WrappedEngine):
        """Lets another process look after each transaction."""

        def transact(self, writes, token):
            self.inner.transact(writes, token)
            for n in range(1, 121):
                other.get_model_version("m", n)

    store.create_model_version("m", "s3://b/last")
    slow = registry_on(Slow(engine), FakeTime())
    slow.transition_model_version_stage("m", 121, "Staging", True)
    for reader in (other, store, slow):
        stages = [reader.get_model_version("m", n).current_stage for n in (1, 60, 99, 120, 121)]
        assert stages == ["Archived"] * 4 + ["Staging"]
    check_repeats(store)
