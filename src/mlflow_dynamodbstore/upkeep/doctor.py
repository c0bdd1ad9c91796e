"""``doctor``: checks of a table and of this machine's connection to it."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys.base import is_value_part
from mlflow_dynamodbstore.keys.metric_log import METRIC_LOGS
from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.shared.counter_files import ServerCounters, counters_on_this_machine
from mlflow_dynamodbstore.shared.policies import Policies
from mlflow_dynamodbstore.table.contract import Damage, Delete, OnDamage, Put, Query, Scan
from mlflow_dynamodbstore.table.errors import (
    RESCUE,
    AccessDenied,
    Damaged,
    NewerItem,
    TableError,
)
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.tracking.log_entries import RunLog
from mlflow_dynamodbstore.upkeep.fill_state import FillState
from mlflow_dynamodbstore.upkeep.hot_volumes import NOTHING_COUNTED, hot_volumes
from mlflow_dynamodbstore.upkeep.import_state import unfinished_imports
from mlflow_dynamodbstore.upkeep.odd_values import odd_value
from mlflow_dynamodbstore.upkeep.orphans import OrphanFinder
from mlflow_dynamodbstore.upkeep.segmented_scan import SegmentedScan
from mlflow_dynamodbstore.upkeep.table_stats import COLLECTION_LIMIT, TableStats, readable

PROBE = "state.doctor"
PROBES = 3
SLOW_SECONDS = 1.0
MOST_SKEW = 5.0
"""The most seconds a clock may be off; AWS refuses signed requests from five minutes on."""
MANY_ORPHANS = 0.1
MANY_THROTTLES = 0.1  # of the requests to a volume
EXAMPLES = 5
LARGE = 0.8  # a volume closes long before, at CLOSED_WHEN_FULL
VERY_LARGE = 0.95
PACKED = b"\x01\x78"
"""How a value begins that large_values.py or points.py has packed."""


class Level(Enum):
    """How serious a finding is. Warnings and failures need attention."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    check: str
    level: Level
    text: str

    @property
    def needs_attention(self) -> bool:
        return self.level in (Level.WARNING, Level.FAILURE)


Progress = Callable[[TableStats], None]


