"""Content on its way into the storage and out of it, hashed as it passes.

Nothing here holds more than a piece of it in memory.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias, Union

from versioned.errors import ContentChanged, DigestMismatch, InvalidSource
from versioned.folders import new_parents, pack
from versioned.names import beginning, check_filename

CHUNK = 1024 * 1024

Source: TypeAlias = Union[str, "os.PathLike[str]", bytes, BinaryIO]
"""A path (of a file or a folder), bytes, or a binary stream."""

Progress: TypeAlias = Callable[[int], None]
"""Called with the number of bytes that went through since the last call."""


def no_progress(_moved: int) -> None:
    """For those who do not want to know."""


@dataclass(frozen=True)
class Content:
    """What is to be stored: its digest, its size, and how to read it from the beginning."""

    sha256: str
    size: int
    open: Callable[[], BinaryIO]
    filename: str | None = None
    is_folder: bool = False

    def chunks(self, chunk_size: int = CHUNK) -> Iterator[bytes]:
        """All pieces in order. Raises ``ContentChanged`` at the end if they are not what they were.

        Whoever stores them must not make them visible before this iterator has ended.
        """
        digest = hashlib.sha256()
        for chunk in self._pieces(chunk_size):
            digest.update(chunk)
            yield chunk
        if digest.hexdigest() != self.sha256:
            raise ContentChanged(
                f"{self.filename or 'the content'} changed while it was being stored, and was not "
                "stored: put it again when nobody writes to it"
            )

    def _pieces(self, size: int) -> Iterator[bytes]:
        try:
            with self.open() as stream:
                while chunk := stream.read(size):
                    yield chunk
        except OSError as error:
            raise InvalidSource(
                f"{self.filename or 'the content'} cannot be read any more ({error.strerror})"
            ) from error


@contextmanager
def staged(source: Source) -> Iterator[Content]:
    """A source made ready: hashed, and readable more than once.

    A stream that can be read only once, and a folder, are kept in a temporary file meanwhile.
    Raises ``InvalidSource``.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        sha256 = hashlib.sha256(source).hexdigest()
        given = bytes(source)
        yield Content(sha256, len(given), lambda: io.BytesIO(given))
    elif isinstance(source, (str, os.PathLike)):
        with _from_path(Path(source)) as content:
            yield content
    elif hasattr(source, "read"):
        with tempfile.TemporaryFile() as spool:
            for chunk in iter(lambda: source.read(CHUNK), b""):
                spool.write(_bytes(chunk))
            yield _spooled(spool)
    else:
        raise InvalidSource(
            f"content is a path, bytes or a binary stream, not {type(source).__name__}"
        )


@contextmanager
def _from_path(path: Path) -> Iterator[Content]:
    filename = check_filename(path.resolve().name if path.is_dir() else path.name)
    if path.is_dir():
        with tempfile.TemporaryFile() as spool:
            pack(path, spool)
            yield _spooled(spool, filename, is_folder=True)
        return
    try:
        with path.open("rb") as stream:
            sha256, size = _hash(stream)
    except OSError as error:
        raise InvalidSource(f"{path} cannot be read ({error.strerror})") from error
    yield Content(sha256, size, lambda: path.open("rb"), filename)


def _spooled(spool: BinaryIO, filename: str | None = None, *, is_folder: bool = False) -> Content:
    def reopen() -> BinaryIO:
        spool.seek(0)
        return _KeptOpen(spool)

    spool.seek(0)
    sha256, size = _hash(spool)
    return Content(sha256, size, reopen, filename, is_folder)


class _KeptOpen(io.BufferedIOBase, BinaryIO):
    """A stream whose closing leaves the stream below open for the next reader."""

    def __init__(self, below: BinaryIO):
        self._below = below

    def read(self, size: int | None = -1) -> bytes:
        return self._below.read(-1 if size is None else size)


def _hash(stream: BinaryIO) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    while chunk := stream.read(CHUNK):
        digest.update(chunk)
        size += len(chunk)
    return digest.hexdigest(), size


def _bytes(chunk: object) -> bytes:
    if not isinstance(chunk, bytes):
        raise InvalidSource("the stream gives text: open the file in binary mode ('rb')")
    return chunk


# --- on its way out ------------------------------------------------------------------------------


def verified(chunks: Iterator[bytes], sha256: str, size: int | None, where: str) -> Iterator[bytes]:
    """The same pieces. Raises ``DigestMismatch`` when they do not have the digest or the size.

    Pieces beyond the size are not given. A row of the older package has no size.
    """
    digest, given = hashlib.sha256(), 0
    for chunk in chunks:
        given += len(chunk)
        if size is not None and given > size:
            raise DigestMismatch(f"{where} has more than the {size:,} bytes that its row says")
        digest.update(chunk)
        yield chunk
    if size is not None and given != size:
        raise DigestMismatch(f"{where} has {given:,} bytes instead of the {size:,} of its row")
    if digest.hexdigest() != sha256:
        raise DigestMismatch(
            f"{where} is damaged: its sha256 is {digest.hexdigest()} instead of {sha256}; remove "
            "it and put the right content again"
        )


def save(chunks: Iterator[bytes], target: Path) -> None:
    """Write a file whole or not at all: until the last piece is there, nothing has its name."""
    part = target.with_name(f".{beginning(target.name)}.{uuid.uuid4().hex[:12]}.part")
    with new_parents(target):
        try:
            with part.open("xb") as stream:
                for chunk in chunks:
                    stream.write(chunk)
            part.replace(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


class Reader(io.RawIOBase):
    """A stream over pieces; reading to the end verifies them."""

    def __init__(self, chunks: Iterator[bytes]):
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
