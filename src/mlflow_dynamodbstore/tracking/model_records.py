"""A logged model as it lies in the table, and as MLflow's entities show it.

Its own item carries its tags (``t:<key>``) and params (``p:<key>``), so that one item is a model as
far as most searches ask. Values longer than 1 KB, and further ones of a model whose item is full,
are items of their own below it; the model is then marked ``more``. Metrics are items below it too,
and a model with metrics is marked ``measured``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from boto3.dynamodb.conditions import Attr
from mlflow.entities import LoggedModel, LoggedModelStatus, Metric

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import logged_models as logged_model_keys
from mlflow_dynamodbstore.keys.encoding import is_cut
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.places import NAME, RunPlace, experiment_id_of, volume_of
from mlflow_dynamodbstore.table.contract import Put, Query
from mlflow_dynamodbstore.table.errors import ConditionFailed, ItemTooLarge
from mlflow_dynamodbstore.table.sizes import item_size
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key, Value

MORE, MEASURED = "more", "measured"
INLINE_BYTES = 1024
"""How long a tag or param may be to stand on the model's own item."""
INLINE_ROOM = 128 * 1024
"""How much room tags and params get on the item of a new model."""

FULL = 160 * 1024
"""Bytes of a model's own item beyond which tags and params that are set do not stay on it.

LSI1 carries whole models, and an item and its copy have 400 KB together.
"""
FEW_ATTRIBUTES = FULL // (4 * INLINE_BYTES)
"""A model of so few attributes is not full, with the longest names and values there are."""

TEXTS_AT_ONCE = 100
"""Tags or params that one update sets; DynamoDB bounds the length of its expression."""

MODEL_EXISTS = Attr("lifecycle").exists()
"""There is a logged model at this key."""

TextKind = Literal["TAG", "PARAM"]
_PREFIX: Mapping[str, str] = {"TAG": "t:", "PARAM": "p:"}


class LoggedModelPlace(NamedTuple):
    """Which logged model, and in which volume of which experiment."""

    experiment_id: str
    model_id: str
    volume: int = 0

    @property
    def pk(self) -> str:
        return experiment_keys.volume_pk(self.experiment_id, self.volume)

    @property
    def key(self) -> Key:
        return logged_model_keys.logged_model_key(self.experiment_id, self.model_id, self.volume)

    def text_key(self, kind: TextKind, name: str) -> Key:
        """Where a tag or param lies that has an item of its own."""
        make = (
            logged_model_keys.logged_model_tag
            if kind == "TAG"
            else logged_model_keys.logged_model_param
        )
        return Key(self.pk, make(self.model_id, name))

    def text(self, kind: TextKind, name: str, value: str) -> Item:
        """A tag or param as an item of its own."""
        return self._child(self.text_key(kind, name).sk, name, {"value": value})

    def metric(self, run: RunPlace, metric: Metric) -> Item:
        """A value that a run measured on the model."""
        attributes: dict[str, Value] = {"value": float(metric.value), "run_id": run.run_id}
        dataset = None
        if metric.dataset_name is not None:
            attributes["dataset_name"] = metric.dataset_name
            attributes["dataset_digest"] = metric.dataset_digest
            named = f"{metric.dataset_name}\0{metric.dataset_digest}".encode()
            dataset = hashlib.blake2b(named, digest_size=8).hexdigest()
        sk = logged_model_keys.logged_model_metric(
            self.model_id, metric.key, metric.step, metric.timestamp, run.run_id, dataset
        )
        return self._child(sk, metric.key, attributes)

    def _child(self, sk: str, name: str, attributes: dict[str, Value]) -> Item:
        item: Item = {"PK": self.pk, "SK": sk, **attributes}
        if is_cut(sk):
            item[NAME] = name
        return item


def logged_model_place_of(item: Item) -> LoggedModelPlace:
    """The logged model that an item is, or belongs to."""
    model_id = logged_model_keys.logged_model_id_of(item["SK"])
    assert model_id is not None  # ids are short
    return LoggedModelPlace(experiment_id_of(item), model_id, volume_of(item))


# --- reading ------------------------------------------------------------------------------------


@dataclass
class ModelRecord:
    """A logged model's own item, and what lies below it."""

    item: Item
    children: list[Item] = field(default_factory=list)

    @property
    def place(self) -> LoggedModelPlace:
        return logged_model_place_of(self.item)

    @cached_property
    def tags(self) -> dict[str, str]:
        return self._texts("TAG")

    @cached_property
    def params(self) -> dict[str, str]:
        return self._texts("PARAM")

    def text(self, kind: TextKind, name: str) -> str | None:
        """One tag or param."""
        value: str | None = self.item.get(_PREFIX[kind] + name)
        if value is not None or not self.children:
            return value
        return (self.tags if kind == "TAG" else self.params).get(name)

    @cached_property
    def metrics(self) -> list[Metric]:
        """Every value measured on the model, by key, step and time."""
        return [_metric(below, child) for below, child in self._below if below.kind == "METRIC"]

    def to_entity(self) -> LoggedModel:
        """The model as MLflow shows it."""
        item, place = self.item, self.place
        return LoggedModel(
            experiment_id=place.experiment_id,
            model_id=place.model_id,
            name=item["name"],
            artifact_location=item["artifact_location"],
            creation_timestamp=item["created"],
            last_updated_timestamp=item["updated"],
            model_type=item.get("model_type"),
            source_run_id=item.get("source_run_id"),
            status=LoggedModelStatus.from_int(item["status"]),
            status_message=item.get("status_message"),
            tags=self.tags,
            params=self.params,
            metrics=self.metrics or None,
        )

    @cached_property
    def _below(self) -> list[tuple[logged_model_keys.LoggedModelItem, Item]]:
        return [
            (logged_model_keys.logged_model_item_of(child["SK"]), child) for child in self.children
        ]

    def _texts(self, kind: TextKind) -> dict[str, str]:
        found = {_name(b, child): child["value"] for b, child in self._below if b.kind == kind}
        # What stands on the item is newer than an item of its own: see set_texts.
        return {**found, **texts_on(self.item, kind)}


