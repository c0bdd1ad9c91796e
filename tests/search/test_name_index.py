"""Names of experiments in the full-text index: always found, whatever becomes of them."""

from __future__ import annotations

import pytest
from mlflow.entities import ViewType

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import ranks as rank_keys
from mlflow_dynamodbstore.shared.policies import TEXT_FIELDS
from mlflow_dynamodbstore.shared.search.name_index import EXPERIMENT_NAME
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup
from mlflow_dynamodbstore.workspaces.resources import ExperimentKind
from tests.stores import everything_in, open_tracking_store
from tests.table.fakes import FakeTime


@pytest.fixture
def time():
    return FakeTime()


@pytest.fixture
def store(tmp_path, time):
    opened = open_tracking_store(tmp_path, time)
    field = {"levels": ["word", "trigram"], "complete": True}
    opened.policies.set(TEXT_FIELDS, {EXPERIMENT_NAME: field})
    opened.experiments.experiment_names.enter("default", "0", "Default")
    yield opened
    opened.table.close()


def found(store, filter_string, view=ViewType.ACTIVE_ONLY):
    return sorted(e.name for e in store.search_experiments(view, 100, filter_string))


def entries(store):
    return {i["SK"] for i in everything_in(store.table) if i["SK"].startswith("FTS")}


def test_names_are_found_by_any_three_letters_in_a_row(store, monkeypatch):
    for name in ("night owls", "early birds", "Owl and bird"):
        store.create_experiment(name)
    monkeypatch.setattr(
        store.experiment_search, "_entries", lambda *_: pytest.fail("read all names")
    )
    assert found(store, "name LIKE '%owl%'") == ["night owls"]
    assert found(store, "name ILIKE '%owl%'") == ["Owl and bird", "night owls"]
    assert found(store, "name ILIKE '%bird%' AND name LIKE '%and%'") == ["Owl and bird"]
    assert found(store, "name LIKE '%none of them%'") == []


def test_what_says_too_little_is_answered_without_the_index(store):
    store.create_experiment("night owls")
    assert found(store, "name LIKE '%o%'") == ["night owls"]
    assert found(store, "name LIKE 'night%'") == ["night owls"]
    assert found(store, "name != 'x'") == ["Default", "night owls"]


def test_an_incomplete_index_is_not_asked(store):
    store.policies.set(TEXT_FIELDS, {})
    store.create_experiment("night owls")
    store.policies.set(TEXT_FIELDS, {EXPERIMENT_NAME: {"levels": ["word"], "complete": False}})
    assert found(store, "name LIKE '%owls'") == ["night owls"]


def test_a_renamed_experiment_is_found_by_its_new_name_alone(store, time):
    number = store.create_experiment("night owls")
    store.rename_experiment(number, "night trains")
    assert found(store, "name LIKE '%owls%'") == []
    assert found(store, "name LIKE '%trains%'") == ["night trains"]
    assert not [sk for sk in entries(store) if "owls" in sk]
    assert not Cleanup(store.table, store.policies, sleep=time.sleep).run().found


def test_deleted_experiments_are_found_where_they_are_asked_for(store):
    store.delete_experiment(store.create_experiment("night owls"))
    assert found(store, "name LIKE '%owls%'") == []
    assert found(store, "name LIKE '%owls%'", ViewType.DELETED_ONLY) == ["night owls"]


def test_what_is_removed_for_good_leaves_no_entries(store):
    before = entries(store)
    number = store.create_experiment("night owls")
    store.delete_experiment(number)
    store._hard_delete_experiment(number)
    assert entries(store) == before


def test_entries_of_an_expired_experiment_are_cleaned_up(store, time):
    before = entries(store)
    store.delete_experiment(store.create_experiment("night owls"))
    time.sleep(90 * 24 * 3600)
    assert found(store, "name LIKE '%owls%'", ViewType.ALL) == []
    Cleanup(store.table, store.policies, sleep=time.sleep).run()
    assert entries(store) == before


def test_entries_of_a_name_that_was_never_taken_are_cleaned_up(store, time):
    """A crash between writing the entries and taking the name leaves such."""
    number = store.create_experiment("night owls")
    before = entries(store)
    store.experiments.experiment_names.enter("default", number, "never mine")
    report = Cleanup(store.table, store.policies, sleep=time.sleep).run()
    assert report.orphans == report.removed > 0
    assert entries(store) == before


def test_an_experiment_that_moves_to_the_default_workspace_is_found_there(store):
    number = store.create_experiment("night owls")
    guard = store.table.get(access_keys.experiment_name_guard("night owls"))
    meta = store.table.get(experiment_keys.experiment_key(number))
    there = access_keys.experiment_name_guard("night owls", "team")
    store.table.delete(store.table.schema.key_of(guard))
    store.table.put({**guard, "PK": there.pk})
    store.table.put({**meta, "workspace": "team"})
    store.experiments.experiment_names.leave("default", number, "night owls")
    store.experiments.experiment_names.enter("team", number, "night owls")
    ExperimentKind().move(store.table, "team", store.table.get(there))
    assert found(store, "name LIKE '%owls%'") == ["night owls"]
    assert not [i for i in everything_in(store.table) if i["PK"] == "WORKSPACE#team"]


@pytest.mark.index_at_once
def test_words_are_looked_up_over_a_whole_workspace_by_gsi2(store):
    number = store.create_experiment("night owls")
    query = Query("FTS#owls", index="GSI2")
    (entry,) = [i for i in store.table.items(query) if i["gsi2sk"].startswith("word#")]
    assert rank_keys.fts_of(entry["SK"]).entity_id == number
