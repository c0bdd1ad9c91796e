"""A folder as one piece of content: a tar whose bytes depend on nothing but the files.

Owners, times and the order in which a file system lists names are left out, so that packing the
same files again gives the same digest, on every machine.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from versioned.errors import Corrupt, InvalidInput, InvalidSource
from versioned.names import beginning

# Python's own guard for archives of others; older patch releases of 3.10 and 3.11 do not have it.
_PLAIN_FILES: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
# What tarfile raises for headers that make no sense, besides its own errors.
_NOT_AN_ARCHIVE = (tarfile.TarError, ValueError, OverflowError, RecursionError, IndexError)


def pack(folder: Path, stream: BinaryIO) -> None:
    """Write all files below a folder. Raises ``InvalidSource`` for what is not a plain file."""
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in _below(folder):
            name = path.relative_to(folder).as_posix()
            try:
                _add(archive, path, name)
            except OSError as error:
                raise InvalidSource(f"{path} cannot be read ({error.strerror})") from error


def unpack(archive_path: Path, target: Path) -> None:
    """Make the folder whole or not at all. Raises ``InvalidInput`` when something is there."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidInput(f"{target} exists and is not an empty folder: choose another place")
    with new_parents(target):
        prefix = f".{beginning(target.name)}."
        part = Path(tempfile.mkdtemp(dir=target.parent, prefix=prefix, suffix=".part"))
        try:
            # "r:" reads no compression, so that no more comes out than the archive has bytes.
            with tarfile.open(archive_path, "r:") as archive:
                archive.extractall(  # noqa: S202 - every member is checked
                    part,
                    members=_files_within(archive, archive_path.stat().st_size),
                    **_PLAIN_FILES,
                )
            part.chmod(0o755)
            part.replace(target)
        except _NOT_AN_ARCHIVE as error:
            shutil.rmtree(part)
            raise Corrupt(f"the content is not a packed folder: {error}") from error
        except BaseException:
            shutil.rmtree(part)
            raise


@contextmanager
def new_parents(target: Path) -> Iterator[None]:
    """Make the folders above a target, and remove them again if the work in them fails."""
    missing = [folder for folder in target.parents if not folder.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for folder in missing:
            with suppress(OSError):  # somebody else uses it
                folder.rmdir()
        raise


def _below(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir(), key=lambda path: path.name):
        if entry.is_dir() and not entry.is_symlink():
            yield entry
            yield from _below(entry)
        else:
            yield entry


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    member = tarfile.TarInfo(name)
    if path.is_dir() and path.is_symlink():
        raise InvalidSource(f"{path} is a link to a folder: store the folder itself instead")
    if path.is_dir():
        member.type, member.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(member)
    elif path.is_file():
        # A link is followed: what it points at now is what is stored.
        with path.open("rb") as stream:
            status = os.fstat(stream.fileno())
            member.size = status.st_size
            member.mode = 0o755 if status.st_mode & 0o100 else 0o644
            archive.addfile(member, stream)
    else:
        raise InvalidSource(f"{path} is neither a file nor a folder and cannot be stored")


def _files_within(archive: tarfile.TarFile, size: int) -> Iterator[tarfile.TarInfo]:
    """The members, if they are as :func:`pack` writes them: plain files and folders.

    A folder comes before what is in it, and no name comes twice. Together the files have fewer
    bytes than the archive.
    """
    names, folders = set[str](), set[str]()
    for member in archive:
        parent, slash, last = member.name.rpartition("/")
        size -= member.size
        if (
            not (member.isfile() or member.isdir())
            or member.issparse()
            or member.size < 0
            or size < 0
            or member.name in names
            or (slash and parent not in folders)
            or last in ("", ".", "..")
            or Path(last).name != last
            or "\0" in last
        ):
            raise Corrupt(f"the packed folder holds {member.name!r:.100}, which pack never writes")
        names.add(member.name)
        if member.isdir():
            folders.add(member.name)
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        yield member
