"""Operations of the table contract per second, on every engine.

Items are of about 1.5 KB with two index keys, as a run's are. Every figure is of one thread that
waits for each answer, so it is also a latency.
"""

from __future__ import annotations

import itertools
import os
import random
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from boto3.dynamodb.conditions import Attr
from boto3.dynamodb.conditions import Key as SortKey

from mlflow_dynamodbstore.table.contract import Delete, Engine, Patch, Put, Query
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Item, Key
from tests.engines import dynoxide_server, find_dynoxide, moto_server

TMPFS = Path("/dev/shm")
STORED = 1000
ABSENT = Attr("PK").not_exists()


@dataclass(frozen=True)
class Figure:
    """How fast one operation was on one engine."""

    operation: str
    engine: str
    per_second: float
    median_ms: float
    calls: int


@dataclass(frozen=True)
class Operation:
    """A named call on an engine, given the number of the call."""

    name: str
    call: Callable[[Engine, int], object]


def run(seconds: float, disk: Path, say: Callable[[str], None]) -> list[Figure]:
    """Measure all operations on all engines that can be had here."""
    figures = []
    with ExitStack() as stack:
        for name, uri in places(stack, disk, say):
            say(f"measuring {name} ...")
            engine = open_engine(uri)
            fill(engine)
            figures += [measure(op, name, engine, seconds) for op in OPERATIONS]
            engine.close()
    return figures


def places(stack: ExitStack, disk: Path, say: Callable[[str], None]) -> Iterator[tuple[str, str]]:
    """The engines to measure, each with the URI of an empty table."""
    if os.access(TMPFS, os.W_OK):
        yield "embedded, memory", stack.enter_context(file_in(TMPFS))
    else:
        say(f"{TMPFS} is not there: the embedded engine is measured on disk only")
    yield "embedded, disk", stack.enter_context(file_in(disk))
    if find_dynoxide() is not None:
        yield "dynoxide", f"dynamodb://{stack.enter_context(dynoxide_server())}/bench"
    else:
        say("dynoxide is not installed: moto stands in, which is much slower than any service")
        yield "moto", f"dynamodb://{stack.enter_context(moto_server())}/bench"


@contextmanager
def file_in(folder: Path) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=folder.resolve()) as made:
        yield f"dynamodb:///{made}/bench.ddb"


def measure(operation: Operation, name: str, engine: Engine, seconds: float) -> Figure:
    """Call an operation for so long; the first calls only warm it up."""
    numbers = itertools.count()
    for _ in range(3):
        operation.call(engine, next(numbers))
    took = []
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        operation.call(engine, next(numbers))
        took.append(time.perf_counter() - start)
    return Figure(operation.name, name, len(took) / sum(took), 1000 * median(took), len(took))


_rng = random.Random(1)
BODY = {f"param{n}": "".join(_rng.choices("abcdefghij ", k=60)) for n in range(20)}


def stored(number: int) -> Item:
    """One of the items that are there from the beginning."""
    place = f"{number:06}"
    return item("stored", place) | {"lsi1sk": place, "gsi1pk": "stored", "gsi1sk": place}


def item(pk: str, sk: str) -> Item:
    return {"PK": pk, "SK": sk, "number": 1, "metric": 0.25, **BODY}


def fill(engine: Engine) -> None:
    for start in range(0, STORED, 100):
        engine.apply_many([Put(stored(n)) for n in range(start, start + 100)])


def _any(number: int) -> Key:
    return Key("stored", f"{number * 7919 % STORED:06}")


def _page(**more: object) -> Query:
    return Query("stored", limit=100, **more)  # type: ignore[arg-type]


def _fresh(number: int, count: int, group: str) -> list[Item]:
    return [item(f"{group}{number % 50}", f"{number:06}-{n:02}") for n in range(count)]


def _come_and_go(engine: Engine, sk: str) -> None:
    engine.apply(Put(item("gone", sk)))
    engine.apply(Delete(Key("gone", sk)))


OPERATIONS = [
    Operation("get", lambda e, n: e.get(_any(n))),
    Operation("get 100", lambda e, n: e.get_many([_any(n + k) for k in range(100)])),
    Operation("query 100", lambda e, n: e.query(_page(where=SortKey("SK").gte(_any(n // 2).sk)))),
    Operation("query 100, local index", lambda e, _: e.query(_page(index="LSI1", descending=True))),
    Operation("query 100 keys, global index", lambda e, _: e.query(_page(index="GSI1"))),
    Operation("put", lambda e, n: e.apply(Put(item("put", f"{n:06}")))),
    Operation("put if absent", lambda e, n: e.apply(Put(item("absent", f"{n:06}"), ABSENT))),
    Operation("put, three indexes", lambda e, n: e.apply(Put(stored(STORED + n)))),
    Operation("add to a number", lambda e, n: e.apply(Patch(_any(n), Update(add={"number": 1})))),
    Operation("put, then delete", lambda e, n: _come_and_go(e, f"{n:06}")),
    Operation(
        "bulk write 100", lambda e, n: e.apply_many([Put(i) for i in _fresh(n, 100, "bulk")])
    ),
    Operation(
        "bulk write 25 if absent",
        lambda e, n: e.apply_many([Put(i, ABSENT) for i in _fresh(n, 25, "each")]),
    ),
    Operation(
        "transaction of 10",
        lambda e, n: e.transact([Put(i, ABSENT) for i in _fresh(n, 10, "tx")], uuid.uuid4().hex),
    ),
]
