"""What every part of the registry shares: reading a model, and changing one.

Every change of a model, and of anything that belongs to it, raises the revision in META within the
same transaction, on condition that nobody else did meanwhile. So a decision is made on what is
known, and holds or is made again; changes of one model happen one after the other; and a version
that was read at a revision can be kept for as long as META says that no version has changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from boto3.dynamodb.conditions import ConditionBase
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_STATE
from mlflow.store.workspace_aware_mixin import WorkspaceAwareMixin
from mlflow.utils.validation import _validate_model_name

from mlflow_dynamodbstore import keys
from mlflow_dynamodbstore.policies import Policies
from mlflow_dynamodbstore.registry.claims import (
    OutdatedError,
    is_live,
    is_refused,
    old_of,
    unchanged,
)
from mlflow_dynamodbstore.registry.copies import copying
from mlflow_dynamodbstore.registry.errors import model_not_found, too_busy, version_not_found
from mlflow_dynamodbstore.registry.items import (
    REVISION,
    VERSIONS_REVISION,
    Place,
    listed_facts,
    name_of_guard,
)
from mlflow_dynamodbstore.registry.memory import Memory
from mlflow_dynamodbstore.registry.records import Model, Version, tag_key
from mlflow_dynamodbstore.search.name_index import MODEL_NAME, NameIndex
from mlflow_dynamodbstore.table.contract import (
    MAX_TRANSACTION,
    MAX_TRANSACTION_BYTES,
    Delete,
    Patch,
    Put,
    Query,
    Write,
)
from mlflow_dynamodbstore.table.errors import ConditionFailed, ItemTooLarge, TransactionCancelled
from mlflow_dynamodbstore.table.sizes import item_size
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

R = TypeVar("R", Model, Version)

MODELS_KEPT = 1_000
VERSIONS_KEPT = 2_000
LAST_POSSIBLE_VERSION = 10**10 - 1
# What the transaction writes to META counts too, and an item is at most 400 KB.
ROOM_IN_BYTES = MAX_TRANSACTION_BYTES - 512 * 1024


@dataclass
class Change:
    """What a decision does: to META, and beside it in the same transaction.

    Of ``writes``, those beyond what a transaction holds follow right after it. ``known`` has the
    items of versions that were looked at, for META to carry copies of them.
    """

    set: Item = field(default_factory=dict)
    remove: list[str] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    touches_versions: bool = False
    known: dict[int, Item] = field(default_factory=dict)


Decision = Callable[[Model], "Change | None"]
"""From a model as it stands to a change, or to None when there is nothing to do.