def _name(below: logged_model_keys.LoggedModelItem, child: Item) -> str:
    return str(child[NAME]) if below.name is None else below.name


def _metric(below: logged_model_keys.LoggedModelItem, child: Item) -> Metric:
    step, timestamp = logged_model_keys.logged_model_step_of(below)
    return Metric(
        key=_name(below, child),
        value=child["value"],
        timestamp=timestamp,
        step=step,
        model_id=below.model_id,
        dataset_name=child.get("dataset_name"),
        dataset_digest=child.get("dataset_digest"),
        run_id=child["run_id"],
    )


def texts_on(item: Item, kind: TextKind) -> dict[str, str]:
    """The tags or params that stand on a model's own item."""
    prefix = _PREFIX[kind]
    return {name[len(prefix) :]: value for name, value in item.items() if name.startswith(prefix)}


def read_children(table: Table, item: Item) -> list[Item]:
    """What lies below a model, read only where something does."""
    if MORE not in item and MEASURED not in item:
        return []
    place = logged_model_place_of(item)
    below = logged_model_keys.logged_model_children(place.model_id)
    return list(table.items(Query(place.pk, where=below.on())))


# --- writing ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NewTexts:
    """The tags and params of a new model: attributes for its item, and items below it."""

    attributes: Item
    children: list[Put]


def new_texts(place: LoggedModelPlace, texts: Mapping[TextKind, Mapping[str, str]]) -> NewTexts:
    """Lay out the tags and params of a model that is about to be written."""
    attributes: Item = {}
    children: list[Put] = []
    room = INLINE_ROOM
    for kind, values in texts.items():
        for name, value in values.items():
            size = len(value.encode())
            room -= size + len(name.encode())
            if size <= INLINE_BYTES and room >= 0:
                attributes[_PREFIX[kind] + name] = value
            else:
                children.append(Put(place.text(kind, name, value)))
                attributes[MORE] = True
    return NewTexts(attributes, children)


def set_texts(
    table: Table,
    place: LoggedModelPlace,
    kind: TextKind,
    values: Mapping[str, str],
    *,
    keep: bool = False,
) -> Item | None:
    """Set tags or params of a model; returns its item after that, None when there is none.

    With ``keep``, a value that already stands on the item is left as it is. A value that was long
    and is now short leaves its old item, hidden by the new value: removing it could race with a
    writer that makes the value long again, and both values would be lost.
    """
    after: Item | None = None
    for some in batched(values.items(), TEXTS_AT_ONCE):
        after = _set_some(table, place, kind, dict(some), keep=keep)
        if after is None:
            return None
    return after


def _set_some(
    table: Table,
    place: LoggedModelPlace,
    kind: TextKind,
    values: Mapping[str, str],
    *,
    keep: bool,
    inline_bytes: int = INLINE_BYTES,
) -> Item | None:
    prefix = _PREFIX[kind]
    short = {name: v for name, v in values.items() if len(v.encode()) <= inline_bytes}
    long = {name: v for name, v in values.items() if name not in short}
    if long:
        if table.get(place.key) is None:
            return None
        table.write([Put(place.text(kind, name, value)) for name, value in long.items()])
    inline = {prefix + name: value for name, value in short.items()}
    update = Update(
        set={**({} if keep else inline), **({MORE: True} if long else {})},
        if_absent=inline if keep else {},
        remove=tuple(prefix + name for name in long),
    )
    try:
        after = table.update(place.key, update, condition=MODEL_EXISTS, returns="new")
    except ConditionFailed:
        return None
    except ItemTooLarge:
        if not short:
            raise
        return _set_some(table, place, kind, values, keep=keep, inline_bytes=-1)
    if short and after is not None and len(after) > FEW_ATTRIBUTES and item_size(after) > FULL:
        # The last bytes are for its status, its marks and its expiry.
        now = {name: after[prefix + name] for name in short}
        return _set_some(table, place, kind, now, keep=keep, inline_bytes=-1)
    return after


def remove_text(table: Table, place: LoggedModelPlace, kind: TextKind, name: str) -> bool | None:
    """Remove a tag or param; tells whether there was one, None when there is no such model."""
    attribute = _PREFIX[kind] + name
    try:
        old = table.update(
            place.key, Update(remove=(attribute,)), condition=MODEL_EXISTS, returns="old"
        )
    except ConditionFailed:
        return None
    assert old is not None
    below = table.delete(place.text_key(kind, name), returns="old") if MORE in old else None
    return attribute in old or below is not None
