"""The ways into an experiment's runs.

A path yields entries ``(group, run)``: runs that share a group come in any order, groups come in
the order of the path. Paths over RANK items are *lazy*: they know sealed runs only, and live runs
are merged in beside them. What a path brings is judged again by the whole filter, so a path may
bring too much, and never too little.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from mlflow_dynamodbstore import keys
from mlflow_dynamodbstore.keys import Comparison, Range
from mlflow_dynamodbstore.policies import Rules
from mlflow_dynamodbstore.search.fulltext import TextField
from mlflow_dynamodbstore.search.ordering import MISSING, NOT_A_NUMBER, PRESENT, Ordering, Position
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.tracking import sealing
from mlflow_dynamodbstore.tracking.records import SEALED, RunRecord

Entry = tuple[Any, RunRecord]

LARGEST_BATCH = 1000
START_TIME = "start_time"


@dataclass
class Runs:
    """The runs of one experiment in some lifecycle stages, read through one table."""

    table: Table
    experiment_id: str
    stages: frozenset[str]
    batch: int
    rules: Rules = field(default_factory=Rules)
    _live: list[RunRecord] | None = None

    @property
    def pk(self) -> str:
        return keys.experiment_pk(self.experiment_id)

    def live(self) -> list[RunRecord]:
        """The runs that are being written; read once.

        They must be read before RANK is: a run sealed in between is then known from here, and one
        reopened in between from its RANK items.
        """
        if self._live is None:
            query = Query(self.pk, where=keys.LIVE_RUNS.on("lsi5sk"), index="LSI5")
            self._live = self.records(self.table.items(query))
        return self._live

    def records(self, items: Iterable[Item]) -> list[RunRecord]:
        """Runs with their contents, those of other lifecycle stages left out."""
        wanted = [item for item in items if item["lifecycle"] in self.stages]
        return sealing.read_all(self.table, wanted, self.rules)

    def items(
        self, within: Range, index: str | None = None, *, descending: bool
    ) -> Iterator[list[Item]]:
        """A range page by page, the first as small as the answer may be, later ones larger."""
        if within.is_empty:
            return
        attribute = "SK" if index is None else self.table.schema.by_name[index].sk
        query = Query(self.pk, within.on(attribute), index=index, descending=descending)
        size = self.batch
        while True:
            page = self.table.query(replace(query, limit=size))
            yield page.items
            if page.cursor is None:
                return
            size = min(LARGEST_BATCH, size * 2)
            query = replace(query, cursor=page.cursor)

    def named(self, run_ids: Iterable[str]) -> list[RunRecord]:
        """Runs by their ids, in the order given; absent ones are left out."""
        wanted = [keys.run_key(self.experiment_id, run_id) for run_id in run_ids]
        found = self.table.get_many(wanted)
        return self.records(found[key] for key in wanted if key in found)


@dataclass(frozen=True)
class Path(ABC):
    """A way to read runs. ``ordered``: in the order asked for, but for ties."""

    ordered: bool
    lazy: bool = False

    @property
    def name(self) -> str:
        return type(self).__name__

    @abstractmethod
    def __str__(self) -> str:
        """The path in words, for ``explain``."""

    def is_cheap(self, runs: Runs) -> bool:
        """Whether it brings few enough runs to be preferred; may cost a read."""
        del runs
        return True

    @abstractmethod
    def entries(self, runs: Runs, ordering: Ordering, after: Position | None) -> Iterator[Entry]:
        """The runs it brings, from those that may follow ``after`` on."""


@dataclass(frozen=True)
class ById(Path):
    """Runs whose ids the filter names."""

    run_ids: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{len(self.run_ids)} runs by id"

    def entries(self, runs: Runs, ordering: Ordering, after: Position | None) -> Iterator[Entry]:
        del ordering, after
        for record in runs.named(dict.fromkeys(self.run_ids)):
            yield None, record


@dataclass(frozen=True)
class ByTime(Path):
    """Runs by start time: LSI1 within a lifecycle stage, LSI2 over all."""

    ascending: bool = False
    since: int | None = None
    until: int | None = None

    def __str__(self) -> str:
        return f"LSI1/LSI2 by start time {'ascending' if self.ascending else 'descending'}"

    def entries(self, runs: Runs, ordering: Ordering, after: Position | None) -> Iterator[Entry]:
        since, until = self.since, self.until
        if after is not None and self.ordered:
            since, until = self._from(_time_in(ordering, after), since, until)
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

    def _pages(self, runs: Runs, since: int | None, until: int | None) -> Iterator[list[Item]]:
        if len(runs.stages) == 1:
            (stage,) = runs.stages
            within = keys.runs_by_lifecycle(stage, since, until)
            return runs.items(within, "LSI1", descending=not self.ascending)
        within = keys.runs_by_time(since, until)
        return runs.items(within, "LSI2", descending=not self.ascending)


@dataclass(frozen=True)
class ByStatus(Path):
    """Runs of one status, by start time: LSI3."""

    status: str = ""
    ascending: bool = False

    def __str__(self) -> str:
        return f"LSI3 status {self.status} by start time"

    def entries(self, runs: Runs, ordering: Ordering, after: Position | None) -> Iterator[Entry]:
        time = _time_in(ordering, after) if after is not None and self.ordered else None
        since, until = (time, None) if self.ascending else (None, time)
        within = keys.by_status(self.status, since, until)
        for items in runs.items(within, "LSI3", descending=not self.ascending):
            for record in runs.records(items):
                yield record.item[START_TIME], record


@dataclass(frozen=True)
class ByName(Path):
    """Runs by name: LSI4."""

    ascending: bool = True
    within: Range = field(default_factory=keys.runs_by_name)

    def __str__(self) -> str:
        return f"LSI4 by name within {self.within.low} .. {self.within.high[:40]}"

    def entries(self, runs: Runs, ordering: Ordering, after: Position | None) -> Iterator[Entry]:
        del ordering  # its first key is the name when this path is ordered
        within = self.within
        if after is not None and self.ordered and after[0][0] == PRESENT:
            within = _from_text(within, keys.runs_by_name(str(after[0][1])), self.ascending)
        for items in runs.items(within, "LSI4", descending=not self.ascending):
            for record in runs.records(items):
                yield keys.run_name_group(str(record.item["lsi4sk"])), record


@dataclass(frozen=True)
class Ranked(Path):
    """Runs by what RANK items say of one metric or param, live runs beside them."""

    lazy: bool = True
    key: str = ""
    ascending: bool = True
    within: Range = field(default_factory=lambda: Range("", ""))
    most: int | None = None

    def is_cheap(self, runs: Runs) -> bool:
        if self.most is None or self.within.is_empty:
            return True
        query = Query(runs.pk, self.within.on(), limit=self.most, keys_only=True)
        return runs.table.query(query).cursor is None

    def _ranked(self, runs: Runs, within: Range, *, descending: bool) -> Iterator[Entry]:
        """Sealed runs in the order of their RANK items, stale items passed over."""
        seen = {record.run_id for record in runs.live()}
        for items in runs.items(within, descending=descending):
            places = [str(item["SK"]) for item in items]
            run_ids = [self._run_id(place) for place in places]
            found = {r.run_id: r for r in runs.named(i for i in run_ids if i not in seen)}
            for place, run_id in zip(places, run_ids, strict=True):
                record = found.get(run_id)
                if record is None or run_id in seen:
                    continue
                # A run reopened a moment ago is not among the live ones: it counts as it is.
                if record.item["state"] != SEALED or place == self._place(record):
                    seen.add(run_id)
                    yield self._group(place), record

    @abstractmethod
    def _run_id(self, sk: str) -> str:
        """The run that a RANK item is of."""

    @abstractmethod
    def _place(self, record: RunRecord) -> str | None:
        """The RANK item that a run should have now."""

    @abstractmethod
    def _group(self, sk: str) -> Any:
        """What RANK items that come in any order among each other share."""

    def _missing(
        self,
        runs: Runs,
        ordering: Ordering,
        after: Position | None,
        has: Callable[[RunRecord], bool],
    ) -> Iterator[Entry]:
        """Runs without the metric or param, which come last in either direction."""
        live = {record.run_id for record in runs.live()}
        then = ordering.keys[1]
        by_time = then.name == START_TIME
        path = ByTime(ordered=by_time, ascending=then.ascending)
        resumed = after if after is not None and after[0][0] == MISSING else None
        for time, record in path.entries(runs, ordering, resumed):
            if record.run_id not in live and not has(record):
                yield (MISSING, time if by_time else None), record


@dataclass(frozen=True)
class ByMetric(Ranked):
    """Runs by the latest value of a metric: RANK#m."""

    nan: bool = True
    missing: bool = True

    def __str__(self) -> str:
        return f"RANK#m {self.key} {'ascending' if self.ascending else 'descending'}, live merged"

    def entries(self, runs: Runs, ordering: Ordering, after: Position | None) -> Iterator[Entry]:
        reached = after[0] if after is not None and self.ordered else (PRESENT, None)
        if reached[0] == PRESENT:
            within = self.within
            if reached[1] is not None:
                comparison: Comparison = ">=" if self.ascending else "<="
                bound = keys.metric_ranks_where(self.key, comparison, float(reached[1]))
                within = within.overlap(bound)
            yield from self._ranked(runs, within, descending=self.ascending)
        if self.nan and reached[0] <= NOT_A_NUMBER:
            nans = keys.metric_ranks_where(self.key, "=", math.nan)
            yield from self._ranked(runs, nans, descending=False)
        if self.missing:
            yield from self._missing(
                runs, ordering, after, lambda record: self.key in record.contents.metrics
            )

    def _run_id(self, sk: str) -> str:
        return str(keys.metric_rank_of(sk).run_id)

    def _place(self, record: RunRecord) -> str | None:
        point = record.contents.metrics.get(self.key)
        return None if point is None else keys.metric_rank(self.key, point[0], record.run_id)

    def _group(self, sk: str) -> Any:
        value = keys.metric_rank_of(sk).value
        return "nan" if math.isnan(value) else value  # NaN does not equal itself


