"""What every storage must do, and what each does on its own."""

from __future__ import annotations

import hashlib
import io
import re
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.versioned.conftest import Backing
from versioned import Repository, times
from versioned.content import Content, staged
from versioned.errors import (
    AccessDenied,
    ContentChanged,
    ContentMissing,
    InvalidLocation,
    LocationMissing,
    Unavailable,
    Unusable,
)
from versioned.s3 import PART, S3Storage, _part_size
from versioned.storage import Storage, open_storage

LARGE = bytes(range(256)) * (PART // 256 + 1)


@pytest.fixture
def storage(backing: Backing) -> Storage:
    return open_storage(backing.storage_uri, session=backing.session)


def store(storage: Storage, key: str, content: bytes) -> None:
    with staged(content) as made:
        storage.write(key, made)


@pytest.mark.parametrize("content", [b"", b"x", LARGE], ids=["empty", "small", "large"])
def test_what_is_written_can_be_read(content, storage: Storage):
    store(storage, "a/b/c", content)
    assert b"".join(storage.read("a/b/c")) == content
    assert storage.size("a/b/c") == len(content)


def test_what_is_not_there(storage: Storage):
    assert storage.size("a/b") is None
    assert storage.identity() is None
    assert list(storage.list("a")) == []
    storage.delete("a/b")
    with pytest.raises(ContentMissing):
        list(storage.read("a/b"))


def test_a_key_is_listed_under_its_folder_only(storage: Storage):
    for key in ("a/1", "a/b/2", "ab/3"):
        store(storage, key, key.encode())
    assert [(found.key, found.size) for found in storage.list("a")] == [("a/1", 3), ("a/b/2", 5)]
    storage.delete("a/1")
    assert [found.key for found in storage.list("a")] == ["a/b/2"]


@pytest.mark.parametrize("size", [10, len(LARGE)], ids=["small", "large"])
def test_content_that_is_not_what_it_was_leaves_nothing_behind(size, storage: Storage):
    lie = Content(hashlib.sha256(b"other").hexdigest(), size, lambda: io.BytesIO(LARGE[:size]))
    with pytest.raises(ContentChanged):
        storage.write("a/b", lie)
    assert storage.size("a/b") is None
    assert list(storage.list("a")) == []
    future = times.from_seconds(4_000_000_000)
    assert list(storage.unfinished("a", future)) == []


def test_the_first_identity_stays(backing: Backing):
    start, got = threading.Barrier(4, timeout=20), []
    storages = [open_storage(backing.storage_uri, session=backing.session) for _ in range(4)]

    def claim(number: int) -> None:
        start.wait()
        got.append(storages[number].claim(f"identity-{number}"))

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(got)) == 1
    assert storages[0].identity() == got[0]
    assert storages[0].claim("later") == got[0]


def test_its_uri_opens_it_again(backing: Backing, storage: Storage):
    store(storage, "a/b", b"x")
    again = open_storage(storage.uri, session=backing.session)
    assert b"".join(again.read("a/b")) == b"x"


# --- folders -------------------------------------------------------------------------------------


