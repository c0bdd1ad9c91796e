"""Evaluation datasets: found as soon as they are written, tagged, linked, deleted completely."""

from __future__ import annotations

from random import Random

import pytest

from mlflow_dynamodbstore.shared.policies import DAY
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup
from tests.faults import CrashingEngine, SimulatedCrash
from tests.releases import needs
from tests.stores import everything_in, refused


def names(found):
    return [dataset.name for dataset in found]


def keys_in(store):
    return {(item["PK"], item["SK"]) for item in everything_in(store.table)}


def test_pages_come_newest_first_and_stay_valid_while_datasets_are_added(store, experiment):
    for number in range(25):
        store.create_dataset(f"d{number:02}", experiment_ids=[experiment] if number % 2 else [])
    first = store.search_datasets(max_results=10)
    store.create_dataset("late")
    second = store.search_datasets(max_results=10, page_token=first.token)
    third = store.search_datasets(max_results=10, page_token=second.token)
    assert names([*first, *second, *third]) == [f"d{n:02}" for n in reversed(range(25))]
    assert third.token is None
    linked = store.search_datasets(experiment_ids=[experiment], max_results=5)
    rest = store.search_datasets(experiment_ids=[experiment], page_token=linked.token)
    assert names([*linked, *rest]) == [f"d{n:02}" for n in reversed(range(25)) if n % 2]


def test_other_orders_and_filters(store):
    for name, tags in (("b", {"k": "x"}), ("a", {"k": "y"}), ("c", {})):
        store.create_dataset(name, tags=tags)
    found = [store.search_datasets(order_by=["name"], max_results=2)]
    found.append(store.search_datasets(order_by=["name"], page_token=found[0].token))
    assert [names(page) for page in found] == [["a", "b"], ["c"]]
    assert names(store.search_datasets(filter_string="tags.k != 'x'")) == ["a"]
    assert names(store.search_datasets(filter_string="name LIKE 'A%'")) == []
    assert names(store.search_datasets(filter_string="name ILIKE 'A%'")) == ["a"]
    with refused("INVALID_PARAMETER_VALUE", "Invalid comparator"):
        store.search_datasets(filter_string="tags.k > 'x'")
    with refused("INVALID_PARAMETER_VALUE", "Invalid value for numeric attribute"):
        store.search_datasets(filter_string="created_time > 1.5")


@needs("filters by lists of names")
def test_a_filter_by_a_list_of_names(store):
    for name in ("b", "a", "c"):
        store.create_dataset(name)
    assert names(store.search_datasets(filter_string="name IN ('a', 'c')")) == ["c", "a"]


def test_a_first_page_reads_as_much_as_it_shows(store):
    for number in range(150):
        store.create_dataset(f"d{number}")
    engine = MeteredEngine(store.table.engine)
    metered = DynamoDBTrackingStore("", "/tmp", table=Table(engine, clock=store.table.clock))
    engine.meter.reset()
    assert len(metered.search_datasets(max_results=20)) == 20
    assert engine.meter.requests.total() <= 3


def test_tags_of_any_length_and_name(store):
    tags = {"short": "1", "a.b#$%": "x" * 5000, "k" * 900: "y" * 2000}
    dataset = store.create_dataset("tagged", tags=tags)
    assert store.get_dataset(dataset.dataset_id).tags == tags
    store.set_dataset_tags(dataset.dataset_id, {"short": "z" * 3000, "a.b#$%": "2", "new": 7})
    after = {**tags, "short": "z" * 3000, "a.b#$%": "2", "new": "7"}
    assert store.get_dataset(dataset.dataset_id).tags == after
    (found,) = store.search_datasets(filter_string=f"tags.short = '{'z' * 3000}'")
    assert found.tags == after
    for key in after:
        store.delete_dataset_tag(dataset.dataset_id, key)
    assert store.get_dataset(dataset.dataset_id).tags == {}


def test_links_are_seen_from_either_side(store, experiment):
    other = store.create_experiment("other")
    dataset = store.create_dataset("shared", experiment_ids=[experiment]).dataset_id
    store.add_dataset_to_experiments(dataset, [other, experiment])
    assert store.get_dataset_experiment_ids(dataset) == [experiment, other]
    store.remove_dataset_from_experiments(dataset, [experiment])
    assert store.get_dataset_experiment_ids(dataset) == [other]
    assert names(store.search_datasets(experiment_ids=[experiment])) == []
    assert names(store.search_datasets(experiment_ids=[experiment, other])) == ["shared"]
    with refused("RESOURCE_DOES_NOT_EXIST", "No Experiment with id=999"):
        store.add_dataset_to_experiments(dataset, ["999"])


def test_nothing_is_left_of_a_deleted_dataset(store, experiment):
    before = keys_in(store)
    dataset = store.create_dataset("gone", tags={"k": "x" * 2000}, experiment_ids=[experiment])
    given = [{"inputs": {"q": n}, "outputs": "x"} for n in range(60)]
    store.upsert_dataset_records(dataset.dataset_id, given)
    store.delete_dataset(dataset.dataset_id)
    assert keys_in(store) == before
    store.delete_dataset(dataset.dataset_id)


def test_cleanup_removes_what_an_interrupted_deletion_left(store, time, experiment):
    kept = store.create_dataset("kept", tags={"k": "x" * 2000}, experiment_ids=[experiment])
    store.upsert_dataset_records(kept.dataset_id, [{"inputs": {"q": 1}}])
    before = keys_in(store)
    dataset = store.create_dataset("gone", tags={"k": "x" * 2000}, experiment_ids=[experiment])
    store.upsert_dataset_records(dataset.dataset_id, [{"inputs": {"q": n}} for n in range(9)])
    engine = CrashingEngine(store.table.engine, at=2, when="before")
    dying = DynamoDBTrackingStore("", "/tmp", table=Table(engine, clock=time))
    with pytest.raises(SimulatedCrash):
        dying.delete_dataset(dataset.dataset_id)
    assert keys_in(store) > before
    time.sleep(4000 * DAY)  # so that the ids are old
    Cleanup(store.table, store.policies, sleep=time.sleep).run()
    assert keys_in(store) == before


def test_a_table_in_order_has_no_orphans(store, time, experiment):
    dataset = store.create_dataset("d", tags={"k": "x" * 2000}, experiment_ids=[experiment])
    texts = Random(1).randbytes(300_000).hex()
    store.upsert_dataset_records(dataset.dataset_id, [{"inputs": {"q": 1}, "outputs": texts}])
    store.register_scorer(experiment, "fluency", '{"a": 1}')
    store.create_issue(experiment, "slow", texts)
    before = keys_in(store)
    time.sleep(4000 * DAY)
    report = Cleanup(store.table, store.policies, sleep=time.sleep).run()
    assert not report.found
    assert keys_in(store) == before


def test_links_go_with_their_experiment(store, time, experiment):
    dataset = store.create_dataset("d", experiment_ids=[experiment, "0"]).dataset_id
    store.delete_experiment(experiment)
    store._hard_delete_experiment(experiment)
    assert names(store.search_datasets(experiment_ids=[experiment])) == []
    time.sleep(4000 * DAY)
    Cleanup(store.table, store.policies, sleep=time.sleep).run()
    assert store.get_dataset_experiment_ids(dataset) == ["0"]
