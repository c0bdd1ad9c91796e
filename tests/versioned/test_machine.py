"""The whole repository against a simple model, by random sequences of calls."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.versioned.conftest import Backing, Places
from versioned import Repository
from versioned.errors import Conflict, InvalidCanary, NotFound

NAMES = st.sampled_from(["a", "b-alias"])
ALIASES = st.sampled_from(["prod", "dev"])
CONTENTS = st.sampled_from([b"", b"x", b"y", b"z"])
VERSIONS = st.sampled_from([None, 1, 2, 3, 4])


@dataclass
class Version:
    content: bytes
    deleted: bool = False


@dataclass
class Thing:
    """An artifact as the model sees it."""

    last: int = 0
    listed: bool = False
    versions: dict[int | None, Version] = field(default_factory=dict)
    aliases: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    history: dict[str, list[tuple[Any, ...] | None]] = field(default_factory=dict)

    def live(self, version: int | None) -> bool:
        return version in self.versions and not self.versions[version].deleted

    def using(self, version: int | None) -> list[str]:
        return [alias for alias, state in self.aliases.items() if version in state[:-1]]

    def publish(self, content: bytes) -> int:
        for number, version in self.versions.items():
            if number is not None and version.content == content:
                version.deleted = False
                return number
        self.last += 1
        self.versions[self.last] = Version(content)
        return self.last

    def record(self, alias: str, state: tuple[Any, ...] | None) -> None:
        if self.aliases.get(alias) != state:
            self.history.setdefault(alias, []).append(state)
            self.aliases.pop(alias, None)
            if state is not None:
                self.aliases[alias] = state


class Machine(RuleBasedStateMachine):
    """Each rule does a call on both, and both must give the same answer or refuse alike."""

    places: Places

    def __init__(self) -> None:
        super().__init__()
        self.backing: Backing = self.places()
        self.repo: Repository = self.backing.open()
        self.model = {"a": Thing(), "b-alias": Thing()}
        self.reclaimable: set[bytes] = set()

    def teardown(self) -> None:
        report = self.repo.verify()
        assert report.ok, report.problems
        self.backing.close()

    # --- content ---------------------------------------------------------------------------------

    @rule(name=NAMES, content=CONTENTS)
    def put(self, name: str, content: bytes) -> None:
        self.repo.put(name, content)
        self.model[name].versions[None] = Version(content)
        self.model[name].listed = True

    @rule(name=NAMES, content=CONTENTS)
    def publish(self, name: str, content: bytes) -> None:
        thing = self.model[name]
        thing.versions[None] = Version(content)
        thing.listed = True
        assert self.repo.publish(name, content).version == str(thing.publish(content))

    @rule(name=NAMES)
    def publish_latest(self, name: str) -> None:
        thing = self.model[name]
        if not thing.live(None):
            self.refused(NotFound, self.repo.publish, name)
            return
        number = thing.publish(thing.versions[None].content)
        assert self.repo.publish(name).version == str(number)

    # --- deleting --------------------------------------------------------------------------------

    @rule(name=NAMES, version=VERSIONS)
    def delete(self, name: str, version: int | None) -> None:
        thing = self.model[name]
        if version not in thing.versions:
            self.refused(NotFound, self.repo.delete, name, version)
        elif thing.using(version):
            self.refused(Conflict, self.repo.delete, name, version)
        else:
            self.repo.delete(name, version)
            thing.versions[version].deleted = True

    @rule(name=NAMES, version=VERSIONS)
    def undelete(self, name: str, version: int | None) -> None:
        thing = self.model[name]
        if version not in thing.versions:
            self.refused(NotFound, self.repo.undelete, name, version)
        else:
            self.repo.undelete(name, version)
            thing.versions[version].deleted = False

    @rule(name=NAMES, version=VERSIONS)
    def purge(self, name: str, version: int | None) -> None:
        thing = self.model[name]
        if version not in thing.versions:
            self.refused(NotFound, self.repo.purge, name, version)
        elif not thing.versions[version].deleted:
            self.refused(Conflict, self.repo.purge, name, version)
        else:
            self.repo.purge(name, version)
            del thing.versions[version]

    @rule(name=NAMES)
    def purge_artifact(self, name: str) -> None:
        thing = self.model[name]
        if thing.aliases:
            self.refused(Conflict, self.repo.purge_artifact, name)
        elif not thing.listed:
            self.refused(NotFound, self.repo.purge_artifact, name)
        else:
            assert self.repo.purge_artifact(name) == len(thing.versions)
            thing.versions.clear()
            thing.listed = False

    # --- aliases ---------------------------------------------------------------------------------

    @rule(
        name=NAMES, alias=ALIASES, version=VERSIONS, secondary=VERSIONS, weight=st.integers(0, 99)
    )
    def put_alias(
        self, name: str, alias: str, version: int | None, secondary: int | None, weight: int
    ) -> None:
        thing = self.model[name]
        canary = (secondary, weight) if secondary is not None else (None, None)
        if secondary is not None and secondary == version:
            self.refused(InvalidCanary, self.repo.put_alias, name, alias, version, *canary)
            return
        state = (version, *canary) if secondary is not None else (version, None)
        self.change(thing, name, alias, state, self.repo.put_alias, name, alias, version, *canary)

    @rule(name=NAMES, alias=ALIASES)
    def promote(self, name: str, alias: str) -> None:
        thing = self.model[name]
        state = thing.aliases.get(alias)
        if state is None or len(state) == 2:
            self.refused((NotFound, Conflict), self.repo.promote, name, alias)
        else:
            self.change(thing, name, alias, (state[1], None), self.repo.promote, name, alias)

    @rule(name=NAMES, alias=ALIASES)
    def abort(self, name: str, alias: str) -> None:
        thing = self.model[name]
        state = thing.aliases.get(alias)
        if state is None or len(state) == 2:
            self.refused((NotFound, Conflict), self.repo.abort, name, alias)
        else:
            self.change(thing, name, alias, (state[0], None), self.repo.abort, name, alias)

    @rule(name=NAMES, alias=ALIASES)
    def delete_alias(self, name: str, alias: str) -> None:
        thing = self.model[name]
        if alias not in thing.aliases:
            self.refused(NotFound, self.repo.delete_alias, name, alias)
        else:
            self.repo.delete_alias(name, alias)
            thing.record(alias, None)

    @rule(name=NAMES, alias=ALIASES, revision=st.integers(1, 6))
    def rollback(self, name: str, alias: str, revision: int) -> None:
        thing = self.model[name]
        history = thing.history.get(alias, [])
        if revision > len(history):
            self.refused(NotFound, self.repo.rollback, name, alias, revision)
            return
        state = history[revision - 1]
        self.change(thing, name, alias, state, self.repo.rollback, name, alias, revision)

    def change(self, thing: Thing, name: str, alias: str, state: Any, call: Any, *a: Any) -> None:
        unchanged = thing.aliases.get(alias) == state
        targets = state[:-1] if state is not None else ()
        if unchanged or all(thing.live(target) for target in targets):
            call(*a)
            thing.record(alias, state)
        else:
            self.refused(NotFound, call, *a)

    # --- upkeep ----------------------------------------------------------------------------------

    @rule()
    def gc(self) -> None:
        self.repo.gc(grace=timedelta(0))
        used = {
            hashlib.sha256(version.content).hexdigest()
            for thing in self.model.values()
            for version in thing.versions.values()
        }
        place = self.repo._home.find()
        stored = self.repo.storage.list(place.folder) if place else []
        assert {found.key.rpartition("/")[2].partition(".")[0] for found in stored} == used

    @rule()
    @precondition(lambda self: self.model["a"].versions)
    def open_again(self) -> None:
        self.repo = self.backing.open()

    # --- what must hold after every call ---------------------------------------------------------

    @invariant()
    def names_are_listed(self) -> None:
        listed = [name for name, thing in sorted(self.model.items()) if thing.listed]
        assert self.repo.list_names().items == listed

    @invariant()
    def versions_are_listed_and_readable(self) -> None:
        for name, thing in self.model.items():
            numbers = sorted((number for number in thing.versions if number), reverse=True)
            order: list[int | None] = [None] if None in thing.versions else []
            order += numbers
            rows = self.repo.list_versions(name, include_deleted=True)
            assert [row.version for row in rows] == [str(n) if n else "LATEST" for n in order]
            for number, row in zip(order, rows, strict=True):
                assert row.is_deleted == thing.versions[number].deleted
                assert self.repo.read(row) == thing.versions[number].content

    @invariant()
    def aliases_resolve(self) -> None:
        for name, thing in self.model.items():
            assert [row.alias for row in self.repo.list_aliases(name)] == sorted(thing.aliases)
            for alias, state in thing.aliases.items():
                row = self.repo.resolve(name, alias, "key")
                allowed = [str(target) if target else "LATEST" for target in state[:-1]]
                assert row.version in allowed
                assert row == self.repo.show(name, row.version)

    def refused(self, error: Any, call: Any, *arguments: Any) -> None:
        with pytest.raises(error):
            call(*arguments)


@pytest.mark.hypothesis
def test_the_repository_does_what_the_model_does(places: Places):
    long = os.environ.get("HYPOTHESIS_PROFILE") == "long"
    is_remote = places().session is not None
    machine: Any = type("Machine", (Machine,), {"places": staticmethod(places)})
    machine.TestCase.settings = settings(
        max_examples=(1_000 if long else 12) // (6 if is_remote else 1),
        stateful_step_count=25,
        suppress_health_check=list(HealthCheck),
    )
    machine.TestCase().runTest()
