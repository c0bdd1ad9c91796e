"""The two lives of a run.

A *live* run keeps each param, tag and latest metric as its own item, so that a write touches one
small item. A *sealed* run carries a summary of them all on its own item, and RANK items, so that a
search reads one item a run. What makes the change safe without locks:

- the sealer marks the run ``sealing`` with a new generation, *then* reads its items, *then*
  publishes the summary on the condition that the generation is still its own;
- a writer writes its item, *then* reads the run's mark consistently, and when the run is not
  live marks it live again, which raises the generation.

The one that comes second sees the other: either the sealer reads the new item, or its publishing
fails and the run stays live. RANK and FTS items are written before the summary is published, and
never trusted alone: a search compares them with the run they name.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence

from boto3.dynamodb.conditions import Attr
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import ranks as rank_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys.base import value_parts
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.shared.places import run_id_of
from mlflow_dynamodbstore.shared.policies import Rules
from mlflow_dynamodbstore.shared.search import fulltext
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, Query
from mlflow_dynamodbstore.table.errors import ConditionFailed, TableError, damaged_item
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key, Value
from mlflow_dynamodbstore.tracking.records import (
    LIVE,
    SEALED,
    SEALING,
    TERMINAL_STATUSES,
    RunContents,
    RunRecord,
)
from mlflow_dynamodbstore.tracking.run_search.summary_prefilter import Prefilter

_logger = logging.getLogger(__name__)

SUMMARY = "summary"
RUN_NAME_FIELD = "run.name"
RUN_TAG_FIELDS = "run.tags."
REST_BEFORE_SEALING = 10.0
"""Seconds an ended run stays live after a late write before a reader seals it again."""
IDLE_BEFORE_SEALING = 300.0
"""Seconds after which a reader seals a run that nobody ended; the next write reopens it."""


def live_update(run_id: str, now: float, changes: Mapping[str, Value] | None = None) -> Update:
    """The update that marks a run live, with other changes; it raises the generation."""
    mark: Item = {"state": LIVE, "opened": int(now), "lsi5sk": index_keys.lsi5_live(run_id)}
    return Update(set={**mark, **(changes or {})}, add={"generation": 1})


def sealing_update(changes: Mapping[str, Value] | None = None) -> Update:
    """The update that marks a run ``sealing``, with other changes; it raises the generation."""
    return Update(set={"state": SEALING, **(changes or {})}, add={"generation": 1})


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


# --- reading ------------------------------------------------------------------------------------


def children(table: Table, key: Key, run_id: str) -> list[Item]:
    """The items of a run, but for its history, in two range reads around the history."""
    queries = [
        Query(key.pk, where=around.on())
        for around in (run_keys.run_head(run_id), run_keys.run_tail(run_id))
    ]
    found = table.map(lambda query: list(table.items(query)), queries)
    low, high = value_parts(key.sk)
    return [
        item
        for some in found
        for item in some
        if item["SK"] != key.sk and not low <= item["SK"] <= high
    ]


def read(table: Table, item: Item) -> RunRecord:
    """A run with its contents: from the summary, or from its items while it is live."""
    if item["state"] == SEALED:
        return RunRecord(item, RunContents.from_summary(large_values.load(table, item, SUMMARY)))
    key, run_id = table.schema.key_of(item), run_id_of(item)
    return RunRecord(item, RunContents.from_children(children(table, key, run_id)))


def read_all(
    table: Table, items: Sequence[Item], rules: Rules, prefilters: Sequence[Prefilter] = ()
) -> list[RunRecord]:
    """Many runs; live ones are read side by side, and sealed if they were idle for long.

    A sealed run whose packed summary does not pass all ``prefilters`` is left out, unread.
    """
    inline = [_has_inline_summary(item) for item in items]
    rest = [item for item, known in zip(items, inline, strict=True) if not known]
    further = iter(table.map(lambda item: read(table, item), rest))
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
    for item in rest:
        if should_seal(table, item):
            _try_to_seal(table, item, rules)
    return records


def _has_inline_summary(item: Item) -> bool:
    """Whether a run's contents stand whole on its own item."""
    return item["state"] == SEALED and isinstance(item.get(SUMMARY), bytes)


def _try_to_seal(table: Table, item: Item, rules: Rules) -> None:
    """Seal a run for later searches; a caller that may only read leaves it live."""
    try:
        seal(table, item, rules)
    except TableError as error:
        _logger.debug("the run at %s stays live: %s", item["SK"], error)


def should_seal(table: Table, item: Item) -> bool:
    """Whether a live run has been idle for so long that a reader may seal it."""
    if item["state"] == SEALED:
        return False
    patience = REST_BEFORE_SEALING if item["status"] in TERMINAL_STATUSES else IDLE_BEFORE_SEALING
    opened = item.get("opened", 0)
    return isinstance(opened, int) and table.clock() - opened > patience


