"""Searches have pages, stay right while servers change, and cost what they show."""

from __future__ import annotations

import pytest

from mlflow_dynamodbstore.table.contract import Engine
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.mcp.making import ACTIVE, FILES, add
from tests.stores import ARTIFACTS, refused
from tests.table.fakes import FakeTime, patient_retry


def all_pages(search, *args, size=2, **more):
    token, found = None, []
    while True:
        page = search(*args, max_results=size, page_token=token, **more)
        assert len(page) <= size
        found += page
        token = page.token
        if token is None:
            return found


@pytest.mark.parametrize("direction", ["ASC", "DESC"])
def test_versions_are_paged_by_precedence(store, direction):
    versions = ["1.0.0-rc.2", "1.0.0-rc.10", "1.0.0", "1.0.0+a", "1.0.0+b", "1.2.0", "1.10.0"]
    for version in [*versions[::2], *versions[1::2]]:
        add(store, version)
    store.delete_mcp_server_version(FILES, "1.2.0")
    found = all_pages(store.search_mcp_server_versions, FILES, order_by=[f"`version` {direction}"])
    released = [v.version.partition("+")[0] for v in found]
    expected = ["1.0.0-rc.2", "1.0.0-rc.10", "1.0.0", "1.0.0", "1.0.0", "1.10.0"]
    assert released == (expected if direction == "ASC" else expected[::-1])
    assert len({v.version for v in found}) == len(found)


@pytest.mark.parametrize("order", [None, ["id DESC"], ["`server_name` ASC"], ["created_at DESC"]])
def test_endpoints_of_all_servers_are_paged(store, order):
    made = []
    for n in range(3):
        name = f"a.b/s{n}"
        add(store, name=name)
        for _ in range(3):
            endpoint = store.create_mcp_access_endpoint(name, "https://x", server_alias="latest")
            made.append(endpoint.id)
    found = [e.id for e in all_pages(store.search_mcp_access_endpoints, order_by=order)]
    assert sorted(found) == sorted(made)
    if order is None:
        assert found == sorted(made)
    if order == ["id DESC"]:
        assert found == sorted(made, reverse=True)


def test_a_page_goes_on_where_it_ended_though_servers_come_and_go(store, other):
    for n in range(6):
        store.create_mcp_server(f"a.b/s{n}")
    first = store.search_mcp_servers(max_results=3)
    other.delete_mcp_server("a.b/s0")
    other.create_mcp_server("a.b/r9")
    second = store.search_mcp_servers(max_results=3, page_token=first.token)
    assert [s.name for s in second] == ["a.b/s3", "a.b/s4", "a.b/s5"]
    assert second.token is None


def test_a_token_of_another_order_is_refused(store):
    for n in range(3):
        store.create_mcp_server(f"a.b/s{n}")
    token = store.search_mcp_servers(max_results=1).token
    with refused("INVALID_PARAMETER_VALUE", "page token"):
        store.search_mcp_servers(order_by=["name DESC"], page_token=token)


def test_long_tags_are_found_and_shown(store, other):
    store.create_mcp_server(FILES)
    store.set_mcp_server_tag(FILES, "x.y", "long" * 1000)
    (found,) = other.search_mcp_servers("tags.`x.y` LIKE 'long%'")
    assert found.tags == {"x.y": "long" * 1000}
    store.set_mcp_server_tag(FILES, "x.y", "short")
    assert other.get_mcp_server(FILES).tags == {"x.y": "short"}


# --- costs --------------------------------------------------------------------------------------


class Measured:
    """A store whose calls are counted, with 30 servers of two versions and an endpoint each."""

    def __init__(self, engine: Engine, time: FakeTime):
        self._engine = MeteredEngine(engine)
        self._time = time
        self.store = self.fresh()
        for n in range(30):
            name = f"a.b/s{n:02d}"
            add(self.store, "1.0.0", name, description="d")
            add(self.store, "2.0.0", name, status=ACTIVE)
            self.store.create_mcp_access_endpoint(name, "https://x", server_version="1.0.0")

    def fresh(self) -> DynamoDBTrackingStore:
        table = Table(self._engine, clock=self._time, retry=patient_retry(self._time))
        return DynamoDBTrackingStore(self._engine.uri, ARTIFACTS, table=table)

    def requests(self, call) -> int:
        with self._engine.meter.measure() as used:
            call()
        return used.total_requests


def test_no_search_asks_once_for_each_thing_it_finds(tmp_path, time):
    uri = f"dynamodb:///{tmp_path / 'mlflow.ddb'}?synchronous=NORMAL"
    engine = open_engine(uri)
    measured = Measured(engine, time)
    store = measured.store
    # Names, servers, then endpoints together with the versions they resolve to.
    assert measured.requests(store.search_mcp_servers) == 3
    # Entries, servers, endpoints, then the versions of the page.
    assert measured.requests(store.search_mcp_access_endpoints) == 4
    assert measured.requests(lambda: store.search_mcp_server_versions("a.b/s00")) == 2
    assert measured.requests(lambda: store.get_mcp_server("a.b/s00")) == 2
    assert measured.requests(lambda: store.get_mcp_server_version("a.b/s00", "1.0.0")) == 1
    # Decided on the META that was read last: one transaction.
    assert measured.requests(lambda: add(store, "3.0.0", "a.b/s00")) == 1
    assert measured.requests(lambda: store.set_mcp_server_tag("a.b/s00", "k", "v")) == 1
    engine.close()
