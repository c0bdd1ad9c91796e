"""Registered models and prompts with their versions, in a database and in a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from mlflow.entities.model_registry.model_version_stages import STAGE_DELETED_INTERNAL
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys.base import DEFAULT_WORKSPACE
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
from mlflow_dynamodbstore.table.contract import Put, Query, Write
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.transfer.sql.database import Row
from mlflow_dynamodbstore.transfer.sql.entities import Entity, EntityKey, Side
from mlflow_dynamodbstore.transfer.sql.items import AT_ONCE, ItemSide, Shelf, too_large
from mlflow_dynamodbstore.transfer.sql.rows import Children, NewRows, RowSide

_OF_MODEL = ("workspace", "name")
_OF_VERSION = (
    "creation_time",
    "last_updated_time",
    "description",
    "user_id",
    "current_stage",
    "source",
    "storage_location",
    "run_id",
    "run_link",
    "status",
    "status_message",
)
_GONE = "REDACTED"


class VersionRows(Children):
    """Versions, and the number of the last one, which may have been deleted.

    MLflow keeps the rows of deleted versions so that their numbers are not given again.
    """

    def rows(self, entity: Entity, value: Any, rows: NewRows) -> None:
        super().rows(entity, value, rows)
        last = entity.values["last_version"]
        if last and last not in value:
            gone = dict.fromkeys(_OF_VERSION) | {
                "creation_time": entity.values["creation_time"],
                "last_updated_time": entity.values["last_updated_time"],
                "current_stage": STAGE_DELETED_INTERNAL,
                "source": f"{_GONE}-SOURCE-PATH",
                "run_id": f"{_GONE}-RUN-ID",
                "run_link": f"{_GONE}-RUN-LINK",
                "status": READY,
            }
            super().rows(entity, {last: gone}, rows)


class ModelRows(RowSide):
    """Registered models in a database."""

    table = "registered_models"
    key = _OF_MODEL
    columns = ("creation_time", "last_updated_time", "description")
    below: ClassVar = {
        "tags": Children("registered_model_tags", _OF_MODEL, ("key",), ("value",)),
        "versions": VersionRows("model_versions", _OF_MODEL, ("version",), _OF_VERSION),
        "version_tags": Children("model_version_tags", _OF_MODEL, ("version", "key"), ("value",)),
        "aliases": Children("registered_model_aliases", _OF_MODEL, ("alias",), ("version",)),
    }

    def shaped(self, entity: Entity, row: Row) -> Entity:
        del row
        values = entity.values
        versions: dict[int, Row] = values["versions"]
        values["last_version"] = max(versions, default=0)
        there = {
            number: version
            for number, version in versions.items()
            if version["current_stage"] != STAGE_DELETED_INTERNAL
        }
        for version in there.values():
            version["storage_location"] = version["storage_location"] or version["source"]
        values["versions"] = there
        # Tags of deleted versions stay in the database, where nobody can read them.
        tags = values["version_tags"].items()
        values["version_tags"] = {place: text for place, text in tags if place[0] in there}
        return entity


class ModelItems(ItemSide):
    """Registered models in a table."""

    def __init__(self, shelf: Shelf):
        super().__init__(shelf)
        self._words = NameIndex(shelf.table, shelf.policies, MODEL_NAME)
        self._models: Revisions[RegisteredModelPlace, Model] = Revisions(
            shelf.table, Model, "Registered Model"
        )

    def count(self) -> int:
        return sum(1 for _ in self._places())

    def pages(self) -> Iterator[list[Entity]]:
        self.left.clear()  # they are counted anew whenever they are read
        for places in batched(self._places(), AT_ONCE):
            entities = self._entities(places)
            for entity in entities:
                self.left.update(entity.hints)
            yield entities

    def read(self, like: Sequence[Entity]) -> dict[EntityKey, Entity]:
        places = [_place(entity) for entity in like]
        there = self.table.get_many(place.key for place in places)
        known = [place for place in places if is_live(there.get(place.key))]
        return {entity.key: entity for entity in self._entities(known)}

    def _places(self) -> Iterator[RegisteredModelPlace]:
        for workspace in self.shelf.workspaces():
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

    def refusals(self, entities: Sequence[Entity]) -> dict[EntityKey, str]:
        why = {entity.key: _refusal(entity) for entity in entities}
        return {key: sentence for key, sentence in why.items() if sentence}

    def write(self, entities: Sequence[Entity], source: Side) -> None:
        del source
        for entity in entities:
            self._write_one(entity)

    def _write_one(self, entity: Entity) -> None:
        place = _place(entity)
        new = NewModel(entity)
        if place.workspace != DEFAULT_WORKSPACE:
            entry = access_keys.workspace_entry_key(place.workspace)
            self.shelf.put([{"PK": entry.pk, "SK": entry.sk}])
        self._words.enter(place.workspace, place.name, place.name)
        writes: list[Write] = [Put(item) for item in new.below]
        if not fitting([Put(place.listing(new.meta)), *writes])[1]:
            self._models.create(place, new.meta, writes)
        else:
            self._fill(place, new)
        self._words.enter(place.workspace, place.name, place.name)

    def _fill(self, place: RegisteredModelPlace, new: NewModel) -> None:
        """Write a model that takes more than one transaction, while nobody can see it."""
        claim = Claim(self.table, place)
        claim.acquire()
        try:
            for some in batched(new.below, AT_ONCE):
                claim.renew()
                self.shelf.put(some)
            self.table.transact(
                [Put(new.meta, condition=claim.held()), Put(place.listing(new.meta))]
            )
        except BaseException:
            claim.empty()
            raise


class NewModel:
    """A registered model that is about to be written."""

    def __init__(self, entity: Entity):
        place, values = _place(entity), entity.values
        tagging = place.tagging().setting({}, values["tags"])
        tags: defaultdict[int, dict[str, str | None]] = defaultdict(dict)
        for (number, key), text in values["version_tags"].items():
            tags[number][key] = text
        versions = {
            number: self._version(place, number, said, tags[number])
            for number, said in values["versions"].items()
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
        self, place: RegisteredModelPlace, number: int, said: Row, tags: Tags
    ) -> list[Item]:
        """The items of a version, its own first."""
        item = new_version(
            place,
            number,
            said["creation_time"],
            source=said["source"],
            storage_location=said["storage_location"],
            run_id=said["run_id"],
            run_link=said["run_link"],
            description=said["description"],
        )
        status = None if said["status"] == READY else said["status"]
        further = {
            "user": said["user_id"],
            "status": status,
            "status_message": said["status_message"],
        }
        item.update({name: value for name, value in further.items() if value is not None})
        item.update({"updated": said["last_updated_time"], "stage": said["current_stage"]})
        tagging = place.tagging(number).setting(item, tags)
        item.update(tagging.set)
        link = [place.run_link(said["run_id"], number)] if said["run_id"] else []
        return [item, *(put.item for put in tagging.writes if isinstance(put, Put)), *link]


def _refusal(entity: Entity) -> str | None:
    if entity.values["last_version"] > LAST_POSSIBLE_VERSION:
        return f"its versions go beyond {LAST_POSSIBLE_VERSION:,}"
    lost = set(entity.values["aliases"].values()) - entity.values["versions"].keys()
    if lost:
        return f"an alias leads to version {min(lost)}, which is not there"
    try:
        new = NewModel(entity)
    except MlflowException as error:
        return str(error.message)
    return too_large([new.meta, *new.below])


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
    hints = {
        "second versions of aliases": split,
        "changes of aliases": len(model.recent_changes),
    }
    return Entity((model.place.workspace, model.place.name), values, hints)


def _version_values(version: Version) -> Row:
    item = version.item
    return {
        "creation_time": item["created"],
        "last_updated_time": item["updated"],
        "description": item.get("description"),
        "user_id": item.get("user"),
        "current_stage": version.stage,
        "source": item.get("source"),
        "storage_location": version.storage_location,
        "run_id": version.run_id,
        "run_link": item.get("run_link"),
        "status": item.get("status", READY),
        "status_message": item.get("status_message"),
    }
