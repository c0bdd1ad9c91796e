"""A copy or a load that is stopped at any point goes on where it was, and ends the same."""

from __future__ import annotations

import random

import pytest

from mlflow_dynamodbstore.table.contract import Capabilities
from mlflow_dynamodbstore.table.errors import AccessDenied
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine
from mlflow_dynamodbstore.transfer.archive import file, fill
from mlflow_dynamodbstore.transfer.archive.file import Archive, write_archive
from mlflow_dynamodbstore.transfer.archive.fill import TableFill
from mlflow_dynamodbstore.transfer.archive.sources import TableSource
from mlflow_dynamodbstore.upkeep import segmented_scan
from tests.faults import CrashingEngine, FaultyEngine, SimulatedCrash
from tests.table.fakes import patient_retry
from tests.transfer.archive.populated import EXPIRED, lines_of


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch):
    """So that there are many points to stop at."""
    monkeypatch.setattr(segmented_scan, "PAGE_ITEMS", 40)
    monkeypatch.setattr(file, "PAGE_ITEMS", 40)
    monkeypatch.setattr(fill, "MOST_AT_ONCE", 25)


@pytest.fixture(params=["copy", "copy in segments", "load"])
def sources(request, source, tmp_path):
    """Makes the source anew, as a process that is started again does."""
    if request.param != "load":
        segments = 3 if "segments" in request.param else 1
        return lambda: TableSource(source, segments)
    path = tmp_path / "archive.gz"
    write_archive(path, TableSource(source), source.schema, 0.0)
    archive = Archive(path)
    archive.check()
    return lambda: archive


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_dying_at_each_write_in_turn_it_still_comes_to_its_end(source, sources, opened, time, when):
    """The writes of each life are counted anew; what one life has noted, the next need not do."""
    target, deaths = opened("target"), 0
    while True:
        engine = CrashingEngine(target.engine, at=1 + deaths % 9, when=when)
        try:
            done = TableFill(Table(engine, clock=time), sources()).run()
        except SimulatedCrash:
            deaths += 1
            assert deaths < 100
        else:
            break
    assert deaths > 4
    assert done.resumed
    assert lines_of(target) == lines_of(source)
    assert done.items == len(lines_of(source))
    assert done.expired == EXPIRED
    assert done.moved < done.items


@pytest.mark.parametrize("seed", range(4))
def test_throttling_partial_batches_and_lost_answers_change_nothing(source, opened, time, seed):
    target, rng = opened("target"), random.Random(seed)
    engines = [
        FaultyEngine(table.engine, timeout_before=0.1, rng=rng) for table in (source, target)
    ]
    reading, writing = (Table(engine, clock=time, retry=patient_retry(time)) for engine in engines)
    done = TableFill(writing, TableSource(reading)).run()
    assert all(engine.injected.total() > 0 for engine in engines)
    assert done.items == len(lines_of(source))
    assert lines_of(target) == lines_of(source)


class Remote(WrappedEngine):
    """An engine that is read ahead, and stops answering after a few pages."""

    def __init__(self, inner, pages):
        super().__init__(inner)
        self.capabilities = Capabilities(waits_on_network=True)
        self.pages = pages

    def scan(self, scan):
        self.pages -= 1
        if self.pages < 0:
            raise AccessDenied("the session has expired")
        return super().scan(scan)


def test_a_source_that_stops_answering_ends_the_copy_until_the_next_call(source, opened, time):
    target, lives = opened("target"), 0
    while True:
        remote = Table(Remote(source.engine, pages=2 + lives), clock=time)
        try:
            done = TableFill(target, TableSource(remote, segments=2)).run()
        except AccessDenied:
            lives += 1
        else:
            break
    assert lives > 1
    assert done.items == len(lines_of(source))
    assert lines_of(target) == lines_of(source)


def test_a_copy_from_dynamodb_goes_on_by_its_own_cursors(source, opened, time, dynoxide_host):
    there, target = opened(f"{dynoxide_host}/there"), opened("target")
    TableFill(there, TableSource(source)).run()
    engine = CrashingEngine(target.engine, at=9)
    with pytest.raises(SimulatedCrash):
        TableFill(Table(engine, clock=time), TableSource(there)).run()
    done = TableFill(target, TableSource(there, segments=1)).run()
    assert done.resumed
    assert 0 < done.moved < done.items == len(lines_of(source))
    assert lines_of(target) == lines_of(source)
