"""The ways into an experiment's runs: by id, by an index, or through the whole partition.

A path yields entries ``(group, run)``: runs that share a group come in any order, groups come in
the order of the path. Paths over RANK items (in ``rank_paths.py``) bring sealed runs only, and live
runs are merged in. The whole filter judges what a path brings, so a path may bring too many runs,
and never too few.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
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
from mlflow_dynamodbstore.shared.search.ordering import PRESENT, Ordering, Position
from mlflow_dynamodbstore.shared.search.pages import read_first_row
from mlflow_dynamodbstore.shared.volume_states import Volume
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.tracking import sealing
from mlflow_dynamodbstore.tracking.records import SEALED, RunRecord
from mlflow_dynamodbstore.tracking.run_search.estimates import BELOW, ENTRY, RUN, Estimate
from mlflow_dynamodbstore.tracking.run_search.summary_prefilter import Prefilter

Entry = tuple[Any, RunRecord]
Entries = Iterator[Entry]

SMALLEST_BATCH = 16
LARGEST_BATCH = 1000
START_TIME = "start_time"


class PathTooExpensive(Exception):
    """The path being read is likely to cost more than its fallback."""


class ResealedDuringRead(Exception):
    """A run was sealed again while LSI5 was read, and may have moved to a part already read."""


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


@dataclass(frozen=True)
class Path(ABC):
    """A way to read runs. ``ordered``: in the order asked for, but for ties."""

    ordered: bool
    sealed_only: bool = False

    @property
    def name(self) -> str:
        return type(self).__name__

    @abstractmethod
    def __str__(self) -> str:
        """The path in words, for ``explain``."""

    def count(self, runs: ExperimentRuns) -> int | None:
        """How many runs it brings, or None where they are too many to count; costs a read."""
        del runs
        return None

    def estimate(self, count: int) -> Estimate:
        """What bringing so many runs costs by DynamoDB's rules."""
        return Estimate.of(count, ENTRY, fetched=True)

    @abstractmethod
    def entries(self, runs: ExperimentRuns, ordering: Ordering, after: Position | None) -> Entries:
        """The runs it brings, from those that may follow ``after`` on."""


@dataclass(frozen=True)
class ById(Path):
    """Runs whose ids the filter names."""

    run_ids: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{len(self.run_ids)} runs by id"

    def count(self, runs: ExperimentRuns) -> int | None:
        del runs
        return len(self.run_ids)

    def estimate(self, count: int) -> Estimate:
        return Estimate.of(count, RUN, batches=True)

    def entries(self, runs: ExperimentRuns, ordering: Ordering, after: Position | None) -> Entries:
        del ordering, after
        for record in runs.named(dict.fromkeys(self.run_ids)):
            yield None, record


@dataclass(frozen=True)
class ByTime(Path):
    """Runs by start time: LSI1 within a lifecycle stage, LSI2 over all."""

    ascending: bool = False
    since: int | None = None
    until: int | None = None
    one_stage: bool = True

    def __str__(self) -> str:
        index = "LSI1" if self.one_stage else "LSI2"
        return f"{index} by start time {'ascending' if self.ascending else 'descending'}"

    def estimate(self, count: int) -> Estimate:
        return Estimate.of(count, RUN) if self.one_stage else super().estimate(count)

    def entries(self, runs: ExperimentRuns, ordering: Ordering, after: Position | None) -> Entries:
        since, until = self.since, self.until
        if after is not None and self.ordered:
            since, until = self._from(time_in(ordering, after), since, until)
        for items in self._pages(runs, since, until):
            for record in runs.records(items):
                yield record.item[START_TIME], record

    def _from(
        self, time: int | None, since: int | None, until: int | None
    ) -> tuple[int | None, int | None]:
        if time is None:
            return since, until
        if self.ascending:
            return (time if since is None else max(since, time)), until
        return since, (time if until is None else min(until, time))

    def _pages(
        self, runs: ExperimentRuns, since: int | None, until: int | None
    ) -> Iterator[list[Item]]:
        if len(runs.stages) == 1:
            (stage,) = runs.stages
            within = index_keys.runs_by_lifecycle(stage, since, until)
            return runs.items(within, "LSI1", descending=not self.ascending)
        within = index_keys.runs_by_time(since, until)
        return runs.items(within, "LSI2", descending=not self.ascending)


@dataclass(frozen=True)
class ByStatus(Path):
    """Runs of one status, by start time: LSI3."""

    status: str = ""
    ascending: bool = False

    def __str__(self) -> str:
        return f"LSI3 status {self.status} by start time"

    def count(self, runs: ExperimentRuns) -> int | None:
        # It is in order and need not be read to the end, so it counts up to what is wanted.
        most = max(runs.batch, 1)
        found = runs.count(index_keys.by_status(self.status), "LSI3", most)
        return most if found is None else found

    def entries(self, runs: ExperimentRuns, ordering: Ordering, after: Position | None) -> Entries:
        time = time_in(ordering, after) if after is not None and self.ordered else None
        since, until = (time, None) if self.ascending else (None, time)
        within = index_keys.by_status(self.status, since, until)
        for items in runs.items(within, "LSI3", descending=not self.ascending):
            for record in runs.records(items):
                yield record.item[START_TIME], record


