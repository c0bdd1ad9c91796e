"""What a trace's own item holds.

Each tag, metadata entry, assessment and link is an attribute of its own (``t:<key>``, ``m:<key>``,
``a:<id>``, ``r:<run>``, ``p:<prompt>``), so that two writers do not undo each other. Values that
are computed from earlier ones (times, token usage, facts about spans) change only on the condition
that ``generation`` is what it was when they were read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from secrets import randbits
from typing import NamedTuple

from boto3.dynamodb.conditions import Attr, ConditionBase
from mlflow.tracing.constant import SpansLocation, TraceMetadataKey, TraceTagKey

from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared.conditions import ABSENT, PRESENT
from mlflow_dynamodbstore.shared.places import TracePlace, trace_place_of
from mlflow_dynamodbstore.table.contract import Patch, Put, Query
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import TTL, Item, Key
from mlflow_dynamodbstore.table.versions import VERSION, as_stored

FAMILY = "EXP/T"
"""Traces and the items below them, in the table's list of item versions."""

TAG, METADATA, ASSESSMENT, RUN_LINK, PROMPT_LINK = "t:", "m:", "a:", "r:", "p:"

SPANS_LOCATION = TAG + TraceTagKey.SPANS_LOCATION
"""Attribute that says where the spans are: here, in an archive, or in artifacts."""

ARCHIVED = "archived"
"""Attribute of a trace whose spans archiving has moved. Unlike that tag, no user can set it."""

INLINE_TEXT = 1024
"""Bytes of a tag's value up to which it stays in the trace's own item."""

EDITS = "edits"
"""Attribute that counts the changes that depend on no earlier value and keep ``generation``."""

OUTSIDE = "outside"
"""Attribute that says that some long tag or assessment is in an item of its own."""

GENERATION_BITS = 48
"""The size of the random number from which a trace's generations are counted."""

_INDEX_ATTRIBUTES = ("gsi1pk", "gsi1sk", "lsi1sk", "lsi2sk", "lsi3sk", "lsi4sk", "lsi5sk")


def item_at(key: Key, attributes: Item, ttl: int | None) -> Item:
    """A new item, with its expiry if it has one."""
    expiry: Item = {} if ttl is None else {TTL: ttl}
    return {"PK": key.pk, "SK": key.sk, **attributes, **expiry}


def new_trace(place: TracePlace, created: int, ttl: int | None) -> Item:
    """The first attributes of a trace's own item."""
    attributes: Item = {
        VERSION: MLFLOW_TABLE.versions.current(FAMILY),
        "created": created,
        # Random, so that a process that has cached a deleted trace of this id notices the new one.
        "generation": randbits(GENERATION_BITS),
    }
    if trace_keys.trace_id_of(place.key.sk) is None:
        attributes["trace_id"] = place.trace_id  # too long for the key
    return item_at(place.key, attributes, ttl)


def locator(place: TracePlace, ttl: int | None, links: Item | None = None) -> Item:
    """The item that says where a trace lies, with the links that came before it."""
    key = trace_keys.trace_locator_key(place.trace_id)
    at: Item = {"experiment_id": place.experiment_id}
    if place.volume:
        at[VOLUME] = place.volume
    return item_at(key, {**at, **(links or {})}, ttl)


def located_place(locator: Item, trace_id: str) -> TracePlace:
    """The place that the locator of a trace names."""
    return TracePlace(str(locator["experiment_id"]), trace_id, locator.get(VOLUME, 0))


VOLUME = "volume"
"""Attribute of a locator: the volume of the experiment; absent for the first."""
NOT_LOCATED = Attr("experiment_id").not_exists()
"""There is no locator; there may be links to a trace that is still to come."""


def is_located(locator: Item | None) -> bool:
    """Whether a locator names an experiment, and does not only hold links that came early."""
    return locator is not None and "experiment_id" in locator


def early_links(locator: Item | None) -> Item:
    """The links to a trace that came before the trace; its locator keeps them."""
    return {name: True for name in locator or {} if name.startswith(RUN_LINK)}


def locates(place: TracePlace) -> ConditionBase:
    """The locator names this place, or is gone."""
    volume = Attr(VOLUME)
    same_volume = volume.eq(place.volume) if place.volume else volume.not_exists()
    return (Attr("experiment_id").eq(place.experiment_id) & same_volume) | ABSENT


def indexed(item: Item) -> Item:
    """A trace's own item with index attributes that fit its other attributes."""
    bare = {name: value for name, value in item.items() if name not in _INDEX_ATTRIBUTES}
    place = trace_place_of(item)
    return {
        **bare,
        **index_keys.trace_index(
            trace_id=place.trace_id,
            experiment_id=place.experiment_id,
            request_time=item["request_time"],
            status=str(item["state"]),
            name=item.get("name"),
            session=item.get("session"),
        ),
    }