def test_a_folder_is_given_as_a_uri_or_as_a_path(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store(open_storage(f"file://{tmp_path}/with%20space"), "a", b"x")
    assert (tmp_path / "with space" / "a").read_bytes() == b"x"
    assert open_storage("with space").uri == open_storage(f"file://{tmp_path}/with%20space").uri


@pytest.mark.parametrize(
    "uri",
    ["", "ftp://host/x", "s3://", "s3:///x", "file://host/x", "file:x", "s3://bucket/x?colour=red",
     "s3://key:secret@bucket/x", "https://bucket.s3.amazonaws.com/x", "file:///x?y=z"],
)  # fmt: skip
def test_a_bad_uri_is_refused_with_a_right_one(uri):
    with pytest.raises(InvalidLocation, match=r"s3://bucket/prefix|file:///folder"):
        open_storage(uri)


def test_stored_files_cannot_be_written_to(tmp_path: Path):
    store(open_storage(str(tmp_path)), "a", b"x")
    assert (tmp_path / "a").stat().st_mode & 0o222 == 0


def test_a_folder_that_is_a_file_is_told_with_its_path(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Unusable, match=re.escape(str(tmp_path / "file"))):
        store(open_storage(str(tmp_path / "file")), "a", b"x")


def test_a_folder_without_rights_is_told_with_what_to_do(tmp_path: Path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(AccessDenied, match="give this user the right"):
        store(open_storage(str(tmp_path / "x")), "a", b"x")


# --- S3 ------------------------------------------------------------------------------------------


@pytest.fixture
def s3(backing: Backing) -> S3Storage:
    if backing.session is None:
        pytest.skip("a folder is no S3")
    storage = open_storage(backing.storage_uri, session=backing.session)
    assert isinstance(storage, S3Storage)
    return storage


def test_large_content_goes_up_in_parts_and_is_not_seen_before_the_last(s3: S3Storage):
    calls: list[str] = []
    s3._client.meta.events.register("before-call.s3", lambda model, **_: calls.append(model.name))
    store(s3, "a/b", LARGE)
    assert calls[0] == "CreateMultipartUpload"
    assert calls[1:-1] == ["UploadPart", "UploadPart"]
    assert calls[-1] == "CompleteMultipartUpload"


def test_a_part_that_fails_takes_the_whole_upload_back(s3: S3Storage, monkeypatch):
    real = s3._client.upload_part

    def fail_the_second(**request: Any) -> Any:
        if request["PartNumber"] == 2:
            raise OSError("no route to host")
        return real(**request)

    monkeypatch.setattr(s3._client, "upload_part", fail_the_second)
    with pytest.raises(OSError, match="no route"):
        store(s3, "a/b", LARGE)
    assert s3.size("a/b") is None
    assert list(s3.unfinished("a", times.from_seconds(4_000_000_000))) == []


def test_a_download_that_breaks_goes_on_where_it_stopped(s3: S3Storage, monkeypatch):
    from botocore.exceptions import ResponseStreamingError

    store(s3, "a/b", LARGE)
    real = s3._client.get_object
    asked: list[str | None] = []

    class Breaking:
        def __init__(self, body: Any):
            self.body = body

        def iter_chunks(self, size: int) -> Iterator[bytes]:
            for number, chunk in enumerate(self.body.iter_chunks(size)):
                if number == 2 and len(asked) < 4:
                    raise ResponseStreamingError(error="connection reset")
                yield chunk

    def get_object(**request: Any) -> Any:
        asked.append(request.get("Range"))
        response = real(**request)
        return {**response, "Body": Breaking(response["Body"])}

    monkeypatch.setattr(s3._client, "get_object", get_object)
    assert b"".join(s3.read("a/b")) == LARGE
    assert asked == [None, "bytes=2097152-", "bytes=4194304-", "bytes=6291456-"]


def test_a_download_that_keeps_breaking_is_given_up(s3: S3Storage, monkeypatch):
    from botocore.exceptions import ReadTimeoutError

    store(s3, "a/b", LARGE)
    real = s3._client.get_object

    class Broken:
        def iter_chunks(self, _: int) -> Iterator[bytes]:
            raise ReadTimeoutError(endpoint_url="s3")
            yield b""

    monkeypatch.setattr(s3._client, "get_object", lambda **r: {**real(**r), "Body": Broken()})
    with pytest.raises(Unavailable, match="gave no answer"):
        list(s3.read("a/b"))


def test_a_bucket_that_does_not_exist_is_told_with_how_to_make_it(backing: Backing, s3: S3Storage):
    other = S3Storage("absent-bucket", session=backing.session, endpoint_url=s3.endpoint_url)
    for call in (
        lambda: store(other, "a", b"x"),
        lambda: list(other.list("a")),
        lambda: list(other.read("a")),
    ):
        with pytest.raises(LocationMissing, match="aws s3 mb s3://absent-bucket"):
            call()


def test_an_endpoint_that_does_not_answer_is_unavailable(backing: Backing, s3: S3Storage):
    other = S3Storage("bucket", session=backing.session, endpoint_url="http://127.0.0.1:9")
    other._client.meta.events.unregister("needs-retry.s3")
    with pytest.raises(Unavailable, match="gave no answer"):
        other.size("a")


def test_parts_grow_only_where_ten_thousand_would_not_reach():
    assert _part_size(1024**3) == PART
    assert _part_size(80_000_000_000) == PART
    terabytes = 5 * 1024**4
    assert terabytes / _part_size(terabytes) <= 10_000


def test_the_digest_is_sent_along_so_that_s3_can_check_it(s3: S3Storage):
    headers: list[str] = []
    s3._client.meta.events.register(
        "before-send.s3",
        lambda request, **_: headers.append(str(request.headers.get("x-amz-checksum-sha256"))),
    )
    store(s3, "a/b", b"content")
    assert "7XACtDnprIRfIjV9giusFERzD722AW0+yUMil7nsn3M=" in headers[0]


def test_repositories_use_the_storage_they_are_given(backing: Backing, storage: Storage):
    repo = Repository(backing.table_uri, storage, session=backing.session)
    repo.publish("app", b"x")
    repo.gc(grace=timedelta(0))
    assert backing.open().read("app", 1) == b"x"
    repo.close()
