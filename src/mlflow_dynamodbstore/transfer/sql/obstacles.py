"""Experiments and models that an import cannot write, found before it writes anything.

Something else has their name or id, or they were imported before under another name. An import that
left them out would also leave whatever belongs to them, and a second one with other options would
meet what the first one has written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from mlflow_dynamodbstore.registry.items import RegisteredModelPlace
from mlflow_dynamodbstore.shared.names.claims import is_live
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.transfer.sql.entities import OTHER_NAME, Entity, EntitySource
from mlflow_dynamodbstore.transfer.sql.experiments import DEFAULT_ID, ExperimentsHere
from mlflow_dynamodbstore.transfer.sql.move import EXPERIMENTS, Findings, Kind
from mlflow_dynamodbstore.transfer.sql.renumbering import RenumberedSource, Renumbering

MODELS = "registered models"
NEW_IDS = "Import with --renumber, which gives experiments new ids."


def obstacles(kinds: Iterable[Kind], table: Table, renumbering: Renumbering | None) -> Findings:
    """What keeps an import from writing all experiments and models of its source."""
    found = Findings()
    check = _Check(table, renumbering)
    checks = {EXPERIMENTS: check.experiments, MODELS: check.models}
    for kind in kinds:
        if kind.name in checks:
            for page in _original(kind.source).pages():
                for entity, sentence in checks[kind.name](page):
                    found.add(kind.name, entity, sentence)
    return found


def _original(source: EntitySource) -> EntitySource:
    return source.original if isinstance(source, RenumberedSource) else source


@dataclass(frozen=True)
class _Check:
    table: Table
    renumbering: Renumbering | None

    def experiments(self, page: Sequence[Entity]) -> Iterator[tuple[Entity, str]]:
        entities = [entity for entity in page if not self._is_merged(entity)]
        ids = {str(one.key[0]): self._noted(str(one.key[0])) for one in entities}
        wanted = [self._changed(entity) for entity in entities]
        noted = [number for number in ids.values() if number is not None]
        here = ExperimentsHere(self.table, wanted, noted)
        before = ExperimentsHere(self.table, entities)
        for entity, new in zip(entities, wanted, strict=True):
            sentence = self._experiment(entity, new, ids[str(entity.key[0])], here, before)
            if sentence is not None:
                yield entity, sentence

    def _experiment(
        self,
        entity: Entity,
        wanted: Entity,
        number: str | None,
        here: ExperimentsHere,
        before: ExperimentsHere,
    ) -> str | None:
        """Why one experiment cannot be written under the id that it has or got earlier."""
        meta = None if number is None else here.get(number)
        named = here.named_like(wanted)
        taken = named is not None and here.is_another(named, entity)
        if meta is not None and not here.is_another(str(number), entity):
            return self._imported_otherwise(str(entity.key[0]), meta)
        if taken:
            name = wanted.values["name"]
            return f"needs the name {name!r}, which experiment {named} has. {OTHER_NAME}"
        if meta is not None and self.renumbering is None:
            return f"needs the id {number}, which {meta['name']!r} has. {NEW_IDS}"
        old = before.named_like(entity)
        if named is None and old is not None and not before.is_another(old, entity):
            return _imported_as(str(entity.values["name"]))
        return None

    def _imported_otherwise(self, old: str, meta: Item) -> str | None:
        """Whether it was imported with another prefix, or into another workspace."""
        if self.renumbering is None or self.renumbering.experiments.was_told_the_same(old):
            return None
        return _imported_as(meta["name"])

    def models(self, page: Sequence[Entity]) -> Iterator[tuple[Entity, str]]:
        places = {entity.key: _place(entity) for entity in page}
        wanted = {entity.key: self._new_place(entity) for entity in page}
        metas = self.table.get_many({place.key for place in [*places.values(), *wanted.values()]})
        for entity in page:
            here = _created(metas, wanted[entity.key].key)
            if here is not None and here != entity.values["creation_time"]:
                yield (
                    entity,
                    f"needs the name {wanted[entity.key].name!r}, which another has. {OTHER_NAME}",
                )
            elif here is None and _created(metas, places[entity.key].key) == _time(entity):
                yield entity, _imported_as(places[entity.key].name)

    def _changed(self, entity: Entity) -> Entity:
        """An experiment with the name and the workspace that it would get."""
        if self.renumbering is None:
            return entity
        values = {
            **entity.values,
            "name": self.renumbering.named(entity.values["name"]),
            "workspace": self.renumbering.workspace(entity.values["workspace"]),
        }
        return replace(entity, values=values)

    def _new_place(self, entity: Entity) -> RegisteredModelPlace:
        workspace, name = entity.key
        if self.renumbering is None:
            return RegisteredModelPlace(name, workspace)
        return RegisteredModelPlace(
            self.renumbering.named(name), self.renumbering.workspace(workspace)
        )

    def _is_merged(self, entity: Entity) -> bool:
        """Whether it is the default experiment, and becomes part of the table's."""
        if self.renumbering is not None:
            return self.renumbering.is_default(self._changed(entity))
        return entity.key == (DEFAULT_ID,)

    def _noted(self, old: str) -> str | None:
        """The id that an experiment has in the table, as far as that is decided."""
        return old if self.renumbering is None else self.renumbering.experiments.known().get(old)


def _imported_as(name: str) -> str:
    return (
        f"was imported as {name!r}. Use the same --renumber, --prefix and --into-workspace as then."
    )


def _place(entity: Entity) -> RegisteredModelPlace:
    workspace, name = entity.key
    return RegisteredModelPlace(name, workspace)


def _time(entity: Entity) -> int:
    created: int = entity.values["creation_time"]
    return created


def _created(metas: dict[Key, Item], key: Key) -> int | None:
    """When a model was created, if there is one."""
    meta = metas.get(key)
    return meta["created"] if is_live(meta) else None