@MLFLOW_TABLE.versions.upgrades(FAMILY, 1)
def _in_lsi1(item: Item) -> Item:
    """Put a trace from before version 2 into LSI1; the items below it stay as they are."""
    if "request_time" not in item:
        return item
    return {
        **item,
        "lsi1sk": index_keys.lsi1_trace(trace_place_of(item).trace_id, item["request_time"]),
    }


def update_between(before: Item, after: Item) -> Update:
    """The update that turns an item, as it was read, into another."""
    before = as_stored(before)
    return Update(
        set={
            name: value
            for name, value in after.items()
            if name not in before or before[name] != value
        },
        remove=tuple(name for name in before if name not in after),
    )


def counted_edit(update: Update) -> Update:
    """An update that also counts itself, for those who move the trace or change its expiry."""
    return replace(update, add={**update.add, EDITS: 1})


def is_unchanged(item: Item) -> ConditionBase:
    """Nothing about a trace has changed since it was read."""
    return has_same(item, "generation") & has_same(item, EDITS)


def same_edits(one: Item, other: Item) -> bool:
    """Whether a trace that was read twice has not changed in between."""
    return all(one.get(name) == other.get(name) for name in ("generation", EDITS))


def has_same(item: Item, name: str) -> ConditionBase:
    """An attribute of an item is what it was when the item was read, or still absent."""
    return Attr(name).eq(item[name]) if name in item else Attr(name).not_exists()


def by_kind(item: Item) -> dict[str, Item]:
    """The tags, metadata, assessments and links of a trace: for each kind, values by name."""
    found: dict[str, Item] = {TAG: {}, METADATA: {}, ASSESSMENT: {}, RUN_LINK: {}, PROMPT_LINK: {}}
    for name, value in item.items():
        if name[1:2] == ":":
            found[name[:2]][name[2:]] = value
    return found


def keeps_spans_here(item: Item) -> bool:
    """Whether the spans of a trace are in this table, or go there when they come."""
    return item.get(SPANS_LOCATION) in (None, SpansLocation.TRACKING_STORE.value)


def is_archived(item: Item) -> bool:
    """Whether the spans of a trace are in an archive."""
    return bool(item.get(SPANS_LOCATION) == SpansLocation.ARCHIVE_REPO.value)


def has_archived_spans(item: Item) -> bool:
    """Whether archiving has moved the spans of a trace, and their tag still says so."""
    return ARCHIVED in item and is_archived(item)


def is_finalized(item: Item) -> bool:
    """Whether ``start_trace`` was called for a trace."""
    return METADATA + TraceMetadataKey.TRACE_INFO_FINALIZED in item


def ttl_of(item: Item) -> int | None:
    """When a trace expires."""
    ttl: int | None = item.get(TTL)
    return ttl


def expiry_update(ttl: int | None) -> Update:
    """The update that gives an item another expiry, or none."""
    return Update(remove=(TTL,)) if ttl is None else Update(set={TTL: ttl})


def expiry_patches(keys: Iterable[Key], ttl: int | None) -> list[Patch]:
    """Writes that give items another expiry, or none, where the items still exist."""
    return [Patch(key, expiry_update(ttl), condition=PRESENT) for key in keys]


def client_request_item(place: TracePlace, client_request_id: str, ttl: int | None) -> Item:
    """The item by which a trace is found by the client's id of its request."""
    index = index_keys.client_request_index(
        trace_id=place.trace_id, client_request_id=client_request_id
    )
    return item_at(place.client_request, {**index}, ttl)


class TagWrites(NamedTuple):
    """Tags as attributes of the trace, and the items of those too long for it."""

    attributes: Item
    items: list[Put]


def tag_writes(place: TracePlace, tags: Mapping[str, str], ttl: int | None) -> TagWrites:
    """What to write for tags together with their trace."""
    attributes: Item = {}
    items: list[Put] = []
    for key, value in tags.items():
        short = len(value.encode()) <= INLINE_TEXT
        attributes[TAG + key] = value if short else None
        if not short:
            attributes[OUTSIDE] = True
            items.append(Put(tag_item(place, key, value, ttl)))
    return TagWrites(attributes, items)


def tag_item(place: TracePlace, key: str, value: str, ttl: int | None) -> Item:
    """A tag's own item."""
    return item_at(place.tag(key), {"key": key, "value": value}, ttl)


def keys_in(table: Table, pk: str, within: Range) -> list[Key]:
    """The keys in a range of a partition."""
    query = Query(pk, where=within.on(), keys_only=True)
    return [table.schema.key_of(item) for item in table.items(query)]
