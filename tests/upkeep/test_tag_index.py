"""Which tags stand on an experiment's own item is a matter of cost, never of the answer."""

from __future__ import annotations

import pytest
from mlflow.entities import ExperimentTag

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.shared import experiment_items
from mlflow_dynamodbstore.upkeep.tag_index import TagIndex

TAGS = {"mlflow.note": "a note", "team": "blue", "long": "x" * 2_000}


@pytest.fixture
def index(store):
    return TagIndex(store.table, store.policies)


@pytest.fixture
def number(store):
    return store.create_experiment("nlp", tags=[ExperimentTag(k, v) for k, v in TAGS.items()])


def on_meta(store, number):
    meta = store.table.get(experiment_keys.experiment_key(number))
    return {name[2:] for name in meta if name.startswith("t:")}, "long_tags" in meta


def test_all_short_tags_are_repeated_by_default(store, index, number):
    assert index.patterns() == ["*"]
    assert on_meta(store, number) == ({"mlflow.note", "team"}, True)


def test_a_backfill_brings_items_in_line_with_the_patterns(store, index, number):
    index.remove("*")
    index.add("mlflow.*")
    done = index.backfill()
    assert (done.experiments, done.changed) == (2, 1)
    assert on_meta(store, number) == ({"mlflow.note"}, True)
    assert store.get_experiment(number).tags == TAGS
    assert index.backfill().changed == 0


def test_what_stands_on_the_item_again_needs_no_further_read(store, index, number):
    store.delete_experiment_tag(number, "long")
    index.remove("*")
    index.backfill()
    assert on_meta(store, number) == (set(), True)
    index.add("*")
    assert index.backfill().changed == 1
    assert on_meta(store, number) == ({"mlflow.note", "team"}, False)
    assert store.get_experiment(number).tags == {"mlflow.note": "a note", "team": "blue"}


def test_tags_that_are_set_follow_the_patterns(store, index, number):
    index.remove("*")
    index.add("team")
    store.set_experiment_tag(number, ExperimentTag("city", "Oslo"))
    store.set_experiment_tag(number, ExperimentTag("team", "red"))
    assert on_meta(store, number)[0] == {"mlflow.note", "team"}
    found = store.get_experiment(number).tags
    assert (found["city"], found["team"]) == ("Oslo", "red")
    (one,) = store.search_experiments(filter_string="tags.city = 'Oslo'")
    assert one.experiment_id == number


def test_a_tag_set_while_it_is_rewritten_is_not_lost(store, index, number, monkeypatch):
    index.remove("*")
    retagged = experiment_items.retagged
    late = iter([ExperimentTag("team", "red"), ExperimentTag("late", "y" * 2_000)])

    def meanwhile(meta, tags, wanted):
        for tag in late:
            store.set_experiment_tag(number, tag)
            break
        return retagged(meta, tags, wanted)

    monkeypatch.setattr("mlflow_dynamodbstore.upkeep.tag_index.retagged", meanwhile)
    index.backfill()
    found = store.get_experiment(number).tags
    assert (found["team"], found["late"]) == ("red", "y" * 2_000)


def test_a_pattern_that_is_not_there_cannot_be_removed(index):
    with pytest.raises(ValueError, match="no pattern"):
        index.remove("mlflow.*")
    with pytest.raises(ValueError, match="empty"):
        index.add("")
