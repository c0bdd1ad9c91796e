"""`verify` finds every way in which rows, counts and bytes can disagree."""

from __future__ import annotations

import pytest

from mlflow_dynamodbstore.table.update import Update
from tests.versioned.conftest import Backing
from tests.versioned.test_content import damage, stored_object
from versioned import Repository
from versioned.errors import InvalidName


@pytest.fixture
def repo(backing: Backing) -> Repository:
    made = backing.open()
    made.publish("app", b"content")
    made.put_alias("app", "prod", 1)
    return made


def found(repo: Repository, name: str | None = None) -> str:
    return "\n".join(str(problem) for problem in repo.verify(name).problems)


def test_a_sound_repository_is_sound(repo: Repository):
    report = repo.verify()
    assert (report.ok, report.versions, report.contents, report.bytes) == (True, 2, 1, 7)
    assert repo.verify("app", read_content=False).bytes == 0


def test_bytes_that_are_missing(repo: Repository):
    repo.storage.delete(stored_object(repo).key)
    assert "is not there" in found(repo)
    assert "is not there" in found(repo, "app")


def test_bytes_of_the_wrong_size(repo: Repository):
    damage(repo, b"longer content")
    assert "has 14 bytes instead of 7" in found(repo)


def test_bytes_of_the_wrong_digest_are_found_by_reading_them(repo: Repository):
    damage(repo, b"CONTENT")
    assert repo.verify(read_content=False).ok
    assert "is damaged" in found(repo)


def test_a_wrong_count(repo: Repository):
    home = repo._home
    home.table.update(home.keys.blob(str(repo.show("app").sha256)), Update(add={"refs": 1}))
    assert "2 versions refer to it, and the table counts 3 (stored)" in found(repo)


def test_a_digest_that_leads_nowhere(repo: Repository):
    home = repo._home
    home.table.delete(home.keys.digest("app", str(repo.show("app").sha256)))
    assert "is missing or wrong" in found(repo)


def test_an_alias_that_points_nowhere(repo: Repository):
    home = repo._home
    home.table.delete(home.keys.version("app", 1))
    assert "alias 'prod' points at it, and it is not there" in found(repo)


def test_a_bad_name_is_refused(repo: Repository):
    with pytest.raises(InvalidName):
        repo.verify("a/b")
