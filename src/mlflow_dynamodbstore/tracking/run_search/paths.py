"""The ways into an experiment's runs: by id, by an index, or through the whole partition.

A path yields entries ``(group, run)``, page by page: runs that share a group come in any order,
groups come in the order of the path. Paths over RANK items (in ``rank_paths.py``) bring sealed runs
only, and live runs are merged in. The whole filter judges what a path brings, so a path may bring
too many runs, and never too few.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared.places import run_id_of
from mlflow_dynamodbstore.shared.search.ordering import PRESENT, Ordering, Position, number_in
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.tracking import sealing
from mlflow_dynamodbstore.tracking.records import SEALED, RunRecord
from mlflow_dynamodbstore.tracking.run_search.estimates import BELOW, ENTRY, RUN, Estimate
from mlflow_dynamodbstore.tracking.run_search.experiment_runs import (
    LARGEST_BATCH,
    ExperimentRuns,
    NamedRun,
)

Entry = tuple[Any, RunRecord]
Entries = Iterator[list[Entry]]

START_TIME = "start_time"


@dataclass(frozen=True)
class Path(ABC):
    """A way to read runs. ``ordered``: in the order asked for, but for ties."""

    ordered: bool
    sealed_only: bool = False

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def ranges(self) -> int:
        """How many ranges of each volume it reads."""
        return 2 if self.sealed_only else 1

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
        """The runs it brings, from those that may follow ``after`` on, page by page."""


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
        yield ungrouped(runs.named(dict.fromkeys(self.run_ids)))


@dataclass(frozen=True)
class ByTime(Path):
    """Runs by start time: LSI1 within a lifecycle stage, LSI2 over all.

    ``without`` are the ids of runs that are known, and left out.
    """

    ascending: bool = False
    since: int | None = None
    until: int | None = None
    one_stage: bool = True
    without: frozenset[str] = frozenset()

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
            wanted = (item for item in items if run_id_of(item) not in self.without)
            yield _grouped_by_time(runs.records(wanted))

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
            index, within = "LSI1", index_keys.runs_by_lifecycle(stage, since, until)
        else:
            index, within = "LSI2", index_keys.runs_by_time(since, until)
        return runs.items(
            within, index, descending=not self.ascending, whole=not self.ordered, sample=True
        )


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
            yield _grouped_by_time(runs.records(items))


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
        pages = runs.items(within, "LSI4", descending=not self.ascending, whole=not self.ordered)
        for items in pages:
            records = runs.records(items)
            yield [(index_keys.run_name_group(str(one.item["lsi4sk"])), one) for one in records]


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
            for links in runs.items(within, "LSI5", keys_only=True, whole=True)
            for link in links
        )
        keys = dict.fromkeys(NamedRun.by(link, "lsi5sk").key for link in links)
        yield ungrouped(runs.at(keys))

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
        for item in chain.from_iterable(runs.items(run_keys.RUNS, whole=True)):
            if run_keys.run_item_of(str(item["SK"])).kind == "":
                yield ungrouped(self._records(runs, own, below))
                own, below = item, []
            else:
                below.append(item)
        yield ungrouped(self._records(runs, own, below))

    def _records(
        self, runs: ExperimentRuns, own: Item | None, below: list[Item]
    ) -> list[RunRecord]:
        if own is None or own["lifecycle"] not in runs.stages:
            return []
        if own["state"] == SEALED:
            return runs.records([own])
        return [sealing.read_from(runs.table, own, below)]


def ungrouped(records: Sequence[RunRecord]) -> list[Entry]:
    """Runs as entries of a path without an order."""
    return [(None, record) for record in records]


def _grouped_by_time(records: Sequence[RunRecord]) -> list[Entry]:
    return [(record.item[START_TIME], record) for record in records]


def time_in(ordering: Ordering, after: Position) -> int | None:
    """The start time at a position, where the order has one."""
    for place, key in enumerate(ordering.keys):
        if key.name == START_TIME and after[place][0] == PRESENT:
            return int(number_in(after, place))
    return None


def from_text(within: Range, bound: Range, ascending: bool) -> Range:
    """A range that begins or ends at a text, which itself stays inside."""
    both = within.overlap(bound)
    return Range(both.low, within.high) if ascending else Range(within.low, both.high)
