"""The lives of a run.

Each param and tag of a run is an item of its own, and metrics are in a log
(:mod:`~mlflow_dynamodbstore.tracking.metric_log`), so that a write touches one small item. A search
wants one item a run. So a run's own item carries a summary of the others, and says in its ``state``
how far it can be trusted:

- ``live``: params and tags may have changed since; all items are read.
- ``logging``: the summary holds all params and tags; metrics may be in the log.
- ``sealed``: the summary holds everything, the log is folded into the latest metrics and their
  histories, and RANK items find the run by any value.

What makes the changes safe without locks:

- who writes the summary marks the run ``summarising`` or ``sealing`` with a new generation, *then*
  reads its items, *then* publishes on the condition that the generation is still its own;
- a writer of params and tags writes its item, *then* reads the run's mark consistently, and when
  the run is not live marks it live, which raises the generation. A writer of metrics does so when
  the run is sealed or being sealed, and marks a sealed run ``logging``.

The one that comes second sees the other: either the sealer reads the new item, or its publishing
fails. RANK and FTS items are written before the summary is published, and never trusted alone: a
search compares them with the run they name.

What is folded is written to the latest metrics, the histories and the latest values in the log
before it is removed from the log. A reader of the run and then of its log finds it in one of them.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import metric_log as log_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys.base import value_parts
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.conditions import ABSENT, PRESENT
from mlflow_dynamodbstore.shared.places import RunPlace, kind_and_name, run_id_of, run_place_of
from mlflow_dynamodbstore.shared.policies import Rules
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, Query, Write
from mlflow_dynamodbstore.table.errors import ConditionFailed, TableError, damaged_item
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import TTL, Item, Value
from mlflow_dynamodbstore.tracking.log_entries import (
    AT,
    SETTLED,
    VALUES,
    VERSION,
    RunLog,
    log_queries,
    log_query,
    logs_of,
    pack_extents,
    read_log,
)
from mlflow_dynamodbstore.tracking.points import (
    NOTHING_BEFORE,
    Extent,
    Point,
    is_greater,
    latest_extent,
    latest_item,
    merged_extent,
)
from mlflow_dynamodbstore.tracking.records import (
    BEGUN_WITH,
    LIVE,
    LOGGING,
    SEALED,
    SEALING,
    SUMMARISING,
    TERMINAL_STATUSES,
    RunContents,
    RunRecord,
)
from mlflow_dynamodbstore.tracking.run_expiry import date_run
from mlflow_dynamodbstore.tracking.run_search.summary_prefilter import Prefilter
from mlflow_dynamodbstore.tracking.series import is_in_order
from mlflow_dynamodbstore.tracking.summaries import (
    SUMMARY,
    derived_item,
    derived_keys,
    lsi5_entry,
    published,
    time_of_texts,
)

_logger = logging.getLogger(__name__)

REST_BEFORE_SEALING = 10.0
"""Seconds a run stays as it is after it became live or logging, before a reader changes that."""
IDLE_BEFORE_SEALING = 3600.0
"""Seconds after which a reader seals a run that nobody ended; the next write reopens it."""
LONG_LOG = 256
"""Items in the log of a run from which on a reader folds it."""
SHORT_LOG = 2
"""Items in the log of a run up to which they are left to expire, not replaced by one."""
READER_SECONDS = 3600
"""How long a reader may take from reading a run to reading its log."""
FOLDED = "folded"
"""Attribute of the latest values in a log: when it was folded."""
_LOG_IS_READ = frozenset({LIVE, SUMMARISING, LOGGING})
"""The states in which readers look into the log of a run, and go on doing so."""


def live_update(run_id: str, now: float, changes: Mapping[str, Value] | None = None) -> Update:
    """The update that marks a run live, with other changes; it raises the generation."""
    mark: Item = {"state": LIVE, "opened": int(now), "lsi5sk": index_keys.lsi5_live(run_id)}
    return Update(set={**mark, **(changes or {})}, add={"generation": 1})


def marking_update(mark: str, changes: Mapping[str, Value] | None = None) -> Update:
    """The update that marks a run ``sealing`` or ``summarising``; it raises the generation."""
    return Update(set={"state": mark, **(changes or {})}, add={"generation": 1})


def reopen(table: Table, run_id: str, item: Item) -> None:
    """Mark a run live after a write to it, unless it is live."""
    if item["state"] == LIVE:
        return
    # A run removed for good meanwhile stays removed; cleanup finds the item that was written.
    try:
        table.update(
            table.schema.key_of(item),
            live_update(run_id, table.clock()),
            condition=PRESENT,
        )
    except ConditionFailed:
        return


def reopen_log(table: Table, run_id: str, run: Item) -> Item | None:
    """Let readers look into the log of a run that was sealed, or is being sealed.

    Returns the run as it is then; None if it was not sealed.
    """
    item: Item | None = run
    while item is not None and item["state"] not in _LOG_IS_READ:
        state = item["state"]
        # The summary of a sealed run holds its params and tags. Of one that is being sealed this is
        # not known.
        changes = {"state": LOGGING} if state == SEALED else {}
        update = live_update(run_id, table.clock(), changes)
        same = Attr("state").eq(state)
        try:
            return table.update(table.schema.key_of(item), update, condition=same, returns="new")
        except ConditionFailed as error:
            item = error.old
    return None


# --- reading ------------------------------------------------------------------------------------


def read(table: Table, item: Item) -> RunRecord:
    """A run with its contents."""
    return read_all(table, [item])[0]


def read_all(
    table: Table,
    items: Sequence[Item],
    prefilters: Sequence[Prefilter] = (),
    rules: Rules | None = None,
) -> list[RunRecord]:
    """Many runs of one experiment with their contents.

    A sealed run whose packed summary does not pass all ``prefilters`` is left out, unread. With
    ``rules``, runs that have rested are summarised or sealed for later searches.
    """
    inline = [has_inline_summary(item) for item in items]
    rest = [item for item, known in zip(items, inline, strict=True) if not known]
    further = iter(_read_further(table, rest, rules) if rest else ())
    records: list[RunRecord] = []
    for item, known in zip(items, inline, strict=True):
        if not known:
            records.append(next(further))
            continue
        try:
            raw = large_values.decompress(item[SUMMARY])
            if all(prefilter(raw) for prefilter in prefilters):
                contents = RunContents.from_summary(large_values.decode(raw))
                records.append(RunRecord(item, contents))
        except large_values.UNREADABLE as error:
            raise damaged_item(item["PK"], item["SK"], SUMMARY) from error
    return records


def has_inline_summary(item: Item) -> bool:
    """Whether a run's contents stand whole on its own item."""
    return item["state"] == SEALED and isinstance(item.get(SUMMARY), bytes)


