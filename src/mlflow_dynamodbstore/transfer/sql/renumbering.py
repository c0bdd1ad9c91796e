"""Importing a database beside what a table already holds: new ids, names and workspaces.

The entities of a source are changed while they are read, so writing and verifying need not know.
Experiments, users and roles get new numbers, and everything that refers to them follows. Ids that
are unique by themselves (runs, traces, models) stay as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Protocol

from mlflow.tracing.constant import TraceTagKey
from mlflow.utils.mlflow_tags import MLFLOW_MODEL_VERSIONS

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys.base import DEFAULT_WORKSPACE
from mlflow_dynamodbstore.reviews.reviewed_experiments import LABEL_SCHEMA_PREFIX, QUEUE_PREFIX
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Value
from mlflow_dynamodbstore.transfer.sql.column_values import stable_id
from mlflow_dynamodbstore.transfer.sql.database import Row
from mlflow_dynamodbstore.transfer.sql.entities import (
    NOT_IMPORTABLE,
    Entity,
    EntityKey,
    EntitySource,
    EntityStore,
    HistoryChunk,
)
from mlflow_dynamodbstore.transfer.sql.experiments import DEFAULT_ID, ExperimentsHere
from mlflow_dynamodbstore.transfer.sql.gateway import COPY_OF_SCORER
from mlflow_dynamodbstore.transfer.sql.move import Kind
from mlflow_dynamodbstore.transfer.sql.numbers import Numbers
from mlflow_dynamodbstore.workspaces.store import SETTINGS

_NAMED_LINKS = (TraceTagKey.LINKED_PROMPTS, MLFLOW_MODEL_VERSIONS)
"""Tags that hold JSON lists of models or prompts with their names."""
_COPIED = re.compile(r"models:/([^/]+/.+)")
"""The source of a version that is a copy of a version of another model."""

_UNIQUE_NAMES = {
    "experiments": "name",
    "registered models": "name",
    "gateway secrets": "secret_name",
    "gateway models": "name",
    "gateway endpoints": "name",
    "MCP servers": "name",
    "roles": "name",
}
"""The kinds whose names are unique in a workspace, and the values that hold them."""


@dataclass(frozen=True)
class Changes:
    """What an import changes: names get a prefix, everything goes into one workspace."""

    prefix: str = ""
    workspace: str | None = None
    experiments: Mapping[str, str] | None = None
    """New ids of the experiments of another source, for grants that refer to them."""

    def told(self) -> Item:
        """What is noted with new numbers: a repeated import must change the same."""
        return {"prefix": self.prefix, "workspace": self.workspace}


class AccessNumbers(Protocol):
    """What ``access_numbers`` does, which can be imported only with the extra ``auth``."""

    users: Numbers
    roles: Numbers

    def number_users(self, entities: Sequence[Entity]) -> None: ...
    def number_roles(self, entities: Sequence[Entity]) -> None: ...


class Renumbering:
    """The changes of one import, as functions on entities."""

    def __init__(self, table: Table, source: str, changes: Changes):
        self.table = table
        self.changes = changes
        self._others = changes.experiments or {}
        self.experiments = Numbers(
            table, source, "experiment", experiment_keys.experiment_key, changes.told()
        )
        self._source = source
        self._names: dict[tuple[str, ...], EntityKey] = {}
        self._of_kind: dict[str, Callable[[Sequence[Entity]], None]] = {
            "experiments": self._number_experiments,
            "datasets": self._rekey_datasets,
            "runs": self._follow_links,
            "logged models": self._follow_links,
            "traces": self._follow_links,
            "registered models": self._name_models,
            "evaluation datasets": self._follow_uses,
            "label schemas": self._rename_ids,
            "review queues": self._rename_ids,
            "gateway guardrails": self._follow_scorers,
            "MCP servers": self._move_servers,
            "jobs": self._follow_params,
            "users": self._number_users,
            "roles": self._number_roles,
        }

    def kinds(self, kinds: Iterable[Kind]) -> list[Kind]:
        """The kinds of an import whose sources make these changes."""
        return [
            replace(k, source=RenumberedSource(k.name, k.source, k.target, self)) for k in kinds
        ]

    def changed(self, kind: str, entities: Sequence[Entity]) -> list[Entity]:
        """The entities of one kind as the table is to hold them."""
        made = [Entity(e.key, dict(e.values), dict(e.hints)) for e in entities]
        for entity in made:
            self._move_to_workspace(entity)
        if kind in self._of_kind:
            self._of_kind[kind](made)
        if self.changes.workspace is not None and kind in _UNIQUE_NAMES:
            for before, entity in zip(entities, made, strict=True):
                self._refuse_double(kind, before.key, entity)
        if kind != "experiments":
            for entity in made:
                self._follow_experiment(entity)
        return made

    # --- workspaces and names -------------------------------------------------------------------

    def workspace(self, theirs: str) -> str:
        """The workspace that something of a workspace of the source goes to."""
        return self.changes.workspace or theirs

    def _move_to_workspace(self, entity: Entity) -> None:
        for values in (entity.values, entity.hints):
            if values.get("workspace") is not None:
                values["workspace"] = self.workspace(str(values["workspace"]))

    def _refuse_double(self, kind: str, old: EntityKey, entity: Entity) -> None:
        """Refuse a name that two workspaces of the source have, which become one here."""
        name = str(entity.values.get(_UNIQUE_NAMES[kind]) or entity.key[-1])
        if self._names.setdefault((kind, name), old) != old:
            entity.hints[NOT_IMPORTABLE] = (
                f"two workspaces of the source have one named {name!r}, and only one can have the "
                "name here; rename one there"
            )

    def named(self, name: str) -> str:
        """The name that an experiment, a model or a prompt gets."""
        return self.changes.prefix + name

    def _name_models(self, entities: Sequence[Entity]) -> None:
        for entity in entities:
            workspace, name = entity.key
            entity.key = (self.workspace(workspace), self.named(name))
            if self.changes.prefix:
                versions = entity.values["versions"].items()
                entity.values["versions"] = {one: self._follow_copy(row) for one, row in versions}

    def _follow_copy(self, version: Row) -> Row:
        """A version with the new name of the model that it was copied from."""
        followed = {
            name: _COPIED.sub(lambda found: "models:/" + self.named(found[1]), version[name])
            for name in ("source", "storage_location")
            if _COPIED.fullmatch(version[name] or "")
        }
        return {**version, **followed}

    def _move_servers(self, entities: Sequence[Entity]) -> None:
        for entity in entities:
            workspace, name = entity.key
            entity.key = (self.workspace(workspace), name)

    def _follow_links(self, entities: Sequence[Entity]) -> None:
        """Give models and prompts that tags and links name their new names."""
        if not self.changes.prefix:
            return
        for entity in entities:
            tags = dict(entity.values["tags"])
            for tag in _NAMED_LINKS:
                if tags.get(tag):
                    tags[tag] = self._renamed_links(tags[tag])
            entity.values["tags"] = tags
            if "prompts" in entity.values:
                prompts = entity.values["prompts"].items()
                entity.values["prompts"] = {self.named(one): value for one, value in prompts}

    def _renamed_links(self, text: str) -> str:
        try:
            links = json.loads(text)
        except ValueError:
            return text  # MLflow did not write it
        if not isinstance(links, list):
            return text
        return json.dumps(
            [
                {**one, "name": self.named(one["name"])}
                if isinstance(one, dict) and isinstance(one.get("name"), str)
                else one
                for one in links
            ]
        )

    # --- experiments ----------------------------------------------------------------------------

    def _number_experiments(self, entities: Sequence[Entity]) -> None:
        for entity in entities:
            entity.values["name"] = self.named(entity.values["name"])
        found = ExperimentsHere(self.table, entities, self.experiments.known().values())
        known, given, taken = self.experiments.known(), [], {}
        for entity in entities:
            old = str(entity.key[0])
            if self.is_default(entity):
                known[DEFAULT_ID] = DEFAULT_ID
            elif old in known and found.is_another(known[old], entity):
                self.experiments.forget(old)
            named = found.named_like(entity)
            if old in known or (named is not None and found.is_another(named, entity)):
                known.setdefault(old, str(named))  # a conflict, which is for nobody to remember
                continue
            given.append(old)
            if named is not None:
                taken[old] = named
        self.experiments.give(given, taken)
        for entity in entities:
            entity.key = (known[str(entity.key[0])],)

    def is_default(self, entity: Entity) -> bool:
        """Whether an experiment is the default one, and becomes part of the table's."""
        return (
            entity.key == (DEFAULT_ID,)
            and not self.changes.prefix
            and entity.values["workspace"] == DEFAULT_WORKSPACE
        )

    def experiment(self, old: str) -> str | None:
        """The new id of an experiment; None for one that neither source nor map has."""
        return self.experiments.known().get(old) or self._others.get(old)

    def _follow_experiment(self, entity: Entity) -> None:
        for values, name in ((entity.values, "experiment_id"), (entity.hints, "run_experiment")):
            if values.get(name) is not None:
                values[name] = self._existing(str(values[name]))

    def _existing(self, old: str) -> str:
        """The new id of an experiment that the source must have."""
        new = self.experiment(old)
        if new is None:
            raise ValueError(
                f"the source has something in experiment {old}, and no such experiment"
            )
        return new

    def _rekey_datasets(self, entities: Sequence[Entity]) -> None:
        for entity in entities:
            experiment_id, *rest = entity.key
            entity.key = (self._existing(str(experiment_id)), *rest)

    def _follow_uses(self, entities: Sequence[Entity]) -> None:
        for entity in entities:
            uses = entity.values["experiments"].items()
            entity.values["experiments"] = {
                new: since for old, since in uses if (new := self.experiment(str(old))) is not None
            }

    def _follow_scorers(self, entities: Sequence[Entity]) -> None:
        for entity in entities:
            if COPY_OF_SCORER in entity.hints:
                copy = entity.hints[COPY_OF_SCORER]
                new = self._existing(str(copy["scorer_experiment_id"]))
                entity.hints[COPY_OF_SCORER] = {**copy, "scorer_experiment_id": new}

    def _follow_params(self, entities: Sequence[Entity]) -> None:
        for entity in entities:
            params = entity.values["params"]
            if params:
                entity.values["params"] = self._followed_text(params)

    def _followed_text(self, text: str) -> str:
        try:
            parsed = json.loads(text)
        except ValueError:
            return text
        followed = self._followed(parsed)
        return text if followed == parsed else json.dumps(followed)

    def _followed(self, value: Value) -> Value:
        if isinstance(value, list):
            return [self._followed(one) for one in value]
        if not isinstance(value, dict):
            return value
        return {
            name: self.experiment(one) or one
            if name == "experiment_id" and isinstance(one, str)
            else self._followed(one)
            for name, one in value.items()
        }

    def _rename_ids(self, entities: Sequence[Entity]) -> None:
        """Replace the ids of another table that name the experiment they lay in there."""
        for entity in entities:
            entity.key = (_without_experiment(str(entity.key[0])),)
            if "schemas" in entity.values:
                schemas = entity.values["schemas"].items()
                entity.values["schemas"] = {_without_experiment(one): use for one, use in schemas}

    @cached_property
    def access(self) -> AccessNumbers:
        """The numbers of users and roles, which need MLflow's auth app: the extra ``auth``."""
        module = import_module("mlflow_dynamodbstore.transfer.sql.access_numbers")
        made: AccessNumbers = module.AccessNumbers(
            self.table, self._source, self.experiment, self.named
        )
        return made

    def _number_users(self, entities: Sequence[Entity]) -> None:
        self.access.number_users(entities)

    def _number_roles(self, entities: Sequence[Entity]) -> None:
        self.access.number_roles(entities)

    # --- what is told ---------------------------------------------------------------------------

    def numbers(self) -> dict[str, dict[str, str]]:
        """The new numbers by the old ones, of each kind that has any."""
        known = {"experiments": self.experiments}
        if "access" in self.__dict__:
            known |= {"users": self.access.users, "roles": self.access.roles}
        return {
            name: dict(sorted(some.known().items(), key=lambda pair: int(pair[0])))
            for name, some in known.items()
            if some.known()
        }


class RenumberedSource(EntitySource):
    """The entities of one kind of a source, changed as an import demands."""

    def __init__(self, kind: str, source: EntitySource, target: EntityStore, changes: Renumbering):
        self._kind = kind
        self.original = source
        self._target = target
        self._changes = changes
        self.not_moved = source.not_moved

    def count(self) -> int:
        return self.original.count()

    def pages(self) -> Iterator[list[Entity]]:
        if self._kind == "workspaces" and self._changes.changes.workspace is not None:
            yield [self._only_workspace(self._changes.changes.workspace)]
            return
        for page in self.original.pages():
            yield self._changes.changed(self._kind, page)

    def _only_workspace(self, name: str) -> Entity:
        """The workspace that everything goes to, as it is or new."""
        new = Entity((name,), dict.fromkeys(SETTINGS))
        return self._target.read([new]).get(new.key, new)

    def histories(self, runs: Sequence[Entity]) -> Iterator[HistoryChunk]:
        return self.original.histories(runs)


def _without_experiment(own: str) -> str:
    for prefix in (LABEL_SCHEMA_PREFIX, QUEUE_PREFIX):
        if own.startswith(prefix) and ids.experiment_of(own.removeprefix(prefix)):
            return prefix + stable_id(own)
    return own
