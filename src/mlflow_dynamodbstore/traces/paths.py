"""The access paths to an experiment's traces, and which one reads least.

The whole filter is applied to the traces of a path, so a path may read too many, never too few.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared.search.ordering import PRESENT, Position, number_in
from mlflow_dynamodbstore.shared.search.streams import SMALLEST_PAGE
from mlflow_dynamodbstore.shared.volume_states import Volume
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.traces.time_indexes import TIME_INDEX

LARGEST_PAGE = 1000
FEW = 200
"""Number of traces with one name up to which it is cheaper to read them all than by time."""

TIME = "timestamp_ms"
CLIENT_REQUEST = "client_request_id"


@dataclass(frozen=True)
class Period:
    """A period of time, both ends included; None is open."""

    since: int | None = None
    until: int | None = None

    def from_(self, time: int) -> Period:
        return replace(self, since=time if self.since is None else max(self.since, time))

    def to(self, time: int) -> Period:
        return replace(self, until=time if self.until is None else min(self.until, time))


class PathTooExpensive(Exception):
    """The path being read costs more than reading all traces by time."""


@dataclass
class ExperimentTraces:
    """The traces in one volume of an experiment, read for one answer.

    ``needed`` is how many traces the answer needs of this volume, None for all. ``read`` and
    ``matched`` count the traces so far; from those of all volumes read for the answer, ``answer``,
    follows the size of the next page. ``time_index`` is the index that lists all traces by time.
    ``has_lookups``: all have lookup entries.
    """

    table: Table
    volume: Volume
    needed: int | None = None
    time_index: str = TIME_INDEX
    has_lookups: bool = False
    read: int = 0
    matched: int = 0
    answer: list[ExperimentTraces] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.answer.append(self)

    @property
    def pk(self) -> str:
        return self.volume.pk

    def pages(self, within: Range, index: str, *, descending: bool) -> Iterator[list[Item]]:
        """The traces of a range, page by page; a page is about as large as the answer needs."""
        if within.is_empty:
            return
        where = within.on(self.table.schema.by_name[index].sk)
        query = Query(self.pk, where, index=index, descending=descending)
        while True:
            page = self.table.query(replace(query, limit=self.next_size()))
            self.read += len(page.items)
            yield page.items
            if page.cursor is None:
                return
            query = replace(query, cursor=page.cursor)

    def next_size(self) -> int:
        """How many traces complete the answer if they match as often as those read so far."""
        if self.needed is None:
            return LARGEST_PAGE
        read = sum(volume.read for volume in self.answer)
        matched = sum(volume.matched for volume in self.answer)
        if not read:
            return min(LARGEST_PAGE, self.needed)
        left = self.needed - self.matched
        if left < 1:
            # Of several volumes this one has more of the answer than others; of one, all is there.
            left = self.matched if len(self.answer) > 1 else 1
        expected = left * read / max(matched, 0.5)
        return max(SMALLEST_PAGE, min(LARGEST_PAGE, int(expected * 1.1) + 1))

    def all_if_at_most(self, most: int) -> list[Item] | None:
        """All traces, newest first; None if they are more, or more than a page holds."""
        where = index_keys.traces_by_time().on(self.table.schema.by_name[self.time_index].sk)
        page = self.table.query(
            Query(self.pk, where, self.time_index, descending=True, limit=min(most, LARGEST_PAGE))
        )
        return page.items if page.cursor is None else None

    def by_time(self, until: int | None, keep: Callable[[Item], bool]) -> Iterator[list[Item]]:
        """Some of all traces, newest first, from a time on."""
        within = index_keys.traces_by_time(None, until)
        for some in self.pages(within, self.time_index, descending=True):
            yield [item for item in some if keep(item)]

    def keys(
        self, within: Range, index: str, most: int, *, descending: bool
    ) -> tuple[list[Item], bool]:
        """Keys of traces in a range of an index, and whether these are all."""
        where = within.on(self.table.schema.by_name[index].sk)
        page = self.table.query(
            Query(self.pk, where, index, descending=descending, limit=most, keys_only=True)
        )
        return page.items, page.cursor is None

    def fetch(self, keys: Iterable[Key]) -> dict[Key, Item]:
        """Traces by their keys."""
        found = self.table.get_many(keys)
        self.read += len(found)
        return found

    def count(self, within: Range, index: str, most: int) -> int:
        """How many traces a range holds, or more than ``most``; reads their keys."""
        items, is_all = self.keys(within, index, most + 1, descending=False)
        return len(items) if is_all else most + 1


@dataclass(frozen=True)
class Path(ABC):
    """A way to read traces; ``ordered`` says whether it brings them in the requested order."""

    ordered: bool = False

    @property
    def name(self) -> str:
        return type(self).__name__

    def is_cheap(self, volumes: Sequence[ExperimentTraces]) -> bool:
        """Whether it reads few enough traces to be chosen; may itself cost reads."""
        del volumes
        return True

    def group(self, item: Item) -> object:
        """A value that is the same for traces that an ordered path brings in any order."""
        return item["request_time"]

    @abstractmethod
    def pages(self, traces: ExperimentTraces, after: Position | None) -> Iterator[list[Item]]:
        """The traces of this path, page by page; may leave out those before ``after``."""


@dataclass(frozen=True)
class ById(Path):
    """Traces whose ids the filter names."""

    trace_ids: tuple[str, ...] = ()

    def pages(self, traces: ExperimentTraces, after: Position | None) -> Iterator[list[Item]]:
        del after
        wanted = [Key(traces.pk, trace_keys.trace(one)) for one in self.trace_ids]
        found = traces.table.get_many(wanted)
        yield [found[key] for key in dict.fromkeys(wanted) if key in found]


@dataclass(frozen=True)
class ByClientRequest(Path):
    """Traces with a client's id of their request (LSI5)."""

    client_request_id: str = ""

    def is_cheap(self, volumes: Sequence[ExperimentTraces]) -> bool:
        return volumes[0].has_lookups

    def pages(self, traces: ExperimentTraces, after: Position | None) -> Iterator[list[Item]]:
        del after
        where = index_keys.traces_of_client_request(self.client_request_id).on("lsi5sk")
        entries = traces.table.items(Query(traces.pk, where, index="LSI5", keys_only=True))
        keys = [Key(traces.pk, trace_keys.trace_of_child(str(one["SK"]))) for one in entries]
        yield list(traces.fetch(keys).values())