Raises ``MlflowException`` to refuse. It is called again when the model has changed meanwhile.
"""


class KnownVersion(NamedTuple):
    """A version, and the state of its model in which it looked like this."""

    uid: str
    versions_revision: int
    version: Version


class RegistryBase(WorkspaceAwareMixin):
    """The ground the entity modules stand on."""

    table: Table

    def _open(self, table: Table) -> None:
        self.table = table
        self.policies = Policies(table)
        self._words = NameIndex(table, self.policies, MODEL_NAME)
        self._models: Memory[str, Model] = Memory(MODELS_KEPT)
        self._versions: Memory[Key, KnownVersion] = Memory(VERSIONS_KEPT)
        self._noted_workspaces = {keys.DEFAULT_WORKSPACE}

    # --- reading --------------------------------------------------------------------------------

    def _place(self, name: str) -> Place:
        _validate_model_name(name)
        return Place(name, self._get_active_workspace())

    def _find(self, place: Place) -> Model | None:
        """The model at a place, or None."""
        return self._seen(place, self.table.get(place.key))

    def _model(self, name: str) -> Model:
        model = self._find(self._place(name))
        if model is None:
            raise model_not_found(name)
        return model

    def _seen(self, place: Place, meta: Item | None) -> Model | None:
        """The model that META describes, which is remembered."""
        if meta is None or not is_live(meta):
            self._models.forget(place.pk)
            return None
        return self._remembered(place, meta)

    def _remembered(self, place: Place, meta: Item) -> Model:
        model = Model(place, meta)
        self._models.put(place.pk, model)
        return model

    def _versions_of(self, model: Model, numbers: Iterable[int]) -> dict[int, Version]:
        """Versions of a model, in order of their numbers; those not there are left out."""
        return {number: v for (_, number), v in self._versions_of_many([(model, numbers)]).items()}

    def _versions_of_many(
        self, wanted: Iterable[tuple[Model, Iterable[int]]]
    ) -> dict[tuple[Place, int], Version]:
        """Versions of several models, in as few requests as they take."""
        found: dict[tuple[Place, int], Version] = {}
        missing: dict[Key, tuple[Model, int]] = {}
        copied: dict[Key, Item] = {}
        for model, numbers in wanted:
            for number in sorted(numbers):
                key = model.place.version(number)
                known = self._versions.get(key)
                if known is not None and known[:2] == (model.uid, model.versions_revision):
                    found[model.place, number] = known.version
                    continue
                missing[key] = model, number
                if number in model.copies:
                    copied[key] = model.copies[number]
        items = {**self.table.get_many(missing.keys() - copied.keys()), **copied}
        read = [
            (model, Version(model.place, number, items[key]))
            for key, (model, number) in missing.items()
            if key in items
        ]
        long_tags = self._long_tags(key for _, version in read for key in version.long_tag_keys)
        for model, short in read:
            version = with_long_tags(short, long_tags)
            self._know(model, version)
            found[model.place, version.number] = version
        return {place: found[place] for place in sorted(found)}

    def _version(self, model: Model, number: int) -> Version:
        """A version of a model. Raises when it is not there."""
        if 0 < number <= LAST_POSSIBLE_VERSION:
            version = self._versions_of(model, [number]).get(number)
            if version is not None:
                return version
        raise version_not_found(model.name, number)

    def _know(self, model: Model, version: Version) -> None:
        """Remember a version that was read after its model, or written with it."""
        known = KnownVersion(model.uid, model.versions_revision, version)
        self._versions.put(model.place.version(version.number), known)

    def _long_tags(self, wanted: Iterable[Key]) -> dict[Key, Item]:
        """The items of tags that are not attributes of what they belong to."""
        return self.table.get_many(wanted)

    def _with_long_tags(self, models: list[Model]) -> list[Model]:
        """Models whose tags are all there."""
        items = self._long_tags(key for model in models for key in model.long_tag_keys)
        return [with_long_tags(model, items) for model in models] if items else models

    # --- changing -------------------------------------------------------------------------------

    def _change(
        self,
        place: Place,
        decide: Decision,
        missing: Callable[[str], MlflowException] = model_not_found,
    ) -> Model:
        """Change a model, or something of it, and return it as it is then.

        The first decision is made on the META that was seen last. It costs nothing, and does no
        harm when it is outdated: the transaction is refused then, and brings the real one.
        """
        model = self._models.get(place.pk)
        is_certain = False
        for _ in self.table.retry.attempts():
            change = None
            if model is not None:
                try:
                    change = decide(model)
                except MlflowException:
                    if is_certain:
                        raise
            if change is None and not is_certain:
                model, is_certain = self._find(place), True
                change = None if model is None else decide(model)
            if model is None:
                raise missing(place.name)
            if change is None:
                return model
            try:
                return self._commit(model, change)
            except OutdatedError as refused:
                model, is_certain = self._seen(place, refused.meta), True
        raise too_busy(place.name)

    def _commit(self, model: Model, change: Change) -> Model:
        """Do a change if the model is still as it was. Raises ``OutdatedError``."""
        revision = model.revision + 1
        counted = {REVISION: revision}
        if change.touches_versions:
            counted[VERSIONS_REVISION] = revision
        update = Update(set={**change.set, **counted}, remove=tuple(change.remove))
        later = Model(model.place, update.apply(model.item))
        copies = copying(model, later, change.writes, change.known)
        update = Update(set={**update.set, **copies.set}, remove=(*update.remove, *copies.remove))
        writes = [*_relisted(model, later), *change.writes]
        condition = unchanged(model.item)
        if not writes:
            self._update_meta(model.place, update, condition)
        else:
            together, after = fitting(writes)
            self._transact([Patch(model.place.key, update, condition), *together])
            self.table.write(after)
        return self._remembered(model.place, update.apply(model.item))

    def _update_meta(self, place: Place, update: Update, condition: ConditionBase) -> None:
        try:
            self.table.update(place.key, update, condition=condition)
        except ConditionFailed as refused:
            raise OutdatedError(refused.old) from refused

    def _transact(self, writes: list[Write]) -> None:
        """Do writes of which the first is META's."""
        try:
            self.table.transact(writes)
        except TransactionCancelled as cancelled:
            if is_refused(cancelled, 0):
                raise OutdatedError(old_of(cancelled, 0)) from cancelled
            if any(reason and reason.code == "ItemTooLarge" for reason in cancelled.reasons):
                raise ItemTooLarge("the model holds more than fits into one item") from cancelled
            raise

    # --- workspaces -----------------------------------------------------------------------------

    def _note_workspace(self, workspace: str) -> None:
        """Remember, before the first thing is written to it, that a workspace is in use."""
        if workspace not in self._noted_workspaces:
            key = keys.workspace_entry_key(workspace)
            self.table.write([Put({"PK": key.pk, "SK": key.sk})])
            self._noted_workspaces.add(workspace)

    def _check_nothing_is_hidden(self) -> None:
        """Refuse to work without workspaces while something lies outside the default one."""
        for entry in self.table.items(Query(keys.CONFIG_PK, where=keys.WORKSPACES.on())):
            workspace = str(keys.workspace_entry_of(entry["SK"]))
            if workspace == keys.DEFAULT_WORKSPACE:
                continue
            for label, what, names, name_of in _HIDDEN:
                query = Query(keys.workspace_pk(workspace), where=names.on(), limit=1)
                first = next(self.table.items(query), None)
                if first is not None:
                    raise MlflowException(
                        f"Cannot disable workspaces because {label} exist outside the default "
                        f"workspace (for example, {what} '{name_of(first)}' in workspace "
                        f"'{workspace}'). Either remove those {label.split()[-1]} or re-enable "
                        "workspaces before starting.",
                        INVALID_STATE,
                    )


