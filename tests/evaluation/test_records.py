"""Records of evaluation datasets: one for each set of inputs, however many write at once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from mlflow_dynamodbstore.keys import evaluation_datasets as dataset_keys
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.faults import CrashingEngine, FaultyEngine, SimulatedCrash
from tests.stores import refused
from tests.table.fakes import patient_retry


@pytest.fixture
def dataset(store):
    return store.create_dataset("questions").dataset_id


def question(number, **rest):
    return {"inputs": {"q": number}, **rest}


def loaded(store, dataset):
    records, token = store._load_dataset_records(dataset)
    assert token is None
    return records


def count(store, dataset):
    profile = store.get_dataset(dataset).profile
    return json.loads(profile)["num_records"] if profile else 0


def below(store, dataset, where):
    return list(store.table.items(Query(dataset_keys.dataset_pk(dataset), where=where.on())))


def test_records_come_in_the_order_they_were_given(store, dataset):
    store.upsert_dataset_records(dataset, [question(n) for n in range(120)])
    store.upsert_dataset_records(dataset, [question(n) for n in (500, 3, 400)])
    asked = [record.inputs["q"] for record in loaded(store, dataset)]
    assert asked == [*range(120), 500, 400]


def test_pages_hold_every_record_once_while_others_are_added_and_deleted(store, dataset):
    store.upsert_dataset_records(dataset, [question(n) for n in range(30)])
    first, token = store._load_dataset_records(dataset, max_results=10)
    store.delete_dataset_records(dataset, [first[-1].dataset_record_id])
    store.upsert_dataset_records(dataset, [question(99)])
    second, token = store._load_dataset_records(dataset, max_results=10, page_token=token)
    third, token = store._load_dataset_records(dataset, max_results=11, page_token=token)
    assert token is None
    asked = [record.inputs["q"] for record in (*first, *second, *third)]
    assert asked == [*range(30), 99]


def test_a_token_that_is_none_is_refused(store, dataset):
    with refused("INVALID_PARAMETER_VALUE", "Invalid page token"):
        store._load_dataset_records(dataset, page_token="nonsense")


def test_same_inputs_in_another_order_are_the_same_record(store, dataset):
    first = {"inputs": {"a": 1, "b": [1, {"c": 2}]}, "outputs": "x"}
    again = {"inputs": {"b": [1, {"c": 2}], "a": 1}, "outputs": None, "tags": {"t": "1"}}
    assert store.upsert_dataset_records(dataset, [first]) == {"inserted": 1, "updated": 0}
    assert store.upsert_dataset_records(dataset, [again]) == {"inserted": 0, "updated": 1}
    (record,) = loaded(store, dataset)
    assert (record.outputs, record.tags) == (None, {"t": "1"})
    assert count(store, dataset) == 1


def test_records_of_any_size_and_content_come_back(store, dataset):
    texts = {"huge": Random(1).randbytes(300_000).hex(), "none": None}
    numbers = {"large": 10**40, "small": 5e-324, "\U0001f600#$%": [[], {}, True]}
    store.upsert_dataset_records(
        dataset, [question(1, outputs=texts), question(2, expectations=numbers)]
    )
    large, other = loaded(store, dataset)
    assert large.outputs == texts
    assert other.expectations == numbers
    parts = [i for i in below(store, dataset, dataset_keys.DATASET_RECORDS) if "#PART#" in i["SK"]]
    assert parts
    store.upsert_dataset_records(dataset, [question(1, outputs="short")])
    assert [record.outputs for record in loaded(store, dataset)] == ["short", {}]
    assert len(below(store, dataset, dataset_keys.DATASET_RECORDS)) == 2


def test_deleting_records_frees_their_inputs_and_their_parts(store, dataset):
    store.upsert_dataset_records(dataset, [question(n, outputs="x" * 9) for n in range(60)])
    ids = [record.dataset_record_id for record in loaded(store, dataset)]
    assert store.delete_dataset_records(dataset, [*ids, ids[0], "dr-unknown"]) == 60
    assert count(store, dataset) == 0
    assert store.delete_dataset_records(dataset, ids) == 0
    assert store.upsert_dataset_records(dataset, [question(1)]) == {"inserted": 1, "updated": 0}
    assert len(loaded(store, dataset)) == 1


def test_many_writers_of_the_same_inputs_make_one_record_and_lose_nothing(store, dataset):
    def write(writer):
        given = [question(n, expectations={f"by-{writer}": n}) for n in range(8)]
        return store.upsert_dataset_records(dataset, given)

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(write, range(4)))
    assert sum(one["inserted"] for one in done) == 8
    assert sum(one["updated"] for one in done) == 24
    records = loaded(store, dataset)
    assert len(records) == count(store, dataset) == 8
    assert all(len(record.expectations) == 4 for record in records)
    assert set(json.loads(store.get_dataset(dataset).schema)["expectations"]) == {
        f"by-{writer}" for writer in range(4)
    }


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_writer_that_dies_at_any_write_leaves_a_dataset_that_is_right(store, dataset, when):
    """After each crash the dataset counts its records right, and a repeated call completes them."""
    huge = Random(1).randbytes(80_000).hex()
    given = [question(n, outputs="" if n % 60 else huge) for n in range(120)]
    deaths = 0
    while True:
        engine = CrashingEngine(store.table.engine, at=deaths + 1, when=when)
        dying = DynamoDBTrackingStore("", "/tmp", table=Table(engine, clock=store.table.clock))
        try:
            dying.upsert_dataset_records(dataset, given)
        except SimulatedCrash:
            deaths += 1
            assert deaths < 50
            assert len(loaded(store, dataset)) == count(store, dataset)
        else:
            break
    assert deaths > 2
    assert len(loaded(store, dataset)) == count(store, dataset) == 120


def test_faults_of_the_service_change_nothing(store, time, dataset):
    engine = FaultyEngine(store.table.engine, timeout_before=0.1, conflict=0.2)
    table = Table(engine, clock=time, retry=patient_retry(time))
    troubled = DynamoDBTrackingStore("", "/tmp", table=table)
    for _ in range(3):
        troubled.upsert_dataset_records(dataset, [question(n) for n in range(150)])
    ids = [record.dataset_record_id for record in loaded(store, dataset)]
    assert troubled.delete_dataset_records(dataset, ids[:70]) == 70
    assert engine.injected.total() > 0
    assert len(loaded(store, dataset)) == count(store, dataset) == 80


def test_requests_are_bounded(store, dataset):
    """A thousand records take 10 lookups and 21 transactions; reading them takes pages."""
    engine = MeteredEngine(store.table.engine)
    metered = DynamoDBTrackingStore("", "/tmp", table=Table(engine, clock=store.table.clock))
    given = [question(n) for n in range(1000)]
    engine.meter.reset()
    metered.upsert_dataset_records(dataset, given)
    spent = engine.meter.requests
    assert spent["TransactWriteItems"] == 21
    assert spent.total() <= 21 + 10 + 6
    engine.meter.reset()
    metered.upsert_dataset_records(dataset, given)
    assert engine.meter.requests.total() <= 21 + 20 + 6
    engine.meter.reset()
    assert len(metered._load_dataset_records(dataset, max_results=100)[0]) == 100
    assert engine.meter.requests.total() <= 3


def test_a_dataset_that_was_deleted_takes_no_records(store, dataset):
    store.delete_dataset(dataset)
    for call in (
        lambda: store.upsert_dataset_records(dataset, [question(1)]),
        lambda: store.delete_dataset_records(dataset, ["dr-1"]),
        lambda: store._load_dataset_records(dataset),
    ):
        with refused("RESOURCE_DOES_NOT_EXIST", "not found"):
            call()
    assert not list(store.table.items(Query(dataset_keys.dataset_pk(dataset))))
