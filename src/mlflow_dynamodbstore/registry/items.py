"""The items that make up a registered model, built and read in one place.

A model's own item (META) has everything that a listing shows: times, description, short tags,
aliases, and the latest version in each stage. A version's item has its fields and short tags.
Attributes with user text in their name have a prefix:

- ``t:<key>``: a tag whose value is short;
- ``T:<key>``: a tag that is an item only, because it is long or there are many;
- ``a:<alias>``: where an alias leads (META);
- ``l:<stage>``: the latest version in a stage (META);
- ``c:<version>``: a copy of the item of a version, where META has room for it (META);
- ``h:<revision>:<alias>``: a change of an alias, while it is one of the last few (META).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from typing import NamedTuple

from mlflow.entities.model_registry.model_version_stages import STAGE_NONE
from mlflow.prompt.constants import IS_PROMPT_TAG_KEY

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import registry as registry_keys
from mlflow_dynamodbstore.shared.names.attributes import (
    NAME,
    REVISION,
    UID,
    VERSIONS_REVISION,
    named,
)
from mlflow_dynamodbstore.shared.names.tags import LONG_TAG, TAG, Tags, TagStore
from mlflow_dynamodbstore.shared.policies import Policies
from mlflow_dynamodbstore.shared.search.name_index import MODEL_NAME, NameIndex, entries_left
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key, Value

SCHEMA_VERSION = MLFLOW_TABLE.versions.current("RM/M")

ALIAS = "a:"
LATEST = "l:"
COPY = "c:"
CHANGE = "h:"
_PREFIXES = (TAG, LONG_TAG, ALIAS, LATEST, COPY, CHANGE)

ALIAS_NAME = "alias"
"""Attribute of an alias's item: an alias that is too long for its key."""
LAST_VERSION = "last_version"
PROMPT_VERSIONS = "prompt_versions"
"""Attribute of META: how many versions were ever marked as prompts."""

# META is written with every change of the model, so it should stay small.
MAX_INLINE_MODEL_TAGS = 16 * 1024
MAX_INLINE_VERSION_TAGS = 128 * 1024


class RegisteredModelPlace(NamedTuple):
    """Where a registered model lies."""

    name: str
    workspace: str

    @property
    def pk(self) -> str:
        return registry_keys.model_pk(self.name, self.workspace)

    @property
    def key(self) -> Key:
        """The key of META."""
        return registry_keys.model_key(self.name, self.workspace)

    @property
    def guard(self) -> Item:
        """The guard of the name, by which the workspace lists the model, without facts."""
        return named(access_keys.model_name_guard(self.name, self.workspace), NAME, self.name)

    def listing(self, meta: Item) -> Item:
        """The guard with what it repeats of META."""
        facts = listed_facts(meta)
        return self.guard if facts is None else {**self.guard, FACTS: facts}

    def version(self, number: int) -> Key:
        return registry_keys.model_version_key(self.name, number, self.workspace)

    def tag(self, key: str, number: int | None = None) -> Key:
        """The key of a tag of the model, or of one of its versions."""
        if number is None:
            return Key(self.pk, registry_keys.model_tag(key))
        return Key(self.pk, registry_keys.model_version_tag(number, key))

    def tagging(self, number: int | None = None) -> TagStore:
        """How the tags of the model, or of one of its versions, are laid out.

        All tags of a model are items, beside those that are attributes of META. Of a version only
        the long ones are, so that listing versions does not read each tag twice.
        """
        limit = MAX_INLINE_MODEL_TAGS if number is None else MAX_INLINE_VERSION_TAGS
        return TagStore(lambda key: self.tag(key, number), limit, number is None)

    def alias_index(self, alias: str) -> Item:
        """The index attributes of an alias, by which the models that have it are found."""
        return {**index_keys.gsi3_alias(alias, self.name, self.workspace)}

    def run_link(self, run_id: str, number: int) -> Item:
        """The item by which a version is found by its run."""
        key = Key(
            registry_keys.model_run_pk(run_id, self.workspace),
            registry_keys.model_run_link(self.name, number),
        )
        return named(key, NAME, self.name)

    # --- what ``claims.NamedPartition`` asks for -----------------------------------------------

    def links(self, items: Iterable[Item]) -> list[Item]:
        """The items by which the versions among these are found by their runs."""
        return [
            self.run_link(item["run_id"], registry_keys.model_version_of(item["SK"]))
            for item in items
            if _is_version(item) and "run_id" in item
        ]

    def text_entries(self, table: Table) -> list[Item]:
        """The full-text entries of the name; none where names of models are not indexed."""
        index = NameIndex(table, Policies(table), MODEL_NAME)
        return [*index.entries(self.workspace, self.name, self.name).values()]

    def stored_text_entries(self, table: Table) -> list[Key]:
        return entries_left(table, MODEL_NAME, self.workspace, self.name)

    def moved(self, item: Item, now: int | None) -> Item:
        moved = {**item, "PK": self.pk}
        if item["SK"] in registry_keys.MODEL_ALIASES and (alias := alias_of(item)) is not None:
            moved.update(self.alias_index(alias))
        if now is not None and _is_version(item):
            moved["updated"] = now
        return moved

    def moved_meta(self, meta: Item, now: int | None) -> Item:
        touched = {} if now is None else {"updated": now}
        copies = {n: {**copy, **touched} for n, copy in meta.items() if n.startswith(COPY)}
        return {
            **meta,
            **copies,
            "PK": self.pk,
            "name": self.name,
            REVISION: meta[REVISION] + 1,
            VERSIONS_REVISION: meta[REVISION] + 1,
            **touched,
            **index_keys.model_index(name=self.name, workspace=self.workspace),
        }


