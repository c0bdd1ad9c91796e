"""Archive files: a header, a line for each item and a trailer, compressed with gzip.

The trailer holds the number of items, the sum of their digests (see
:mod:`~mlflow_dynamodbstore.transfer.archive.digests`), and the SHA-256 of all bytes before it. A
file gets its final name when it is complete.
"""

from __future__ import annotations

import gzip
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

from mlflow_dynamodbstore import __version__
from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE, Schema
from mlflow_dynamodbstore.table.values import Item, Key, Value
from mlflow_dynamodbstore.transfer.archive.digests import DigestSums
from mlflow_dynamodbstore.transfer.archive.errors import BadArchive, Refused
from mlflow_dynamodbstore.transfer.archive.item_checks import check_item
from mlflow_dynamodbstore.transfer.archive.lines import content_of, item_of, line_of
from mlflow_dynamodbstore.transfer.archive.sources import ItemFilter, Source

FORMAT = "mlflow-dynamodbstore archive"
VERSION = 1
HEADER, TRAILER = "Header", "Trailer"

PAGE_ITEMS = 5_000
PAGE_BYTES = 2 * 1024 * 1024
LONGEST_LINE = 8 * 1024 * 1024
"""More than an item of 400 KB takes, even if it is all control characters."""
_LEVEL = 6

Progress = Callable[[int], None]


@dataclass
class Dumped:
    """What was written to an archive."""

    items: int
    expired: int
    bytes: int
    digest: str


# --- writing ------------------------------------------------------------------------------------


def write_archive(
    path: Path, source: Source, schema: Schema, now: float, progress: Progress = lambda _: None
) -> Dumped:
    """Write a whole source to a new file. Raises ``Refused`` if the file exists."""
    if path.exists():
        raise Refused(f"{path} already exists: name another file")
    with _named_when_complete(path) as raw:
        item_filter, sums, written = ItemFilter(now), DigestSums(), sha256()
        with gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as file:

            def write(line: bytes) -> None:
                written.update(line + b"\n")
                file.write(line + b"\n")

            write(line_of(HEADER, _header(source, schema, now)))
            for items, _ in source.pages():
                for item in item_filter.keep(items):
                    write(sums.add(item))
                progress(sums.total)
            trailer = {
                "items": sums.total,
                "families": dict(sums.items),
                "digest": sums.digest,
                "sha256": written.hexdigest(),
            }
            file.write(line_of(TRAILER, trailer) + b"\n")
        size = raw.tell()
    return Dumped(sums.total, item_filter.expired, size, sums.digest)


def _header(source: Source, schema: Schema, now: float) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "written_by": f"mlflow-dynamodbstore {__version__}",
        "date": datetime.fromtimestamp(now, timezone.utc).isoformat(timespec="seconds"),
        "table": source.identity,
        "schema": schema.kind,
        "families": schema.versions.all(),
    }


@contextmanager
def _named_when_complete(path: Path) -> Iterator[Any]:
    """A file that gets its name when all of it is on the disk, and is deleted otherwise."""
    folder, name = path.absolute().parent, ""
    try:
        handle, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=folder)
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
        name = ""
        _sync_folder(folder)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        if name:
            Path(name).unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- reading ------------------------------------------------------------------------------------


@dataclass
class Archive:
    """A file to be read. :meth:`check` must read all of it before anything in it is used."""

    path: Path
    header: dict[str, Any] = field(default_factory=dict)
    trailer: dict[str, Any] = field(default_factory=dict)
    with_copies: bool = False
    """Whether items count together with their copies in local indexes, as when they are written."""

    @property
    def identity(self) -> str:
        """The digest of the file, which depends on neither its name nor its folder."""
        return f"archive {self.trailer['sha256']}"

    def check(self, progress: Progress = lambda _: None) -> None:
        """Read all of it. Raises ``BadArchive`` unless it is complete and fits into a table."""
        sums = DigestSums()
        for items, _ in self.pages():
            for item in items:
                sums.add(item)
            progress(sums.total)
        if (sums.total, sums.digest) != (self.trailer["items"], self.trailer["digest"]):
            raise self._bad("its items are not those that its last line counts")

    def pages(self, position: Value = None) -> Iterator[tuple[list[Item], Value]]:
        """Pages of items; a position is the number of items before it."""
        done = position or 0
        items: dict[Key, Item] = {}
        used = 0
        for number, line in enumerate(self._item_lines()):
            if number < done:
                continue
            key, item = self._read_item(number + 2, line)
            if key in items:
                raise self._bad(f"line {number + 2} has a key that is in another line: {key}")
            items[key] = item
            used += len(line)
            if len(items) >= PAGE_ITEMS or used >= PAGE_BYTES:
                done += len(items)
                yield list(items.values()), done
                items, used = {}, 0
        if items:
            yield list(items.values()), done + len(items)

    def _read_item(self, number: int, line: bytes) -> tuple[Key, Item]:
        try:
            item = item_of(line)
            return check_item(item, MLFLOW_TABLE, with_copies=self.with_copies), item
        except (ValueError, InvalidRequest) as error:
            raise self._bad(f"line {number} is not an item: {error}") from error

    def _item_lines(self) -> Iterator[bytes]:
        """The lines of the items. Reading them all also sets the header and the trailer."""
        lines, seen = self._lines(), sha256()
        first = next(lines, b"")
        self.header = self._read_header(first)
        seen.update(first)
        last = next(lines, b"")
        for line in lines:
            seen.update(last)
            yield last[:-1]
            last = line
        self.trailer = self._read_trailer(last)
        if self.trailer["sha256"] != seen.hexdigest():
            raise self._bad("it was changed after it was written")

    def _read_header(self, line: bytes) -> dict[str, Any]:
        try:
            header: dict[str, Any] = content_of(line, HEADER)
            is_ours = header["format"] == FORMAT
        except (ValueError, TypeError, KeyError) as error:
            raise self._bad("its first line is not an archive header") from error
        if not is_ours or header.get("schema") != MLFLOW_TABLE.kind:
            raise self._bad("its header is not that of a table with MLflow's data")
        version = header.get("version")
        if version != VERSION:
            raise self._bad(f"it has version {version}, and this release reads version {VERSION}")
        return header

    def _read_trailer(self, line: bytes) -> dict[str, Any]:
        try:
            trailer: dict[str, Any] = content_of(line, TRAILER)
            _ = trailer["items"], trailer["digest"], trailer["sha256"]
        except (ValueError, TypeError, KeyError) as error:
            raise self._bad("its last line is missing, so it was cut") from error
        return trailer

    def _lines(self) -> Iterator[bytes]:
        try:
            with gzip.open(self.path, "rb") as file:
                while line := file.readline(LONGEST_LINE):
                    if not line.endswith(b"\n"):
                        raise self._bad("it ends in the middle of a line, or a line is too long")
                    yield line
        except EOFError as error:
            raise self._bad("it ends too early") from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise self._bad(f"it cannot be unpacked ({error})") from error
        except FileNotFoundError as error:
            raise BadArchive(f"there is no file {self.path}") from error
        except OSError as error:
            raise self._bad(str(error.strerror or error)) from error

    def _bad(self, why: str) -> BadArchive:
        return BadArchive(f"{self.path} is not a complete archive: {why}; nothing was read from it")