def _read_further(table: Table, items: Sequence[Item], rules: Rules | None) -> list[RunRecord]:
    """Runs whose own items do not hold all, read side by side."""
    open_runs: dict[str, list[str]] = {}
    for item in items:
        if item["state"] != SEALED:
            open_runs.setdefault(str(item["PK"]), []).append(run_id_of(item))
    of_logs = log_queries(open_runs)
    of_children = [query for item in items for query in _queries_of_children(item)]
    found = table.map(lambda query: list(table.items(query)), [*of_logs, *of_children])
    logs = logs_of(entry for some in found[: len(of_logs)] for entry in some)
    children = iter(found[len(of_logs) :])
    summaries = table.map(lambda item: published(table, item), items)
    records: list[RunRecord] = []
    for item, summary in zip(items, summaries, strict=True):
        below = [child for _ in _queries_of_children(item) for child in next(children)]
        log = logs.get(run_id_of(item), _EMPTY)
        records.append(RunRecord(item, _contents(item, summary, below, log)))
        if rules is not None:
            _keep_up(table, item, log, rules)
    return records


def read_from(table: Table, item: Item, below: Iterable[Item]) -> RunRecord:
    """A run that is not sealed, some or all of whose items have been read."""
    log = read_log(table, run_place_of(item))
    return RunRecord(item, _contents(item, published(table, item), below, log))


def _contents(
    item: Item, summary: RunContents | None, below: Iterable[Item], log: RunLog
) -> RunContents:
    """All that was logged to a run, from where its state says."""
    if not _needs_children(item):
        contents = summary or RunContents()
    else:
        contents = RunContents.from_children(_contained(item, below))
        if summary is not None:
            contents.add_metrics(summary.metrics.items())
    if item["state"] != SEALED:
        contents.add_metrics((key, point[::-1]) for key, point in log.latest().items())
        contents.metrics = dict(sorted(contents.metrics.items()))
    return contents


_EMPTY = RunLog()


def _needs_children(item: Item) -> bool:
    """Whether params and tags are read from their own items."""
    return item["state"] not in (SEALED, LOGGING)


def _queries_of_children(item: Item) -> list[Query]:
    """The queries of a run's items, but for its history: two, around the history, or none."""
    if not _needs_children(item):
        return []
    run_id = run_id_of(item)
    around = (run_keys.run_head(run_id), run_keys.run_tail(run_id))
    return [Query(item["PK"], where=some.on()) for some in around]


def _contained(run: Item, below: Iterable[Item]) -> list[Item]:
    """Those of a run's items that belong to its contents: not its own, parts, or history."""
    own, history = run["SK"], run_keys.run_history(run_id_of(run))
    parts = value_parts(own)
    return [
        item
        for item in below
        if (sk := item["SK"]) != own and sk not in parts and sk not in history
    ]


