"""What every part of the registry shares: reading a model, and changing one.

Every change of a model, and of anything that belongs to it, raises the revision in META: see
``revisions``. So a version that was read at a revision can be kept for as long as META says that no
version has changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple, TypeVar

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_STATE
from mlflow.store.workspace_aware_mixin import WorkspaceAwareMixin
from mlflow.utils.validation import _validate_model_name

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys.base import DEFAULT_WORKSPACE
from mlflow_dynamodbstore.registry.copies import copying
from mlflow_dynamodbstore.registry.errors import model_not_found, too_busy, version_not_found
from mlflow_dynamodbstore.registry.items import RegisteredModelPlace, listed_facts, name_of_guard
from mlflow_dynamodbstore.registry.records import Model, Version, tag_key
from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.names.revisions import Change, Revisions
from mlflow_dynamodbstore.shared.policies import Policies
from mlflow_dynamodbstore.shared.search.name_index import MODEL_NAME, NameIndex
from mlflow_dynamodbstore.table.contract import Put, Query, Write
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key

R = TypeVar("R", Model, Version)

VERSIONS_KEPT = 2_000
LAST_POSSIBLE_VERSION = 10**10 - 1

Decision = Callable[[Model], Change | None]
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
        self._models: Revisions[RegisteredModelPlace, Model] = Revisions(
            table, Model, too_busy, _kept_true
        )
        self._versions: BoundedCache[Key, KnownVersion] = BoundedCache(VERSIONS_KEPT)
        self._noted_workspaces = {DEFAULT_WORKSPACE}

    # --- reading --------------------------------------------------------------------------------

    def _place(self, name: str) -> RegisteredModelPlace:
        _validate_model_name(name)
        return RegisteredModelPlace(name, self._get_active_workspace())

    def _model(self, name: str) -> Model:
        model = self._models.find(self._place(name))
        if model is None:
            raise model_not_found(name)
        return model

    def _versions_of(self, model: Model, numbers: Iterable[int]) -> dict[int, Version]:
        """Versions of a model, in order of their numbers; those not there are left out."""
        return {number: v for (_, number), v in self._versions_of_many([(model, numbers)]).items()}

    def _versions_of_many(
        self, wanted: Iterable[tuple[Model, Iterable[int]]]
    ) -> dict[tuple[RegisteredModelPlace, int], Version]:
        """Versions of several models, in as few requests as they take."""
        found: dict[tuple[RegisteredModelPlace, int], Version] = {}
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

    def _change(
        self,
        place: RegisteredModelPlace,
        decide: Decision,
        missing: Callable[[str], MlflowException] = model_not_found,
    ) -> Model:
        """Change a model, or something of it, and return it as it is then."""
        return self._models.change(place, decide, missing)

    # --- workspaces -----------------------------------------------------------------------------

    def _note_workspace(self, workspace: str) -> None:
        """Remember, before the first thing is written to it, that a workspace is in use."""
        if workspace not in self._noted_workspaces:
            key = access_keys.workspace_entry_key(workspace)
            self.table.write([Put({"PK": key.pk, "SK": key.sk})])
            self._noted_workspaces.add(workspace)

    def _check_nothing_is_hidden(self) -> None:
        """Refuse to work without workspaces while something lies outside the default one."""
        for entry in self.table.items(
            Query(access_keys.CONFIG_PK, where=access_keys.WORKSPACES.on())
        ):
            workspace = str(access_keys.workspace_entry_of(entry["SK"]))
            if workspace == DEFAULT_WORKSPACE:
                continue
            for label, what, names, name_of in _HIDDEN:
                query = Query(access_keys.workspace_pk(workspace), where=names.on(), limit=1)
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
    ("registered models", "model", access_keys.MODEL_NAMES, name_of_guard),
    ("webhooks", "webhook", access_keys.WEBHOOKS, lambda item: item["webhook_id"]),
)


def _kept_true(before: Model, after: Model, change: Change) -> Change:
    """What keeps META's copies of versions and the list of models true when a model changes.

    A list that has only the name, before and after, is left in peace.
    """
    copies = copying(before, after, change.writes, change.known)
    listed = any(listed_facts(model.item) is not None for model in (before, after))
    writes: list[Write] = [Put(after.place.listing(after.item))] if listed else []
    return Change(dict(copies.set), list(copies.remove), writes)


def with_long_tags(record: R, items: dict[Key, Item]) -> R:
    """A model or version with the long tags that it names."""
    found = [items[key] for key in record.long_tag_keys if key in items]
    if not found:
        return record
    return replace(record, long_tags={tag_key(item): item["value"] for item in found})
