"""What the processes do that tests start beside themselves: ``python -m tests.table.workers``."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.table.contract import Engine, Patch, Put, Write
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Item, Key
from tests.table.suite.samples import token

ROOT = Path(__file__).resolve().parents[2]


def start(job: str, *arguments: str) -> subprocess.Popen[str]:
    """Start one of the jobs below in a process of its own, its answers on a pipe."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.table.workers", job, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def increment(uri: str, shared: str, times: str, seed: str) -> None:
    """Add one to shared items so many times, each time only if nobody came between.

    Says at the end how often it added to which.
    """
    table, rng = Table(open_engine(uri)), random.Random(int(seed))
    done: Counter[str] = Counter()
    for _ in range(int(times)):
        key = Key("shared", f"{rng.randrange(int(shared))}")
        seen = table.get(key)
        while not _added(table, key, seen):
            seen = table.get(key)
        done[key.sk] += 1
    sys.stdout.write(json.dumps(done))
    table.close()


def _added(table: Table, key: Key, seen: Item | None) -> bool:
    n = seen["n"] if seen else 0
    assert isinstance(n, int)
    unchanged = Attr("n").eq(n) if seen else Attr("PK").not_exists()
    try:
        table.put({"PK": key.pk, "SK": key.sk, "n": n + 1}, condition=unchanged)
    except ConditionFailed:
        return False
    return True


def write_and_acknowledge(uri: str, first: str) -> None:
    """Write numbered steps without end; say each number once its writes have returned."""
    engine = open_engine(uri)
    number = int(first)
    while True:
        do_step(engine, number)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        number += 1


def do_step(engine: Engine, number: int) -> None:
    """One step: alternately a single write, a bulk write and a transaction."""
    writes: list[Write] = [Put(item) for item in items_of(number)]
    kind = number % 3
    if kind == 0:
        engine.apply(writes[0])
    elif kind == 1:
        assert all(outcome.status == "applied" for outcome in engine.apply_many(writes))
    else:
        counted = Patch(Key("counter", "n"), Update(add={"n": 1}))
        engine.transact([*writes, counted], token())


def items_of(number: int) -> list[Item]:
    """The items that a step writes, each in a global and a local index."""
    many = 1 if number % 3 == 0 else 6
    return [
        {
            "PK": f"p{(number + n) % 5}",
            "SK": f"{number:08}-{n}",
            "number": number,
            "body": f"{number}" * 50,
            "gsi1pk": f"g{n}",
            "gsi1sk": f"{number:08}",
            "lsi1sk": f"{-number % 1000:04}",
        }
        for n in range(many)
    ]


if __name__ == "__main__":
    if sys.argv[1] == "increment":
        increment(*sys.argv[2:])
    else:
        write_and_acknowledge(*sys.argv[2:])
