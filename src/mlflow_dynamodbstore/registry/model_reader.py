"""Reading models and their versions, and what every change of a model brings with it.

Every change of a model, and of anything that belongs to it, raises the revision in META: see
``names.revisions``. So a version that was read at a revision can be kept for as long as META says
that no version has changed since.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from mlflow_dynamodbstore.mlflow_compat.validation import validate_model_name
from mlflow_dynamodbstore.registry.copies import copying
from mlflow_dynamodbstore.registry.errors import model_not_found, version_not_found
from mlflow_dynamodbstore.registry.items import RegisteredModelPlace, listed_facts
from mlflow_dynamodbstore.registry.records import Model, Version, tag_key
from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.names.revisions import Change, Revisions
from mlflow_dynamodbstore.table.contract import Put, Write
from mlflow_dynamodbstore.table.values import Item, Key

R = TypeVar("R", Model, Version)

VERSIONS_KEPT = 2_000
LAST_POSSIBLE_VERSION = 10**10 - 1


class ModelReader:
    """The models of a table; ``models`` has those seen last and changes them."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.table = context.table
        self.models: Revisions[RegisteredModelPlace, Model] = Revisions(
            self.table, Model, "Registered Model", _copies_and_listing
        )
        self._versions: BoundedCache[Key, tuple[tuple[str, int], Version]] = BoundedCache(
            VERSIONS_KEPT
        )

    def place(self, name: str) -> RegisteredModelPlace:
        """Where a model of the active workspace lies. Raises for what is no name."""
        validate_model_name(name)
        return RegisteredModelPlace(name, self.context.workspace())

    def model(self, name: str) -> Model:
        """A model. Raises when it is not there."""
        model = self.models.find(self.place(name))
        if model is None:
            raise model_not_found(name)
        return model

    def version(self, model: Model, number: int) -> Version:
        """A version of a model. Raises when it is not there."""
        if 0 < number <= LAST_POSSIBLE_VERSION:
            version = self.versions_of(model, [number]).get(number)
            if version is not None:
                return version
        raise version_not_found(model.name, number)

    def versions_of(self, model: Model, numbers: Iterable[int]) -> dict[int, Version]:
        """Versions of a model, in order of their numbers; those not there are left out."""
        return {number: v for (_, number), v in self.versions_of_many([(model, numbers)]).items()}

    def versions_of_many(
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
                if known is not None and known[0] == model.versions_state:
                    found[model.place, number] = known[1]
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
        long_tags = self.table.get_many(key for _, version in read for key in version.long_tag_keys)
        for model, short in read:
            version = with_long_tags(short, long_tags)
            self.remember_version(model, version)
            found[model.place, version.number] = version
        return {at: found[at] for at in sorted(found)}

    def remember_version(self, model: Model, version: Version) -> None:
        """Keep a version that was read after its model, or written with it."""
        self._versions.put(model.place.version(version.number), (model.versions_state, version))

    def with_long_tags(self, models: list[Model]) -> list[Model]:
        """Models with all of their tags."""
        items = self.table.get_many(key for model in models for key in model.long_tag_keys)
        return [with_long_tags(model, items) for model in models] if items else models


def _copies_and_listing(before: Model, after: Model, change: Change) -> Change:
    """What changes with a model: META's copies of versions, and the guard that repeats META.

    A guard that has only the name, before and after, is not written.
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