def _keep_up(table: Table, item: Item, log: RunLog, rules: Rules) -> None:
    """Summarise, seal or fold a run that has rested; a caller that may only read leaves it."""
    try:
        if (mark := due_mark(table, item, log)) is not None:
            seal(table, item, rules, mark)
        elif len(log.items) > LONG_LOG and TTL not in item:
            fold_log(table, run_place_of(item), log, rules)
    except TableError as error:
        _logger.debug("the run at %s stays %s: %s", item["SK"], item["state"], error)


def due_mark(table: Table, item: Item, log: RunLog) -> str | None:
    """What a reader may do with a run that has rested: seal or summarise it; None for nothing."""
    opened = item.get("opened", 0)
    # A run that expires stays as it is: its search entries would have to expire with it.
    if item["state"] == SEALED or TTL in item or not isinstance(opened, int):
        return None
    now = table.clock()
    if now - opened <= REST_BEFORE_SEALING:
        return None
    if item["status"] in TERMINAL_STATUSES:
        return SEALING
    if now - max(opened, log.last_call) > IDLE_BEFORE_SEALING:
        return SEALING
    return None if item["state"] == LOGGING else SUMMARISING


# --- summarising and sealing --------------------------------------------------------------------


def seal(table: Table, item: Item, rules: Rules, mark: str = SEALING) -> None:
    """Seal a run, or summarise it."""
    try:
        marked = table.update(
            table.schema.key_of(item),
            marking_update(mark),
            condition=PRESENT,
            returns="new",
        )
    except ConditionFailed:
        return  # removed for good meanwhile
    assert marked is not None
    finish(table, marked, rules)


def finish(table: Table, marked: Item, rules: Rules, retired: str | None = None) -> bool:
    """Read, index and publish a run that has been marked ``sealing`` or ``summarising``.

    LSI5 orders sealed runs by one metric: the primary one, or the first by name. ``retired`` is
    a writer of the log that writes no more. Returns whether the run is published. If not, a
    writer was faster; the run is live and correct.
    """
    key, run = table.schema.key_of(marked), run_place_of(marked)
    if marked["state"] not in (SEALING, SUMMARISING):
        return False  # another writer was faster
    seals = marked["state"] == SEALING
    queries = _queries_of_children(marked)
    if seals:
        queries.append(log_query(key.pk, run.run_id))
    head, tail, *log_items = table.map(lambda query: list(table.items(query)), queries)
    log = RunLog(log_items[0] if log_items else ())
    before = published(table, marked)
    below = _contained(marked, [*head, *tail])
    history = list(log.history(run, rules.history_days))
    folded = _latest_metrics(table, marked, below, before, log, history) if seals else []
    contents = RunContents.from_children(_replaced(below, folded))
    if before is not None and not seals:
        contents.add_metrics(before.metrics.items())
    summary = large_values.store(
        key, SUMMARY, contents.to_summary(), inline=large_values.INLINE_IN_LSI1
    )
    derived = set(derived_keys(key.pk, run.run_id, contents, rules))
    known = set(derived_keys(key.pk, run.run_id, before, rules)) if before else set()
    marks = [_resealed(key.pk)] if seals and before and rules.primary_metric else []
    marks += time_of_texts(key.pk, derived - known, table.clock())
    writes: list[Write] = [
        *(derived_item(key) for key in sorted(derived - known)),
        *summary.parts,
        *marks,
        *(Put(item) for item in folded),
        *(Put(points) for points in history),
    ]
    if log.items and not _is_short(log, retired):
        # Refused when somebody else has folded this log since it was read.
        writes.append(_latest_values(table, run, log, _settled(table)))
    publication = Patch(
        key,
        _publication(run.run_id, contents, summary.attributes, rules, seals=seals),
        condition=Attr("generation").eq(marked["generation"]),
        returns="new",
    )
    outcomes = table.write(writes, then=[publication, *_removal(table, log, retired)])
    # Without an outcome of the publication, somebody else has folded the log meanwhile.
    done = outcomes[len(writes)] if len(outcomes) > len(writes) else None
    is_published = done is not None and done.status == "applied"
    if folded:
        now = done.image if done is not None and is_published else table.get(key)
        if now is not None and now.get(TTL) != marked.get(TTL):
            date_run(table, now, now.get(TTL), rules)  # deleted or restored meanwhile
    if not is_published:
        return False
    table.write(
        [Delete(key) for key in sorted(known - derived)] + large_values.removal(marked, SUMMARY)
    )
    return True


