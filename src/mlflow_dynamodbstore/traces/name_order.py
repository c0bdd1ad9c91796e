"""Reading traces in the order of their names.

LSI4 lists the keys of traces by name, and each trace that is fetched for it costs a read unit. The
index by time brings five traces for one. So an experiment of few traces is read by time and sorted;
of others the traces of a name that few have are fetched, and those of a name that many have are
picked from the index by time, newest first, as long as that costs less. When most of what is read
is read in vain, the path gives up, and all traces are read by time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared.search.ordering import PRESENT, Position
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.traces.paths import (
    FEW,
    LARGEST_PAGE,
    ExperimentTraces,
    Path,
    PathTooExpensive,
)

NAME_INDEX = "LSI4"
NAME_KEY = "lsi4sk"
FETCHED = 4
"""How many traces are read by time at least for the price of one that is fetched."""


@dataclass(frozen=True)
class InNameOrder(Path):
    """Traces in the order of their names, then those without a name.

    ``newest_first``: traces of one name are wanted so. ``unnamed``: some without a name may match.
    """

    ordered: bool = True
    ascending: bool = True
    newest_first: bool = True
    unnamed: bool = True
    within: Range = field(default_factory=index_keys.traces_by_name)

    def group(self, item: Item) -> object:
        time = item["request_time"] if self.newest_first else None
        if NAME_KEY not in item:
            return None, time
        name = _name(item)
        return name.group, time if name.is_whole else None

    def pages(self, traces: ExperimentTraces, after: Position | None) -> Iterator[list[Item]]:
        if after is None:
            everything = traces.all_if_at_most(FETCHED * traces.next_size())
            if everything is not None:
                yield self._in_memory(everything)
                return
        presence, text = (PRESENT, None) if after is None else after[0]
        until = self._time_in(after)
        if presence == PRESENT:
            at = None if text is None else index_keys.traces_from_name(str(text))
            yield from self._named(traces, at, until)
            until = None
        if self.unnamed:
            yield from traces.by_time(until, lambda item: NAME_KEY not in item)

    def _time_in(self, after: Position | None) -> int | None:
        time = after[1][1] if after is not None and self.newest_first else None
        return time if isinstance(time, int) else None

    def _named(
        self, traces: ExperimentTraces, at: Range | None, until: int | None
    ) -> Iterator[list[Item]]:
        """The traces with a name, from a name on; of that name those up to a time."""
        left = self.within if at is None else self._from(self.within, at)
        size = traces.next_size() + 1
        while not left.is_empty:
            entries, is_end = traces.keys(left, NAME_INDEX, size, descending=not self.ascending)
            groups = [[*some] for _, some in groupby(entries, key=lambda item: _name(item).group)]
            if len(groups) > 1 or is_end:
                for some in _portions(traces, groups if is_end else groups[:-1]):
                    yield from self._of_names(traces, some, at, until)
                    _check_matches(traces)
                if is_end:
                    return
                first = str(groups[-1][0][NAME_KEY])
                left = self._from(left, Range(first, first))
            elif len(entries) > FEW:
                yield from self._picked(traces, entries[0], at, until)
                raise PathTooExpensive  # all traces were read, and more are wanted
            size = FEW + 1

    def _of_names(
        self, traces: ExperimentTraces, entries: Sequence[Item], at: Range | None, until: int | None
    ) -> Iterator[list[Item]]:
        """The traces of some names, or of one name that many have."""
        picked: set[Key] = set()
        name = _name(entries[0])
        is_alone = name.is_whole and name == _name(entries[-1])
        if is_alone and self.newest_first and len(entries) > 2 * traces.next_size():
            end = traces.read + FETCHED * len(entries)
            for some in self._picked(traces, entries[0], at, until):
                picked.update(map(traces.table.schema.key_of, some))
                yield some
                if traces.read > end:
                    break
            else:
                return
        yield self._fetched(traces, entries, picked)

    def _picked(
        self, traces: ExperimentTraces, entry: Item, at: Range | None, until: int | None
    ) -> Iterator[list[Item]]:
        """The traces with the name of an index entry, picked from all traces by time."""
        if not _name(entry).is_whole:
            raise PathTooExpensive  # long names that begin alike are not in order
        own = index_keys.traces_named_as(str(entry[NAME_KEY]))
        until = until if own == at else None
        return traces.by_time(until, lambda item: item.get(NAME_KEY) in own)

    def _fetched(
        self, traces: ExperimentTraces, entries: Sequence[Item], without: set[Key]
    ) -> list[Item]:
        """The traces of index entries, without some and those that have another name by now."""
        keyed = ((traces.table.schema.key_of(entry), entry) for entry in entries)
        listed = {key: entry for key, entry in keyed if key not in without}
        found = traces.fetch(listed)
        named = [item for key, item in found.items() if item.get(NAME_KEY) == listed[key][NAME_KEY]]
        return _sorted(named, list(dict.fromkeys(_name(entry).group for entry in entries)))

    def _in_memory(self, items: list[Item]) -> list[Item]:
        named = [item for item in items if NAME_KEY in item]
        groups = sorted({_name(item).group for item in named}, reverse=not self.ascending)
        return [*_sorted(named, groups), *(item for item in items if NAME_KEY not in item)]

    def _from(self, left: Range, bound: Range) -> Range:
        both = left.overlap(bound)
        if self.ascending:
            return Range(both.low, left.high)
        return Range(left.low, both.high)


def _name(item: Item) -> index_keys.TraceName:
    return index_keys.trace_name_of(str(item[NAME_KEY]))


def _sorted(items: list[Item], groups: Sequence[str]) -> list[Item]:
    """Traces in the order of the groups of their names, the newest of a group first."""
    order = {group: n for n, group in enumerate(groups)}
    return sorted(items, key=lambda item: (order[_name(item).group], -item["request_time"]))


def _portions(traces: ExperimentTraces, groups: Sequence[list[Item]]) -> Iterator[list[Item]]:
    """Whole groups, about as many entries at a time as the answer needs; a large one alone."""
    most = traces.needed or LARGEST_PAGE
    portion: list[Item] = []
    for group in groups:
        if portion and len(portion) + len(group) > most:
            yield portion
            portion = []
        portion += group
    if portion:
        yield portion


def _check_matches(traces: ExperimentTraces) -> None:
    """Give up when the filter refuses most traces."""
    if traces.needed is not None and FETCHED * traces.matched < traces.read >= traces.needed:
        raise PathTooExpensive
