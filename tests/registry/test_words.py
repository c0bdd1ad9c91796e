"""Names of registered models in the full-text index: always found, and nothing left behind."""

from __future__ import annotations

import pytest
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import ranks as rank_keys
from mlflow_dynamodbstore.registry import search
from mlflow_dynamodbstore.registry.items import RegisteredModelPlace
from mlflow_dynamodbstore.shared.names.claims import LEASE_SECONDS, Claim
from mlflow_dynamodbstore.shared.names.search import Names
from mlflow_dynamodbstore.shared.policies import TEXT_FIELDS
from mlflow_dynamodbstore.shared.search import name_index
from mlflow_dynamodbstore.shared.search.name_index import MODEL_NAME
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup
from mlflow_dynamodbstore.upkeep.text_index import TextIndex
from mlflow_dynamodbstore.workspaces.resources import RegisteredModelKind
from tests.faults import CrashingEngine, SimulatedCrash
from tests.registry.helpers import engine_of, registry_on
from tests.stores import everything_in


@pytest.fixture
def indexed(store):
    """A registry whose names are indexed, and complete."""
    field = {"levels": ["word", "trigram"], "complete": True}
    store.context.policies.set(TEXT_FIELDS, {MODEL_NAME: field})
    return store


@pytest.fixture
def only_words(monkeypatch):
    """A search that lists all names fails."""
    monkeypatch.setattr(Names, "_guarded", lambda *_: pytest.fail("listed all the names"))


def found(store, filter_string):
    return [model.name for model in store.search_registered_models(filter_string)]


def entries(store):
    return {i["SK"] for i in everything_in(store.table) if i["SK"].startswith("FTS")}


def cleaned(store, time):
    return Cleanup(store.table, store.context.policies, sleep=time.sleep).run()


def test_names_are_found_by_any_three_letters_in_a_row(indexed, only_words):
    for name in ("night owls", "early birds", "Owl and bird"):
        indexed.create_registered_model(name)
        indexed.create_model_version(name, "s3://b")
    assert found(indexed, "name LIKE '%owl%'") == ["night owls"]
    assert found(indexed, "name ILIKE '%owl%'") == ["Owl and bird", "night owls"]
    assert found(indexed, "name ILIKE '%bird%' AND name LIKE '%and%'") == ["Owl and bird"]
    assert found(indexed, "name LIKE '%none of them%'") == []
    versions = indexed.search_model_versions("name LIKE '%owl%'")
    assert [version.name for version in versions] == ["night owls"]
    pages = indexed.search_registered_models(
        "name ILIKE '%owl%'", max_results=1, order_by=["name DESC"]
    )
    assert pages[0].name == "night owls"
    rest = indexed.search_registered_models(
        "name ILIKE '%owl%'", max_results=1, order_by=["name DESC"], page_token=pages.token
    )
    assert rest[0].name == "Owl and bird"


@pytest.mark.parametrize("wanted", ["name LIKE '%o%'", "name LIKE 'night%'", "name != 'x'", ""])
def test_what_says_too_little_is_answered_without_the_index(indexed, wanted, monkeypatch):
    indexed.create_registered_model("night owls")
    if "%o%" not in wanted:
        monkeypatch.setattr(
            indexed.search.name_index, "ids_having", lambda *_: pytest.fail("asked")
        )
    assert found(indexed, wanted) == ["night owls"]


def test_a_name_is_found_the_moment_it_is_taken_while_indexes_lag(tmp_path, time):
    store = registry_on(engine_of(tmp_path, "synchronous=NORMAL&index_lag=5"), time)
    field = {"levels": ["trigram"], "complete": True}
    store.context.policies.set(TEXT_FIELDS, {MODEL_NAME: field})
    store.create_registered_model("night owls")
    assert found(store, "name LIKE '%owl%'") == ["night owls"]
    store.rename_registered_model("night owls", "night trains")
    assert (found(store, "name LIKE '%owl%'"), found(store, "name LIKE '%rain%'")) == (
        [],
        ["night trains"],
    )
    store.delete_registered_model("night trains")
    assert found(store, "name LIKE '%rain%'") == []
    store.table.close()


