"""Point 7: content streams both ways, is hashed as it passes, and arrives whole or not at all."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from tests.versioned.conftest import Backing
from versioned import Repository
from versioned.content import staged
from versioned.errors import (
    ContentChanged,
    ContentMissing,
    Corrupt,
    DigestMismatch,
    InvalidInput,
    InvalidSource,
)
from versioned.folders import unpack
from versioned.storage import StoredObject

LARGE = os.urandom(1024) * 9 * 1024  # 9 MB: more than one part of an upload


def stored_object(repo: Repository) -> StoredObject:
    place = repo._home.find()
    assert place is not None
    (found,) = repo.storage.list(place.folder)
    return found


def damage(repo: Repository, content: bytes) -> None:
    """Replace stored bytes behind the repository's back."""
    key = stored_object(repo).key
    repo.storage.delete(key)
    with staged(content) as other:
        repo.storage.write(key, other)


@pytest.mark.parametrize("as_stream", [False, True], ids=["path", "stream"])
def test_large_content_comes_back_as_it_was(as_stream, repo: Repository, tmp_path: Path):
    source = tmp_path / "model.bin"
    source.write_bytes(LARGE)
    if as_stream:
        with source.open("rb") as stream:
            repo.publish("app", stream)
    else:
        repo.publish("app", source)
    target = repo.get("app", 1, to=tmp_path / "copy" / "of.bin")
    assert target.read_bytes() == LARGE
    assert [path.name for path in target.parent.iterdir()] == ["of.bin"]


def test_into_a_folder_it_gets_the_name_it_was_put_with(repo: Repository, tmp_path: Path):
    source = tmp_path / "model.bin"
    source.write_bytes(b"one")
    (tmp_path / "into").mkdir()
    repo.publish("app", source)
    assert repo.get("app", 1, to=tmp_path / "into") == tmp_path / "into" / "model.bin"
    repo.publish("other", b"two")
    assert repo.get("other", 1, to=tmp_path / "into") == tmp_path / "into" / "other"


def test_an_existing_file_is_replaced_only_by_right_content(repo: Repository, tmp_path: Path):
    target = tmp_path / "model.bin"
    target.write_bytes(b"before")
    repo.publish("app", b"right")
    damage(repo, b"wrong")
    with pytest.raises(DigestMismatch, match="is damaged"):
        repo.get("app", 1, to=target)
    assert target.read_bytes() == b"before"
    damage(repo, b"right")
    repo.get("app", 1, to=target)
    assert target.read_bytes() == b"right"


def test_a_download_whose_digest_is_wrong_leaves_no_file_behind(repo: Repository, tmp_path: Path):
    repo.publish("app", b"right")
    damage(repo, b"wrong")
    for call in (
        lambda: repo.get("app", 1, to=tmp_path / "copy"),
        lambda: repo.read("app", 1),
        lambda: repo.open("app", 1).read(),
    ):
        with pytest.raises(DigestMismatch):
            call()
    assert list(tmp_path.iterdir()) == []


def test_a_download_that_is_not_there_leaves_no_file_behind(repo: Repository, tmp_path: Path):
    repo.publish("app", b"right")
    repo.storage.delete(stored_object(repo).key)
    with pytest.raises(ContentMissing):
        repo.get("app", 1, to=tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_a_stream_gives_pieces_of_any_size(repo: Repository):
    repo.publish("app", LARGE)
    with repo.open("app", 1) as stream:
        assert stream.read(10) == LARGE[:10]
        assert stream.read(2_000_000) == LARGE[10:2_000_010]
        assert stream.read() == LARGE[2_000_010:]


def test_content_that_changes_while_it_is_stored_is_refused_and_nothing_is_published(
    backing: Backing, tmp_path: Path
):
    source = tmp_path / "model.bin"
    source.write_bytes(LARGE)
    repo = backing.open()
    repo.put("app", b"before")
    real_size = repo.storage.size

    def change_meanwhile(key: str) -> int | None:
        source.write_bytes(LARGE[:-1] + b"?")
        return real_size(key)

    repo.storage.size = change_meanwhile  # type: ignore[method-assign]
    with pytest.raises(ContentChanged, match="changed while it was being stored"):
        repo.publish("app", source)
    assert repo.read("app") == b"before"
    assert [row.version for row in repo.list_versions("app")] == ["LATEST"]
    stored_object(repo)  # there is one, that of LATEST


def test_progress_is_told_every_byte_both_ways(repo: Repository, tmp_path: Path):
    up: list[int] = []
    down: list[int] = []
    repo.publish("app", LARGE, progress=up.append)
    repo.get("app", 1, to=tmp_path / "copy", progress=down.append)
    assert (sum(up), sum(down)) == (len(LARGE), len(LARGE))
    assert len(up) > 1
    assert len(down) > 1


# --- folders -------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    (made / "data" / "empty").mkdir(parents=True)
    (made / "MLmodel").write_text("flavors: {}\n")
    (made / "data" / "weights.bin").write_bytes(b"\0\1\2")
    (made / "run.sh").write_text("#!/bin/sh\n")
    (made / "run.sh").chmod(0o755)
    return made


def tree(folder: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def test_a_folder_comes_back_as_it_was(repo: Repository, folder: Path, tmp_path: Path):
    assert repo.publish("model", folder).is_folder
    copy = repo.get("model", 1, to=tmp_path / "copy")
    assert tree(copy) == tree(folder)
    assert os.access(copy / "run.sh", os.X_OK)
    assert not os.access(copy / "MLmodel", os.X_OK)


def test_the_same_files_are_the_same_version_whenever_they_were_written(
    repo: Repository, folder: Path
):
    repo.publish("model", folder)
    os.utime(folder / "MLmodel", (0, 0))
    assert repo.publish("model", folder).version == "1"
    (folder / "MLmodel").write_text("flavors: {x: {}}\n")
    assert repo.publish("model", folder).version == "2"


def test_a_folder_is_not_unpacked_over_other_files(repo: Repository, folder: Path, tmp_path: Path):
    repo.publish("model", folder)
    (tmp_path / "into" / "model").mkdir(parents=True)
    (tmp_path / "into" / "model" / "mine.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="not an empty folder"):
        repo.get("model", 1, to=tmp_path / "into")
    assert [path.name for path in (tmp_path / "into").iterdir()] == ["model"]


def test_a_folder_with_what_cannot_be_stored_is_refused(local: Backing, folder: Path):
    (folder / "linked").symlink_to(folder / "data")
    with pytest.raises(InvalidSource, match="link to a folder"):
        local.open().put("model", folder)
    (folder / "linked").unlink()
    os.mkfifo(folder / "pipe")
    with pytest.raises(InvalidSource, match="neither a file nor a folder"):
        local.open().put("model", folder)


@pytest.mark.parametrize("name", ["../outside", "/outside", "a/../../outside"])
def test_an_archive_cannot_write_outside_its_folder(name, tmp_path: Path):
    packed = tmp_path / "packed"
    with tarfile.open(packed, "w") as archive:
        member = tarfile.TarInfo(name)
        archive.addfile(member, io.BytesIO(b""))
    with pytest.raises(Corrupt, match="which pack never writes"):
        unpack(packed, tmp_path / "target")
    assert [path.name for path in tmp_path.iterdir()] == ["packed"]


def test_what_is_no_archive_is_refused(tmp_path: Path):
    (tmp_path / "packed").write_bytes(b"no archive")
    with pytest.raises(Corrupt, match="not a packed folder"):
        unpack(tmp_path / "packed", tmp_path / "target")
    assert [path.name for path in tmp_path.iterdir()] == ["packed"]
