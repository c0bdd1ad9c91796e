"""The paths that bring sealed runs only: by metric, by param, by text.

RANK and FTS items are written when a run is sealed and compared with the run they name when they
are read, since they may be stale. LSI5 is an index of the runs' own items: it is never stale,
but a run that is written to again leaves it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import ranks as rank_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.keys.ranks import Comparison
from mlflow_dynamodbstore.shared.search.fulltext import TextField
from mlflow_dynamodbstore.shared.search.ordering import (
    MISSING,
    NOT_A_NUMBER,
    PRESENT,
    Ordering,
    Position,
    number_in,
)
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.tracking.records import SEALED, RunRecord
from mlflow_dynamodbstore.tracking.run_search.estimates import ENTRY, Estimate
from mlflow_dynamodbstore.tracking.run_search.experiment_runs import (
    LARGEST_BATCH,
    ExperimentRuns,
)
from mlflow_dynamodbstore.tracking.run_search.paths import (
    START_TIME,
    ByTime,
    Entries,
    Entry,
    Path,
    from_text,
    ungrouped,
)

NAN = "nan"
"""The group of runs whose metric is not a number, which does not equal itself."""


@dataclass(frozen=True)
class SealedRunsPath(Path):
    """Sealed runs, found by what was derived from them; live runs are merged in."""

    sealed_only: bool = True

    def estimate(self, count: int) -> Estimate:
        return Estimate.of(count, ENTRY, fetched=True, batches=True).plus(1, 1)  # the live ones


@dataclass(frozen=True)
class Ranked(SealedRunsPath):
    """Runs by what RANK items say of one metric or param."""

    key: str = ""
    ascending: bool = True
    within: Range = field(default_factory=lambda: Range("", ""))
    most: int = LARGEST_BATCH

    def count(self, runs: ExperimentRuns) -> int | None:
        return runs.count_entries(self.within, self.most)

    def _ranked(self, runs: ExperimentRuns, within: Range, *, descending: bool) -> Entries:
        """Sealed runs in the order of their RANK items, without stale items."""
        seen: set[str] = set()
        for named, records in runs.entries(within, descending=descending):
            found = {record.run_id: record for record in records}
            current: list[Entry] = []
            for run_id, _, rank in named:
                record = found.get(run_id)
                if record is None or run_id in seen:
                    continue
                # A run reopened since is not among the live ones: it counts as it is.
                if record.item["state"] != SEALED or rank == self._rank_sk(record):
                    seen.add(run_id)
                    current.append((self._group(rank), record))
            yield current

    @abstractmethod
    def _rank_sk(self, record: RunRecord) -> str | None:
        """The RANK item that a run should have now."""

    @abstractmethod
    def _group(self, sk: str) -> Any:
        """The group of RANK items whose order among each other does not matter."""

    def _missing(
        self,
        runs: ExperimentRuns,
        ordering: Ordering,
        after: Position | None,
        has: Callable[[RunRecord], bool],
    ) -> Entries:
        """Runs without the metric or param, which come last in either direction."""
        live = frozenset(record.run_id for record in runs.live())
        then = ordering.keys[1]
        by_time = then.name == START_TIME
        path = ByTime(ordered=by_time, ascending=then.ascending, without=live)
        resumed = after if after is not None and after[0][0] == MISSING else None
        for page in path.entries(runs, ordering, resumed):
            yield [((MISSING, at if by_time else None), one) for at, one in page if not has(one)]


@dataclass(frozen=True)
class ByMetric(Ranked):
    """Runs by the latest value of a metric: RANK#m."""

    nan: bool = True
    missing: bool = True

    def __str__(self) -> str:
        return f"RANK#m {self.key} {'ascending' if self.ascending else 'descending'}, live merged"

    def entries(self, runs: ExperimentRuns, ordering: Ordering, after: Position | None) -> Entries:
        reached = after if self.ordered else None
        presence = PRESENT if reached is None else reached[0][0]
        if presence == PRESENT:
            within = self.within
            if reached is not None:
                comparison: Comparison = ">=" if self.ascending else "<="
                bound = self.where(self.key, comparison, float(number_in(reached)))
                within = within.overlap(bound)
            yield from self._by_value(runs, within)
        if self.nan and presence <= NOT_A_NUMBER:
            yield from self._by_value(runs, self.where(self.key, "=", math.nan))
        if self.missing:
            yield from self._missing(
                runs, ordering, after, lambda record: self.key in record.contents.metrics
            )

    @staticmethod
    def where(key: str, comparison: Comparison, value: float) -> Range:
        """The keys of runs for whose metric a comparison with a number holds."""
        return rank_keys.metric_ranks_where(key, comparison, value)

    def _by_value(self, runs: ExperimentRuns, within: Range) -> Entries:
        return self._ranked(runs, within, descending=self.ascending)  # RANK begins with the best

    def _rank_sk(self, record: RunRecord) -> str | None:
        point = record.contents.metrics.get(self.key)
        return None if point is None else rank_keys.metric_rank(self.key, point[0], record.run_id)

    def _group(self, sk: str) -> Any:
        value = rank_keys.metric_rank_of(sk).value
        return NAN if math.isnan(value) else value


