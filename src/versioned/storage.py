"""Where content lives: the contract of a storage, and opening one by its URI.

A storage knows keys and bytes, and nothing of artifacts, versions or digests. What is written
under a key is whole or absent, never half there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from versioned.content import Content, Progress, no_progress
from versioned.errors import InvalidLocation

_FORMS = "s3://bucket/prefix or file:///folder"


@dataclass(frozen=True)
class StoredObject:
    """Something that a storage holds."""

    key: str
    size: int
    modified_at: datetime


class Storage(Protocol):
    """What a storage must do. Every method may raise ``Unavailable``, ``AccessDenied`` and
    ``LocationMissing``, and may be called from many threads at once.
    """

    @property
    def uri(self) -> str:
        """The URI that opens it again, without credentials."""

    def identity(self) -> str | None:
        """The identity that was given to this storage, or None when it has none yet."""

    def claim(self, identity: str) -> str:
        """Give the storage an identity, unless it has one; returns the one it has now."""

    def size(self, key: str) -> int | None:
        """How many bytes a key has, or None when there is nothing."""

    def write(self, key: str, content: Content, progress: Progress = no_progress) -> None:
        """Store content under a key; once this returns it survives a power cut.

        Raises ``ContentChanged``, leaving nothing behind.
        """

    def read(self, key: str) -> Iterator[bytes]:
        """The bytes of a key, piece by piece. Raises ``ContentMissing``."""

    def delete(self, key: str) -> None:
        """Remove a key; removing what is not there is no error."""

    def list(self, folder: str) -> Iterator[StoredObject]:
        """Everything below a folder."""

    def unfinished(self, folder: str, before: datetime) -> Iterator[str]:
        """Writes into a folder that were begun and last touched before a time."""

    def discard(self, unfinished: str) -> None:
        """Remove what is left of an unfinished write."""


def open_storage(uri: str, *, session: Any = None, endpoint_url: str | None = None) -> Storage:
    """The storage that a URI names. Raises ``InvalidLocation``.

    ``session`` (a ``boto3.Session``) and ``endpoint_url`` are for S3. A path without a scheme is a
    folder.
    """
    if "://" not in uri and uri and not uri.startswith("file:"):
        return _folder(Path(uri))
    parts = urlsplit(uri)
    if "@" in parts.netloc:
        raise InvalidLocation(
            "a storage URI holds no credentials, they come from the usual AWS chain: "
            f"write {_FORMS}"
        )
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/") or parts.query:
            raise InvalidLocation(f"a folder is given as file:///folder, not {uri!r}")
        return _folder(Path(unquote(parts.path)))
    if parts.scheme == "s3" and parts.netloc:
        # Imported only when it is used: a laptop with a folder needs no boto3 client.
        from versioned.s3 import S3Storage  # noqa: PLC0415

        options = _s3_options(uri, parts.query)
        return S3Storage(
            parts.netloc,
            parts.path.strip("/"),
            session=session,
            endpoint_url=endpoint_url or options.get("endpoint_url"),
            region=options.get("region"),
        )
    raise InvalidLocation(f"a storage URI is {_FORMS}, not {uri!r}")


def _folder(path: Path) -> Storage:
    from versioned.files import FileStorage  # noqa: PLC0415 - imports this module

    return FileStorage(path)


def _s3_options(uri: str, query: str) -> dict[str, str]:
    options = {name: values[-1] for name, values in parse_qs(query).items()}
    unknown = sorted(set(options) - {"endpoint_url", "region"})
    if unknown:
        raise InvalidLocation(
            f"{unknown[0]!r} is not an option of {uri!r} (it takes endpoint_url and region): "
            "write for example s3://bucket/prefix?endpoint_url=http://localhost:9000"
        )
    return options