def test_a_renamed_model_has_the_entries_of_its_new_name_alone(indexed, time):
    indexed.create_registered_model("night owls")
    indexed.rename_registered_model("night owls", "night trains")
    assert found(indexed, "name LIKE '%trains%'") == ["night trains"]
    assert not [sk for sk in entries(indexed) if "owls" in sk]
    assert not cleaned(indexed, time).found


def test_a_deleted_model_leaves_no_entries(indexed):
    indexed.create_registered_model("night owls")
    indexed.delete_registered_model("night owls")
    assert not entries(indexed)
    indexed.create_registered_model("night owls")
    assert found(indexed, "name LIKE '%owl%'") == ["night owls"]


def test_a_name_that_is_taken_keeps_its_entries(indexed):
    indexed.create_registered_model("night owls")
    indexed.create_registered_model("early birds")
    before = entries(indexed)
    for call in (
        lambda: indexed.create_registered_model("night owls"),
        lambda: indexed.rename_registered_model("early birds", "night owls"),
    ):
        with pytest.raises(Exception, match="already exists"):
            call()
    assert entries(indexed) == before


def test_names_too_long_for_a_key_are_found(indexed, only_words, time):
    long = "needle " + "x" * 600
    other = "needle " + "x" * 599 + "y"
    for name in (long, other):
        indexed.create_registered_model(name)
    assert found(indexed, "name LIKE '%needle%'") == [long, other]
    assert not cleaned(indexed, time).found
    indexed.rename_registered_model(long, "short")
    assert found(indexed, "name LIKE '%needle%'") == [other]


def test_a_backfill_enters_the_names_of_all_workspaces(store, time, monkeypatch, only_words):
    monkeypatch.setenv("MLFLOW_ENABLE_WORKSPACES", "true")
    for team in ("default", "team"):
        with WorkspaceContext(team):
            store.create_registered_model(f"night owls of {team}")
    index = TextIndex(store.table, store.context.policies, sleep=time.sleep)
    index.add(MODEL_NAME)
    done = index.backfill(MODEL_NAME)
    assert (done.entities, done.entries) == (2, len(entries(store)))
    for team in ("default", "team"):
        with WorkspaceContext(team):
            assert found(store, "name LIKE '%owl%'") == [f"night owls of {team}"]
    assert not cleaned(store, time).found
    index.remove(MODEL_NAME)
    assert not entries(store)


def test_an_incomplete_index_is_not_asked(store):
    store.create_registered_model("night owls")
    store.context.policies.set(TEXT_FIELDS, {MODEL_NAME: {"levels": ["word"], "complete": False}})
    assert found(store, "name LIKE '%owls'") == ["night owls"]


def test_entries_of_a_name_that_was_never_taken_are_cleaned_up(indexed, time):
    """A crash between writing the entries and taking the name leaves such."""
    indexed.create_registered_model("night owls")
    before = entries(indexed)
    indexed.search.name_index.enter("default", "never mine", "never mine")
    indexed.search.name_index.enter("default", "night owls", "night trains")
    assert found(indexed, "name LIKE '%never%'") == found(indexed, "name LIKE '%trains%'") == []
    report = cleaned(indexed, time)
    assert report.orphans == report.removed > 0
    assert entries(indexed) == before


def test_entries_go_with_the_claim_of_somebody_who_is_gone(indexed, time):
    """A deletion that stopped after the model was gone is finished by whoever wants the name."""
    indexed.create_registered_model("night owls")
    place = RegisteredModelPlace("night owls", "default")
    indexed.table.put(Claim(indexed.table, place).item())
    indexed.table.delete(access_keys.model_name_guard("night owls"))
    time.sleep(LEASE_SECONDS + 1)
    assert found(indexed, "name LIKE '%owl%'") == []
    cleaned(indexed, time)
    assert not entries(indexed)