def _publication(
    run_id: str, contents: RunContents, summary: Item, rules: Rules, *, seals: bool
) -> Update:
    """The update of a run's own item that publishes its summary."""
    if not seals:
        return Update(set={"state": LOGGING, **summary}, remove=(BEGUN_WITH,))
    place = lsi5_entry(run_id, contents, rules.primary_metric)
    removed = (BEGUN_WITH,) if place else (BEGUN_WITH, "lsi5sk")
    return Update(set={"state": SEALED, **summary, **place}, remove=removed)


# --- folding the log ----------------------------------------------------------------------------


def fold_log(table: Table, run: RunPlace, log: RunLog, rules: Rules) -> None:
    """Move what is in the log of a run to its histories and latest values."""
    last = 0 if log.latest_item is None else log.latest_item.get(FOLDED, 0)
    if table.clock() - last > REST_BEFORE_SEALING:
        history = [Put(points) for points in log.history(run, rules.history_days)]
        latest = _latest_values(table, run, log, {})
        table.write([*history, latest], then=_removal(table, log, None))


def _latest_metrics(
    table: Table,
    run_item: Item,
    children: Iterable[Item],
    before: RunContents | None,
    log: RunLog,
    history: Sequence[Item],
) -> list[Item]:
    """The items of latest metrics that the log, or the last summary, has greater values for.

    ``history`` are the items that the log becomes.
    """
    run, dated = run_place_of(run_item), {TTL: run_item[TTL]} if TTL in run_item else {}
    rows: dict[str, Item] = {}
    for child in children:
        kind, name = kind_and_name(child)
        if kind == "METRIC":
            rows[name] = child
    known = {name: latest_extent(row) for name, row in rows.items()}
    for name, (value, timestamp, step) in before.metrics.items() if before else ():
        point = Point(step, timestamp, value)
        if name not in known or is_greater(point, known[name].top):
            known[name] = Extent(NOTHING_BEFORE, point, name not in known or known[name].in_order)
    extents = log.extents()
    merged = {
        name: merged_extent(some[name] for some in (known, extents) if name in some)
        for name in {**known, **extents}
    }
    unknown = [name for name, extent in merged.items() if extent.in_order is None]
    found = table.map(lambda name: is_in_order(table, run, name, history), unknown)
    for name, in_order in zip(unknown, found, strict=True):
        merged[name] = merged[name]._replace(in_order=in_order)
    changed: list[Item] = []
    for name, extent in merged.items():
        item = {**latest_item(run, name, extent), **dated}
        if item != rows.get(name):
            changed.append(item)
    return changed


def _replaced(children: Iterable[Item], changed: Iterable[Item]) -> list[Item]:
    """Items of a run with those that have changed, by their keys."""
    by_key = {item["SK"]: item for item in (*children, *changed)}
    return [by_key[sk] for sk in sorted(by_key)]


def _latest_values(table: Table, run: RunPlace, log: RunLog, more: Item) -> Put:
    """The one item of latest values that stands for a whole log."""
    now, before = int(table.clock()), log.latest_item
    item: Item = {
        "PK": run.pk,
        "SK": log_keys.log_latest(run.run_id),
        VERSION: 1 if before is None else before[VERSION] + 1,
        AT: log.last_call,
        FOLDED: now,
        VALUES: pack_extents(log.all_extents()),
        **more,
    }
    unchanged = Attr(VERSION).eq(item[VERSION] - 1) if before else ABSENT | Attr(TTL).lte(now)
    return Put(item, unchanged)


def _removal(table: Table, log: RunLog, retired: str | None) -> list[Write]:
    """The writes that remove what was folded, unless it has changed since."""
    if _is_short(log, retired):
        return [Put({**item, **_settled(table)}) for item in log.items]
    removed: list[Write] = []
    for item in log.items:
        writer = log_keys.log_item_of(item["SK"]).writer
        if writer != log_keys.LATEST:
            same = None if writer == retired else Attr(VERSION).eq(item[VERSION])
            removed.append(Delete(table.schema.key_of(item), same))
    return removed


def _settled(table: Table) -> Item:
    """What marks log items that are kept for readers who have read the run before."""
    return {SETTLED: True, TTL: int(table.clock()) + READER_SECONDS}


def _is_short(log: RunLog, retired: str | None) -> bool:
    """Whether a log is left to expire where it lies: few items, of a writer that writes no more."""
    writers = {log_keys.log_item_of(item["SK"]).writer for item in log.items}
    return len(log.items) <= SHORT_LOG and writers == {retired}


def _resealed(pk: str) -> Put:
    """The mark that tells a search in LSI5 that a run was sealed again meanwhile.

    It changes while the run is still listed as live. A search that did not see the run there, and
    finds the mark unchanged afterwards, has not missed it.
    """
    mark = index_keys.lsi5_resealed(secrets.token_hex(8))
    return Put({"PK": pk, "SK": experiment_keys.experiment_resealed(), "lsi5sk": mark})
