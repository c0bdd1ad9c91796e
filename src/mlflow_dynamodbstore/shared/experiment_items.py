"""The items that make up an experiment, built and read in one place.

Beside the experiment's own item (META) stands its *entry*: the guard of its name, in the partition
of its workspace. It repeats what a listing filters and sorts by, and changes in the same
transactions as META. A page of a long list thus reads one small item for each experiment, and META
only for those it shows.

Tags are attributes of META as well as items of their own. Long tags, tags beyond the size that META
may have, and tags that the operator excludes are items only, and META says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from boto3.dynamodb.conditions import Attr, ConditionBase
from mlflow.entities import Experiment, ExperimentTag
from mlflow.entities.lifecycle_stage import LifecycleStage

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys.encoding import is_cut
from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.shared.places import NAME, experiment_id_of
from mlflow_dynamodbstore.shared.search.filters import TAG
from mlflow_dynamodbstore.shared.volume_states import listed
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key, Value
from mlflow_dynamodbstore.table.versions import VERSION, upgrade_of

FAMILY = "EXP/E"
"""The family of items whose versions these are: an experiment and its tags."""

OLD_TRACES = "old_traces"
"""Attribute of META: some traces may have been written before traces were in LSI1."""
OLD_LOOKUPS = "old_lookups"
"""Attribute of META: some traces and uses of datasets may have no lookup entry (ADR 0110)."""
LONG_TAGS = "long_tags"
"""Attribute of META: some tags are items only."""
TAGS_REVISION = "tags_revision"
"""Attribute of META: counts the changes of tags."""

NAMED_AT = "lsi2sk"
"""Attribute of an entry: when the experiment got its name. Entries of older releases lack it."""

MAX_INLINE_TAG = 1024
MAX_INLINE_TAGS = 200 * 1024

_TAG = "t:"
_ONE_MORE = {TAGS_REVISION: 1}

Tags = Mapping[str, str | None]
HoldsTag = Callable[[str], bool]
"""Whether META holds the tag of a key, by the operator's choice."""


@MLFLOW_TABLE.versions.upgrades(FAMILY, 1)
def _mark_old_traces(item: Item) -> Item:
    """Mark META of an experiment that may hold older traces; tags stay as they are."""
    return {**item, OLD_TRACES: True} if item["SK"] == experiment_keys.EXPERIMENT_META else item


@MLFLOW_TABLE.versions.upgrades(FAMILY, 2)
def _mark_old_lookups(item: Item) -> Item:
    """Mark META of an experiment that may hold what has no lookup entries."""
    return {**item, OLD_LOOKUPS: True} if item["SK"] == experiment_keys.EXPERIMENT_META else item


@dataclass(frozen=True)
class NewExperiment:
    """An experiment that is about to be written."""

    experiment_id: str
    name: str
    workspace: str
    artifact_location: str
    created: int
    tags: Tags = field(default_factory=dict)
    holds_tag: HoldsTag = lambda _: True
    volumes: int = 1

    @property
    def key(self) -> Key:
        return experiment_keys.experiment_key(self.experiment_id)

    def meta(self) -> Item:
        """The experiment's own item."""
        return {
            "PK": self.key.pk,
            "SK": self.key.sk,
            VERSION: MLFLOW_TABLE.versions.current(FAMILY),
            "name": self.name,
            "workspace": self.workspace,
            "artifact_location": self.artifact_location,
            **self._listed(),
            **index_keys.experiment_index(
                experiment_id=self.experiment_id, name=self.name, workspace=self.workspace
            ),
            **inline(self.tags, self.holds_tag),
            **listed(self.volumes),
        }

    def entry(self, now_ms: int) -> Item:
        """The guard of its name, taken now."""
        return entry_item(
            self.name, self.workspace, self.experiment_id, self._listed(), now_ms=now_ms
        )

    def name_rev(self) -> Item:
        return name_rev_item(self.experiment_id, self.name, self.workspace)

    def tag_items(self) -> list[Item]:
        return [tag_item(self.key.pk, key, value) for key, value in self.tags.items()]

    def _listed(self) -> Item:
        return {
            "lifecycle": LifecycleStage.ACTIVE,
            "creation_time": self.created,
            "last_update_time": self.created,
        }


@dataclass
class ExperimentEntry:
    """An experiment as a search sees it; META and tags are filled in where they are needed."""

    experiment_id: str
    name: str
    lifecycle: str
    times: Mapping[str, Value]
    meta: Item | None = None
    tags: Tags = field(default_factory=dict)

    @classmethod
    def of(cls, guard: Item) -> ExperimentEntry:
        return cls(str(guard["experiment_id"]), name_of(guard), str(guard["lifecycle"]), guard)

    @classmethod
    def of_meta(cls, meta: Item) -> ExperimentEntry:
        return cls(experiment_id_of(meta), str(meta["name"]), str(meta["lifecycle"]), meta, meta)

    @property
    def key(self) -> Key:
        return experiment_keys.experiment_key(self.experiment_id)

    def values(self, kind: str, name: str) -> Sequence[Any]:
        """What a search finds under a name: see ``search.filters.Searchable``."""
        if kind == TAG:
            value = self.tags.get(name)
            return () if value is None else (value,)
        if name == "experiment_id":
            return (int(self.experiment_id),)
        value = self.name if name == "name" else self.times[name]
        # Imported experiments of very old releases may have no times.
        return () if value is None else (value,)


