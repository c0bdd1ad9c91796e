"""Point 6: an alias protects its version, a deletion can be undone, a purge cannot."""

from __future__ import annotations

import pytest

from tests.versioned.conftest import Backing
from versioned import Repository
from versioned.errors import (
    ArtifactNotFound,
    NotDeleted,
    VersionDeleted,
    VersionInUse,
    VersionNotFound,
)


@pytest.fixture
def repo(backing: Backing) -> Repository:
    made = backing.open()
    made.publish("app", b"one")
    made.publish("app", b"two")
    return made


def test_a_deleted_version_is_hidden_and_can_be_brought_back(repo: Repository):
    assert repo.delete("app", 1).is_deleted
    assert [row.version for row in repo.list_versions("app")] == ["LATEST", "2"]
    with_deleted = repo.list_versions("app", include_deleted=True)
    assert [row.version for row in with_deleted] == ["LATEST", "2", "1"]
    for read in (repo.show, repo.read):
        with pytest.raises(VersionDeleted, match="undelete it"):
            read("app", 1)
    assert repo.show("app", 1, include_deleted=True).is_deleted
    assert not repo.undelete("app", 1).is_deleted
    assert repo.read("app", 1) == b"one"


def test_deleting_and_undeleting_twice_is_the_same_as_once(repo: Repository):
    assert repo.delete("app", 1).is_deleted
    assert repo.delete("app", 1).is_deleted
    assert not repo.undelete("app", 1).is_deleted
    assert not repo.undelete("app", 1).is_deleted


def test_latest_can_be_deleted_and_put_again(repo: Repository):
    repo.delete("app")
    with pytest.raises(VersionDeleted):
        repo.read("app")
    assert [row.version for row in repo.list_versions("app")] == ["2", "1"]
    repo.put("app", b"two")
    assert repo.read("app") == b"two"
    assert repo.verify().ok


@pytest.mark.parametrize("secondary", [False, True], ids=["primary", "secondary"])
def test_a_version_that_an_alias_points_at_is_not_deleted_and_the_alias_is_named(
    secondary, repo: Repository
):
    repo.put_alias("app", "prod", *((2, 1, 0) if secondary else (1,)))
    repo.put_alias("app", "other", 2)
    with pytest.raises(VersionInUse, match="the alias 'prod' points at") as caught:
        repo.delete("app", 1)
    assert caught.value.aliases == ["prod"]
    assert repo.read("app", 1) == b"one"
    repo.delete_alias("app", "prod")
    assert repo.delete("app", 1).is_deleted


def test_all_aliases_of_a_version_are_named(repo: Repository):
    for alias in ("prod", "staging", "test"):
        repo.put_alias("app", alias, 1)
    with pytest.raises(VersionInUse, match="the aliases 'prod', 'staging', 'test' point at"):
        repo.delete("app", 1)


def test_latest_that_an_alias_points_at_is_not_deleted(repo: Repository):
    repo.put_alias("app", "dev")
    with pytest.raises(VersionInUse, match="'dev'"):
        repo.delete("app")


def test_an_alias_that_comes_at_the_last_moment_is_noticed(backing: Backing, repo: Repository):
    """Between looking for aliases and deleting nothing slips through."""
    other = backing.open()
    real = repo._home.table.transact

    def point_first(writes):
        repo._home.table.transact = real  # type: ignore[method-assign]
        other.put_alias("app", "prod", 1)
        real(writes)

    repo._home.table.transact = point_first  # type: ignore[method-assign]
    with pytest.raises(VersionInUse, match="'prod'"):
        repo.delete("app", 1)
    assert repo.read(repo.resolve("app", "prod")) == b"one"


def test_only_a_deleted_version_can_be_purged(repo: Repository):
    with pytest.raises(NotDeleted, match="delete it first"):
        repo.purge("app", 1)
    repo.delete("app", 1)
    assert repo.purge("app", 1).sha256
    for call in (repo.purge, repo.undelete, repo.delete, repo.show):
        with pytest.raises(VersionNotFound, match="version 1 of 'app' was purged"):
            call("app", 1)


def test_purging_an_artifact_is_refused_while_it_has_aliases(repo: Repository):
    repo.put_alias("app", "prod", 1)
    with pytest.raises(VersionInUse, match="prod: delete them first"):
        repo.purge_artifact("app")
    assert len(repo.list_versions("app")) == 3


def test_purging_an_artifact_removes_all_of_it(repo: Repository):
    repo.publish("other", b"one")
    repo.delete("app", 1)
    assert repo.purge_artifact("app") == 3
    assert repo.list_names().items == ["other"]
    with pytest.raises(ArtifactNotFound):
        repo.show("app")
    with pytest.raises(ArtifactNotFound):
        repo.purge_artifact("app")
    assert repo.read("other", 1) == b"one"
    assert repo.verify().ok


def test_what_is_not_there_is_told_apart(repo: Repository):
    cases = [
        (("nothing", 1), ArtifactNotFound, "no artifact 'nothing'"),
        (("app", 3), VersionNotFound, "the newest is 2"),
    ]
    for arguments, error, message in cases:
        for call in (repo.show, repo.delete, repo.undelete, repo.purge, repo.read):
            with pytest.raises(error, match=message):
                call(*arguments)
    repo.put("unpublished", b"x")
    with pytest.raises(VersionNotFound, match="nothing was published yet"):
        repo.show("unpublished", 1)