_HIDDEN = (
    ("registered models", "model", keys.MODEL_NAMES, name_of_guard),
    ("webhooks", "webhook", keys.WEBHOOKS, lambda item: item["webhook_id"]),
)


def _relisted(before: Model, after: Model) -> list[Write]:
    """What keeps the list of models true: nothing where that has only the name."""
    if listed_facts(before.item) is None and listed_facts(after.item) is None:
        return []
    return [Put(after.place.listing(after.item))]


def with_long_tags(record: R, items: dict[Key, Item]) -> R:
    """A model or version with the long tags that it names."""
    found = [items[key] for key in record.long_tag_keys if key in items]
    if not found:
        return record
    return replace(record, long_tags={tag_key(item): item["value"] for item in found})


def fitting(writes: list[Write]) -> tuple[list[Write], list[Write]]:
    """The writes that fit into a transaction beside META's, and the others."""
    room = ROOM_IN_BYTES
    for n, write in enumerate(writes):
        room -= _bytes(write)
        if n == MAX_TRANSACTION - 1 or room < 0:
            return writes[:n], writes[n:]
    return writes, []


def _bytes(write: Write) -> int:
    if isinstance(write, Put):
        return item_size(write.item)
    return 0 if isinstance(write, Delete) else item_size(dict(write.update.set))
