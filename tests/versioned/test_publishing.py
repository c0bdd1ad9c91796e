"""Points 1 to 3: numbers are unique for ever, bytes never change, same content is same version."""

from __future__ import annotations

import hashlib
import io
from datetime import timedelta

import pytest

from mlflow_dynamodbstore.table.contract import Scan
from tests.versioned.conftest import Backing
from versioned import Repository
from versioned.errors import (
    ArtifactNotFound,
    ContentChanged,
    ContentMissing,
    InvalidMetadata,
    InvalidSource,
    VersionDeleted,
)


def test_publishing_gives_the_numbers_from_one_on_and_each_keeps_its_bytes(repo: Repository):
    assert [repo.publish("app", f"v{n}".encode()).version for n in (1, 2, 3)] == ["1", "2", "3"]
    assert [repo.read("app", n) for n in (1, 2, 3)] == [b"v1", b"v2", b"v3"]
    assert repo.read("app") == b"v3"


def test_put_changes_latest_and_no_version(repo: Repository):
    repo.publish("app", b"one")
    latest = repo.put("app", b"two")
    assert (latest.version, latest.sha256) == ("LATEST", hashlib.sha256(b"two").hexdigest())
    assert (repo.read("app"), repo.read("app", 1)) == (b"two", b"one")


def test_publishing_latest(repo: Repository):
    repo.put("app", b"one", metadata={"commit": "abc"})
    version = repo.publish("app")
    assert (version.version, version.metadata) == ("1", {"commit": "abc"})
    assert repo.read("app", 1) == b"one"


def test_publishing_latest_that_is_not_what_was_expected_is_refused(repo: Repository):
    mine = repo.put("app", b"mine")
    repo.put("app", b"somebody else's")
    with pytest.raises(ContentChanged, match="somebody has put other content"):
        repo.publish("app", expected_sha256=mine.sha256)
    assert [row.version for row in repo.list_versions("app")] == ["LATEST"]


def test_content_that_is_not_what_was_expected_is_refused_before_it_is_stored(repo: Repository):
    right = hashlib.sha256(b"right").hexdigest()
    with pytest.raises(ContentChanged, match="was not stored"):
        repo.publish("app", b"wrong", expected_sha256=right)
    assert repo.list_names().items == []
    assert repo.publish("app", b"right", expected_sha256=right).version == "1"


def test_metadata_without_content_is_refused(repo: Repository):
    repo.put("app", b"one")
    with pytest.raises(InvalidMetadata, match="belongs to content"):
        repo.publish("app", metadata={"a": "b"})


def test_the_same_content_is_the_same_version_however_often_and_by_whichever_way(repo: Repository):
    assert repo.publish("app", b"one").version == "1"
    assert repo.publish("app", b"two").version == "2"
    assert repo.publish("app", io.BytesIO(b"one")).version == "1"
    assert repo.read("app") == b"one"
    repo.put("app", b"two")
    assert repo.publish("app").version == "2"
    assert repo.publish("app", b"three").version == "3"


def test_the_same_content_under_two_names_is_two_artifacts_and_one_object(repo: Repository):
    repo.publish("one", b"shared")
    repo.publish("two", b"shared")
    place = repo._home.find()
    assert place is not None
    assert len(list(repo.storage.list(place.folder))) == 1
    repo.delete("one", 1)
    repo.purge("one", 1)
    repo.put("one", b"other")
    repo.gc(grace=timedelta(0))
    assert repo.read("two", 1) == b"shared"
    assert repo.verify().ok


def test_publishing_content_whose_version_was_deleted_brings_it_back(repo: Repository):
    repo.publish("app", b"one")
    repo.publish("app", b"two")
    repo.delete("app", 1)
    assert repo.publish("app", b"one").version == "1"
    assert repo.read("app", 1) == b"one"
    assert repo.verify().ok


def test_a_number_is_not_used_again_after_a_delete_and_not_after_a_purge(repo: Repository):
    repo.publish("app", b"one")
    repo.publish("app", b"two")
    repo.delete("app", 2)
    assert repo.publish("app", b"three").version == "3"
    repo.delete("app", 3)
    repo.purge("app", 3)
    assert repo.publish("app", b"three").version == "4"
    repo.purge_artifact("app")
    assert repo.list_names().items == []
    assert repo.publish("app", b"three").version == "5"
    assert repo.list_names().items == ["app"]