# --- sealing ------------------------------------------------------------------------------------


def seal(table: Table, item: Item, rules: Rules) -> None:
    """Seal a run that is live."""
    try:
        marked = table.update(
            table.schema.key_of(item),
            sealing_update(),
            condition=PRESENT,
            returns="new",
        )
    except ConditionFailed:
        return  # removed for good meanwhile
    assert marked is not None
    finish(table, marked, rules)


def finish(table: Table, marked: Item, rules: Rules) -> bool:
    """Read, index and publish a run that has been marked ``sealing``.

    LSI5 orders the runs by one metric: the primary one, or the first by name. Returns whether
    the run is sealed now. If not, a writer was faster; the run is live and correct.
    """
    key, run_id = table.schema.key_of(marked), run_id_of(marked)
    contents = RunContents.from_children(children(table, key, run_id))
    before = _published(table, marked)
    summary = large_values.store(key, SUMMARY, contents.to_summary())
    derived = set(derived_keys(key.pk, run_id, contents, rules))
    known = set(derived_keys(key.pk, run_id, before, rules)) if before else set()
    marks = [_resealed(key.pk)] if before and rules.primary_metric else []
    marks += time_of_texts(key.pk, derived - known, table.clock())
    place = lsi5_entry(run_id, contents, rules.primary_metric)
    sealed = Update(
        set={"state": SEALED, **summary.attributes, **place},
        remove=() if place else ("lsi5sk",),
    )
    outcomes = table.write(
        [derived_item(key) for key in sorted(derived - known)] + summary.parts + marks,
        then=[Patch(key, sealed, condition=Attr("generation").eq(marked["generation"]))],
    )
    if outcomes[-1].status == "refused":
        return False
    table.write(
        [Delete(key) for key in sorted(known - derived)] + large_values.removal(marked, SUMMARY)
    )
    return True


def _resealed(pk: str) -> Put:
    """The mark that tells a search in LSI5 that a run was sealed again meanwhile.

    It changes while the run is still listed as live. A search that did not see the run there, and
    finds the mark unchanged afterwards, has not missed it.
    """
    mark = index_keys.lsi5_resealed(secrets.token_hex(8))
    return Put({"PK": pk, "SK": experiment_keys.experiment_resealed(), "lsi5sk": mark})


def lsi5_entry(run_id: str, contents: RunContents, primary_metric: str | None) -> Item:
    """The sort key of a sealed run in LSI5: by the primary metric, or by its first one by name."""
    name = primary_metric or min(contents.metrics, default=None)
    if name is None or name not in contents.metrics:
        return {}
    return {"lsi5sk": index_keys.lsi5_run(run_id, name, contents.metrics[name][0])}


def _published(table: Table, item: Item) -> RunContents | None:
    """The contents of a run's last summary, from which its RANK items were made."""
    if SUMMARY not in item:
        return None
    return RunContents.from_summary(large_values.load(table, item, SUMMARY))


# --- what is derived from a run for searching ---------------------------------------------------


def derived_keys(pk: str, run_id: str, contents: RunContents, rules: Rules) -> Iterable[Key]:
    """The RANK items of a run's latest metrics and params, and the FTS items of its texts.

    A deleted run keeps them: a search reads the run itself and sees its stage, and a restored
    one needs nothing written again.
    """
    for name, (value, _, _) in contents.metrics.items():
        yield Key(pk, rank_keys.metric_rank(name, value, run_id))
    for name, text in contents.params.items():
        yield Key(pk, rank_keys.param_rank(name, text, run_id))
    for field in rules.text_fields:
        tag = tag_of(field.name)
        if tag in contents.tags:
            yield from fulltext.entries(pk, field, run_id, contents.tags[tag])


def derived_item(key: Key) -> Put:
    """A RANK or FTS item, which is nothing but its key; a forward FTS item is in GSI2 too."""
    index = index_keys.run_fts_index(key.sk) if key.sk in rank_keys.FTS_ENTRIES else {}
    return Put({"PK": key.pk, "SK": key.sk, **index})


def time_of_texts(pk: str, derived: Iterable[Key], now: float) -> list[Put]:
    """The note of when FTS items of an experiment were written, if any are among those derived.

    GSI2 shows them later. It must be written before the run is no longer live.
    """
    if not any(key.sk in rank_keys.FTS_ENTRIES for key in derived):
        return []
    return [Put({"PK": pk, "SK": experiment_keys.experiment_texts(), "at": int(now)})]


def tag_of(field: str) -> str | None:
    """The tag that a text field of runs stands for; a run's name is one of its tags."""
    if field == RUN_NAME_FIELD:
        return str(MLFLOW_RUN_NAME)
    prefix, _, tag = field.partition(RUN_TAG_FIELDS)
    return tag if tag and not prefix else None
