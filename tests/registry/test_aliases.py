"""Weighted aliases, their history and the way back."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.registry.alias_changes import MOST_RECENT
from mlflow_dynamodbstore.registry.alias_routing import bucket_of, routing_key
from mlflow_dynamodbstore.registry.items import Target
from mlflow_dynamodbstore.table.sizes import item_size
from tests.registry.helpers import check_repeats, items_at
from tests.stores import refused

MISSING = "RESOURCE_DOES_NOT_EXIST"
INVALID = "INVALID_PARAMETER_VALUE"


@pytest.fixture
def model(store):
    """A model with three versions, the first of them the champion."""
    store.create_registered_model("m")
    for n in range(3):
        store.create_model_version("m", f"s3://b/{n}")
    store.set_registered_model_alias("m", "champion", 1)
    return "m"


def asked(store, key, times=1):
    """Which versions the champion was, for one routing key."""
    with routing_key(key):
        return {store.get_model_version_by_alias("m", "champion").version for _ in range(times)}


# --- weights ------------------------------------------------------------------------------------


def test_an_alias_without_a_weight_always_gives_its_version(store, model):
    assert asked(store, None, 20) == asked(store, "anybody") == {1}


def test_a_routing_key_gets_the_same_version_every_time(store, other, model):
    store.split_registered_model_alias("m", "champion", 2, 50)
    for key in ("u1", "u2", "u3", "u4", "u5"):
        answer = asked(store, key, 5)
        assert len(answer) == 1
        assert asked(other, key) == answer


def test_a_weight_is_the_share_of_keys_that_get_the_second_version(store, model):
    store.split_registered_model_alias("m", "champion", 2, 20)
    shares = Counter(v for n in range(500) for v in asked(store, f"user-{n}"))
    assert 60 <= shares[2] <= 140
    assert shares[1] + shares[2] == 500


def test_without_a_key_chance_decides(store, model):
    store.split_registered_model_alias("m", "champion", 2, 50)
    assert asked(store, None, 60) == {1, 2}


def test_raising_the_weight_takes_nobody_back_to_the_first_version():
    buckets = [bucket_of(f"user-{n}", "m", "champion") for n in range(300)]
    assert all(0 <= bucket < 100 for bucket in buckets)
    low, high = ({n for n, b in enumerate(buckets) if b < weight} for weight in (10, 60))
    assert low < high


@pytest.mark.parametrize(
    ("weight", "bucket", "version"), [(0, 0, 1), (1, 0, 2), (98, 98, 1), (99, 98, 2), (99, 99, 1)]
)
def test_a_key_below_the_weight_gets_the_second_version(store, model, weight, bucket, version):
    keys = (f"user-{n}" for n in range(10_000))
    key = next(key for key in keys if bucket_of(key, "m", "champion") == bucket)
    store.split_registered_model_alias("m", "champion", 2, weight)
    assert asked(store, key) == {version}


def test_the_environment_can_give_the_routing_key(store, model, monkeypatch):
    store.split_registered_model_alias("m", "champion", 2, 50)
    for key in ("u1", "u2", "u3", "u4"):
        monkeypatch.setenv("MLFLOW_ALIAS_ROUTING_KEY", key)
        assert asked(store, None, 5) == asked(store, key)


def test_an_empty_routing_key_is_none(store, model, monkeypatch):
    """Otherwise everybody would get the one version that belongs to the empty text."""
    store.split_registered_model_alias("m", "champion", 2, 50)
    monkeypatch.setenv("MLFLOW_ALIAS_ROUTING_KEY", "")
    assert asked(store, "", 60) == asked(store, None, 60) == {1, 2}


@pytest.mark.parametrize("off", ["off", "OFF", "false", "0", "no"])
def test_the_environment_can_switch_routing_off(store, model, monkeypatch, off):
    store.split_registered_model_alias("m", "champion", 2, 99)
    monkeypatch.setenv("MLFLOW_ALIAS_ROUTING", off)
    assert {v for n in range(50) for v in asked(store, f"user-{n}")} == {1}


def test_mlflows_own_calls_see_an_ordinary_alias(store, model):
    store.split_registered_model_alias("m", "champion", 2, 30)
    assert store.get_registered_model("m").aliases == {"champion": 1}
    assert store.get_model_version("m", 1).aliases == ["champion"]
    assert store.get_model_version("m", 2).aliases == []


def test_setting_the_alias_in_the_ordinary_way_ends_the_split(store, model):
    store.split_registered_model_alias("m", "champion", 2, 30)
    assert store.get_registered_model_alias("m", "champion") == Target(1, 2, 30)
    store.set_registered_model_alias("m", "champion", 2)
    assert store.get_registered_model_alias("m", "champion") == Target(2)
    assert asked(store, "anybody") == {2}


def test_the_alias_is_an_item_of_its_own(store, model):
    store.split_registered_model_alias("m", "champion", 2, 30)
    item = items_at(store, "RM#m")["M#ALIAS#champion"]
    assert (item["version"], item["secondary"], item["weight"]) == (1, 2, 30)


@pytest.mark.parametrize("weight", [-1, 100, 5.0, "5", True, None])
def test_a_weight_that_is_none_is_refused(store, model, weight):
    with refused(INVALID, "percent from 0 to 99|weight: it must be a whole number"):
        store.split_registered_model_alias("m", "champion", 2, weight)


def test_a_split_needs_another_version_that_exists_and_an_alias(store, model):
    with refused(INVALID, "must be another one"):
        store.split_registered_model_alias("m", "champion", 1, 5)
    with refused(MISSING, r"version=9\) not found"):
        store.split_registered_model_alias("m", "champion", 9, 5)
    with refused(INVALID, "alias nobody not found"):
        store.split_registered_model_alias("m", "nobody", 2, 5)
    with refused(MISSING, "name=x not found"):
        store.split_registered_model_alias("x", "champion", 2, 5)


def test_deleting_the_second_version_ends_the_split(store, model):
    store.split_registered_model_alias("m", "champion", 2, 99)
    store.delete_model_version("m", 2)
    assert store.get_registered_model_alias("m", "champion") == Target(1)
    assert asked(store, "anybody") == {1}


# --- history ------------------------------------------------------------------------------------


def told(store, alias="champion"):
    return [(c.before, c.after) for c in store.list_registered_model_alias_changes("m", alias)]


def test_every_change_is_recorded_the_newest_first(store, model):
    store.set_registered_model_alias("m", "champion", 2)
    store.split_registered_model_alias("m", "champion", 3, 10)
    store.delete_registered_model_alias("m", "champion")
    assert told(store) == [
        (Target(2, 3, 10), None),
        (Target(2), Target(2, 3, 10)),
        (Target(1), Target(2)),
        (None, Target(1)),
    ]


def test_a_change_that_changes_nothing_is_not_recorded(store, model):
    store.set_registered_model_alias("m", "champion", 1)
    store.delete_registered_model_alias("m", "nobody")
    assert told(store) == [(None, Target(1))]


def test_changes_made_by_deleting_a_version_are_recorded(store, model):
    store.set_registered_model_alias("m", "old", 1)
    store.split_registered_model_alias("m", "old", 2, 7)
    store.delete_model_version("m", 1)
    assert told(store)[0] == (Target(1), None)
    assert told(store, "old")[0] == (Target(1, 2, 7), None)


def test_a_change_tells_who_and_when(store, model, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ada")
    store.set_registered_model_alias("m", "champion", 2)
    newest, oldest = store.list_registered_model_alias_changes("m", "champion")
    assert newest.user == "ada"
    assert oldest.user != "ada"
    assert newest.timestamp >= oldest.timestamp > 1_600_000_000_000
    assert newest.change_id > oldest.change_id


def test_within_a_request_the_user_is_the_one_who_asked(store, model):
    flask = pytest.importorskip("flask")
    app = flask.Flask("test")
    with app.test_request_context(auth=("grace", "secret")):
        store.set_registered_model_alias("m", "champion", 2)
    with app.test_request_context():
        store.set_registered_model_alias("m", "champion", 3)
    newest, known = store.list_registered_model_alias_changes("m", "champion")[:2]
    assert (newest.user, known.user) == (None, "grace")


def test_all_aliases_of_a_model_can_be_listed_at_once(store, model):
    store.set_registered_model_alias("m", "shadow", 2)
    changes = store.list_registered_model_alias_changes("m")
    assert [(c.alias, c.after) for c in changes] == [("shadow", Target(2)), ("champion", Target(1))]


def test_the_history_follows_a_model_to_its_new_name(store, model):
    store.rename_registered_model("m", "n")
    store.rename_registered_model("n", "m")
    assert told(store) == [(None, Target(1))]


# --- the way back -------------------------------------------------------------------------------


def test_rollback_takes_back_the_last_change(store, model):
    store.set_registered_model_alias("m", "champion", 2)
    assert store.rollback_registered_model_alias("m", "champion") == Target(1)
    assert asked(store, "anybody") == {1}


def test_a_rollback_can_be_taken_back(store, model):
    store.set_registered_model_alias("m", "champion", 2)
    store.rollback_registered_model_alias("m", "champion")
    assert store.rollback_registered_model_alias("m", "champion") == Target(2)
    assert told(store)[0] == (Target(1), Target(2))


def test_rollback_restores_a_deleted_alias_and_removes_a_new_one(store, model):
    store.delete_registered_model_alias("m", "champion")
    assert store.rollback_registered_model_alias("m", "champion") == Target(1)
    store.set_registered_model_alias("m", "fresh", 3)
    assert store.rollback_registered_model_alias("m", "fresh") is None
    assert store.get_registered_model("m").aliases == {"champion": 1}


def test_rollback_returns_to_any_recorded_state(store, model):
    store.split_registered_model_alias("m", "champion", 2, 15)
    split = store.list_registered_model_alias_changes("m", "champion")[0]
    store.set_registered_model_alias("m", "champion", 3)
    store.delete_registered_model_alias("m", "champion")
    restored = store.rollback_registered_model_alias("m", "champion", split.change_id)
    assert restored == store.get_registered_model_alias("m", "champion") == Target(1, 2, 15)


def test_rollback_to_a_version_that_is_gone_is_refused_and_changes_nothing(store, model):
    store.set_registered_model_alias("m", "champion", 2)
    store.delete_model_version("m", 1)
    with refused(MISSING, r"version=1\) not found"):
        store.rollback_registered_model_alias("m", "champion")
    assert store.get_registered_model("m").aliases == {"champion": 2}


def test_rollback_of_what_was_never_recorded_is_refused(store, model):
    with refused(MISSING, "no recorded change of alias nobody"):
        store.rollback_registered_model_alias("m", "nobody")
    with refused(MISSING, "no recorded change 77 of alias champion"):
        store.rollback_registered_model_alias("m", "champion", "77")


def test_two_processes_that_move_an_alias_leave_an_unbroken_history(store, other, model):
    """Each change starts where the one before it ended, whoever made them."""
    for n in range(6):
        (store if n % 2 else other).set_registered_model_alias("m", "champion", n % 3 + 1)
    changes = store.list_registered_model_alias_changes("m", "champion")[::-1]
    assert all(a.after == b.before for a, b in pairwise(changes))
    assert changes[-1].after == store.get_registered_model_alias("m", "champion")


def test_an_alias_never_leads_to_a_version_that_another_process_deletes(store, other, model):
    other.get_model_version("m", 2)
    store.delete_model_version("m", 2)
    with pytest.raises(MlflowException, match=r"version=2\) not found"):
        other.set_registered_model_alias("m", "champion", 2)
    assert other.get_registered_model("m").aliases == {"champion": 1}


# --- where the history lies ---------------------------------------------------------------------


def test_a_long_history_of_several_aliases_is_whole(store, other, model):
    """META carries the last few changes; the others are items."""
    made = [("champion", None, Target(1))]
    for n in range(23):
        alias, version = ("a", "b", "champion")[n % 3], n % 2 + 2
        before = store.list_registered_model_aliases("m").get(alias)
        (store if n % 2 else other).set_registered_model_alias("m", alias, version)
        if before != Target(version):
            made.append((alias, before, Target(version)))
    found = other.list_registered_model_alias_changes("m")
    assert [(c.alias, c.before, c.after) for c in found] == made[::-1]
    assert [c.change_id for c in found] == sorted((c.change_id for c in found), reverse=True)
    assert len([sk for sk in items_at(store, "RM#m") if "ALIASHIST" in sk]) < len(made)
    assert len(store.model_reader.model("m").recent_changes) <= MOST_RECENT
    check_repeats(store)


def test_deleting_a_version_with_many_aliases_records_them_all(store, model):
    aliases = [f"a{n}" for n in range(12)]
    for alias in aliases:
        store.set_registered_model_alias("m", alias, 2)
    store.delete_model_version("m", 2)
    changes = store.list_registered_model_alias_changes("m")[: len(aliases)]
    assert {(c.alias, c.before, c.after) for c in changes} == {
        (alias, Target(2), None) for alias in aliases
    }
    assert len(store.model_reader.model("m").recent_changes) <= MOST_RECENT
    for alias in aliases:
        assert store.rollback_registered_model_alias("m", alias, changes[0].change_id) is None


def test_copies_never_make_meta_cost_another_unit(store):
    store.create_registered_model("m")
    for n in range(12):
        store.create_model_version("m", "s3://bucket/" + "x" * 40 * n, f"run-{n}")
        store.set_registered_model_alias("m", f"a{n % 3}", n + 1)
        meta = items_at(store, "RM#m")["M#META"]
        bare = {name: value for name, value in meta.items() if not name.startswith("c:")}
        assert -(-item_size(meta) // 1024) == -(-item_size(bare) // 1024)
        check_repeats(store)
