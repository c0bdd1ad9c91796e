"""The runs of an experiment, as the paths of a search read them."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import ranks as rank_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared.policies import Rules
from mlflow_dynamodbstore.shared.search.streams import (
    SMALLEST_PAGE,
    LastPage,
    likely_share,
    side_by_side,
)
from mlflow_dynamodbstore.shared.volume_states import Volume
from mlflow_dynamodbstore.table.contract import Page, Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.tracking import sealing
from mlflow_dynamodbstore.tracking.records import RunRecord
from mlflow_dynamodbstore.tracking.run_search.summary_prefilter import Prefilter

LARGEST_BATCH = 1000


class PathTooExpensive(Exception):
    """The path being read is likely to cost more than its fallback."""


class ResealedDuringRead(Exception):
    """A run was sealed again while LSI5 was read, and may have moved to a part already read."""


class NamedRun(NamedTuple):
    """A run that an item of its volume names, and the sort key that does."""

    run_id: str
    key: Key
    named_by: str

    @classmethod
    def by(cls, item: Item, attribute: str = "SK") -> NamedRun:
        """The run that the end of a sort key names."""
        sk = str(item[attribute])
        run_id = rank_keys.ranked_run_of(sk)
        return cls(run_id, Key(str(item["PK"]), run_keys.run(run_id)), sk)


@dataclass
class ExperimentRuns:
    """The runs in volumes of an experiment, in some lifecycle stages, read through one table.

    Volumes are read side by side, and their keys are put in order before runs are fetched by them.
    ``batch`` is how many matches are likely wanted, and the size of the first page; ``prefilters``
    judge a run's packed summary, and ``matches`` a run, where the filter is about more than its
    start time. While ``give_up_after`` is set, a path is given up when it is
    likely to read more runs than that before so many match.
    """

    table: Table
    volumes: tuple[Volume, ...]
    stages: frozenset[str]
    batch: int
    rules: Rules = field(default_factory=Rules)
    prefilters: tuple[Prefilter, ...] = ()
    matches: Callable[[RunRecord], bool] | None = None
    give_up_after: float | None = None
    runs_read: int = 0
    runs_matched: int = 0
    _live: list[RunRecord] | None = None
    _resealed_marks: list[str | None] = field(default_factory=list)
    _counted: dict[Range, list[Item]] = field(default_factory=dict)
    _unconfirmed: dict[Range, tuple[Query, Page]] = field(default_factory=dict)

    @property
    def partitions(self) -> list[str]:
        return [volume.pk for volume in self.volumes]

    def live(self) -> list[RunRecord]:
        """The live runs; read once.

        They must be read before RANK and FTS: a run sealed in between is then known from here, and
        one reopened in between from its entries there (see :meth:`_after_live`).
        """
        if self._live is None:
            found = self._live_items()
            self._resealed_marks = list(map(_mark_in, found))
            self._live = self.records(
                item for item in chain.from_iterable(found) if "lifecycle" in item
            )
        return self._live

    def reopened(self, known: set[str]) -> list[RunRecord]:
        """The runs that are live now and not among those known.

        Raises ``ResealedDuringRead`` when a run may have been live only between the two readings:
        the mark of that is read first by :meth:`live` and last here.
        """
        found = self._live_items(keys_only=True, descending=True)
        if list(map(_mark_in, found)) != self._resealed_marks:
            raise ResealedDuringRead
        live = (item for item in chain.from_iterable(found) if not _is_mark(item))
        return self.at(
            named.key for item in live if (named := NamedRun.by(item, "lsi5sk")).run_id not in known
        )

    def records(self, items: Iterable[Item]) -> list[RunRecord]:
        """Runs with their contents, those of other lifecycle stages left out."""
        wanted = [item for item in items if item["lifecycle"] in self.stages]
        self.runs_read += len(wanted)
        return sealing.read_all(self.table, wanted, self.prefilters, self.rules)

    def items(
        self,
        within: Range,
        index: str | None = None,
        *,
        descending: bool = False,
        keys_only: bool = False,
        first: Page | None = None,
        whole: bool = False,
        sample: bool = False,
    ) -> Iterator[list[Item]]:
        """A range page by page, the first as small as the answer may be, later ones larger.

        ``first`` is the first page, if it has been read. ``whole``: all of it will be read.
        ``sample``: the filter may refuse most runs, so the first of several volumes is asked what
        part of them matches, before the others are read. Raises ``PathTooExpensive`` instead of
        reading a page when the fallback is cheaper.
        """
        if within.is_empty:
            return
        if within in self._counted:
            yield from self._chunks(self._counted[within], descending=descending)
            return
        queries = [
            Query(pk, self._on(within, index), index, descending=descending, keys_only=keys_only)
            for pk in self.partitions
        ]
        batch = LARGEST_BATCH if whole else self.batch
        if len(queries) == 1:
            yield from self._pages(queries[0], _growing(lambda: batch), first)
            return
        sample = sample and self.matches is not None and not whole
        queries.reverse()  # the newest volume is the sample
        streams = self._streams(queries, whole=whole, sample=sample)
        begun = side_by_side(self.table, streams, batch, sample=sample)
        by_key = itemgetter(self._sort_key(index))
        merged = heapq.merge(*begun, key=by_key, reverse=descending)
        yield from _batches(merged, batch, lambda: any(one.has_at_most(0) for one in begun))

    def _streams(
        self, queries: Sequence[Query], *, whole: bool, sample: bool
    ) -> list[Iterator[list[Item]]]:
        """A range in several volumes; the size of pages follows from the first of the first."""
        expected = float(self.batch)

        def size() -> int:
            return LARGEST_BATCH if whole else likely_share(expected, len(queries))

        def judged(pages: Iterator[list[Item]]) -> Iterator[list[Item]]:
            nonlocal expected
            first = next(pages, [])
            expected /= self._part_that_matches(first)
            yield first
            yield from pages

        streams = [self._pages(query, _growing(size)) for query in queries]
        return [judged(streams[0]), *streams[1:]] if sample else streams

    def _part_that_matches(self, items: Sequence[Item]) -> float:
        """Which part of the runs the filter lets through at least, judged by some of them."""
        assert self.matches is not None
        judged = [item for item in items if sealing.has_inline_summary(item)]
        records = sealing.read_all(self.table, judged, self.prefilters)
        matching = sum(map(self.matches, records))
        if matching == len(judged):
            return 1.0
        return max(0.5, matching - math.sqrt(matching)) / len(judged)  # a standard deviation less

    def _pages(
        self, query: Query, sizes: Iterator[int], first: Page | None = None
    ) -> Iterator[list[Item]]:
        """A range of one partition page by page."""
        may_be_enough = False
        while True:
            if not may_be_enough and self.runs_matched >= self.batch:
                # What is missing is likely only what stands beside the last run.
                may_be_enough, sizes = True, _growing(lambda: SMALLEST_PAGE)
            limit = next(sizes)
            page, first = first or self.table.query(replace(query, limit=limit)), None
            if page.cursor is None:
                yield LastPage(page.items)
                return
            yield page.items
            if self._is_too_expensive():
                raise PathTooExpensive
            query = replace(query, cursor=page.cursor)

    def entries(
        self, within: Range, *, descending: bool = False
    ) -> Iterator[tuple[list[NamedRun], list[RunRecord]]]:
        """A range of RANK page by page, each page with the runs that it names.

        Live runs are left out. Read to the end, it brings every sealed run in the range, also those
        sealed meanwhile.
        """
        first: Page | None = None
        if within not in self._counted and not within.is_empty and len(self.partitions) == 1:
            query = Query(
                self.partitions[0],
                self._on(within, None),
                descending=descending,
                limit=self.batch,
                keys_only=True,
            )
            first = self._after_live(within, query)
        live = {record.run_id for record in self.live()}
        for items in self.items(within, descending=descending, keys_only=True, first=first):
            named = list(map(NamedRun.by, items))
            found = self.named_in(within, [run.key for run in named if run.run_id not in live])
            if found is None:
                yield from self.entries(within, descending=descending)
                return
            yield named, found

    def named_in(self, within: Range, keys: Iterable[Key]) -> list[RunRecord] | None:
        """Runs that entries in a range name; None if the entries are to be read again."""
        early = self._unconfirmed.pop(within, None)
        if early is None:
            return self.at(dict.fromkeys(keys))
        query, before = early
        found, now = self.table.together(
            lambda: self.at(dict.fromkeys(keys)), lambda: self.table.query(query)
        )
        if now == before:
            return found
        self._counted.pop(within, None)
        return None

    def count_entries(self, within: Range, most: int) -> int | None:
        """How many keys a range of RANK or FTS has, or None when they are more than ``most``.

        They are kept, so that reading the range later costs nothing more.
        """
        if within.is_empty:
            return 0
        if within not in self._counted:
            pages = self._first_pages(within, None, self.partitions, most)
            found = [item for page in pages for item in page.items]
            if len(found) > most or any(page.cursor is not None for page in pages):
                self._unconfirmed.pop(within, None)
                return None
            self._counted[within] = sorted(found, key=itemgetter("SK"))
        return len(self._counted[within])

    def count(self, within: Range, index: str, most: int) -> int | None:
        """How many entries a range of an index has, or None when they are more than ``most``.

        Those of two volumes are counted, and the others taken to have as many.
        """
        if within.is_empty:
            return 0
        asked = self.partitions[:1] + self.partitions[1:][-1:]
        pages = self._first_pages(within, index, asked, most)
        count = sum(len(page.items) for page in pages) * len(self.volumes) // len(asked)
        is_more = count > most or any(page.cursor is not None for page in pages)
        return None if is_more else count

    def _first_pages(
        self, within: Range, index: str | None, partitions: Sequence[str], size: int
    ) -> list[Page]:
        """The first keys of a range in some volumes, those of RANK and FTS read after live runs."""
        where = self._on(within, index)
        queries = [Query(pk, where, index, limit=size, keys_only=True) for pk in partitions]
        if index is not None:
            return self.table.map(self.table.query, queries)
        if len(queries) == 1:
            return [self._after_live(within, queries[0])]
        self.live()
        return self.table.map(self.table.query, queries)

    def _after_live(self, within: Range, query: Query) -> Page:
        """A page of a range as it is after the live runs were read.

        Where requests take long, both are read at the same time, and the page is read once more
        beside the runs that it names (:meth:`named_in`). If it is the same then, no run was sealed
        between the two.
        """
        if self._live is not None or not self.table.engine.capabilities.waits_on_network:
            self.live()
            return self.table.query(query)
        _, page = self.table.together(self.live, lambda: self.table.query(query))
        self._unconfirmed[within] = query, page
        return page

    def know(self, within: Range, items: list[Item]) -> None:
        """Take the keys of a range of the table from elsewhere, so that they are not read."""
        self._counted[within] = items

    def keys(self, within: Range) -> list[Item]:
        """The keys of a range of the table, all of them."""
        found = self._counted.get(within)
        if found is not None:
            return found
        queries = [Query(pk, within.on(), keys_only=True) for pk in self.partitions]
        return [*chain.from_iterable(self._read_all(queries))]

    def named(self, run_ids: Iterable[str]) -> list[RunRecord]:
        """Runs by their ids, in the order given; absent ones are left out."""
        return self.at(
            Key(pk, run_keys.run(run_id)) for run_id in run_ids for pk in self.partitions
        )

    def at(self, keys: Iterable[Key]) -> list[RunRecord]:
        """Runs by their keys, in the order given; absent ones are left out."""
        wanted = list(keys)
        found = self.table.get_many(wanted)
        return self.records(found[key] for key in wanted if key in found)

    def _live_items(self, *, keys_only: bool = False, descending: bool = False) -> list[list[Item]]:
        """The live runs of each volume, and the mark that one was sealed again."""
        where = index_keys.LIVE_RUNS.on("lsi5sk")
        return self._read_all(
            Query(pk, where, "LSI5", keys_only=keys_only, descending=descending)
            for pk in self.partitions
        )

    def _read_all(self, queries: Iterable[Query]) -> list[list[Item]]:
        return self.table.map(lambda query: list(self.table.items(query)), list(queries))

    def _on(self, within: Range, index: str | None) -> Any:
        return within.on(self._sort_key(index))

    def _sort_key(self, index: str | None) -> str:
        return "SK" if index is None else self.table.schema.by_name[index].sk

    def _chunks(self, items: list[Item], *, descending: bool) -> Iterator[list[Item]]:
        ordered = items[::-1] if descending else items
        for first in range(0, len(ordered), LARGEST_BATCH):
            yield ordered[first : first + LARGEST_BATCH]

    def _is_too_expensive(self) -> bool:
        if self.give_up_after is None:
            return False
        to_come = (self.batch - self.runs_matched) * self.runs_read / (self.runs_matched + 1)
        return max(self.runs_read, to_come) > self.give_up_after


def _growing(size: Callable[[], int]) -> Iterator[int]:
    """Sizes of pages, each at least twice as large as the one before."""
    grown = 0
    while True:
        grown = min(LARGEST_BATCH, max(2 * grown, size()))
        yield grown


def _is_mark(live: Item) -> bool:
    """Whether an item among the live runs is the mark that one was sealed again."""
    return live["lsi5sk"] in index_keys.RESEALED


def _mark_in(live: Iterable[Item]) -> str | None:
    """The mark, among the live runs, that one was sealed again; None while none was."""
    return next((str(item["lsi5sk"]) for item in live if _is_mark(item)), None)


def _batches(
    items: Iterator[Item], size: int, must_read: Callable[[], bool]
) -> Iterator[list[Item]]:
    """Items in lists, the first at most as long as ``size``, later ones longer.

    A list ends where the next item must be read.
    """
    batch: list[Item] = []
    for item in items:
        batch.append(item)
        if len(batch) >= size or must_read():
            yield batch
            batch, size = [], min(LARGEST_BATCH, size * 2)
    if batch:
        yield batch
