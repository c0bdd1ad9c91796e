"""What registry operations cost on DynamoDB: requests, read units, write units.

A store remembers the models and versions it has seen, as guesses that the table confirms. ``warm``
is a process that has seen the model, ``cold`` one that has not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mlflow.entities.model_registry import ModelVersionTag, RegisteredModelTag

from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.table.contract import Engine
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from tests.registry.helpers import registry_on
from tests.table.fakes import FakeTime

RUN = "0197c9b4d3a97bd2a1b2c3d4e5f60718"


class Measured:
    """A registry whose calls are counted, and one that has seen nothing."""

    def __init__(self, engine: Engine, time: FakeTime):
        self._engine = MeteredEngine(engine)
        self._time = time
        self.store = self.fresh()

    def fresh(self) -> DynamoDBRegistryStore:
        return registry_on(self._engine, self._time)

    def cost(self, call: Callable[[], Any]) -> tuple[int, float, float]:
        with self._engine.meter.measure() as used:
            call()
        return used.total_requests, used.read_units, used.write_units


@pytest.fixture
def measured(engine: Engine, time: FakeTime) -> Measured:
    return Measured(engine, time)


def within(cost: tuple[float, ...], limit: tuple[float, ...]) -> bool:
    return all(used <= allowed for used, allowed in zip(cost, limit, strict=True))


def with_versions(store: DynamoDBRegistryStore, name: str, count: int) -> None:
    store.create_registered_model(name)
    for n in range(count):
        store.create_model_version(name, f"s3://bucket/models/{name}/{n}", RUN)


def test_creating_a_model(measured):
    store = measured.store
    # Twice a minute the settings are read: whether names are indexed.
    assert measured.cost(lambda: store.create_registered_model("l")) == (2, 1, 6)
    assert measured.cost(lambda: store.create_registered_model("m")) == (1, 0, 6)
    tags = [RegisteredModelTag(f"k{n}", "v") for n in range(3)]
    assert within(measured.cost(lambda: store.create_registered_model("n", tags)), (3, 1, 20))


def test_creating_a_version(measured):
    with_versions(measured.store, "m", 1)
    create = ("m", "s3://bucket/models/m/1")
    assert measured.cost(lambda: measured.store.create_model_version(*create)) == (1, 0, 6)
    assert measured.cost(lambda: measured.store.create_model_version(*create, RUN)) == (1, 0, 8)
    tags = [ModelVersionTag(f"k{n}", "v" * 20) for n in range(5)]
    cold = measured.fresh()
    cost = measured.cost(lambda: cold.create_model_version(*create, RUN, tags))
    assert within(cost, (3, 1, 10)), cost


def test_setting_an_alias(measured):
    with_versions(measured.store, "m", 2)
    store = measured.store
    # The entry in GSI3 costs a unit where the model does not have the alias yet.
    assert measured.cost(lambda: store.set_registered_model_alias("m", "a", 1)) == (1, 0, 7)
    assert measured.cost(lambda: store.set_registered_model_alias("m", "a", 2)) == (1, 0, 6)
    cold = measured.fresh()
    cost = measured.cost(lambda: cold.set_registered_model_alias("m", "a", 1))
    assert cost == (2, 0.5, 6)  # META has the version that the alias led to before
    changed = [
        measured.cost(lambda n=n: store.set_registered_model_alias("m", "a", 1 + n % 2))
        for n in range(1, 13)
    ]
    # Every fourth change makes an item of those before it; the first finds that it was outrun.
    assert sorted({*changed[1:]}) == [(1, 0, 6), (1, 0, 8)]
    assert sum(cost[2] for cost in changed[1:]) <= 6.6 * len(changed)


def test_setting_an_alias_to_a_version_that_nobody_asked_for(measured):
    with_versions(measured.store, "m", 40)
    cold = measured.fresh()
    assert measured.cost(lambda: cold.set_registered_model_alias("m", "a", 1)) == (3, 1.5, 7)
    cold = measured.fresh()
    assert measured.cost(lambda: cold.get_model_version_by_alias("m", "a")) == (1, 1, 0)


def test_getting_a_version_by_its_alias(measured):
    with_versions(measured.store, "m", 3)
    measured.store.set_registered_model_alias("m", "a", 2)
    cold = measured.fresh()
    assert measured.cost(lambda: cold.get_model_version_by_alias("m", "a")) == (1, 1, 0)
    assert measured.cost(lambda: cold.get_model_version_by_alias("m", "a")) == (1, 1, 0)
    # Also after the version has changed, and for the second version of an alias.
    measured.store.set_model_version_tag("m", 2, ModelVersionTag("k", "v"))
    measured.store.split_registered_model_alias("m", "a", 1, 99)
    cold = measured.fresh()
    assert measured.cost(lambda: cold.get_model_version_by_alias("m", "a")) == (1, 1, 0)
    # Other changes of the model do not make the version unknown.
    measured.store.set_registered_model_tag("m", RegisteredModelTag("k", "v"))
    assert measured.cost(lambda: cold.get_model_version_by_alias("m", "a")) == (1, 1, 0)
    assert measured.cost(lambda: cold.get_model_version_download_uri("m", 2)) == (1, 1, 0)


def test_searching_models_by_a_pattern(measured):
    for n in range(200):
        measured.store.create_registered_model(f"model-{n:03}")
    cold = measured.fresh()

    def search(pattern: str) -> list[str]:
        found = cold.search_registered_models(f"name LIKE '{pattern}'")
        return [model.name for model in found]

    assert len(search("%5_")) == 20
    for pattern in ("%77", "%5_", "%"):
        cost = measured.cost(lambda pattern=pattern: search(pattern))
        assert within(cost, (1, 6, 0)), cost  # the list says it all
    assert len(search("model-15%")) == 10
    assert measured.cost(lambda: search("model-15%")) == (1, 1, 0)


def test_searching_models_that_have_versions_and_aliases(measured):
    """The versions that a process has seen are not read again while the list says so."""
    for n in range(40):
        with_versions(measured.store, f"model-{n:03}", 2)
        measured.store.set_registered_model_alias(f"model-{n:03}", "champion", 1)
    cold = measured.fresh()
    assert within(measured.cost(lambda: cold.search_registered_models("name LIKE '%7'")), (3, 8, 0))
    assert within(measured.cost(lambda: cold.search_registered_models("name LIKE '%7'")), (1, 2, 0))


def test_a_search_among_ten_times_as_many_models_costs_the_same(measured):
    for n in range(100):
        measured.store.create_registered_model(f"a-{n:03}")
    before = measured.cost(lambda: measured.store.search_registered_models(max_results=10))
    for n in range(900):
        measured.store.create_registered_model(f"b-{n:03}")
    after = measured.cost(lambda: measured.store.search_registered_models(max_results=10))
    assert after == before == (1, 2, 0)


def test_an_order_other_than_by_name_reads_the_list_in_few_requests(measured):
    for n in range(500):
        measured.store.create_registered_model(f"a-{n:03}")
    search = lambda: measured.store.search_registered_models(  # noqa: E731
        max_results=10, order_by=["timestamp DESC"]
    )
    assert within(measured.cost(search), (3, 13, 0)), measured.cost(search)


def test_searching_the_versions_of_a_model(measured):
    with_versions(measured.store, "m", 20)
    with_versions(measured.store, "n", 100)
    cold = measured.fresh()  # a server looks at its keys when it opens a store
    cost = measured.cost(lambda: cold.search_model_versions("name = 'm'"))
    assert within(cost, (2, 2, 0)), cost


def test_searching_the_versions_of_a_run_does_not_read_other_models(measured):
    for n in range(30):
        with_versions(measured.store, f"m{n}", 3)
    measured.store.create_model_version("m7", "s3://b/x", "one-run")
    cold = measured.fresh()
    cost = measured.cost(lambda: cold.search_model_versions("run_id = 'one-run'"))
    assert within(cost, (3, 3, 0)), cost


def test_reading_a_model_with_a_latest_version(measured):
    with_versions(measured.store, "m", 50)
    cold = measured.fresh()
    assert measured.cost(lambda: cold.get_registered_model("m")) == (1, 1, 0)
    assert measured.cost(lambda: cold.get_registered_model("m")) == (1, 1, 0)


def test_setting_tags(measured):
    with_versions(measured.store, "m", 1)
    store = measured.store
    model_tag, version_tag = RegisteredModelTag("k", "v"), ModelVersionTag("k", "v")
    assert measured.cost(lambda: store.set_registered_model_tag("m", model_tag)) == (1, 0, 6)
    assert measured.cost(lambda: store.set_model_version_tag("m", 1, version_tag)) == (1, 0, 6)
