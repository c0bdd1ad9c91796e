"""The engines that every table test runs on.

A test asks for a capability (``@pytest.mark.requires("transaction_tokens")``), never for an engine
by name. A test without a mark is owed by all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from mlflow_dynamodbstore.table.contract import Delete, Engine, Scan
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from tests.engines import (
    dynamodb_local_server,
    dynoxide_server,
    find_dynamodb_local,
    find_dynoxide,
    moto_server,
)
from tests.table.fakes import FakeTime, patient_retry

CAPABILITIES = {
    "binary_prefixes": "begins_with takes bytes",
    "collection_limit": "a partition can be told to refuse growing past a size",
    "copies_counted": "the copies of an item in local indexes count towards its 400 KB",
    "empty_updates": "a patch may change nothing",
    "exact_limits": "sizes are counted as DynamoDB documents them, to the byte",
    "exact_prefixes": "a prefix covers keys that go on behind the last character there is",
    "expression_limits": "expressions over 4 KB, 300 operators, or 100 values of IN are refused",
    "index_key_limits": "index keys that are too long are refused",
    "index_key_types": "index keys that are not text are refused",
    "index_lag": "global indexes can be told to show a write late",
    "index_reads_through": "a local index that carries keys fetches whole items",
    "key_checks": "every operation refuses keys that are empty or too long",
    "metering": "requests and units can be measured by DynamoDB's rules",
    "name_checks": "names of attributes and in maps that are empty are refused",
    "nesting_limits": "values nested more than 32 levels deep are refused",
    "no_old_image": "a patch that creates an item has no old image",
    "operand_limits": "conditions on values nested more than 32 levels deep are refused",
    "pages_before_filter": "1 MB of a page is counted before the filter",
    "parallel_processes": "several processes may write at once, and conditions hold among them",
    "patched_local_keys": "a patch of an item in a local index is checked as a put is",
    "query_key_checks": "queries for keys that are empty or too long are refused",
    "transaction_tokens": "a transaction sent again with its token is not done twice",
    "typed_conditions": "values of different types are neither equal nor ordered",
}

EMBEDDED = frozenset(CAPABILITIES)
DYNOXIDE = EMBEDDED - {
    "collection_limit",
    "copies_counted",
    "exact_prefixes",
    "expression_limits",
    "index_key_limits",
    "index_lag",
    "name_checks",
    "no_old_image",
    "operand_limits",
    "query_key_checks",
}
DYNAMODB_LOCAL = EMBEDDED - {
    "collection_limit",
    "exact_prefixes",
    "index_lag",
    "metering",
    "pages_before_filter",
    "patched_local_keys",
}
MOTO = DYNOXIDE - {
    "binary_prefixes",
    "empty_updates",
    "exact_limits",
    "index_key_types",
    "index_reads_through",
    "key_checks",
    "metering",
    "nesting_limits",
    "parallel_processes",
    "transaction_tokens",
    "typed_conditions",
}


@dataclass
class EngineUnderTest:
    """An empty table on one engine, what the engine can do, and a way to open it again."""

    uri: str
    capabilities: frozenset[str]
    engine: Engine = field(init=False)
    opened: list[Engine] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = open_engine(self.uri, MLFLOW_TABLE)

    def open(self, uri: str = "") -> Engine:
        """Another handle on the same table, or on one of another URI."""
        self.opened.append(open_engine(uri or self.uri, MLFLOW_TABLE))
        return self.opened[-1]

    def close_others(self) -> None:
        while self.opened:
            self.opened.pop().close()

    def empty(self) -> None:
        """Take out everything, which is much quicker than making a new table."""
        scan = Scan()
        while True:
            page = self.engine.scan(scan)
            keys = [self.engine.schema.key_of(item) for item in page.items]
            self.engine.apply_many([Delete(key) for key in keys])
            if page.cursor is None:
                return
            scan = replace(scan, cursor=page.cursor)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "requires(capability): run only on engines that have the capability"
    )


@contextmanager
def embedded(folder: Path) -> Iterator[tuple[str, frozenset[str]]]:
    # Durability has its own tests, which take the default of writing through to the disk.
    yield f"dynamodb:///{folder}/suite.ddb?synchronous=NORMAL", EMBEDDED


@contextmanager
def moto(_: Path) -> Iterator[tuple[str, frozenset[str]]]:
    with moto_server() as host:
        yield f"dynamodb://{host}/suite", MOTO


@contextmanager
def dynoxide(_: Path) -> Iterator[tuple[str, frozenset[str]]]:
    if find_dynoxide() is None:
        pytest.skip("dynoxide is not installed (tools/install_dynoxide.sh installs it with npm)")
    with dynoxide_server() as host:
        yield f"dynamodb://{host}/suite", DYNOXIDE


@contextmanager
def dynamodb_local(_: Path) -> Iterator[tuple[str, frozenset[str]]]:
    if find_dynamodb_local() is None:
        pytest.skip("DynamoDB Local or java is missing (see tools/install_dynamodb_local.sh)")
    with dynamodb_local_server() as host:
        yield f"dynamodb://{host}/suite", DYNAMODB_LOCAL


@pytest.fixture(
    scope="session",
    params=[embedded, moto, dynoxide, dynamodb_local],
    ids=lambda engine: engine.__name__,
)
def one_engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EngineUnderTest]:
    """One table on one engine, for all tests of this run."""
    with request.param(tmp_path_factory.mktemp("engine")) as (uri, capabilities):
        made = EngineUnderTest(uri, capabilities)
        yield made
        made.engine.close()


@pytest.fixture
def subject(
    request: pytest.FixtureRequest, one_engine: EngineUnderTest
) -> Iterator[EngineUnderTest]:
    """An empty table, skipped where a capability that the test requires is missing."""
    for mark in request.node.iter_markers("requires"):
        missing = set(mark.args) - one_engine.capabilities
        if missing:
            pytest.skip(f"this engine lacks: {', '.join(sorted(missing))}")
    yield one_engine
    one_engine.close_others()
    one_engine.empty()


@pytest.fixture
def engine(subject: EngineUnderTest) -> Engine:
    """The engine itself, on an empty table."""
    return subject.engine


@pytest.fixture
def misbehaving(subject: EngineUnderTest, tmp_path: Path) -> Callable[[str], Engine]:
    """An engine on a table of its own that misbehaves on request, as a URI's options say."""
    return lambda options: subject.open(f"dynamodb:///{tmp_path}/odd.ddb?{options}")


@pytest.fixture
def time() -> FakeTime:
    """A clock that stands still unless told or slept on."""
    return FakeTime()


@pytest.fixture
def table(engine: Engine, time: FakeTime) -> Table:
    """A table on an empty engine, whose clock and pauses are those of ``time``."""
    return Table(engine, clock=time, retry=patient_retry(time))
