"""Point 6: gc has a dry run and a grace period, and reclaims only what nothing points at."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.versioned.conftest import Backing
from versioned import Repository, blobs
from versioned.content import staged
from versioned.errors import InvalidInput

NOW = timedelta(0)


def objects(repo: Repository) -> list[str]:
    place = repo._home.find()
    return [found.key for found in repo.storage.list(place.folder)] if place else []


@pytest.fixture
def repo(backing: Backing) -> Repository:
    made = backing.open()
    made.publish("app", b"kept")
    made.publish("app", b"gone")
    made.put("app", b"kept")
    made.delete("app", 2)
    return made


def test_bytes_of_a_deleted_version_are_kept(repo: Repository):
    assert repo.gc(grace=NOW).reclaimed == []
    repo.undelete("app", 2)
    assert repo.read("app", 2) == b"gone"


def test_bytes_of_a_purged_version_are_reclaimed(repo: Repository):
    repo.purge("app", 2)
    report = repo.gc(grace=NOW)
    assert ([one.size for one in report.reclaimed], report.bytes, report.kept) == ([4], 4, 1)
    assert len(objects(repo)) == 1
    assert repo.read("app", 1) == b"kept"
    assert repo.gc(grace=NOW).reclaimed == []
    assert repo.verify().ok


def test_a_dry_run_says_what_would_go_and_removes_nothing(repo: Repository):
    repo.purge("app", 2)
    dry = repo.gc(grace=NOW, dry_run=True)
    assert dry.dry_run
    assert len(objects(repo)) == 2
    assert repo.gc(grace=NOW).reclaimed == dry.reclaimed


def test_the_grace_period_protects_what_was_dropped_lately(backing: Backing, repo: Repository):
    repo.purge("app", 2)
    assert repo.gc().reclaimed == []
    later = backing.open(clock=lambda: repo._home.clock() + 2 * 86_400)
    assert len(later.gc().reclaimed) == 1


def test_a_negative_grace_period_is_refused(repo: Repository):
    with pytest.raises(InvalidInput, match="cannot be negative"):
        repo.gc(grace=timedelta(seconds=-1))


def test_replaced_latest_is_reclaimed_unless_it_was_published(repo: Repository):
    repo.put("app", b"never published")
    repo.put("app", b"kept")
    assert len(repo.gc(grace=NOW).reclaimed) == 1
    assert repo.read("app") == repo.read("app", 1) == b"kept"


def test_bytes_whose_put_did_not_get_to_its_row_are_reclaimed(repo: Repository):
    with staged(b"half done") as content:
        blobs.ensure_stored(repo._home, content, None, lambda _: None)
    assert len(repo.gc(grace=NOW).reclaimed) == 1
    assert repo.publish("app", b"half done").version == "3"
    assert repo.read("app", 3) == b"half done"


def test_content_can_come_back_after_it_was_reclaimed_again_and_again(repo: Repository):
    repo.purge("app", 2)
    for number in (3, 4, 5):
        assert len(repo.gc(grace=NOW).reclaimed) == 1
        assert repo.publish("app", b"gone").version == str(number)
        repo.put("app", b"kept")
        assert repo.read("app", number) == b"gone"
        assert repo.verify().ok
        repo.delete("app", number)
        repo.purge("app", number)


def test_content_that_is_published_while_gc_looks_at_it_is_kept(backing: Backing, repo: Repository):
    """Gc has read that nothing refers to it; a publisher is faster; gc must notice."""
    repo.purge("app", 2)
    other = backing.open()
    real = repo._home.table.update

    def publish_first(*args, **kwargs):
        repo._home.table.update = real  # type: ignore[method-assign]
        other.publish("app", b"gone")
        return real(*args, **kwargs)

    repo._home.table.update = publish_first  # type: ignore[method-assign]
    report = repo.gc(grace=NOW)
    assert (report.reclaimed, report.kept) == ([], 2)
    assert repo.read("app", 3) == b"gone"


def test_content_that_is_published_between_its_verdict_and_its_removal_survives(
    backing: Backing, repo: Repository
):
    """Gc has condemned it and not yet removed it; a publisher stores it under another key."""
    repo.purge("app", 2)
    other = backing.open()
    real = repo.storage.delete

    def publish_first(key: str) -> None:
        other.publish("app", b"gone")
        real(key)

    repo.storage.delete = publish_first  # type: ignore[method-assign]
    assert len(repo.gc(grace=NOW).reclaimed) == 1
    repo.storage.delete = real  # type: ignore[method-assign]
    assert other.read("app", 3) == b"gone"
    assert other.verify().ok
    assert repo.gc(grace=NOW).reclaimed == []


def test_content_that_is_reclaimed_while_a_publisher_counts_on_it_is_stored_again(
    backing: Backing, repo: Repository
):
    """The publisher has seen the bytes; gc takes them before its transaction."""
    repo.purge("app", 2)
    other = backing.open()
    real = repo._home.table.transact

    def collect_first(writes):
        repo._home.table.transact = real  # type: ignore[method-assign]
        assert len(other.gc(grace=NOW).reclaimed) == 1
        real(writes)

    repo._home.table.transact = collect_first  # type: ignore[method-assign]
    assert repo.publish("app", b"gone").version == "3"
    assert repo.read("app", 3) == b"gone"
    assert repo.verify().ok


def test_two_collections_at_once_do_no_harm(backing: Backing, repo: Repository):
    repo.purge("app", 2)
    other = backing.open()
    real = repo.storage.delete

    def collect_too(key: str) -> None:
        repo.storage.delete = real  # type: ignore[method-assign]
        other.gc(grace=NOW)
        other.publish("app", b"gone")
        real(key)

    repo.storage.delete = collect_too  # type: ignore[method-assign]
    repo.gc(grace=NOW)
    assert repo.read("app", 3) == b"gone"
    assert repo.verify().ok


def test_unfinished_uploads_are_discarded_after_the_grace_period(
    backing: Backing, repo: Repository, tmp_path
):
    """What a process leaves that died in the middle of storing a large file."""
    place = repo._home.find()
    assert place is not None
    storage = repo.storage
    if hasattr(storage, "_client"):
        storage._client.create_multipart_upload(
            Bucket=storage.bucket,  # type: ignore[attr-defined]
            Key=f"{storage.prefix}{place.folder}/ab/{'ab' * 32}",  # type: ignore[attr-defined]
        )  # and moto says of every upload that it was begun in 2010
    else:
        (storage.root / ".tmp" / "left").write_bytes(b"half")  # type: ignore[attr-defined]
        assert repo.gc().unfinished == []
    later = backing.open(clock=lambda: repo._home.clock() + 2 * 86_400)
    assert len(later.gc(dry_run=True).unfinished) == 1
    assert len(later.gc().unfinished) == 1
    assert later.gc().unfinished == []


def test_files_of_others_in_the_storage_are_left_alone(repo: Repository):
    place = repo._home.find()
    assert place is not None
    with staged(b"notes") as content:
        repo.storage.write(f"{place.folder}/notes.txt", content)
        repo.storage.write("elsewhere/ab/" + "ab" * 32, content)
    assert repo.gc(grace=NOW).reclaimed == []
    assert f"{place.folder}/notes.txt" in objects(repo)


def test_gc_of_a_repository_that_was_never_written_to_finds_nothing(backing: Backing):
    assert backing.open().gc(grace=NOW).kept == 0
