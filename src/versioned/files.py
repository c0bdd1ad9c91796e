"""A storage in a folder.

A file is written under a temporary name, brought to the disk, and renamed. A crash leaves a
temporary file, which ``gc`` removes.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from versioned import times
from versioned.content import CHUNK, Content, Progress, no_progress
from versioned.errors import AccessDenied, ContentMissing, Unavailable, Unusable
from versioned.storage import StoredObject

_IDENTITY = ".versioned"
_TEMPORARY = ".tmp"


class FileStorage:
    """Keys are paths below a folder, which is made when it is first written to."""

    def __init__(self, root: Path):
        self.root = root.absolute()

    @property
    def uri(self) -> str:
        return self.root.as_uri()

    def identity(self) -> str | None:
        with _named(self.root):
            try:
                return _read_identity(self.root / _IDENTITY)
            except FileNotFoundError:
                return None

    def claim(self, identity: str) -> str:
        marker = self.root / _IDENTITY
        with _named(self.root):
            draft = self._temporary("identity")
            draft.mkdir()
            with (draft / "identity.json").open("w") as stream:
                stream.write(json.dumps({"identity": identity}) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
            _sync_folder(draft)
            try:
                # Renaming onto a folder that is not empty fails, so the first one wins. Unlike a
                # hard link, it works on every file system.
                draft.rename(marker)
            except OSError as error:
                shutil.rmtree(draft)
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            _sync_folder(self.root)
            return _read_identity(marker)

    def size(self, key: str) -> int | None:
        with _named(self.root):
            try:
                return (self.root / key).stat().st_size
            except FileNotFoundError:
                return None

    def write(self, key: str, content: Content, progress: Progress = no_progress) -> None:
        target = self.root / key
        with _named(self.root):
            part = self._temporary(Path(key).name)
            try:
                with part.open("xb") as stream:
                    for chunk in content.chunks():
                        stream.write(chunk)
                        progress(len(chunk))
                    stream.flush()
                    os.fchmod(stream.fileno(), 0o444)
                    os.fsync(stream.fileno())
                _make_folders(target.parent, self.root)
                part.replace(target)
                _sync_folder(target.parent)
            except BaseException:
                part.unlink(missing_ok=True)
                raise

    def read(self, key: str) -> Iterator[bytes]:
        with _named(self.root):
            try:
                stream = (self.root / key).open("rb")
            except FileNotFoundError as error:
                raise ContentMissing(f"{self.root / key} is not there") from error
            with stream:
                while chunk := stream.read(CHUNK):
                    yield chunk

    def delete(self, key: str) -> None:
        with _named(self.root):
            (self.root / key).unlink(missing_ok=True)

    def list(self, folder: str) -> Iterator[StoredObject]:
        with _named(self.root):
            for path in _files_below(self.root / folder):
                try:
                    status = path.stat()
                except FileNotFoundError:
                    continue  # removed since it was listed
                key = path.relative_to(self.root).as_posix()
                yield StoredObject(key, status.st_size, times.from_seconds(status.st_mtime))

    def unfinished(self, folder: str, before: datetime) -> Iterator[str]:  # noqa: ARG002
        # Temporary names are shared by all repositories of the folder: age alone tells.
        for found in self.list(_TEMPORARY):
            if found.modified_at < before:
                yield found.key

    def discard(self, unfinished: str) -> None:
        self.delete(unfinished)

    def _temporary(self, name: str) -> Path:
        folder = self.root / _TEMPORARY
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{uuid.uuid4().hex[:12]}-{name}"


def _read_identity(marker: Path) -> str:
    found = json.loads((marker / "identity.json").read_text())
    return str(found["identity"])


def _files_below(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(Path(entry.path))
        else:
            yield Path(entry.path)


def _make_folders(folder: Path, root: Path) -> None:
    """Make the folders below the root, each durable in the one above it."""
    missing = []
    while folder != root and not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir(exist_ok=True)
        _sync_folder(new.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _named(root: Path) -> Iterator[None]:
    """Say which storage an error of the operating system came from."""
    try:
        yield
    except PermissionError as error:
        raise AccessDenied(
            f"the folder {root} cannot be used ({error.strerror}: {error.filename}): "
            "give this user the right to read and write it"
        ) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE):
            raise Unavailable(f"the folder {root} cannot be written: {error.strerror}") from error
        raise Unusable(f"the folder {root} cannot be used: {error}") from error
