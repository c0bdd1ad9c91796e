"""Random sequences of calls give the same answers and errors on MLflow's SqlAlchemyStore and ours.

Ours is asked through two stores in turn, so that each often goes by a memory which the other has
made outdated, and its global indexes lag. The short form is part of ``make test``; ``make fuzz``
runs long ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from mlflow.entities.mcp_access_endpoint import MCPAccessEndpoint
from mlflow.entities.mcp_server import MCPRemoteTransportType, MCPStatus, MCPTool
from mlflow.entities.mcp_server_version import ConnectOptionSettings
from mlflow.exceptions import MlflowException
from mlflow.store.entities.paged_list import PagedList
from mlflow.store.tracking.mcp_server_registry.abstract_mixin import NOT_SET
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.differences import Refused, joined, term
from tests.sql import empty_database

pytestmark = pytest.mark.hypothesis  # so that `make fuzz` runs it too

NAMES = ["a.b/one", "a.b/two", "A.b/One", "c.d/three"]
NAME = st.sampled_from([*NAMES[:1] * 4, *NAMES])
VERSIONS = ["1.0.0", "1.0.0-rc.2", "1.0.0-rc.10", "1.0.0+a", "1.0.0+b", "2.0.0", "10.0.0", "0.9.0"]
VERSION = st.sampled_from([*VERSIONS, *VERSIONS, "no version"])
KEY = st.sampled_from(["k", "K", "k 2", "x.y"])
TEXT = st.sampled_from(["", "v", "V", "it's 50%", "🙂", "n" * 2000])
OPTIONAL = st.none() | st.sampled_from(["", "text", "d" * 3000])
ALIAS = st.sampled_from(["prod", "prod", "Prod", "x.1", "latest"])
STATUS = st.sampled_from([MCPStatus.ACTIVE, *MCPStatus])
TOOLS = st.none() | st.sampled_from([[], [MCPTool(name="t"), MCPTool(name="u", title="U")]])
OPTIONS = st.none() | st.just({"packages": ConnectOptionSettings(hidden=True)})
WHO = st.sampled_from([None, "ada"])
URL = st.sampled_from(["https://a", "https://b/x", " "])
WHICH = st.integers(0, 5)
SET = st.just(NOT_SET)

COMPARATORS = ["=", "!=", "LIKE", "ILIKE", ">"]
PATTERNS = ["a.b/one", "A%", "%o%", "active", "draft", "", "v", "text"]


TIMES = st.sampled_from(["created_at > 1700000001000", "last_updated_at <= 1700000003000"])
SERVER_FILTER = joined(
    term(
        st.sampled_from(["name", "display_name", "status", "tags.k", "tags.`x.y`"]),
        COMPARATORS,
        PATTERNS,
    ),
    TIMES,
    st.sampled_from(["has_access_endpoints = 'true'", "has_access_endpoints = 'False'"]),
    st.sampled_from(["name IN ('a.b/one', 'c.d/three')", "status IN ('draft')", "status = 1"]),
)
BY_VERSION = [
    st.builds(
        lambda how, version: f"version {how} '{version}'",
        st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
        VERSION,
    ),
    st.just("version LIKE '1%'"),
]
VERSION_FILTER = joined(
    TIMES,
    st.sampled_from(["status = 'active'", "status != 'draft'"]),
    *BY_VERSION,
)
ENDPOINT_FILTER = joined(
    TIMES,
    st.sampled_from(
        [
            "status = 'active'",
            "status != 'active'",
            "transport_type = 'sse'",
            "server_name = 'a.b/one'",
            "server_name IN ('a.b/one', 'a.b/two')",
            "server_name LIKE 'A%'",
        ]
    ),
)
SERVER_ORDER = st.sampled_from([None, ["name DESC"], ["created_at DESC"], ["last_updated_at", "x"]])
VERSION_ORDER = st.sampled_from(
    [None, ["created_at DESC"], ["last_updated_at"], ["created_at", "`version` DESC"]]
)
ENDPOINT_ORDER = st.sampled_from([None, ["`server_name` DESC"], ["created_at DESC"], ["url"]])


class Difference(RuleBasedStateMachine):
    """Every rule calls both stores and compares what comes back."""

    theirs: ClassVar[Any]
    ours: ClassVar[tuple[Any, Any]]

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 1_700_000_000
        self.turn = 0
        self.ids: list[tuple[str, str]] = []

    @initialize()
    def begin(self) -> None:
        for name in NAMES[:2]:
            for version in ("1.0.0", "2.0.0"):
                self.create_version(name, version, MCPStatus.DRAFT, None, None, None, None)

    def teardown(self) -> None:
        for store in (self.theirs, self.ours[0]):
            for server in store.search_mcp_servers():
                for version in store.search_mcp_server_versions(server.name):
                    if version.status == MCPStatus.ACTIVE:
                        store.update_mcp_server_version(
                            server.name, version.version, MCPStatus.DRAFT
                        )
                store.delete_mcp_server(server.name)

    def same(self, method: str, *args: Any, **more: Any) -> None:
        """Call a method on both at the same moment; what comes back must be the same.

        Of two ids in ``args``, each store gets its own.
        """
        self.turn += 1
        self.seconds += self.turn % 3 == 0  # often two changes fall into one moment
        mine, other = (tuple(a[n] if isinstance(a, tuple) else a for a in args) for n in range(2))
        with mock.patch("time.time", return_value=self.seconds):
            ours = outcome(self.ours[self.turn // 2 % 2], method, mine, more)
            theirs = outcome(self.theirs, method, other, more)
        if isinstance(ours, MCPAccessEndpoint) and isinstance(theirs, MCPAccessEndpoint):
            self.ids.append((ours.id, theirs.id))  # of one that was read, once more
        one, other = self.shown(ours, 0), self.shown(theirs, 1)
        assert one == other, (method, args)

    def shown(self, result: Any, store: int) -> Any:
        """A result as plain values, with an endpoint's number in place of its id."""
        if isinstance(result, Refused | str | int | None):
            return result
        if isinstance(result, list | PagedList):
            return [self.shown(one, store) for one in result]
        values = asdict(result)
        numbers = {pair[store]: n for n, pair in enumerate(self.ids)}
        for endpoint in (values, *values.get("access_endpoints", ())):
            if "id" in endpoint:
                endpoint["id"] = numbers[endpoint["id"]]
        values.get("access_endpoints", []).sort(key=lambda endpoint: endpoint["id"])
        return values

    def endpoint(self, number: int) -> tuple[str, str]:
        return self.ids[number % len(self.ids)] if self.ids else ("none", "none")

    # --- servers --------------------------------------------------------------------------------

    @rule(name=NAME, description=OPTIONAL, who=WHO)
    def create_server(self, name: str, description: str | None, who: str | None) -> None:
        self.same("create_mcp_server", name, description, None, who)

    @rule(name=NAME)
    def get_server(self, name: str) -> None:
        self.same("get_mcp_server", name)
        self.same("get_latest_mcp_server_version", name)

    @rule(name=NAME, description=OPTIONAL | SET, display=OPTIONAL | SET, who=WHO)
    def update_server(self, name: str, description: Any, display: Any, who: str | None) -> None:
        self.same("update_mcp_server", name, description, display, NOT_SET, who)

    @rule(name=st.sampled_from(NAMES))
    def delete_server(self, name: str) -> None:
        self.same("delete_mcp_server", name)

    @rule(name=NAME, key=KEY, value=TEXT)
    def set_server_tag(self, name: str, key: str, value: str) -> None:
        self.same("set_mcp_server_tag", name, key, value)

    @rule(name=NAME, key=KEY)
    def delete_server_tag(self, name: str, key: str) -> None:
        self.same("delete_mcp_server_tag", name, key)

    # --- versions -------------------------------------------------------------------------------

    @rule(
        name=NAME,
        version=VERSION,
        status=STATUS,
        description=OPTIONAL,
        tools=TOOLS | SET,
        options=OPTIONS,
        who=WHO,
    )
    def create_version(
        self,
        name: str,
        version: str,
        status: MCPStatus,
        description: str | None,
        tools: Any,
        options: Any,
        who: str | None,
    ) -> None:
        said = {"name": name, "version": version, "description": description}
        self.same("create_mcp_server_version", said, "src", status, tools, who, options)

    @rule(name=NAME, version=VERSION)
    def get_version(self, name: str, version: str) -> None:
        self.same("get_mcp_server_version", name, version)

    @rule(name=NAME, version=VERSION, status=STATUS | SET, tools=TOOLS | SET, options=OPTIONS | SET)
    def update_version(
        self, name: str, version: str, status: Any, tools: Any, options: Any
    ) -> None:
        self.same("update_mcp_server_version", name, version, status, tools, "bob", options)

    @rule(name=NAME, version=VERSION)
    def activate(self, name: str, version: str) -> None:
        self.same("update_mcp_server_version", name, version, MCPStatus.ACTIVE)

    @rule(name=NAME, version=VERSION)
    def delete_version(self, name: str, version: str) -> None:
        self.same("delete_mcp_server_version", name, version)

    @rule(name=NAME, version=VERSION, key=KEY, value=TEXT)
    def set_version_tag(self, name: str, version: str, key: str, value: str) -> None:
        self.same("set_mcp_server_version_tag", name, version, key, value)

    @rule(name=NAME, version=VERSION, key=KEY)
    def delete_version_tag(self, name: str, version: str, key: str) -> None:
        self.same("delete_mcp_server_version_tag", name, version, key)

    # --- aliases --------------------------------------------------------------------------------

    @rule(name=NAME, alias=ALIAS, version=VERSION)
    def set_alias(self, name: str, alias: str, version: str) -> None:
        self.same("set_mcp_server_alias", name, alias, version)

    @rule(name=NAME, alias=ALIAS)
    def delete_alias(self, name: str, alias: str) -> None:
        self.same("delete_mcp_server_alias", name, alias)

    @rule(name=NAME, alias=ALIAS)
    def get_by_alias(self, name: str, alias: str) -> None:
        self.same("get_mcp_server_version_by_alias", name, alias)

    # --- endpoints ------------------------------------------------------------------------------

    @rule(name=NAME, url=URL, version=VERSION, who=WHO)
    def create_endpoint(self, name: str, url: str, version: str, who: str | None) -> None:
        sse = MCPRemoteTransportType.SSE
        self.same("create_mcp_access_endpoint", name, url, sse, version, None, who)

    @rule(name=NAME, alias=ALIAS)
    def create_alias_endpoint(self, name: str, alias: str) -> None:
        self.same("create_mcp_access_endpoint", name, "https://a", server_alias=alias)

    @rule(name=NAME, number=WHICH)
    def get_endpoint(self, name: str, number: int) -> None:
        self.same("get_mcp_access_endpoint", name, self.endpoint(number))

    @rule(name=NAME, number=WHICH, version=VERSION | SET, alias=ALIAS | SET, url=URL | SET)
    def update_endpoint(self, name: str, number: int, version: Any, alias: Any, url: Any) -> None:
        endpoint = self.endpoint(number)
        leads_nowhere = isinstance(
            outcome(self.theirs, "get_mcp_access_endpoint", (name, endpoint[1]), {}), Refused
        )
        if leads_nowhere and (version, alias) == (NOT_SET, NOT_SET):
            return  # theirs fails when it reads back an endpoint that resolves to no version
        self.same("update_mcp_access_endpoint", name, endpoint, version, alias, url)

    @rule(name=NAME, number=WHICH)
    def delete_endpoint(self, name: str, number: int) -> None:
        self.same("delete_mcp_access_endpoint", name, self.endpoint(number))

    # --- searching ------------------------------------------------------------------------------

    @rule(wanted=SERVER_FILTER, order=SERVER_ORDER, size=st.sampled_from([1, 2, 100]))
    def search_servers(self, wanted: str | None, order: Any, size: int) -> None:
        self.same_pages("search_mcp_servers", (), wanted, order, size)

    @rule(name=NAME, wanted=VERSION_FILTER, order=VERSION_ORDER, size=st.sampled_from([1, 2, 100]))
    def search_versions(self, name: str, wanted: str | None, order: Any, size: int) -> None:
        self.same_pages("search_mcp_server_versions", (name,), wanted, order, size)

    @rule(
        name=NAME | st.none(),
        version=st.none() | VERSION,
        wanted=ENDPOINT_FILTER,
        order=ENDPOINT_ORDER,
    )
    def search_endpoints(
        self, name: str | None, version: str | None, wanted: str | None, order: Any
    ) -> None:
        """The ids differ, and with them the order of equals."""
        args = (name, version, None, wanted, 100, order)
        ours, theirs = (
            outcome(store, "search_mcp_access_endpoints", args, {})
            for store in (self.ours[self.turn % 2], self.theirs)
        )
        one, other = self.shown(ours, 0), self.shown(theirs, 1)
        if isinstance(one, list) and isinstance(other, list):
            one, other = sorted(one, key=str), sorted(other, key=str)
        assert one == other, args

    def same_pages(
        self, method: str, first: tuple[str, ...], wanted: str | None, order: Any, size: int
    ) -> None:
        stores = (self.ours[self.turn % 2], self.theirs)
        mine, other = (
            [self.shown(p, n) for p in pages(store, method, (*first, wanted, size, order))]
            for n, store in enumerate(stores)
        )
        assert mine == other, (method, first, wanted, order, size)


