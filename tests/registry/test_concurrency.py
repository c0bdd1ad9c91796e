"""Version numbers are given out one by one, however many processes ask at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mlflow.entities.model_registry import ModelVersionTag, RegisteredModelTag

from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from tests.registry.workers import answer_of
from tests.stores import uri_on

PROCESSES = 8
EACH = 5


@pytest.fixture(params=["embedded", "dynoxide"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with uri_on(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def store(uri: str) -> Iterator[DynamoDBRegistryStore]:
    opened = DynamoDBRegistryStore(uri)
    opened.create_registered_model("m")
    yield opened
    opened.table.close()


def test_processes_that_create_versions_at_once_leave_no_gap_and_repeat_none(uri, store):
    numbers = json.loads(answer_of("create_versions", uri, "m", str(PROCESSES), str(EACH)))
    assert sorted(n for made in numbers for n in made) == list(range(1, PROCESSES * EACH + 1))
    found = store.search_model_versions("name = 'm'", max_results=1000)
    assert {v.version: v.run_id for v in found} == {
        n: f"run-{worker}" for worker, made in enumerate(numbers) for n in made
    }
    assert store.get_registered_model("m").latest_versions[0].version == PROCESSES * EACH


def test_threads_that_change_one_model_in_different_ways_lose_nothing(store):
    for _ in range(4):
        store.create_model_version("m", "s3://b/x")

    def work(n: int) -> None:
        store.set_registered_model_tag("m", RegisteredModelTag(f"model-{n}", "v"))
        store.set_model_version_tag("m", n % 4 + 1, ModelVersionTag(f"version-{n}", "v"))
        store.set_registered_model_alias("m", f"alias-{n}", n % 4 + 1)
        store.create_model_version("m", "s3://b/y")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))
    model = store.get_registered_model("m")
    assert set(model.tags) == {f"model-{n}" for n in range(16)}
    assert model.aliases == {f"alias-{n}": n % 4 + 1 for n in range(16)}
    versions = {v.version: v for v in store.search_model_versions("name = 'm'", max_results=100)}
    assert sorted(versions) == list(range(1, 21))
    tags = {key: v for v, version in versions.items() for key in version.tags}
    assert tags == {f"version-{n}": n % 4 + 1 for n in range(16)}
