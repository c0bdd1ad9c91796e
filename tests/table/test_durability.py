"""A writer that is killed loses nothing it was told is written."""

from __future__ import annotations

import random
import time

from mlflow_dynamodbstore.table.contract import Engine, Query, Scan
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Item, Key
from tests.table.suite.samples import walk
from tests.table.workers import items_of, start

KILLS = 20


def test_a_killed_writer_keeps_its_promises(tmp_path):
    """After 20 kills at random moments every acknowledged write is there, and indexes agree."""
    uri, rng, first = f"dynamodb:///{tmp_path}/table.ddb", random.Random(20), 0
    acknowledged: set[int] = set()
    for _ in range(KILLS):
        last = write_until_killed(uri, first, rng.uniform(0, 0.15))
        acknowledged.update(range(first, last + 1))
        # The step in flight may have been done; its number is not used again.
        first = last + 2
        engine = open_engine(uri)
        check_promises(engine, acknowledged, in_flight=last + 1)
        engine.close()
    assert len(acknowledged) > KILLS
    engine = open_engine(uri)
    check_indexes(engine)
    engine.close()


def write_until_killed(uri: str, first: int, seconds: float) -> int:
    """Let a process write, kill it so long after its first answer; gives the last it promised."""
    with start("write", uri, str(first)) as writer:
        assert writer.stdout is not None
        answers = [writer.stdout.readline()]
        time.sleep(seconds)
        writer.kill()
        answers += writer.stdout.readlines()
    return max(int(answer) for answer in answers if answer.endswith("\n"))


def check_promises(engine: Engine, acknowledged: set[int], in_flight: int) -> None:
    found = {(str(one["PK"]), str(one["SK"])): one for one in everything(engine)}
    for number in acknowledged:
        for item in items_of(number):
            assert found.get((str(item["PK"]), str(item["SK"]))) == item
    there = [(item["PK"], item["SK"]) in found for item in items_of(in_flight)]
    if in_flight % 3 == 2:
        assert all(there) or not any(there), "half a transaction"
    transactions = {one["number"] for one in found.values() if one.get("number", 0) % 3 == 2}
    counter = engine.get(Key("counter", "n")) or {"n": 0}
    assert counter["n"] == len(transactions)


def check_indexes(engine: Engine) -> None:
    """Every index holds exactly the items that belong into it."""
    items = everything(engine)
    for index in engine.schema.indexes:
        places: dict[str, list[tuple[str, str, str]]] = {}
        for item in items:
            if (place := engine.schema.index_key(index, item)) is not None:
                entry = (place[1], str(item["PK"]), str(item["SK"]))
                places.setdefault(place[0], []).append(entry)
        for partition, wanted in places.items():
            found = walk(engine, Query(partition, index=index.name, keys_only=True))
            entries = [(str(f[index.sk]), str(f["PK"]), str(f["SK"])) for f in found]
            assert entries == sorted(wanted)


def everything(engine: Engine) -> list[Item]:
    table, cursor = Table(engine), None
    items: list[Item] = []
    while True:
        page = table.scan(Scan(cursor=cursor))
        items += page.items
        if page.cursor is None:
            return items
        cursor = page.cursor
