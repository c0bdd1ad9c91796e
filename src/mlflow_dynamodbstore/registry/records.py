"""Models and versions as the table has them, and as MLflow shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mlflow.entities.model_registry import (
    ModelVersion,
    ModelVersionTag,
    RegisteredModel,
    RegisteredModelAlias,
    RegisteredModelTag,
)
from mlflow.entities.model_registry.model_version_status import ModelVersionStatus

from mlflow_dynamodbstore.keys import registry as registry_keys
from mlflow_dynamodbstore.registry.errors import alias_not_found
from mlflow_dynamodbstore.registry.items import (
    ALIAS,
    CHANGE,
    COPY,
    LAST_VERSION,
    LATEST,
    PROMPT_VERSIONS,
    SCHEMA_VERSION,
    RegisteredModelPlace,
    Target,
    by_prefix,
    marks_prompt,
)
from mlflow_dynamodbstore.shared.names.attributes import REVISION, UID, VERSIONS_REVISION
from mlflow_dynamodbstore.shared.names.tags import LONG_TAG, TAG, Tags
from mlflow_dynamodbstore.shared.search import filters
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key, Value

READY = ModelVersionStatus.to_string(ModelVersionStatus.READY)


@dataclass(frozen=True)
class Model:
    """A registered model, as its META says."""

    place: RegisteredModelPlace
    item: Item
    long_tags: Tags = field(default_factory=dict)
    """Values of the tags that META only names, where they have been read."""

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def revision(self) -> int:
        return int(self.item[REVISION])

    @property
    def versions_state(self) -> tuple[str, int]:
        """Versions that were read in this state of the model have not changed since."""
        return self.item[UID], self.item[VERSIONS_REVISION]

    @property
    def last_version(self) -> int:
        return int(self.item[LAST_VERSION])

    @property
    def prompt_versions(self) -> int:
        return int(self.item.get(PROMPT_VERSIONS, 0))

    @cached_property
    def _parts(self) -> dict[str, dict[str, Any]]:
        return by_prefix(self.item)

    @property
    def latest(self) -> dict[str, int]:
        """The latest version in each stage that has any."""
        return self._parts[LATEST]

    @cached_property
    def copies(self) -> dict[int, Item]:
        """META's copies of versions, by number."""
        found = self._parts[COPY].items()
        return {int(number): copy for number, copy in found if copy["v"] == SCHEMA_VERSION}

    @property
    def recent_changes(self) -> dict[str, Value]:
        """The last changes of aliases, by revision and alias."""
        return self._parts[CHANGE]

    @cached_property
    def aliases(self) -> dict[str, Target]:
        found = self._parts[ALIAS]
        return {alias: Target.of(found[alias]) for alias in sorted(found)}

    def target_of(self, alias: str) -> Target:
        """Where an alias leads. Raises when there is no such alias."""
        if alias not in self.aliases:
            raise alias_not_found(alias)
        return self.aliases[alias]

    @cached_property
    def tags(self) -> Tags:
        return {**self._parts[TAG], **self.long_tags}

    @property
    def long_tag_keys(self) -> list[Key]:
        return [self.place.tag(key) for key in self._parts[LONG_TAG]]

    @property
    def is_prompt(self) -> bool:
        return marks_prompt(self._parts[TAG])

    def aliases_of(self, number: int) -> list[str]:
        """The aliases that lead to a version."""
        return [alias for alias, target in self.aliases.items() if target.version == number]

    def values(self, kind: str, name: str) -> Sequence[Any]:
        """The values that a search compares: see ``search.filters.Searchable``."""
        if kind == filters.TAG:
            value = self.tags.get(name)
            return () if value is None else (value,)
        return (self.name if name == "name" else self.item["updated"],)

    def entity(self, latest: Iterable[Version]) -> RegisteredModel:
        """The model as MLflow shows it."""
        return RegisteredModel(
            self.name,
            self.item["created"],
            self.item["updated"],
            self.item.get("description"),
            [version.entity() for version in latest],
            [RegisteredModelTag(key, value) for key, value in self.tags.items()],
            [RegisteredModelAlias(alias, to.version) for alias, to in self.aliases.items()],
            workspace=self.place.workspace,
        )


@dataclass(frozen=True)
class Version:
    """A version of a registered model."""

    place: RegisteredModelPlace
    number: int
    item: Item
    long_tags: Tags = field(default_factory=dict)

    @cached_property
    def _parts(self) -> dict[str, dict[str, Any]]:
        return by_prefix(self.item)

    @cached_property
    def tags(self) -> Tags:
        return {**self._parts[TAG], **self.long_tags}

    @property
    def long_tag_keys(self) -> list[Key]:
        return [self.place.tag(key, self.number) for key in self._parts[LONG_TAG]]

    @property
    def stage(self) -> str:
        return str(self.item["stage"])

    @property
    def run_id(self) -> str | None:
        return self.item.get("run_id")

    @property
    def storage_location(self) -> str | None:
        """Where the files of the version are."""
        return self.item.get("storage") or self.item.get("source")

    def values(self, kind: str, name: str) -> Sequence[Any]:
        """The values that a search compares: see ``search.filters.Searchable``."""
        if kind == filters.TAG:
            value = self.tags.get(name)
        elif name == "name":
            value = self.place.name
        elif name == "version_number":
            return (self.number,)
        else:
            value = self.item.get(_ATTRIBUTES[name])
        return () if value is None else (value,)

    def entity(self, aliases: Iterable[str] = ()) -> ModelVersion:
        """The version as MLflow shows it."""
        item = self.item
        return ModelVersion(
            self.place.name,
            self.number,  # type: ignore[arg-type]  # MLflow's SQL store gives a number too
            item["created"],
            item["updated"],
            item.get("description"),
            item.get("user"),
            self.stage,
            item.get("source"),
            self.run_id,
            item.get("status", READY),
            item.get("status_message"),
            [ModelVersionTag(key, value) for key, value in self.tags.items()],
            item.get("run_link"),
            list(aliases),
            workspace=self.place.workspace,
        )


_ATTRIBUTES = {
    "run_id": "run_id",
    "source_path": "source",
    "creation_timestamp": "created",
    "last_updated_timestamp": "updated",
}


def read_with_versions(
    table: Table, place: RegisteredModelPlace
) -> tuple[Item | None, list[Version]]:
    """A model's META and all of its versions, in one query."""
    query = Query(place.pk, where=registry_keys.MODEL_AND_VERSIONS.on())
    meta: Item | None = None
    found: dict[int, Item] = {}
    long_tags: dict[int, dict[str, str | None]] = {}
    for item in table.items(query):
        sk = item["SK"]
        if sk == registry_keys.MODEL_META:
            meta = item
        elif sk in registry_keys.MODEL_VERSIONS:
            number = registry_keys.model_version_of(sk)
            if sk == registry_keys.model_version(number):
                found[number] = item
            else:
                long_tags.setdefault(number, {})[tag_key(item)] = item["value"]
    named = {
        number: {k: v for k, v in long_tags.get(number, {}).items() if LONG_TAG + k in item}
        for number, item in found.items()
    }
    return meta, [Version(place, number, item, named[number]) for number, item in found.items()]


def tag_key(item: Item) -> str:
    """The key of a tag that is an item of its own."""
    sk = item["SK"]
    key = (
        registry_keys.model_tag_key(sk)
        if sk in registry_keys.MODEL_TAGS
        else registry_keys.model_version_tag_key(sk)
    )
    return str(item["key"]) if key is None else key
