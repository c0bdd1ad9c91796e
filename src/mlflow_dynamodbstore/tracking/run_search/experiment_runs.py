"""The runs of an experiment, as the paths of a search read them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from operator import itemgetter
from typing import Any, NamedTuple

from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import ranks as rank_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared.policies import Rules
from mlflow_dynamodbstore.shared.search.pages import read_first_row
from mlflow_dynamodbstore.shared.volume_states import Volume
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.tracking import sealing
from mlflow_dynamodbstore.tracking.records import RunRecord
from mlflow_dynamodbstore.tracking.run_search.summary_prefilter import Prefilter

SMALLEST_BATCH = 16
LARGEST_BATCH = 1000


class PathTooExpensive(Exception):
    """The path being read is likely to cost more than its fallback."""


class ResealedDuringRead(Exception):
    """A run was sealed again while LSI5 was read, and may have moved to a part already read."""


class NamedRun(NamedTuple):
    """A run that an item of its volume names."""

    run_id: str
    key: Key

    @classmethod
    def by(cls, item: Item, attribute: str = "SK") -> NamedRun:
        """The run that the end of a sort key names."""
        run_id = rank_keys.ranked_run_of(str(item[attribute]))
        return cls(run_id, Key(str(item["PK"]), run_keys.run(run_id)))


@dataclass
class ExperimentRuns:
    """The runs in volumes of an experiment, in some lifecycle stages, read through one table.

    Volumes are read side by side, and their keys are put in order before runs are fetched by them.
    ``batch`` is how many matches are likely wanted, and the size of the first page; ``prefilters``
    judge a run's packed summary. While ``give_up_after`` is set, a path is given up when it is
    likely to read more runs than that before so many match.
    """

    table: Table
    volumes: tuple[Volume, ...]
    stages: frozenset[str]
    batch: int
    rules: Rules = field(default_factory=Rules)
    prefilters: tuple[Prefilter, ...] = ()
    give_up_after: float | None = None
    runs_read: int = 0
    runs_matched: int = 0
    _live: list[RunRecord] | None = None
    _resealed_marks: list[str | None] = field(default_factory=list)
    _counted: dict[Range, list[Item]] = field(default_factory=dict)

    @property
    def partitions(self) -> list[str]:
        return [volume.pk for volume in self.volumes]

    def live(self) -> list[RunRecord]:
        """The live runs; read once.

        They must be read before RANK: a run sealed in between is then known from here, and one
        reopened in between from its RANK items.
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
    ) -> Iterator[list[Item]]:
        """A range page by page, the first as small as the answer may be, later ones larger.

        Raises ``PathTooExpensive`` instead of reading a page when the fallback is cheaper.
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
        if len(queries) == 1:
            yield from self._pages(queries[0], self.batch)
            return
        size = max(SMALLEST_BATCH, 2 * self.batch // len(queries))
        streams = (chain.from_iterable(self._pages(query, size)) for query in queries)
        begun = self.table.map(read_first_row, [*map(iter, streams)])
        by_key = itemgetter(self._sort_key(index))
        yield from _batches(heapq.merge(*begun, key=by_key, reverse=descending), self.batch)

    def _pages(self, query: Query, size: int) -> Iterator[list[Item]]:
        """A range of one partition page by page."""
        while True:
            page = self.table.query(replace(query, limit=size))
            yield page.items
            if page.cursor is None:
                return
            if self._is_too_expensive():
                raise PathTooExpensive
            size = min(LARGEST_BATCH, size * 2)
            query = replace(query, cursor=page.cursor)

    def count(self, within: Range, index: str | None, most: int) -> int | None:
        """How many keys a range has, or None when they are more than ``most``.

        Keys of the table itself are kept, so that reading the range later costs nothing more. Of an
        index, keys of two volumes are counted, and the others taken to have as many.
        """
        if within.is_empty:
            return 0
        if within in self._counted:
            return len(self._counted[within])
        asked = self.partitions if index is None else self.partitions[:1] + self.partitions[1:][-1:]
        where = self._on(within, index)
        queries = [Query(pk, where, index, limit=most, keys_only=True) for pk in asked]
        pages = self.table.map(self.table.query, queries)
        found = [item for page in pages for item in page.items]
        count = len(found) * len(self.volumes) // len(asked)
        if count > most or any(page.cursor is not None for page in pages):
            return None
        if index is None:
            self._counted[within] = sorted(found, key=itemgetter("SK"))
        return count

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


def _is_mark(live: Item) -> bool:
    """Whether an item among the live runs is the mark that one was sealed again."""
    return live["lsi5sk"] in index_keys.RESEALED


def _mark_in(live: Iterable[Item]) -> str | None:
    """The mark, among the live runs, that one was sealed again; None while none was."""
    return next((str(item["lsi5sk"]) for item in live if _is_mark(item)), None)


def _batches(items: Iterator[Item], size: int) -> Iterator[list[Item]]:
    """Items in lists, the first as long as ``size``, later ones longer."""
    while batch := list(islice(items, size)):
        yield batch
        size = min(LARGEST_BATCH, size * 2)