def test_versions_continue_after_999_999(backing: Backing):
    repo = backing.open()
    repo.publish("app", b"one")
    table = backing.table()
    state = table.get(repo._home.keys.state("app")) or {}
    table.put({**state, "last_version": 999_998})
    table.close()
    assert [repo.publish("app", f"{n}".encode()).version for n in range(3)] == [
        "999999", "1000000", "1000001",
    ]  # fmt: skip
    listed = [row.version for row in repo.list_versions("app")]
    assert listed == ["LATEST", "1000001", "1000000", "999999", "1"]
    oldest_first = [row.version for row in repo.list_versions("app", oldest_first=True)]
    assert oldest_first == ["LATEST", "1", "999999", "1000000", "1000001"]
    assert repo.show("app", 1_000_000).version == "1000000"
    assert repo.read("app", 1_000_000) == b"1"


def test_publishing_goes_on_after_rows_that_the_older_package_wrote(backing: Backing):
    """Its rows are readable, its numbers are not used again, its content is not pretended to."""
    table = backing.table()
    old = {"update_at": "2024-01-01T12:00:00.000000+0000", "is_deleted": False, "sha256": "0" * 64}
    for sk in ("LATEST", "000001", "000007"):
        table.put({"pk": "app", "sk": sk, **old})
    table.close()
    repo = backing.open()
    repo.publish("other", b"claims the empty prefix")
    assert [row.version for row in repo.list_versions("app")] == ["LATEST", "7", "1"]
    with pytest.raises(ContentMissing):
        repo.publish("app")
    with pytest.raises(ContentMissing):
        repo.read("app", 7)
    assert repo.publish("app", b"new").version == "8"
    assert [row.version for row in repo.list_versions("app")] == ["LATEST", "8", "7", "1"]
    repo.delete("app", 7)
    repo.purge("app", 7)
    assert repo.verify().ok


def test_an_empty_artifact_is_an_artifact(repo: Repository):
    assert repo.publish("app", b"").size == 0
    assert repo.read("app", 1) == b""


def test_what_is_known_about_a_version(backing: Backing, clock, tmp_path):
    file = tmp_path / "model.bin"
    file.write_bytes(b"model")
    repo = backing.open(actor="ann", clock=clock)
    row = repo.publish("app", file, metadata={"a": "é"})
    assert row == repo.show("app", 1)
    assert (row.by, row.filename, row.size, row.metadata) == ("ann", "model.bin", 5, {"a": "é"})
    assert row.update_at.timestamp() == clock.now


@pytest.mark.parametrize(
    "metadata", [{"a": 1}, {1: "a"}, {"": "a"}, {"a": "x" * 5000}, ["a"], "text"], ids=repr
)
def test_bad_metadata_is_refused_before_anything_is_written(metadata, local: Backing):
    repo = local.open()
    with pytest.raises(InvalidMetadata):
        repo.publish("app", b"content", metadata=metadata)
    assert repo.list_names().items == []
    assert repo.storage.identity() is None


def test_publishing_nothing_is_refused_with_what_to_do(repo: Repository):
    with pytest.raises(ArtifactNotFound, match="put content first"):
        repo.publish("app")
    repo.put("app", b"one")
    repo.delete("app")
    with pytest.raises(VersionDeleted, match="put content again"):
        repo.publish("app")
    repo.put("app", b"one")
    assert repo.publish("app").version == "1"


@pytest.mark.parametrize(
    "source",
    [7, io.StringIO("text"), "/no/such/file"],
    ids=["number", "text stream", "absent file"],
)
def test_content_that_cannot_be_read_is_refused(source, local: Backing):
    with pytest.raises(InvalidSource):
        local.open().put("app", source)


def test_a_put_says_it_succeeded_only_when_its_bytes_are_there(repo: Repository):
    """Bytes that were lost behind our back are stored again by the next put."""
    row = repo.publish("app", b"one")
    place = repo._home.find()
    assert place is not None
    (stored,) = repo.storage.list(place.folder)
    repo.storage.delete(stored.key)
    with pytest.raises(ContentMissing):
        repo.read(row)
    assert repo.publish("app", b"one").version == "1"
    assert repo.read("app", 1) == b"one"


def test_every_item_of_a_repository_is_of_a_documented_kind(backing: Backing):
    """Nothing stands in the table that the list of keys does not name."""
    repo = backing.open()
    repo.publish("app", b"one")
    repo.put_alias("app", "prod", 1)
    table = backing.table()
    kinds = {str(item["pk"]) for item in table.scan(Scan()).items}
    table.close()
    sha256 = hashlib.sha256(b"one").hexdigest()
    assert kinds == {
        "app", "__app-alias", "__app-history", "__app-digest", "__app-state", f"__{sha256}-blob",
        "__names", "__repositories",
    }  # fmt: skip
