"""Registered models and prompts with their versions, in a database and in a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from mlflow.entities.model_registry.model_version_stages import STAGE_DELETED_INTERNAL
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.registry.alias_changes import alias_item
from mlflow_dynamodbstore.registry.copies import copying
from mlflow_dynamodbstore.registry.items import (
    ALIAS,
    LAST_VERSION,
    LATEST,
    PROMPT_VERSIONS,
    RegisteredModelPlace,
    Target,
    marks_prompt,
    name_of_guard,
    new_meta,
    new_version,
)
from mlflow_dynamodbstore.registry.model_reader import LAST_POSSIBLE_VERSION, with_long_tags
from mlflow_dynamodbstore.registry.records import READY, Model, Version, read_with_versions
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.names.claims import CLAIM, Claim, is_live
from mlflow_dynamodbstore.shared.names.revisions import Revisions, fitting
from mlflow_dynamodbstore.shared.names.tags import Tags
from mlflow_dynamodbstore.shared.search.name_index import MODEL_NAME, NameIndex
from mlflow_dynamodbstore.shared.workspaces import all_workspaces
from mlflow_dynamodbstore.table.contract import Put, Query, Write
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.transfer.sql.database import Row
from mlflow_dynamodbstore.transfer.sql.entities import (
    OTHER_NAME,
    Entity,
    EntityKey,
    EntitySource,
)
from mlflow_dynamodbstore.transfer.sql.items import AT_ONCE, ItemStore, TransferTable, too_large
from mlflow_dynamodbstore.transfer.sql.rows import ChildTable, NewRows, RowStore

_OF_MODEL = ("workspace", "name")
_OF_VERSION = {
    "created": "creation_time",
    "updated": "last_updated_time",
    "description": "description",
    "user": "user_id",
    "stage": "current_stage",
    "source": "source",
    "storage": "storage_location",
    "run_id": "run_id",
    "run_link": "run_link",
    "status": "status",
    "status_message": "status_message",
}
"""The attributes of a version's item, and the columns of its row."""
_GONE = "REDACTED"


class VersionRows(ChildTable):
    """Versions, and a row for the last version if it was deleted.

    MLflow keeps the rows of deleted versions so that it does not reuse their numbers.
    """

    def rows(self, entity: Entity, value: Any, rows: NewRows) -> None:
        super().rows(entity, value, rows)
        last = entity.values["last_version"]
        if last and last not in value:
            gone = dict.fromkeys(_OF_VERSION.values()) | {
                "creation_time": entity.values["creation_time"],
                "last_updated_time": entity.values["last_updated_time"],
                "current_stage": STAGE_DELETED_INTERNAL,
                "source": f"{_GONE}-SOURCE-PATH",
                "run_id": f"{_GONE}-RUN-ID",
                "run_link": f"{_GONE}-RUN-LINK",
                "status": READY,
            }
            super().rows(entity, {last: gone}, rows)


class ModelRows(RowStore):
    """Registered models in a database."""

    table = "registered_models"
    key = _OF_MODEL
    columns = ("creation_time", "last_updated_time", "description")
    children: ClassVar = {
        "tags": ChildTable("registered_model_tags", _OF_MODEL, ("key",), ("value",)),
        "versions": VersionRows(
            "model_versions", _OF_MODEL, ("version",), (*_OF_VERSION.values(),)
        ),
        "version_tags": ChildTable("model_version_tags", _OF_MODEL, ("version", "key"), ("value",)),
        "aliases": ChildTable("registered_model_aliases", _OF_MODEL, ("alias",), ("version",)),
    }

    def normalised(self, entity: Entity, row: Row) -> Entity:
        del row
        values = entity.values
        versions: dict[int, Row] = values["versions"]
        values["last_version"] = max(versions, default=0)
        existing = {
            number: version
            for number, version in versions.items()
            if version["current_stage"] != STAGE_DELETED_INTERNAL
        }
        for version in existing.values():
            version["storage_location"] = version["storage_location"] or version["source"]
        values["versions"] = existing
        # The database keeps the tags of deleted versions, which nobody can read.
        tags = values["version_tags"].items()
        values["version_tags"] = {key: text for key, text in tags if key[0] in existing}
        return entity


