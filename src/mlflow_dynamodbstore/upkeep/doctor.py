"""``doctor``: whether a table, and this machine's way to it, are as they should be."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.shared.policies import Policies
from mlflow_dynamodbstore.table.contract import Delete, Put, Query, Scan
from mlflow_dynamodbstore.table.errors import AccessDenied, NewerItem, TableError
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.transfer.archive.notes import Note
from mlflow_dynamodbstore.upkeep.judging import Judge
from mlflow_dynamodbstore.upkeep.survey import COLLECTION_LIMIT, Survey, readable
from mlflow_dynamodbstore.upkeep.walk import Walk

PROBE = "state.doctor"
PROBES = 3
SLOW_SECONDS = 1.0
MOST_SKEW = 5.0
"""Seconds a clock may be off; signed requests are refused from five minutes on."""
MANY_ORPHANS = 0.1
LARGE = 0.5
VERY_LARGE = 0.9


class Level(Enum):
    """How a finding is meant. Warnings and failures need attention."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True)
class Finding:
    """What one check found."""

    check: str
    level: Level
    text: str

    @property
    def needs_attention(self) -> bool:
        return self.level in (Level.WARNING, Level.FAILURE)


Progress = Callable[[Survey], None]


class Doctor:
    """Checks one table. Nothing is left behind by it."""

    def __init__(
        self,
        table: Table,
        *,
        segments: int = 1,
        progress: Progress = lambda _: None,
        monotonic: Callable[[], float] = time.monotonic,
    ):
        self._table = table
        self._segments = segments
        self._progress = progress
        self._monotonic = monotonic

    def examine(self, *, deep: bool = True) -> Iterator[Finding]:
        """The findings, one after the other; ``deep`` ones read the whole table."""
        yield from self._connection()
        yield self._permissions()
        yield self._schema()
        yield from self._completeness()
        yield from self._setup()
        if deep:
            yield from self._contents()

    # --- the way to the table -------------------------------------------------------------------

    def _connection(self) -> Iterator[Finding]:
        # The best of some: the first also makes the connection, and each may meet a busy moment.
        took = min(self._answer() for _ in range(PROBES))
        slow = took > SLOW_SECONDS
        yield Finding(
            "connection",
            Level.WARNING if slow else Level.OK,
            f"answer in {took * 1000:.0f} ms from {self._table.engine.uri}",
        )

    def _answer(self) -> float:
        """How many seconds the table takes to answer."""
        begun = self._monotonic()
        self._table.get(access_keys.setting_key(PROBE))
        return self._monotonic() - begun

    def _permissions(self) -> Finding:
        """What the credentials allow, tried on an item of no meaning."""
        denied = [what for what, call in self._calls() if not _is_allowed(call)]
        if not denied:
            return Finding("permissions", Level.OK, "reading, writing and walking are allowed")
        text = f"denied: {', '.join(denied)}; `iam-policy` prints what each role needs"
        return Finding("permissions", Level.WARNING, text)

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
        yield (
            "DeleteItem",
            lambda: table.write([Delete(key, condition=Attr("PK").exists())]),
        )

    def _schema(self) -> Finding:
        try:
            self._table.engine.prepare(create=False)
        except TableError as error:
            return Finding("schema", Level.FAILURE, str(error))
        return Finding("schema", Level.OK, "keys and indexes are ours")

    def _completeness(self) -> Iterator[Finding]:
        note = Note.of(self._table)
        if note is not None and note.is_unfinished:
            text = (
                f"a transfer from {note.source} was stopped after {note.filled.items:,} items: "
                "the same command goes on with it"
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
            # It answered at some moment between the two, and may have taken its time.
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

    # --- what is in the table -------------------------------------------------------------------

    def _contents(self) -> Iterator[Finding]:
        try:
            survey, orphans = self._walk()
        except NewerItem as error:
            yield Finding("versions", Level.FAILURE, str(error))
            return
        yield self._versions(survey)
        yield self._partitions(survey)
        yield self._orphans(survey.total.items, orphans)
        yield self._unended(survey)
        if survey.unknown:
            text = f"{survey.unknown:,} items of a kind that this release does not know"
            yield Finding("unknown items", Level.NOTE, text)

    def _walk(self) -> tuple[Survey, int]:
        survey = Survey(self._table.schema, self._table.clock())
        judge, policies, orphans = Judge(self._table), Policies(self._table), 0
        walk = Walk.of_segments(self._table, self._segments)
        while not walk.is_done:
            items = walk.step()
            survey.add(items)
            policies.all()
            orphans += len(judge.judge(items, policies.sealing_rules()))
            self._progress(survey)
        return survey, orphans

    def _versions(self, survey: Survey) -> Finding:
        if not survey.outdated:
            return Finding("versions", Level.OK, "all items have the form of today")
        text = f"{survey.outdated:,} items have an older form, and change it when they are written"
        return Finding("versions", Level.NOTE, text)

    def _partitions(self, survey: Survey) -> Finding:
        largest = survey.largest(3)
        if not largest:
            return Finding("partitions", Level.OK, "there are no experiments")
        share = largest[0][1] / COLLECTION_LIMIT
        named = ", ".join(f"{number} ({readable(size)})" for number, size in largest)
        level = (
            Level.FAILURE if share > VERY_LARGE else Level.WARNING if share > LARGE else Level.OK
        )
        return Finding(
            "partitions", level, f"largest experiments: {named}; the limit is 10 GB each"
        )

    def _orphans(self, items: int, orphans: int) -> Finding:
        if not orphans:
            return Finding("orphans", Level.OK, "every item belongs to something")
        level = Level.WARNING if orphans > MANY_ORPHANS * items else Level.NOTE
        text = f"{orphans:,} items belong to nothing: `ttl cleanup` lets them expire"
        return Finding("orphans", level, text)

    def _unended(self, survey: Survey) -> Finding:
        if not survey.unended:
            return Finding("unended runs", Level.OK, "no run was left running for a day")
        some = ", ".join(survey.unended_examples)
        text = f"never ended, and not written to for a day: {survey.unended:,}, such as {some}"
        return Finding("unended runs", Level.NOTE, text)


def _is_allowed(call: Callable[[], object]) -> bool:
    try:
        call()
    except AccessDenied:
        return False
    return True


def _switched(check: str, on: bool | None, yes: str, no: str) -> Finding:
    if on is None:
        return Finding(check, Level.NOTE, "this endpoint does not know of it")
    return Finding(check, Level.OK if on else Level.WARNING, yes if on else no)