@dataclass(frozen=True)
class ByPrimaryMetric(ByMetric):
    """Runs by the metric that has an index of its own: LSI5, whole runs in one request."""

    def __str__(self) -> str:
        return f"LSI5 {self.key} {'ascending' if self.ascending else 'descending'}, live merged"

    @property
    def ranges(self) -> int:
        return 3  # the live runs before and after

    def count(self, runs: ExperimentRuns) -> int | None:
        return runs.count(self.within, "LSI5", self.most)

    def estimate(self, count: int) -> Estimate:
        return Estimate.of(count, ENTRY, fetched=True).plus(2, 2)  # the live ones, before and after

    @staticmethod
    def where(key: str, comparison: Comparison, value: float) -> Range:
        return rank_keys.runs_by_metric_where(key, comparison, value)

    def _by_value(self, runs: ExperimentRuns, within: Range) -> Entries:
        """Sealed runs by the index, and among them those that have left it since.

        A run that is written to again leaves the index for the list of live runs, which was read
        before. So runs that were added to that list are read after each page.
        """
        seen = {record.run_id for record in runs.live()}
        late: list[Entry] = []
        reached: Entry | None = None
        for items in runs.items(within, "LSI5", descending=not self.ascending):
            page = [
                (_value(rank_keys.primary_metric_of(str(record.item["lsi5sk"]))), record)
                for record in runs.records(items)
                if record.run_id not in seen and record.item.get("lsi5sk") in within
            ]
            seen.update(record.run_id for _, record in page)
            late += self._reopened(runs, seen, within)
            if page:
                due = [entry for entry in late if not self._is_behind(entry, page[-1])]
                late = [entry for entry in late if self._is_behind(entry, page[-1])]
                if reached is not None:
                    # A run that moved into the part already read is left out.
                    due = [entry for entry in due if not self._is_behind(reached, entry)]
                yield self._sorted(page + due) if due else page
                reached = page[-1]
        yield self._sorted(late)

    def _reopened(self, runs: ExperimentRuns, seen: set[str], within: Range) -> list[Entry]:
        found = []
        for record in runs.reopened(seen):
            point = record.contents.metrics.get(self.key)
            if point and index_keys.lsi5_run(record.run_id, self.key, point[0]) in within:
                seen.add(record.run_id)
                found.append((_value(point[0]), record))
        return found

    def _is_behind(self, one: Entry, other: Entry) -> bool:
        return bool(one[0] > other[0] if self.ascending else one[0] < other[0])

    def _sorted(self, entries: list[Entry]) -> list[Entry]:
        return sorted(entries, key=lambda entry: entry[0], reverse=not self.ascending)


@dataclass(frozen=True)
class ByParam(Ranked):
    """Runs by the value of a param: RANK#p."""

    missing: bool = True

    def __str__(self) -> str:
        return f"RANK#p {self.key} within {self.within.low}, live merged"

    def entries(self, runs: ExperimentRuns, ordering: Ordering, after: Position | None) -> Entries:
        reached = after[0] if after is not None and self.ordered else (PRESENT, None)
        if reached[0] == PRESENT:
            within = self.within
            if reached[1] is not None:
                bound = rank_keys.param_ranks_starting(self.key, str(reached[1]))
                within = from_text(within, bound, self.ascending)
            yield from self._ranked(runs, within, descending=not self.ascending)
        if self.missing:
            yield from self._missing(
                runs, ordering, after, lambda record: self.key in record.contents.params
            )

    def _rank_sk(self, record: RunRecord) -> str | None:
        value = record.contents.params.get(self.key)
        return None if value is None else rank_keys.param_rank(self.key, value, record.run_id)

    def _group(self, sk: str) -> Any:
        return rank_keys.param_rank_group(sk)


@dataclass(frozen=True)
class ByText(SealedRunsPath):
    """Runs whose name or tag has some words or letters: FTS."""

    field: TextField = field(default_factory=lambda: TextField(""))
    level: str = ""
    tokens: tuple[str, ...] = ()
    most: int = LARGEST_BATCH

    def __str__(self) -> str:
        return f"FTS {self.level} {'+'.join(self.tokens)} of {self.field.name}, live merged"

    def count(self, runs: ExperimentRuns) -> int | None:
        """By the entries of the first token, which is the longest and so likely the rarest."""
        return runs.count_entries(self._with(self.tokens[0]), self.most)

    def entries(self, runs: ExperimentRuns, ordering: Ordering, after: Position | None) -> Entries:
        del ordering, after
        live = {record.run_id for record in runs.live()}
        records: list[RunRecord] | None = None
        while records is None:
            found = runs.table.map(lambda token: self._having(runs, token), self.tokens)
            having = sorted(set.intersection(*map(set, found)) - live)
            wanted = [found[0][run_id] for run_id in having]
            records = runs.named_in(self._with(self.tokens[0]), wanted)
        yield ungrouped(records)

    def _with(self, token: str) -> Range:
        """The entries of a token; those of other fields stand among them."""
        return rank_keys.fts_entries(self.level, token)

    def _having(self, runs: ExperimentRuns, token: str) -> dict[str, Key]:
        """The runs whose text has a token, by their ids."""
        found: dict[str, Key] = {}
        for item in runs.keys(self._with(token)):
            entry = rank_keys.fts_of(str(item["SK"]))
            if entry.entity_type == self.field.name:
                run_id = str(entry.entity_id)
                found[run_id] = Key(str(item["PK"]), run_keys.run(run_id))
        return found


def _value(value: float) -> Any:
    return NAN if math.isnan(value) else value