def pages(store: Any, method: str, args: tuple[Any, ...]) -> Iterator[Any]:
    """All pages of a search, or the error."""
    token = None
    while True:
        page = outcome(store, method, (*args, token), {})
        yield page
        token = getattr(page, "token", None)
        if not token:
            return


def outcome(store: Any, method: str, args: tuple[Any, ...], more: dict[str, Any]) -> Any:
    try:
        return getattr(store, method)(*args, **more)
    except MlflowException as error:
        # Ids differ, and of several active versions theirs names any.
        message = re.sub("ae-[0-9a-f]{32}", "<id>", error.message)
        return Refused(error.error_code, re.sub(r"active version \('.*?'\)", "", message))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("sql")
    return SqlAlchemyStore(empty_database(folder), str(folder))


def test_same_answers_as_mlflows_sql_store(tmp_path: Path, theirs: Any) -> None:
    """Random calls: same answers, same errors, same error codes."""
    uri = f"dynamodb:///{tmp_path}/mlflow.ddb?synchronous=NORMAL&index_lag=2"
    Difference.theirs = theirs
    one, two = (DynamoDBTrackingStore(uri, str(tmp_path)) for _ in range(2))
    Difference.ours = (one, two)
    examples = settings().max_examples // 5  # theirs is slow
    run_state_machine_as_test(
        Difference, settings=settings(stateful_step_count=40, max_examples=examples)
    )