def test_a_model_that_moves_to_the_default_workspace_is_found_there(indexed, monkeypatch):
    monkeypatch.setenv("MLFLOW_ENABLE_WORKSPACES", "true")
    with WorkspaceContext("team"):
        indexed.create_registered_model("night owls")
    (guard,) = RegisteredModelKind().items(indexed.table, "team")
    RegisteredModelKind().move(indexed.table, "team", guard)
    with WorkspaceContext("default"):
        assert found(indexed, "name LIKE '%owl%'") == ["night owls"]
    assert not [i for i in everything_in(indexed.table) if i["PK"] == "WORKSPACE#team"]


@pytest.mark.index_at_once
def test_words_are_looked_up_over_a_whole_workspace_by_gsi2(indexed):
    indexed.create_registered_model("night owls")
    query = Query("FTS#owls", index="GSI2")
    (entry,) = [i for i in indexed.table.items(query) if i["gsi2sk"].startswith("word#")]
    assert rank_keys.fts_of(entry["SK"])[2:] == (MODEL_NAME, "night owls")


def test_too_many_matches_are_listed_instead(indexed, monkeypatch):
    monkeypatch.setattr(search, "MOST_BY_INDEX", 2)
    for n in range(4):
        indexed.create_registered_model(f"owl {n}")
    assert found(indexed, "name LIKE '%owl%'") == [f"owl {n}" for n in range(4)]
    monkeypatch.setattr(name_index, "MOST_ENTRIES", 2)
    assert found(indexed, "name LIKE '%owl 3%'") == ["owl 3"]


def test_few_of_many_cost_less_by_their_words(engine, time):
    metered = MeteredEngine(engine)
    store = registry_on(metered, time)
    for n in range(300):
        store.create_registered_model(f"a model of somebody {n:04}")
    store.create_registered_model("night owls")

    def cost():
        with metered.meter.measure() as used:
            assert found(store, "name LIKE '%owls%'") == ["night owls"]
        return used.total_requests, used.read_units

    found(store, "name LIKE '%owls%'")
    listed = cost()
    index = TextIndex(store.table, store.context.policies, sleep=time.sleep)
    index.add(MODEL_NAME, ["trigram"])
    index.backfill(MODEL_NAME)
    found(store, "name LIKE '%owls%'")
    by_words = cost()
    assert by_words[1] <= 3
    assert by_words[1] * 2 < listed[1]


@pytest.mark.parametrize(
    "work",
    [
        lambda store: store.create_registered_model("elk"),
        lambda store: store.rename_registered_model("owl", "elk"),
        lambda store: store.delete_registered_model("owl"),
    ],
    ids=["create", "rename", "delete"],
)
@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_process_that_dies_anywhere_hides_no_model_and_leaves_no_words(
    indexed, engine, time, work, when
):
    indexed.create_registered_model("owl")
    for at in range(1, 50):
        dying = registry_on(CrashingEngine(engine, at=at, when=when), time)
        try:
            work(dying)
        except SimulatedCrash:
            died = True
        else:
            died = False
        reader = registry_on(engine, time)
        there = found(reader, "")
        for name in ("elk", "owl"):
            assert found(reader, f"name LIKE '%{name}%'") == [name] * (name in there), (at, name)
        time.sleep(LEASE_SECONDS + 1)
        cleaned(reader, time)
        assert {rank_keys.fts_of(sk).entity_id for sk in entries(reader) if sk[:4] == "FTS#"} == {
            *there
        }
        for name in there:
            reader.delete_registered_model(name)
        assert not entries(reader)
        reader.create_registered_model("owl")
        if not died:
            break
    assert at > 3
    assert not died
