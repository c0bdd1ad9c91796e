"""A move that was stopped is finished by giving the command again, and nothing is there twice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.transfer.sql import kinds
from mlflow_dynamodbstore.transfer.sql.database import Database
from mlflow_dynamodbstore.transfer.sql.entities import Entity, HistoryChunk
from mlflow_dynamodbstore.transfer.sql.run_items import RunItems
from tests.faults import CrashingEngine, FaultyEngine, SimulatedCrash
from tests.sql import empty_database
from tests.stores import everything_in
from tests.table.fakes import FakeTime, patient_retry
from tests.transfer.sql.helpers import exported, imported, verified
from tests.transfer.sql.mlflow_database import Theirs
from tests.transfer.sql.test_round_trip import rows

EVERY = 9
"""Of the requests that an import writes, one in so many is died at."""


def engine_in(folder: Path, name: str):
    return open_engine(f"dynamodb:///{folder}/{name}.ddb?synchronous=NORMAL")


def keys_in(table: Table) -> set[tuple[str, str]]:
    """All keys; those of parts without the transaction that they are of."""
    bare = re.compile("PART#[0-9a-f]{12}")
    return {(item["PK"], bare.sub("PART", item["SK"])) for item in everything_in(table)}


@pytest.mark.parametrize("when", ["before", "during"])
def test_an_import_that_dies_anywhere_is_finished_by_another(source: Theirs, tmp_path, when):
    time = FakeTime()
    counting = CrashingEngine(engine_in(tmp_path, "straight"))
    straight = Table(counting, clock=time, retry=patient_retry(time))
    imported(source.uri, straight)
    expected, requests = keys_in(straight), counting.writes
    for at in range(1 if when == "before" else 4, requests, EVERY):
        engine = engine_in(tmp_path, f"dies-{when}-{at}")
        dying = CrashingEngine(engine, at=at, when=when)
        with pytest.raises(SimulatedCrash):
            imported(source.uri, Table(dying, clock=time, retry=patient_retry(time)))
        assert dying.dead
        again = Table(engine, clock=time, retry=patient_retry(time))
        assert imported(source.uri, again).findings.first == []
        assert keys_in(again) == expected, at
        if at + EVERY >= requests:
            assert_same(source.uri, again)
        engine.close()


def assert_same(uri: str, table: Table) -> None:
    verification = verified(kinds.importing(Database.to_read(uri), table))
    assert verification.findings.first == []


def test_a_second_import_writes_nothing(source: Theirs, tmp_path):
    engine = CrashingEngine(engine_in(tmp_path, "twice"))
    table = Table(engine)
    imported(source.uri, table)
    written = engine.writes
    move = imported(source.uri, table)
    assert engine.writes == written
    assert all(tally.same == tally.found > 0 for tally in move.tallies.values())


def test_an_import_through_a_bad_line_is_complete(source: Theirs, tmp_path):
    """Throttling, partial batches and lost answers are the table's business."""
    time = FakeTime()
    engine = FaultyEngine(engine_in(tmp_path, "faulty"), throttle=0.1, conflict=0.1)
    table = Table(engine, clock=time, retry=patient_retry(time))
    assert imported(source.uri, table).findings.first == []
    assert_same(source.uri, table)


def test_an_export_that_stops_in_a_history_is_finished_by_another(
    source: Theirs, table, tmp_path, monkeypatch
):
    imported(source.uri, table)
    target = empty_database(tmp_path)
    whole = RunItems.histories

    def breaking(self: RunItems, runs: Sequence[Entity]) -> Iterator[HistoryChunk]:
        for n, points in enumerate(whole(self, runs)):
            if n == 7:
                raise KeyboardInterrupt
            yield points

    monkeypatch.setattr(RunItems, "histories", breaking)
    with pytest.raises(KeyboardInterrupt):
        exported(table, target)
    monkeypatch.undo()
    assert rows(target)["runs"] == []  # a page is there or is not
    assert exported(table, target).findings.first == []
    before, after = rows(source.uri), rows(target)
    assert all(after[name] == before[name] for name in before)