class Doctor:
    """Checks one table, and leaves nothing of its tries behind in it."""

    def __init__(
        self,
        table: Table,
        *,
        segments: int = 1,
        progress: Progress = lambda _: None,
        counters: Callable[[], ServerCounters] = counters_on_this_machine,
        monotonic: Callable[[], float] = time.monotonic,
    ):
        self._table = table
        self._segments = segments
        self._progress = progress
        self._counters = counters
        self._monotonic = monotonic
        self.stats: TableStats | None = None
        """What deep checks have counted."""

    def examine(self, *, deep: bool = True) -> Iterator[Finding]:
        """The findings, one by one; those of ``deep`` checks read the whole table."""
        checks = [self._connection, self._permissions, self._schema]
        checks += [self._completeness, self._setup, self._heat]
        if deep:
            checks += [self._file, self._contents]
        for check in checks:
            try:
                yield from check()
            except Damaged as error:
                yield Finding("damage", Level.FAILURE, str(error))

    # --- the connection to the table ------------------------------------------------------------

    def _connection(self) -> Iterator[Finding]:
        # The best of several: the first also connects, and any may meet a busy moment.
        took = min(self._answer_seconds() for _ in range(PROBES))
        slow = took > SLOW_SECONDS
        yield Finding(
            "connection",
            Level.WARNING if slow else Level.OK,
            f"answer in {took * 1000:.0f} ms from {self._table.engine.uri}",
        )

    def _answer_seconds(self) -> float:
        begun = self._monotonic()
        self._table.get(access_keys.setting_key(PROBE))
        return self._monotonic() - begun

    def _permissions(self) -> Iterator[Finding]:
        """What the credentials allow, tried on an item that nobody reads."""
        denied = [what for what, call in self._calls() if not _is_allowed(call)]
        if not denied:
            yield Finding("permissions", Level.OK, "reading, writing and scanning are allowed")
            return
        text = f"denied: {', '.join(denied)}; `iam-policy` prints what each role needs"
        yield Finding("permissions", Level.WARNING, text)

    def _calls(self) -> Iterator[tuple[str, Callable[[], object]]]:
        table, key = self._table, access_keys.setting_key(PROBE)
        item = {"PK": key.pk, "SK": key.sk, "value": None}
        yield "GetItem", lambda: table.get(key)
        yield "BatchGetItem", lambda: table.get_many([key])
        yield "Query", lambda: table.query(Query(key.pk, limit=1))
        yield "Query of an index", lambda: table.query(Query(key.pk, index="GSI1", limit=1))
        yield "Scan", lambda: table.scan(Scan(limit=1))
        yield "PutItem", lambda: table.put(item)
        yield "UpdateItem", lambda: table.update(key, Update(set={"value": 1}))
        yield "BatchWriteItem", lambda: table.write([Put(item)])
        yield "TransactWriteItems", lambda: table.transact([Put(item)])
        yield "DeleteItem", lambda: table.write([Delete(key, condition=PRESENT)])

    def _schema(self) -> Iterator[Finding]:
        try:
            self._table.engine.prepare(create=False)
        except TableError as error:
            yield Finding("schema", Level.FAILURE, str(error))
            return
        yield Finding("schema", Level.OK, "keys and indexes are as they should be")

    def _completeness(self) -> Iterator[Finding]:
        state = FillState.read(self._table)
        if state is not None and state.is_unfinished:
            text = (
                f"a transfer from {state.source} was stopped after {state.progress.items:,} items: "
                "run the same command again to finish it"
            )
            yield Finding("completeness", Level.FAILURE, text)
        for source in unfinished_imports(self._table):
            text = (
                f"an import from {source} has not finished: unless it is still running, run the "
                "same command again to finish it"
            )
            yield Finding("completeness", Level.FAILURE, text)

    def _setup(self) -> Iterator[Finding]:
        state_of = self._table.engine.capabilities.state
        if state_of is None:
            yield Finding("expiry", Level.OK, "this engine removes expired items itself")
            return
        before = self._table.clock()
        state = state_of()
        after = self._table.clock()
        yield _switched(
            "expiry",
            state.expires_items,
            "time to live is on",
            "time to live is off: nothing is removed",
        )
        yield _switched(
            "recovery",
            state.recovers,
            "point-in-time recovery is on",
            "point-in-time recovery is off",
        )
        yield _switched(
            "protection",
            state.protected,
            "the table is protected against deletion",
            "the table is not protected against deletion",
        )
        if state.endpoint_time is not None:
            # It told its time at some moment between the two.
            yield self._skew(state.endpoint_time - min(max(state.endpoint_time, before), after))

    def _skew(self, seconds: float) -> Finding:
        off = abs(seconds) > MOST_SKEW
        which = "behind" if seconds > 0 else "ahead of"
        return Finding(
            "clock",
            Level.WARNING if off else Level.OK,
            f"this machine's clock is {abs(seconds):.0f} s {which} the endpoint's"
            if off
            else "this machine's clock agrees with the endpoint's",
        )

    def _heat(self) -> Iterator[Finding]:
        """Which volumes are busy: each takes so many units a second, whatever the others do."""
        volumes = hot_volumes(self._counters(), self._table)
        if not volumes:
            yield Finding("heat", Level.OK, NOTHING_COUNTED)
            return
        named = ", ".join(map(str, volumes[:3]))
        text = f"busiest volumes of experiments in the last hour: {named}"
        worst = volumes[0].heat
        level = Level.NOTE if worst.throttles else Level.OK
        if worst.throttles > MANY_THROTTLES * worst.requests:
            level = Level.WARNING
            text += "; `experiment spread` opens more volumes, for more writes a second"
        yield Finding("heat", level, text)

    # --- what is in the table -------------------------------------------------------------------

    def _file(self) -> Iterator[Finding]:
        """Whether pages and indexes of a file are sound."""
        inspectable = self._table.engine.capabilities.inspectable
        if inspectable is None:
            return
        complaints = inspectable.check_file()
        if not complaints:
            yield Finding("file", Level.OK, "pages and indexes are sound")
            return
        some = "; ".join(complaints[:EXAMPLES])
        text = f"the file is damaged ({some}): {RESCUE}"
        yield Finding("file", Level.FAILURE, text)

    def _contents(self) -> Iterator[Finding]:
        damage: list[Damage] = []
        odd: list[Damage] = []
        try:
            stats, orphans = self._scan(damage, odd)
        except NewerItem as error:
            yield Finding("versions", Level.FAILURE, str(error))
            return
        yield self._damage(damage)
        yield self._values(odd)
        yield self._versions(stats)
        yield self._partitions(stats)
        yield self._orphans(stats.total.items, orphans)
        yield self._unended(stats)
        if stats.unknown:
            text = f"items of kinds that this release does not know: {stats.unknown:,}"
            yield Finding("unknown items", Level.NOTE, text)

    def _scan(self, damage: list[Damage], odd: list[Damage]) -> tuple[TableStats, int]:
        stats = TableStats(self._table.schema, self._table.clock())
        finder, policies, orphans = OrphanFinder(self._table), Policies(self._table), 0
        for items in self._pages(damage.append):
            damage += filter(None, map(damaged_value, items))
            odd += filter(None, map(odd_value, items))
            stats.add(items)
            with suppress(Damaged):  # of something that belongs to these items
                policies.all()  # to be read after the items
                orphans += len(finder.find(items, policies.sealing_rules()))
            self._progress(stats)
        self.stats = stats
        return stats, orphans

    def _pages(self, on_damage: OnDamage) -> Iterator[list[Item]]:
        checked = self._table.readable_pages(on_damage)
        if checked is not None:
            yield from checked
            return
        scan = SegmentedScan.start(self._table, self._segments)
        while not scan.is_done:
            yield scan.next_items()

    def _damage(self, damage: list[Damage]) -> Finding:
        if not damage:
            return Finding("damage", Level.OK, "every item can be read")
        some = "; ".join(map(str, damage[:EXAMPLES]))
        text = f"damaged: {len(damage):,}, such as {some}; {RESCUE}"
        return Finding("damage", Level.FAILURE, text)

    def _values(self, odd: list[Damage]) -> Finding:
        if not odd:
            return Finding("values", Level.OK, "every value has the right type")
        some = "; ".join(map(str, odd[:EXAMPLES]))
        text = (
            f"values of a wrong type: {len(odd):,}, such as {some}; they are shown as text until "
            "they are written again"
        )
        return Finding("values", Level.WARNING, text)

    def _versions(self, stats: TableStats) -> Finding:
        if not stats.outdated:
            return Finding("versions", Level.OK, "all items have the current form")
        text = f"{stats.outdated:,} items have an older form, until they are next written"
        return Finding("versions", Level.NOTE, text)

    def _partitions(self, stats: TableStats) -> Finding:
        largest = stats.largest(3)
        if not largest:
            return Finding("partitions", Level.OK, "there are no experiments")
        share = largest[0][1] / COLLECTION_LIMIT
        named = ", ".join(f"{volume} ({readable(size)})" for volume, size in largest)
        level = (
            Level.FAILURE if share > VERY_LARGE else Level.WARNING if share > LARGE else Level.OK
        )
        return Finding(
            "partitions", level, f"largest volumes of experiments: {named}; the limit is 10 GB each"
        )

    def _orphans(self, items: int, orphans: int) -> Finding:
        if not orphans:
            return Finding("orphans", Level.OK, "every item belongs to something")
        level = Level.WARNING if orphans > MANY_ORPHANS * items else Level.NOTE
        text = f"{orphans:,} items belong to nothing: `ttl cleanup` removes them"
        return Finding("orphans", level, text)

    def _unended(self, stats: TableStats) -> Finding:
        if not stats.unended:
            return Finding("unended runs", Level.OK, "no run was left unended for a day")
        some = ", ".join(stats.unended_examples)
        text = f"not ended, and not written to for a day: {stats.unended:,}, such as {some}"
        return Finding("unended runs", Level.NOTE, text)


def _is_allowed(call: Callable[[], object]) -> bool:
    try:
        call()
    except AccessDenied:
        return False
    return True


def _switched(check: str, on: bool | None, yes: str, no: str) -> Finding:
    if on is None:
        return Finding(check, Level.NOTE, "this endpoint does not report it")
    return Finding(check, Level.OK if on else Level.WARNING, yes if on else no)


def damaged_value(item: Item) -> Damage | None:
    """The first packed value of an item that cannot be unpacked; zlib keeps a checksum in each."""
    pk, sk = str(item["PK"]), str(item["SK"])
    if is_value_part(sk):
        return None  # of no use without the other parts; its row has a checksum
    if sk in METRIC_LOGS:
        try:
            RunLog([item]).latest()
        except Damaged as error:
            return Damage(Key(pk, sk), str(error))
    for name, value in item.items():
        if isinstance(value, bytes) and value.startswith(PACKED):
            try:
                zlib.decompress(value[1:])
            except zlib.error:
                return Damage(Key(pk, sk), f"{name} is damaged")
    return None