@dataclass(frozen=True)
class ByName(Path):
    """Runs by name: LSI4."""

    ascending: bool = True
    within: Range = field(default_factory=index_keys.runs_by_name)
    most: int = LARGEST_BATCH

    def __str__(self) -> str:
        return f"LSI4 by name within {self.within.low} .. {self.within.high[:40]}"

    def count(self, runs: ExperimentRuns) -> int | None:
        return runs.count(self.within, "LSI4", self.most)

    def entries(self, runs: ExperimentRuns, ordering: Ordering, after: Position | None) -> Entries:
        del ordering  # its first key is the name when this path is ordered
        within = self.within
        if after is not None and self.ordered and after[0][0] == PRESENT:
            within = from_text(within, index_keys.runs_by_name(str(after[0][1])), self.ascending)
        for items in runs.items(within, "LSI4", descending=not self.ascending):
            for record in runs.records(items):
                yield index_keys.run_name_group(str(record.item["lsi4sk"])), record


@dataclass(frozen=True)
class ByDataset(Path):
    """Runs that used datasets of some digests: LSI5."""

    digests: tuple[str, ...] = ()
    most: int = LARGEST_BATCH

    def __str__(self) -> str:
        return f"LSI5 datasets {', '.join(self.digests)}"

    def count(self, runs: ExperimentRuns) -> int | None:
        counts = [runs.count(within, "LSI5", self.most) for within in self._ranges()]
        return None if None in counts else sum(filter(None, counts))

    def estimate(self, count: int) -> Estimate:
        return Estimate.of(count, ENTRY, fetched=True, batches=True)

    def entries(self, runs: ExperimentRuns, ordering: Ordering, after: Position | None) -> Entries:
        del ordering, after
        links = (
            link
            for within in self._ranges()
            for links in runs.items(within, "LSI5", keys_only=True)
            for link in links
        )
        keys = dict.fromkeys(NamedRun.by(link, "lsi5sk").key for link in links)
        for record in runs.at(keys):
            yield None, record

    def _ranges(self) -> list[Range]:
        return [index_keys.runs_using_dataset(digest) for digest in self.digests]


@dataclass(frozen=True)
class ByPartition(Path):
    """Everything below the experiment's runs, read from the table itself and put together.

    It needs no index and no summary, and reads params, tags, metrics and history of every run.
    """

    def __str__(self) -> str:
        return f"the partition within {run_keys.RUNS.low} .. {run_keys.RUNS.high}"

    def estimate(self, count: int) -> Estimate:
        return Estimate.of(count, RUN + BELOW)

    def entries(self, runs: ExperimentRuns, ordering: Ordering, after: Position | None) -> Entries:
        del ordering, after
        own: Item | None = None
        below: list[Item] = []
        for item in self._items(runs):
            if run_keys.run_item_of(str(item["SK"])).kind == "":
                yield from self._entry(runs, own, below)
                own, below = item, []
            else:
                below.append(item)
        yield from self._entry(runs, own, below)

    def _items(self, runs: ExperimentRuns) -> Iterator[Item]:
        wide = replace(runs, batch=LARGEST_BATCH)
        for items in wide.items(run_keys.RUNS):
            yield from items

    def _entry(self, runs: ExperimentRuns, own: Item | None, below: list[Item]) -> Entries:
        if own is None or own["lifecycle"] not in runs.stages:
            return
        if own["state"] == SEALED:
            yield from ((None, record) for record in runs.records([own]))
        else:
            yield None, sealing.read_from(runs.table, own, below)


class NamedRun(NamedTuple):
    """A run that an item of its volume names."""

    run_id: str
    key: Key

    @classmethod
    def by(cls, item: Item, attribute: str = "SK") -> NamedRun:
        """The run that the end of a sort key names."""
        run_id = rank_keys.ranked_run_of(str(item[attribute]))
        return cls(run_id, Key(str(item["PK"]), run_keys.run(run_id)))


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


def time_in(ordering: Ordering, after: Position) -> int | None:
    """The start time at a position, where the order has one."""
    for key, (presence, value) in zip(ordering.keys, after, strict=True):
        if key.name == START_TIME and presence == PRESENT:
            return int(value)
    return None


def from_text(within: Range, bound: Range, ascending: bool) -> Range:
    """A range that begins or ends at a text, which itself stays inside."""
    both = within.overlap(bound)
    return Range(both.low, within.high) if ascending else Range(within.low, both.high)