@dataclass(frozen=True)
class ByParam(Ranked):
    """Runs by the value of a param: RANK#p."""

    missing: bool = True

    def __str__(self) -> str:
        return f"RANK#p {self.key} within {self.within.low}, live merged"

    def entries(self, runs: Runs, ordering: Ordering, after: Position | None) -> Iterator[Entry]:
        reached = after[0] if after is not None and self.ordered else (PRESENT, None)
        if reached[0] == PRESENT:
            within = self.within
            if reached[1] is not None:
                bound = keys.param_ranks_starting(self.key, str(reached[1]))
                within = _from_text(within, bound, self.ascending)
            yield from self._ranked(runs, within, descending=not self.ascending)
        if self.missing:
            yield from self._missing(
                runs, ordering, after, lambda record: self.key in record.contents.params
            )

    def _run_id(self, sk: str) -> str:
        return str(keys.param_rank_of(sk).run_id)

    def _place(self, record: RunRecord) -> str | None:
        value = record.contents.params.get(self.key)
        return None if value is None else keys.param_rank(self.key, value, record.run_id)

    def _group(self, sk: str) -> Any:
        return keys.param_rank_group(sk)


@dataclass(frozen=True)
class ByText(Path):
    """Runs whose name or tag has some words or letters: FTS, live runs beside them."""

    lazy: bool = True
    field: TextField = field(default_factory=lambda: TextField(""))
    level: str = ""
    tokens: tuple[str, ...] = ()
    most: int | None = None

    def __str__(self) -> str:
        return f"FTS {self.level} {'+'.join(self.tokens)} of {self.field.name}, live merged"

    def is_cheap(self, runs: Runs) -> bool:
        within = keys.fts_entries(self.level, self.tokens[0])
        query = Query(runs.pk, within.on(), limit=self.most, keys_only=True)
        return runs.table.query(query).cursor is None

    def entries(self, runs: Runs, ordering: Ordering, after: Position | None) -> Iterator[Entry]:
        del ordering, after
        live = {record.run_id for record in runs.live()}
        found = runs.table.map(lambda token: self._having(runs, token), self.tokens)
        for record in runs.named(sorted(set.intersection(*found) - live)):
            yield None, record

    def _having(self, runs: Runs, token: str) -> set[str]:
        """The runs whose text has a token; the entries of other fields stand among them."""
        query = Query(runs.pk, keys.fts_entries(self.level, token).on(), keys_only=True)
        places = (keys.fts_of(item["SK"]) for item in runs.table.items(query))
        return {str(p.entity_id) for p in places if p.entity_type == self.field.name}


def _time_in(ordering: Ordering, after: Position) -> int | None:
    """The start time at a position, where the order has one."""
    for key, (rank, value) in zip(ordering.keys, after, strict=True):
        if key.name == START_TIME and rank == PRESENT:
            return int(value)
    return None


def _from_text(within: Range, bound: Range, ascending: bool) -> Range:
    """A range cut at where a text may stand, which itself stays inside."""
    both = within.overlap(bound)
    return Range(both.low, within.high) if ascending else Range(within.low, both.high)
