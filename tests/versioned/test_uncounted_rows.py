"""Rows that another program has written, PynamoDB's models among them, on every backing."""

from __future__ import annotations

import pytest

from mlflow_dynamodbstore.table.values import Item, Key
from tests.versioned.conftest import Backing
from versioned import Alias, Artifact
from versioned.errors import ArtifactNotFound, VersionInUse


def write(backing: Backing, *items: Item) -> None:
    table = backing.table()
    for item in items:
        table.put(item)
    table.close()


def version(name: str, number: int | None, **attributes: str) -> Item:
    item = Artifact.new(name, number).to_item()
    kept = ("pk", "sk", "update_at", "is_deleted")
    return {**{key: item[key] for key in kept}, **attributes}


def listed(name: str) -> Item:
    return {"pk": "__names", "sk": name}


def test_they_are_read_before_any_repository_has_written(backing: Backing):
    write(backing, version("app", 1, sha256="abc"), listed("app"))
    repo = backing.open()
    assert repo.list_names().items == ["app"]
    assert repo.show("app", 1).sha256 == "abc"
    backing.open(storage=backing.other_storage()).publish("mine", b"x")
    with pytest.raises(ArtifactNotFound):
        repo.show("app", 1)


def test_a_namespace_does_not_read_them(backing: Backing):
    write(backing, version("app", 1), listed("app"))
    assert backing.open(namespace="team").list_names().items == []


def test_publishing_goes_on_after_their_numbers(backing: Backing):
    repo = backing.open()
    repo.publish("app", b"1")
    write(backing, version("app", 2, sha256="abc"), version("app", 5))
    assert repo.publish("app", b"2").version == "6"
    assert repo.publish("app", b"3").version == "7"
    assert repo.show("app", 2).sha256 == "abc"


@pytest.mark.parametrize("numbers", [[5], [2, 5, 9]])
def test_a_purged_number_is_not_used_again(backing: Backing, numbers):
    write(backing, *(version("app", number) for number in numbers))
    repo = backing.open()
    for number in reversed(numbers):
        repo.delete("app", number)
        repo.purge("app", number)
    assert repo.publish("app", b"x").version == str(max(numbers) + 1)


def test_a_version_without_a_digest_can_be_deleted_brought_back_and_aliased(backing: Backing):
    write(backing, version("app", 1), version("app", None))
    repo = backing.open()
    repo.delete("app", 1)
    repo.undelete("app", 1)
    repo.put_alias("app", "prod", 1)
    assert repo.resolve("app", "prod").version == "1"
    with pytest.raises(VersionInUse):
        repo.delete("app", 1)
    repo.delete_alias("app", "prod")
    repo.put("app", b"x")
    assert repo.verify().ok
    assert repo.purge_artifact("app") == 2


def test_an_alias_that_was_moved_at_the_same_revision_is_noticed(backing: Backing):
    repo = backing.open()
    for content in (b"1", b"2", b"3"):
        repo.publish("app", content)
    row = repo.put_alias("app", "prod", 1)
    transact = repo._home.table.transact

    def late(writes):
        repo._home.table.transact = transact  # type: ignore[method-assign]
        table = backing.table()
        moved = Alias.from_item(table.get(Key(str(row.pk), str(row.sk))) or {})
        moved.version = "000002"
        table.put(moved.to_item())
        table.close()
        return transact(writes)

    repo._home.table.transact = late  # type: ignore[method-assign]
    assert repo.canary("app", "prod", 3, 10).version == "000002"
