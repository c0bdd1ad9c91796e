"""Streams of pages that are read side by side."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_dynamodbstore.shared.search.filters import ATTRIBUTE
from mlflow_dynamodbstore.shared.search.ordering import Ordering, SortKey
from mlflow_dynamodbstore.shared.search.streams import (
    MOST_AT_ONCE,
    VolumeStreams,
    all_pages,
    likely_share,
    side_by_side,
)
from mlflow_dynamodbstore.shared.volume_states import Span
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine

TIME = "time"
ORDERINGS = {
    ascending: Ordering((SortKey(ATTRIBUTE, TIME, ascending), SortKey(ATTRIBUTE, "id")))
    for ascending in (True, False)
}


@dataclass(frozen=True)
class Row:
    """A row with a time."""

    time: int
    id: int

    def values(self, kind: str, name: str) -> Sequence[Any]:
        del kind
        return (getattr(self, name),)


@dataclass
class Pages:
    """Pages of one partition, which notes in a common list when each is read."""

    name: str
    pages: Sequence[Sequence[Any]]
    read: list[str]

    def __iter__(self) -> Iterator[Sequence[Any]]:
        for page in self.pages:
            self.read.append(self.name)
            yield page


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    path: Path = tmp_path_factory.mktemp("streams") / "mlflow.ddb"
    return Table(open_engine(f"dynamodb:///{path}"))


@st.composite
def streams_of_pages(draw: st.DrawFn) -> list[list[list[int]]]:
    streams = []
    for numbers in draw(st.lists(st.lists(st.integers(0, 99)), max_size=5)):
        cuts = sorted(draw(st.lists(st.integers(0, len(numbers)), max_size=4)))
        ends = [0, *cuts, len(numbers)]
        ordered = sorted(numbers)
        streams.append([ordered[a:b] for a, b in pairwise(ends)])
    return streams


@given(streams=streams_of_pages(), wanted=st.integers(0, 30), sample=st.booleans())
def test_every_row_comes_once_and_in_order(table, streams, wanted, sample):
    begun = side_by_side(table, streams, wanted, sample=sample and bool(streams))
    expected = sorted(number for pages in streams for page in pages for number in page)
    assert [*heapq.merge(*begun)] == expected


def test_streams_that_run_low_are_read_together(table):
    read: list[str] = []
    a = Pages("a", [[1, 4], [7, 10]], read)
    b = Pages("b", [[2, 5], [8]], read)
    c = Pages("c", [[3, 6, 9, 12], [15]], read)
    rows = heapq.merge(*side_by_side(table, [a, b, c], wanted=3))
    assert read == []
    assert [next(rows) for _ in range(3)] == [1, 2, 3]
    assert read == ["a", "b", "c"]
    assert next(rows) == 4
    assert next(rows) == 5  # of a none is left by now and of b one, but three of c
    assert read == ["a", "b", "c", "a", "b"]
    assert [*rows] == [6, 7, 8, 9, 10, 12, 15]


def test_the_sample_is_read_first_and_then_on_with_the_others(table):
    read: list[str] = []
    a, b = Pages("a", [[1, 4, 5], [6], [7]], read), Pages("b", [[2, 3], [8]], read)
    begun = side_by_side(table, [a, b], wanted=0, sample=True)
    assert read == ["a"]
    rows = heapq.merge(*begun)
    assert [next(rows) for _ in range(3)] == [1, 2, 3]
    assert read == ["a", "a", "b"]
    assert [*rows] == [4, 5, 6, 7, 8]


def test_empty_pages_do_not_end_a_stream(table):
    begun = side_by_side(table, [[[], [], [1]], [[], [0]]], wanted=0)
    assert [*heapq.merge(*begun)] == [0, 1]


def test_all_pages_come_and_only_some_streams_are_open(table):
    read: list[str] = []
    count = 2 * MOST_AT_ONCE + 3
    streams = [Pages(str(n), [[n], [n]], read) for n in range(count)]
    assert sorted(number for [number] in all_pages(table, streams)) == sorted([*range(count)] * 2)
    assert set(read[: 2 * MOST_AT_ONCE]) == set(map(str, range(MOST_AT_ONCE)))


@pytest.mark.parametrize("rows", [16, 102, 1002])
@pytest.mark.parametrize("streams", [2, 3, 8, 20])
def test_a_likely_share_is_seldom_too_small(rows, streams):
    rng, tries = random.Random(rows * streams), 500
    share = likely_share(rows, streams)
    exceeding = sum(
        sum(rng.randrange(streams) == 0 for _ in range(rows)) > share for _ in range(tries)
    )
    assert exceeding <= tries / 50
    assert likely_share(rows, 1) == rows


def volumes(
    read: list[str], times: dict[str, list[int]], *, ascending: bool, after: Any = None
) -> VolumeStreams[Row]:
    """Streams of volumes whose spans are known, but for those whose name begins with "open"."""
    found: VolumeStreams[Row] = VolumeStreams(ORDERINGS[ascending], TIME, after)
    for name, some in times.items():
        rows = [Row(time, time) for time in sorted(some, reverse=not ascending)]
        span = None if name.startswith("open") else Span(min(some), max(some))
        if not found.has_passed(span):
            found.add(iter(Pages(name, [[row] for row in rows], read)), span)
    return found


CLOSED = {"open": [90, 80], "b": [70, 42], "c": [60, 40], "d": [10, 5]}


def test_volumes_that_wait_begin_with_those_they_overlap(table):
    read: list[str] = []
    rows = volumes(read, CLOSED, ascending=False).merged(table, wanted=0)
    assert [next(rows).time for _ in range(2)] == [90, 80]
    assert read == ["open", "open"]
    assert next(rows).time == 70
    assert read[2:] == ["b", "c"]
    assert [row.time for row in rows] == [60, 42, 40, 10, 5]
    assert read.index("d") == len(read) - 2


@pytest.mark.parametrize("ascending", [True, False])
def test_volumes_that_were_reached_begin_at_once(table, ascending):
    read: list[str] = []
    after = ORDERINGS[ascending].position(Row(45, 45))
    rows = volumes(read, CLOSED, ascending=ascending, after=after).merged(table, wanted=0)
    next(rows)
    assert read[:3] == ["open", "b", "c"]
    assert "d" not in read


@given(
    times=st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=4), max_size=5),
    ascending=st.booleans(),
    wanted=st.integers(0, 9),
    after=st.none() | st.integers(0, 50),
)
def test_no_row_is_lost_in_volumes_that_wait(table, times, ascending, wanted, after):
    named = {f"{'open' if n % 3 == 0 else 'closed'} {n}": some for n, some in enumerate(times)}
    position = None if after is None else ORDERINGS[ascending].position(Row(after, after))
    rows = volumes([], named, ascending=ascending, after=position).merged(table, wanted)
    found = [row.time for row in rows]
    wanted = sorted((time for some in times for time in some), reverse=not ascending)
    if after is None:
        assert found == wanted
    else:  # those before the position may be left out
        is_after = (lambda t: t > after) if ascending else (lambda t: t < after)
        assert [*filter(is_after, found)] == [*filter(is_after, wanted)]
        assert found == sorted(found, reverse=not ascending)