class Target(NamedTuple):
    """Where an alias leads: to a version, and for a share of requests to a second one."""

    version: int
    secondary: int | None = None
    weight: int = 0

    def stored(self) -> Value:
        return self.version if self.secondary is None else list(self)

    @classmethod
    def of(cls, stored: Value) -> Target:
        return cls(stored) if isinstance(stored, int) else cls(*stored)


def new_meta(place: RegisteredModelPlace, now: int, description: str | None) -> Item:
    """The own item of a new model, without its tags."""
    item: Item = {
        "PK": place.pk,
        "SK": registry_keys.MODEL_META,
        "v": SCHEMA_VERSION,
        NAME: place.name,
        UID: secrets.token_hex(6),
        REVISION: 1,
        VERSIONS_REVISION: 0,
        LAST_VERSION: 0,
        "created": now,
        "updated": now,
        **index_keys.model_index(name=place.name, workspace=place.workspace),
    }
    if description is not None:
        item["description"] = description
    return item


def new_version(
    place: RegisteredModelPlace,
    number: int,
    now: int,
    *,
    source: str | None,
    storage_location: str | None,
    run_id: str | None,
    run_link: str | None,
    description: str | None,
) -> Item:
    """The own item of a new version, without its tags."""
    key = place.version(number)
    optional = {
        "source": source,
        "storage": None if storage_location == source else storage_location,
        "run_id": run_id,
        "run_link": run_link,
        "description": description,
    }
    return {
        "PK": key.pk,
        "SK": key.sk,
        "v": SCHEMA_VERSION,
        "created": now,
        "updated": now,
        "stage": STAGE_NONE,
        **{name: value for name, value in optional.items() if value is not None},
    }


def described(description: str | None, now: int) -> Update:
    """The update that gives a model or version another description; None removes it."""
    if description is None:
        return Update(set={"updated": now}, remove=("description",))
    return Update(set={"updated": now, "description": description})


def by_prefix(item: Item) -> dict[str, dict[str, Value]]:
    """The attributes with user text in their name, by prefix and then by that text."""
    parts: dict[str, dict[str, Value]] = {prefix: {} for prefix in _PREFIXES}
    for name, value in item.items():
        if name[1:2] == ":":
            parts[name[:2]][name[2:]] = value
    return parts


def marks_prompt(tags: Tags) -> bool:
    """Whether tags mark a prompt."""
    return tags.get(IS_PROMPT_TAG_KEY) == "true"


# --- the list of a workspace's models -----------------------------------------------------------
#
# The guard of a name is written whenever META changes, and repeats META as long as that is short.
# One query then reads many models at the price of their bytes, where reading each META costs a
# whole unit.

FACTS = "m"
"""Attribute of a guard: the facts of META, as JSON."""
MOST_FACTS = 256
"""In bytes. A search by a part of a name reads the whole list, so it must stay short."""
_ALWAYS = ("v", UID, REVISION, VERSIONS_REVISION, LAST_VERSION, "created", "updated")
_NOT_LISTED = {"PK", "SK", NAME, *_ALWAYS}
_ONLY_IN_META = (COPY, CHANGE, "gsi")


def listed_facts(meta: Item) -> str | None:
    """The facts that a guard repeats of META; None where they are too long."""
    more = {
        name: value
        for name, value in meta.items()
        if name not in _NOT_LISTED and not name.startswith(_ONLY_IN_META)
    }
    facts = [*(meta[name] for name in _ALWAYS), *([more] if more else [])]
    text = json.dumps(facts, ensure_ascii=False, separators=(",", ":"))
    return text if len(text.encode()) <= MOST_FACTS else None


def listed_meta(guard: Item, name: str) -> Item | None:
    """META as a guard repeats it; None where META must be read."""
    facts = json.loads(guard.get(FACTS, "[]"))
    if facts[:1] != [SCHEMA_VERSION]:
        return None
    more = facts[len(_ALWAYS)] if len(facts) > len(_ALWAYS) else {}
    return {NAME: name, **dict(zip(_ALWAYS, facts, strict=False)), **more}


def name_of_guard(guard: Item) -> str:
    """The name that a guard guards."""
    name = access_keys.guarded_name_of(guard["SK"])
    return str(guard[NAME]) if name is None else name


def alias_of(item: Item) -> str | None:
    """The alias of an item; None for a long one that an earlier release wrote."""
    alias: str | None = registry_keys.model_alias_of(item["SK"]) or item.get(ALIAS_NAME)
    return alias


def linked_version(link: Item) -> tuple[str, int]:
    """The name of the model, and the version, that a run's link leads to."""
    name, number = registry_keys.model_run_link_of(link["SK"])
    return (str(link[NAME]) if name is None else name), number


def _is_version(item: Item) -> bool:
    return item["SK"] in registry_keys.MODEL_VERSIONS and "stage" in item
