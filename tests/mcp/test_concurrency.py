"""Concurrent changes of one server: none is lost, and none is made twice."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.mcp.making import ACTIVE, DEPRECATED, FILES, add, sort_keys_of
from tests.mcp.workers import created_by_processes
from tests.stores import uri_on

PROCESSES = 6
EACH = 8


@pytest.fixture(params=["embedded", "dynoxide"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with uri_on(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def store(uri: str) -> Iterator[DynamoDBTrackingStore]:
    opened = DynamoDBTrackingStore(uri, "s3://bucket/root")
    yield opened
    opened.table.close()


def test_of_processes_that_create_one_version_one_succeeds(uri, store):
    """The first of them creates the server, too."""
    made = created_by_processes(uri, FILES, PROCESSES, EACH)
    everything = [f"1.{n}.0" for n in range(EACH)]
    assert sorted(version for versions in made for version in versions) == everything
    found = store.search_mcp_server_versions(FILES)
    assert sorted(v.version for v in found) == everything
    server = store.get_mcp_server(FILES)
    assert (server.latest_version, server.status) == (f"1.{EACH - 1}.0", ACTIVE)


def test_threads_that_change_one_server_in_different_ways_lose_nothing(store):
    for n in range(4):
        add(store, f"1.{n}.0")

    def work(n: int) -> None:
        version = f"1.{n % 4}.0"
        store.set_mcp_server_tag(FILES, f"server-{n}", "v")
        store.set_mcp_server_version_tag(FILES, version, f"version-{n}", "v")
        store.set_mcp_server_alias(FILES, f"alias-{n}", version)
        store.create_mcp_access_endpoint(FILES, f"https://{n}", server_alias=f"alias-{n}")
        add(store, f"2.{n}.0", status=ACTIVE)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(12)))
    server = store.get_mcp_server(FILES)
    assert {*server.tags} == {f"server-{n}" for n in range(12)}
    assert server.aliases == {f"alias-{n}": f"1.{n % 4}.0" for n in range(12)}
    assert {(e.url, e.resolved_version.version) for e in server.access_endpoints} == {
        (f"https://{n}", f"1.{n % 4}.0") for n in range(12)
    }
    versions = {v.version: v for v in store.search_mcp_server_versions(FILES)}
    assert len(versions) == 16
    tags = {key: name for name, version in versions.items() for key in version.tags}
    assert tags == {f"version-{n}": f"1.{n % 4}.0" for n in range(12)}
    assert server.latest_version == "2.11.0"


def test_no_endpoint_leads_to_a_version_that_is_deleted_at_the_same_time(store):
    for n in range(8):
        add(store, f"1.{n}.0")

    def work(n: int) -> None:
        version = f"1.{n // 2}.0"
        try:
            if n % 2:
                store.delete_mcp_server_version(FILES, version)
            else:
                store.create_mcp_access_endpoint(FILES, "https://x", server_version=version)
        except MlflowException as error:
            assert "deleted MCP server version" in error.message  # noqa: PT017 - in a thread

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))
    assert store.search_mcp_access_endpoints() == []
    assert not [sk for sk in sort_keys_of(store.table) if sk.startswith(("S#EP", "MCPEP"))]


def test_the_latest_is_right_whoever_steps_down_meanwhile(store):
    for n in range(10):
        add(store, f"1.{n}.0", status=ACTIVE)

    def work(n: int) -> None:
        store.update_mcp_server_version(FILES, f"1.{n}.0", status=DEPRECATED)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, [9, 8, 7, 5, 4, 2]))
    assert store.get_mcp_server(FILES).latest_version == "1.6.0"