# --- entries ------------------------------------------------------------------------------------


def entry_item(
    name: str,
    workspace: str,
    experiment_id: str,
    attributes: Mapping[str, Value],
    *,
    now_ms: int,
) -> Item:
    """The guard of a name that is taken now, with what it says about the experiment."""
    key = access_keys.experiment_name_guard(name, workspace)
    item: Item = {
        "PK": key.pk,
        "SK": key.sk,
        "experiment_id": experiment_id,
        **attributes,
        NAMED_AT: index_keys.lsi2_named(experiment_id, now_ms),
    }
    if is_cut(key.sk):
        item[NAME] = name
    return item


def entry_key(meta: Item) -> Key:
    """Where the entry of an experiment lies."""
    return access_keys.experiment_name_guard(str(meta["name"]), str(meta["workspace"]))


def name_of(guard: Item) -> str:
    """The name that a guard stands for."""
    name = access_keys.guarded_name_of(str(guard["SK"]))
    return str(guard[NAME]) if name is None else name


def name_rev_item(experiment_id: str, name: str, workspace: str) -> Item:
    """The experiment's name spelled backwards, by which GSI5 finds the names with one end."""
    return {
        "PK": experiment_keys.experiment_pk(experiment_id),
        "SK": experiment_keys.experiment_name_rev(),
        "value": name[::-1],
        **index_keys.gsi5_reversed_name(name, workspace),
    }


# --- tags ---------------------------------------------------------------------------------------


def tag_item(pk: str, key: str, value: str | None) -> Item:
    """A tag as an item of its own."""
    sk = experiment_keys.experiment_tag(key)
    return {"PK": pk, "SK": sk, "value": value, **({NAME: key} if is_cut(sk) else {})}


def tag_change(meta: Item, key: str, value: str | None, holds_tag: HoldsTag) -> Update:
    """The change of META that sets a tag."""
    name = _TAG + key
    others = sum(_size(n, v) for n, v in meta.items() if n.startswith(_TAG) and n != name)
    if holds_tag(key) and _fits(name, value, others):
        return Update(set={**upgrade_of(meta), name: value}, add=_ONE_MORE)
    return Update(set={**upgrade_of(meta), LONG_TAGS: True}, add=_ONE_MORE, remove=(name,))


def tag_removal(key: str) -> Update:
    """The change of META that removes a tag."""
    return Update(add=_ONE_MORE, remove=(_TAG + key,))


def inline_tags(meta: Item) -> Tags:
    """The tags that META holds: all of them, unless it says that some are long."""
    return {name[len(_TAG) :]: value for name, value in meta.items() if name.startswith(_TAG)}


def retagged(meta: Item, tags: Tags, holds_tag: HoldsTag) -> Update | None:
    """The change that gives META the tags it should hold; None when it holds them."""
    after = inline(tags, holds_tag)
    before = {n: v for n, v in meta.items() if n.startswith(_TAG) or n == LONG_TAGS}
    if before.keys() == after.keys() and inline_tags(before) == inline_tags(after):
        return None
    return Update(set=after, remove=tuple(name for name in before if name not in after))


def same_tags(meta: Item) -> ConditionBase:
    """No tag was set or removed since META was read."""
    revision = Attr(TAGS_REVISION)
    if TAGS_REVISION in meta:
        return revision.eq(meta[TAGS_REVISION])
    return PRESENT & revision.not_exists()


def all_tags(table: Table, meta: Item) -> Tags:
    """The tags of an experiment that has long ones."""
    query = Query(str(meta["PK"]), where=experiment_keys.EXPERIMENT_TAGS.on())
    items = {_tag_name(item): item["value"] for item in table.items(query)}
    return {**items, **inline_tags(meta)}


def _tag_name(item: Item) -> str:
    key = experiment_keys.experiment_tag_key(str(item["SK"]))
    return str(item[NAME]) if key is None else key


def inline(tags: Tags, holds_tag: HoldsTag) -> Item:
    """The tags that META holds, and whether there are others."""
    attributes: Item = {}
    size = 0
    for key, value in tags.items():
        name = _TAG + key
        if holds_tag(key) and _fits(name, value, size):
            attributes[name] = value
            size += _size(name, value)
        else:
            attributes[LONG_TAGS] = True
    return attributes


def _fits(name: str, value: Value, others: int) -> bool:
    own = _size("", value)
    return own <= MAX_INLINE_TAG and others + own + _size(name, None) <= MAX_INLINE_TAGS


def _size(name: str, value: Value) -> int:
    return len(name.encode()) + (len(value.encode()) if isinstance(value, str) else 0)


# --- as MLflow shows it -------------------------------------------------------------------------


def experiment_entity(meta: Item, tags: Tags, trace_retention: str | None) -> Experiment:
    """The experiment as MLflow shows it."""
    return Experiment(
        experiment_id=experiment_id_of(meta),
        name=meta["name"],
        artifact_location=meta["artifact_location"],
        lifecycle_stage=meta["lifecycle"],
        tags=[ExperimentTag(key, value) for key, value in tags.items()],  # type: ignore[arg-type]
        creation_time=meta["creation_time"],
        last_update_time=meta["last_update_time"],
        workspace=meta["workspace"],
        effective_trace_archival_retention=trace_retention,
    )