@dataclass(frozen=True)
class ByName(Path):
    """Traces of a name, when there are few (LSI4).

    Those of two volumes are counted, and the others taken to have as many.
    """

    within: Range = field(default_factory=index_keys.traces_by_name)

    def is_cheap(self, volumes: Sequence[ExperimentTraces]) -> bool:
        asked = [*volumes[:1], *volumes[1:][-1:]]
        counts = volumes[0].table.map(lambda one: one.count(self.within, "LSI4", FEW), asked)
        return sum(counts) * len(volumes) // len(asked) <= FEW

    def pages(self, traces: ExperimentTraces, after: Position | None) -> Iterator[list[Item]]:
        del after
        return traces.pages(self.within, "LSI4", descending=False)


@dataclass(frozen=True)
class ByTime(Path):
    """Traces by time: all (LSI1), those of a status (LSI3) or of a session (LSI5)."""

    index: str = TIME_INDEX
    within: Callable[[int | None, int | None], Range] = index_keys.traces_by_time
    ascending: bool = False
    period: Period = Period()

    @property
    def name(self) -> str:
        return f"ByTime({self.index})"

    def pages(self, traces: ExperimentTraces, after: Position | None) -> Iterator[list[Item]]:
        period = self.period
        if after is not None and self.ordered and after[0][0] == PRESENT:
            time = int(number_in(after))
            period = period.from_(time) if self.ascending else period.to(time)
        within = self.within(period.since, period.until)
        index = traces.time_index if self.index == TIME_INDEX else self.index
        return traces.pages(within, index, descending=not self.ascending)
