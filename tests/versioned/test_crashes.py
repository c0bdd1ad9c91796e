"""Point 2: a crash between any two steps leaves nothing that a retry or gc does not mend."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import pytest

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from tests.faults import CrashingEngine, SimulatedCrash
from tests.versioned.conftest import Backing, Places
from tests.versioned.crashes import CrashingStorage
from versioned import Repository
from versioned.errors import NotFound
from versioned.keys import TABLE
from versioned.storage import open_storage

NOW = timedelta(0)
Step = Callable[[Repository], Any]
Moment = Literal["before", "after"]
LONG = os.environ.get("VERSIONED_LONG_TESTS") == "1"
MOMENTS: tuple[Moment, ...] = ("before", "after") if LONG else ("after",)


@dataclass(frozen=True)
class Story:
    """What was there before, what is interrupted, and what must be true once it was repeated.

    ``untouched`` are versions that must be readable at every moment.
    """

    before: Step
    act: Step
    after: Callable[[Repository], bool]
    untouched: tuple[int, ...] = (1, 2)


def three_versions(repo: Repository) -> Repository:
    for content in (b"1", b"2", b"3"):
        repo.publish("app", content)
    repo.put("app", b"1")
    repo.put_alias("app", "prod", 1)
    return repo


def with_a_canary(repo: Repository) -> None:
    three_versions(repo)
    repo.canary("app", "prod", 2, 20)


def with_version_three_deleted(repo: Repository) -> None:
    three_versions(repo)
    repo.delete("app", 3)


def with_version_three_purged(repo: Repository) -> Repository:
    with_version_three_deleted(repo)
    repo.purge("app", 3)
    repo.put("app", b"not published")
    repo.put("app", b"1")
    return repo


def nothing(_: Repository) -> None:
    pass


def points_at(repo: Repository, version: str, secondary: str | None = None) -> bool:
    shown = repo.get_alias("app", "prod").to_dict()
    return (shown["version"], shown["secondary_version"]) == (version, secondary)


def is_gone(repo: Repository, version: int | None) -> bool:
    try:
        repo.show("app", version, include_deleted=True)
    except NotFound:
        return True
    return False


STORIES = {
    "first publish": Story(
        nothing, lambda r: r.publish("app", b"1"), lambda r: r.read("app", 1) == b"1", ()
    ),
    "first put": Story(nothing, lambda r: r.put("app", b"1"), lambda r: r.read("app") == b"1", ()),
    "put": Story(
        three_versions, lambda r: r.put("app", b"new"), lambda r: r.read("app") == b"new"
    ),
    "publish": Story(
        three_versions, lambda r: r.publish("app", b"4"), lambda r: r.read("app", 4) == b"4"
    ),
    "publish the same": Story(
        three_versions, lambda r: r.publish("app", b"2"), lambda r: r.read("app") == b"2"
    ),
    "publish LATEST": Story(
        lambda r: three_versions(r).put("app", b"4"),
        lambda r: r.publish("app"),
        lambda r: r.read("app", 4) == b"4",
    ),
    "publish what was deleted": Story(
        with_version_three_deleted,
        lambda r: r.publish("app", b"3"),
        lambda r: r.read("app", 3) == b"3",
    ),
    "publish what was reclaimed": Story(
        lambda r: with_version_three_purged(r).gc(grace=NOW),
        lambda r: r.publish("app", b"3"),
        lambda r: r.read("app", 4) == b"3",
    ),
    "put alias": Story(
        three_versions, lambda r: r.put_alias("app", "prod", 2), lambda r: points_at(r, "2")
    ),
    "canary": Story(
        three_versions, lambda r: r.canary("app", "prod", 2, 20), lambda r: points_at(r, "1", "2")
    ),
    "rollback": Story(
        with_a_canary, lambda r: r.rollback("app", "prod", 1), lambda r: points_at(r, "1")
    ),
    "delete alias": Story(
        three_versions,
        lambda r: r.list_aliases("app").items and r.delete_alias("app", "prod"),
        lambda r: r.list_aliases("app").items == [],
    ),
    "delete": Story(
        three_versions,
        lambda r: r.delete("app", 3),
        lambda r: r.show("app", 3, include_deleted=True).is_deleted,
    ),
    "undelete": Story(
        with_version_three_deleted,
        lambda r: r.undelete("app", 3),
        lambda r: r.read("app", 3) == b"3",
    ),
    "purge": Story(
        with_version_three_deleted,
        lambda r: is_gone(r, 3) or r.purge("app", 3),
        lambda r: is_gone(r, 3),
    ),
    "purge artifact": Story(
        lambda r: (r.publish("app", b"1"), r.publish("app", b"2"), r.publish("other", b"2")),
        lambda r: "app" in r.list_names().items and r.purge_artifact("app"),
        lambda r: r.list_names().items == ["other"] and r.read("other", 1) == b"2",
        (),
    ),
    "gc": Story(
        with_version_three_purged, lambda r: r.gc(grace=NOW), lambda r: len(contents(r)) == 2
    ),
}  # fmt: skip


def contents(repo: Repository) -> list[str]:
    place = repo._home.find()
    return [found.key for found in repo.storage.list(place.folder)] if place else []


class Crash:
    """A repository whose table and storage die at a step."""

    def __init__(
        self, backing: Backing, at: int | None = None, where: str = "", when: Moment = "after"
    ):
        inner = open_engine(backing.table_uri, TABLE, **self._options(backing))
        storage = open_storage(backing.storage_uri, session=backing.session)
        self.engine = CrashingEngine(inner, at=at if where == "table" else None, when=when)
        self.storage = CrashingStorage(storage, at if where == "storage" else None, when)
        self.repo = Repository(Table(self.engine), self.storage)

    @staticmethod
    def _options(backing: Backing) -> dict[str, Any]:
        return {"session": backing.session._session} if backing.session else {}


def crash_points(story: Story, places: Places) -> Iterator[tuple[str, int, Moment]]:
    """After every step of the interrupted call, and so between every two.

    Before a step is after the one before it; the long variant dies there all the same.
    """
    backing = places()
    story.before(backing.open())
    count = Crash(backing)
    story.act(count.repo)
    count.engine.close()
    backing.close()
    for where, steps in (("table", count.engine.writes), ("storage", count.storage.changes)):
        for step in range(1, steps + 1):
            yield from ((where, step, when) for when in MOMENTS)


def assert_sound(repo: Repository, story: Story) -> None:
    report = repo.verify()
    assert report.ok, report.problems
    for version in story.untouched:
        assert repo.read("app", version) == f"{version}".encode()


EVERYWHERE = {"first publish", "put", "publish", "put alias", "purge", "gc"}
"""What is interrupted on S3, too; the rest has the same steps, and S3 takes its time."""


@pytest.mark.parametrize("name", STORIES)
def test_a_crash_at_any_step_is_mended_by_doing_it_again(name, places: Places):
    if not LONG and name not in EVERYWHERE and places().session:
        pytest.skip("the long variant does this on S3")
    story = STORIES[name]
    points = list(crash_points(story, places))
    assert points
    for where, step, when in points:
        backing = places()
        story.before(backing.open())
        crash = Crash(backing, step, where, when)
        with pytest.raises(SimulatedCrash):
            story.act(crash.repo)
        survivor = backing.open()
        assert_sound(survivor, story)
        story.act(survivor)
        assert story.after(survivor), (where, step, when)
        assert_sound(survivor, story)
        survivor.gc(grace=NOW)
        assert story.after(survivor), (where, step, when)
        assert_sound(survivor, story)
        digests = [
            row.sha256
            for listed in survivor.list_names()
            for row in survivor.list_versions(listed, include_deleted=True)
        ]
        assert len(contents(survivor)) == len(set(digests)), (where, step, when)
        crash.engine.inner.close()
        backing.close()


@pytest.mark.parametrize("name", ["publish", "put alias", "delete", "purge", "gc"])
def test_a_crash_that_nobody_repeats_is_mended_by_gc_alone(name, local_places: Places):
    places = local_places
    story = STORIES[name]
    for where, step, when in crash_points(story, places):
        backing = places()
        story.before(backing.open())
        crash = Crash(backing, step, where, when)
        with pytest.raises(SimulatedCrash):
            story.act(crash.repo)
        survivor = backing.open()
        survivor.gc(grace=NOW)
        assert_sound(survivor, story)
        rows = survivor.list_versions("app", include_deleted=True)
        assert len(contents(survivor)) == len({row.sha256 for row in rows})
        crash.engine.inner.close()
        backing.close()
