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
from pathlib import Path
from typing import Any, BinaryIO

from versioned.errors import Corrupt, InvalidInput, InvalidSource

# Python's own guard for archives of others; older patch releases of 3.10 and 3.11 do not have it.
_PLAIN_FILES: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


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
    target.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part"))
    try:
        with tarfile.open(archive_path) as archive:
            archive.extractall(  # noqa: S202 - every member is checked
                part, members=_files_within(archive), **_PLAIN_FILES
            )
        part.chmod(0o755)
        part.replace(target)
    except tarfile.TarError as error:
        shutil.rmtree(part)
        raise Corrupt(f"the content is not a packed folder: {error}") from error
    except BaseException:
        shutil.rmtree(part)
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


def _files_within(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members, none of which may leave the folder or be anything but a file or a folder."""
    for member in archive:
        parts = Path(member.name).parts
        if not (member.isfile() or member.isdir()) or member.name.startswith("/") or ".." in parts:
            raise Corrupt(f"the packed folder holds {member.name!r}, which pack never writes")
        yield member