class ModelItems(ItemStore):
    """Registered models in a table."""

    def __init__(self, transfer_table: TransferTable):
        super().__init__(transfer_table)
        self._words = NameIndex(transfer_table.table, transfer_table.policies, MODEL_NAME)
        self._models: Revisions[RegisteredModelPlace, Model] = Revisions(
            self.table, Model, "Registered Model"
        )

    def count(self) -> int:
        return sum(1 for _ in self._places())

    def pages(self) -> Iterator[list[Entity]]:
        self.not_moved.clear()  # each reading counts from zero
        for places in batched(self._places(), AT_ONCE):
            entities = self._entities(places)
            for entity in entities:
                self.not_moved.update(entity.hints)
            yield entities

    def read(self, like: Sequence[Entity]) -> dict[EntityKey, Entity]:
        places = [_place(entity) for entity in like]
        metas = self.table.get_many(place.key for place in places)
        existing = [place for place in places if is_live(metas.get(place.key))]
        return {entity.key: entity for entity in self._entities(existing)}

    def advice(self, entity: Entity, existing: Entity) -> str:
        del entity, existing
        return OTHER_NAME

    def _places(self) -> Iterator[RegisteredModelPlace]:
        for workspace in all_workspaces(self.table):
            query = Query(access_keys.workspace_pk(workspace), where=access_keys.MODEL_NAMES.on())
            yield from (
                RegisteredModelPlace(name_of_guard(item), workspace)
                for item in self.table.items(query)
            )

    def _entities(self, places: Sequence[RegisteredModelPlace]) -> list[Entity]:
        read = self.table.map(lambda place: read_with_versions(self.table, place), places)
        found = [
            (Model(place, meta), versions)
            for place, (meta, versions) in zip(places, read, strict=True)
            if meta is not None and CLAIM not in meta
        ]
        long_tags = self.table.get_many(key for model, _ in found for key in model.long_tag_keys)
        return [_entity(with_long_tags(model, long_tags), versions) for model, versions in found]

    # --- writing --------------------------------------------------------------------------------

    def refusal(self, entity: Entity) -> str | None:
        if entity.values["last_version"] > LAST_POSSIBLE_VERSION:
            return f"it has a version beyond {LAST_POSSIBLE_VERSION:,}"
        lost = set(entity.values["aliases"].values()) - entity.values["versions"].keys()
        if lost:
            return f"an alias leads to version {min(lost)}, which does not exist"
        try:
            new = NewModel(entity)
        except MlflowException as error:
            return str(error.message)
        return too_large([new.meta, *new.below])

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        del source
        for entity in entities:
            self._write_one(entity)

    def _write_one(self, entity: Entity) -> None:
        place = _place(entity)
        new = NewModel(entity)
        self.transfer_table.workspaces.note(place.workspace)
        self._words.enter(place.workspace, place.name, place.name)
        writes: list[Write] = [Put(item) for item in new.below]
        if not fitting([Put(place.listing(new.meta)), *writes])[1]:
            self._models.create(place, new.meta, writes)
        else:
            self._fill(place, new)
        self._words.enter(place.workspace, place.name, place.name)

    def _fill(self, place: RegisteredModelPlace, new: NewModel) -> None:
        """Write a model that needs several transactions, while a claim hides it."""
        claim = Claim(self.table, place)
        claim.acquire()
        try:
            for some in batched(new.below, AT_ONCE):
                claim.renew()
                self.transfer_table.put(some)
            self.table.transact(
                [Put(new.meta, condition=claim.held()), Put(place.listing(new.meta))]
            )
        except BaseException:
            claim.empty()
            raise


class NewModel:
    """The items of a registered model to be written: its own, and those below it."""

    def __init__(self, entity: Entity):
        place, values = _place(entity), entity.values
        tagging = place.tagging().setting({}, values["tags"])
        tags: defaultdict[int, dict[str, str | None]] = defaultdict(dict)
        for (number, key), text in values["version_tags"].items():
            tags[number][key] = text
        versions = {
            number: self._version(place, number, row, tags[number])
            for number, row in values["versions"].items()
        }
        aliases = {alias: Target(number) for alias, number in values["aliases"].items()}
        prompts = sum(marks_prompt(tags[number]) for number in versions)
        meta = {
            **new_meta(place, values["creation_time"], values["description"]),
            "updated": values["last_updated_time"],
            LAST_VERSION: values["last_version"],
            **tagging.set,
            **{ALIAS + alias: target.stored() for alias, target in aliases.items()},
            **{LATEST + stage: number for stage, number in _latest(values["versions"]).items()},
            **({PROMPT_VERSIONS: prompts} if prompts else {}),
        }
        model = Model(place, meta)
        known = {number: items[0] for number, items in versions.items()}
        self.meta: Item = {**meta, **copying(model, model, [], known).set}
        self.below: list[Item] = [
            *(put.item for put in tagging.writes if isinstance(put, Put)),
            *(item for items in versions.values() for item in items),
            *(alias_item(place, alias, target) for alias, target in aliases.items()),
        ]

    def _version(
        self, place: RegisteredModelPlace, number: int, row: Row, tags: Tags
    ) -> list[Item]:
        """The items of a version, its own first."""
        item = new_version(
            place,
            number,
            row["creation_time"],
            source=row["source"],
            storage_location=row["storage_location"],
            run_id=row["run_id"],
            run_link=row["run_link"],
            description=row["description"],
        )
        status = None if row["status"] == READY else row["status"]
        further = {
            "user": row["user_id"],
            "status": status,
            "status_message": row["status_message"],
        }
        item.update({name: value for name, value in further.items() if value is not None})
        item.update({"updated": row["last_updated_time"], "stage": row["current_stage"]})
        tagging = place.tagging(number).setting(item, tags)
        item.update(tagging.set)
        link = [place.run_link(row["run_id"], number)] if row["run_id"] else []
        return [item, *(put.item for put in tagging.writes if isinstance(put, Put)), *link]


def _place(entity: Entity) -> RegisteredModelPlace:
    workspace, name = entity.key
    return RegisteredModelPlace(name, workspace)


def _latest(versions: dict[int, Row]) -> dict[str, int]:
    """The latest version in each stage."""
    return {versions[number]["current_stage"]: number for number in sorted(versions)}


def _entity(model: Model, versions: Sequence[Version]) -> Entity:
    item = model.item
    values: dict[str, Any] = {
        "creation_time": item["created"],
        "last_updated_time": item["updated"],
        "description": item.get("description"),
        "last_version": model.last_version,
        "tags": dict(model.tags),
        "versions": {version.number: _version_values(version) for version in versions},
        "version_tags": {
            (version.number, key): text
            for version in versions
            for key, text in version.tags.items()
        },
        "aliases": {alias: target.version for alias, target in model.aliases.items()},
    }
    split = sum(target.secondary is not None for target in model.aliases.values())
    hints = {"second versions of aliases": split, "changes of aliases": len(model.recent_changes)}
    return Entity((model.place.workspace, model.place.name), values, hints)


def _version_values(version: Version) -> Row:
    item = version.item
    return {
        **{theirs: item.get(ours) for ours, theirs in _OF_VERSION.items()},
        "storage_location": version.storage_location,
        "status": item.get("status", READY),
    }
