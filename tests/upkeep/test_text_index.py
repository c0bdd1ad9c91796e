"""Full-text fields: added, backfilled, searched, removed."""

from __future__ import annotations

import pytest
from mlflow.entities import RunStatus, RunTag, ViewType

from mlflow_dynamodbstore.shared.policies import TEXT_FIELDS
from mlflow_dynamodbstore.upkeep import backfill
from mlflow_dynamodbstore.upkeep.backfill import POSITION
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup
from mlflow_dynamodbstore.upkeep.text_index import TextIndex
from tests.stores import everything_in
from tests.upkeep.helpers import items_of, make_run


@pytest.fixture
def index(store, time):
    return TextIndex(store.table, store.policies, sleep=time.sleep)


def entries(store):
    return {item["SK"] for item in everything_in(store.table) if item["SK"].startswith("FTS")}


def found(store, filter_string, path=None):
    runs, _ = store._search_runs(["0"], filter_string, ViewType.ACTIVE_ONLY, 100, [], None)
    return {run.info.run_id for run in runs}


def test_an_added_field_is_not_searched_before_its_backfill(store, index):
    run_id = make_run(store, name="night owl")
    index.add("run.name")
    assert [(f.name, f.complete) for f in store.policies.text_fields()] == [("run.name", False)]
    assert found(store, "attributes.run_name LIKE '%owl%'") == {run_id}


def test_a_backfill_writes_what_sealing_would_have_written(store, index, time):
    runs = [make_run(store, name=name) for name in ("night owl", "early bird", "night train")]
    index.add("run.name")
    done = index.backfill("run.name")
    written = entries(store)
    assert done.entities == len(runs)
    assert done.entries == len(written)
    assert [f.complete for f in store.policies.text_fields()] == [True]
    assert found(store, "attributes.run_name LIKE '%night%'") == {runs[0], runs[2]}
    assert found(store, "attributes.run_name ILIKE '%ARLY%'") == {runs[1]}
    assert not Cleanup(store.table, store.policies, sleep=time.sleep).run().found


def test_a_run_that_was_reopened_is_found_after_it_is_sealed_again(store, index):
    """Sealing takes the entries of the last summary to be there, so a backfill writes them."""
    run_id = make_run(store, name="night owl")
    store.set_tag(run_id, RunTag("team", "red"))
    index.add("run.name")
    index.backfill("run.name")
    store.update_run_info(run_id, RunStatus.FINISHED, 3_000, None)
    assert found(store, "attributes.run_name LIKE '%owl%'") == {run_id}


def test_a_backfill_waits_until_every_process_knows_the_field(store, index, time):
    """Settings are kept for half a minute, and a sealing begun by old ones needs time to end."""
    index.add("run.name")
    before = time.now
    index.backfill("run.name")
    assert time.now - before >= 60


def test_deleted_runs_are_indexed_too(store, index):
    """A restored run is found without being written again."""
    run_id = make_run(store, name="night owl")
    store.delete_run(run_id)
    index.add("run.name")
    index.backfill("run.name")
    store.restore_run(run_id)
    assert found(store, "attributes.run_name LIKE '%owl%'") == {run_id}


def test_a_backfill_that_is_interrupted_goes_on_where_it_was(store, index, time, monkeypatch):
    monkeypatch.setattr(backfill, "PAGE", 10)
    other = store.create_experiment("other")
    runs = [make_run(store, number, name="night owl") for number in ["0"] * 120 + [other] * 3]
    index.add("run.name", ["word"])

    def killed(done):
        if done.entities:
            raise KeyboardInterrupt

    interrupted = TextIndex(store.table, store.policies, sleep=time.sleep, progress=killed)
    with pytest.raises(KeyboardInterrupt):
        interrupted.backfill("run.name")
    # The first page was written and not yet noted; the second try notes it and is stopped again.
    pages = iter([False, False, False, True])

    def killed_later(done):
        if done.entities and next(pages, False):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TextIndex(store.table, store.policies, sleep=time.sleep, progress=killed_later).backfill(
            "run.name"
        )
    done = index.backfill("run.name")
    assert done.entities < len(runs)
    assert len(entries(store)) == 4 * len(runs)
    assert not items_of(store, POSITION)


def test_removing_a_field_deletes_its_entries_and_no_others(store, index):
    make_run(store, name="night owl", tags={"team": "blue birds"})
    for field in ("run.name", "run.tags.team"):
        index.add(field)
        index.backfill(field)
    of_names = {sk for sk in entries(store) if "run.name" in sk}
    done = index.remove("run.name")
    assert done.entries == len(of_names)
    assert entries(store)
    assert not {sk for sk in entries(store) if "run.name" in sk}
    assert list(index.fields()) == ["run.tags.team"]


def test_fields_that_do_not_exist_are_refused(index):
    for name in ("run", "run.tags.", "trace.name", ""):
        with pytest.raises(ValueError, match="cannot be indexed"):
            index.add(name)
    with pytest.raises(ValueError, match="`fts add"):
        index.backfill("run.name")


def test_adding_with_other_levels_asks_for_a_new_backfill(store, index):
    index.add("run.name", ["word"])
    index.backfill("run.name")
    index.add("run.name", ["word"])
    assert index.fields()["run.name"]["complete"] is True
    index.add("run.name", ["word", "trigram"])
    assert index.fields()["run.name"]["complete"] is False
    assert store.policies.get(TEXT_FIELDS)["run.name"]["levels"] == ["trigram", "word"]


def test_names_of_experiments_are_backfilled_into_their_workspace(store, index, time):
    store.create_experiment("night owls")
    index.add("experiment.name", ["word"])
    index.backfill("experiment.name")
    forward = [item for item in everything_in(store.table) if item["SK"].startswith("FTS#")]
    assert {item["PK"] for item in forward} == {"WORKSPACE#default"}
    assert {item["gsi2pk"] for item in forward} == {"FTS#night", "FTS#owls", "FTS#default"}
    assert not Cleanup(store.table, store.policies, sleep=time.sleep).run().found
