"""A repository of versioned artifacts: the one class that people use."""

from __future__ import annotations

import getpass
import io
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from mlflow_dynamodbstore.table.location import parse
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from versioned import aliases, blobs, collecting, publishing, resolving, verifying, versions
from versioned.aliases import AliasChange, Note
from versioned.collecting import DEFAULT_GRACE, Collection
from versioned.content import Progress, Reader, Source, no_progress, save, verified
from versioned.errors import InvalidMetadata, Unusable, speaks_ours
from versioned.folders import unpack
from versioned.home import Home
from versioned.keys import TABLE
from versioned.listing import DEFAULT_LIMIT, Page
from versioned.names import check_name
from versioned.references import parse_reference
from versioned.rows import Alias, Artifact
from versioned.storage import Storage, open_storage
from versioned.verifying import Verification

if TYPE_CHECKING:
    from typing_extensions import Self


class Repository:
    """Versioned artifacts: rows in a table, bytes in a storage.

    - ``table``: ``dynamodb://us-east-1/artifacts``, ``dynamodb://localhost:8000/artifacts``,
      ``dynamodb:///artifacts.ddb`` (a file), or an open ``Table``
    - ``storage``: ``s3://bucket/prefix``, ``file:///folder``, or an open ``Storage``
    - ``namespace``: keeps repositories apart that share both table and storage. Those that share
      only a table are kept apart by their storages.
    - ``actor``: who is recorded with changes; by default the user of this process
    - ``session``: a ``boto3.Session`` for both; by default one of its own, by the usual AWS chain
    - ``endpoint_url``: of S3, when it is not AWS
    - ``create``: whether to create an absent table. By default a file and a local endpoint create
      theirs, AWS does not.

    Every method raises only :class:`~versioned.errors.VersionedError`. All may be called from many
    threads. Two repositories share nothing, so each keeps to its own credentials.
    """

    @speaks_ours
    def __init__(
        self,
        table: str | Table,
        storage: str | Storage,
        *,
        namespace: str | None = None,
        actor: str | None = None,
        session: Any = None,
        endpoint_url: str | None = None,
        create: bool | None = None,
        clock: Callable[[], float] = time.time,
    ):
        if namespace is not None:
            check_name(namespace, "a namespace")
        if isinstance(storage, str):
            storage = open_storage(storage, session=session, endpoint_url=endpoint_url)
        self._owns_table = isinstance(table, str)
        if isinstance(table, str):
            table = _open_table(table, session, create)
        self._home = Home(table, storage, namespace, actor or _this_user(), clock)

    @property
    def storage(self) -> Storage:
        return self._home.storage

    @speaks_ours
    def close(self) -> None:
        """Let go of files, connections and threads."""
        if self._owns_table:
            self._home.table.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- content ----------------------------------------------------------------------------------

    @speaks_ours
    def put(
        self,
        name: str,
        source: Source,
        *,
        metadata: Mapping[str, str] | None = None,
        progress: Progress = no_progress,
    ) -> Artifact:
        """Make content the LATEST of an artifact.

        ``source`` is the path of a file or of a folder, bytes, or a binary stream.
        """
        return publishing.put(self._home, name, source, metadata, progress)

    @speaks_ours
    def publish(
        self,
        name: str,
        source: Source | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        expected_sha256: str | None = None,
        progress: Progress = no_progress,
    ) -> Artifact:
        """Make content a version that never changes, and return it.

        With a ``source`` its content is put and published in one step, whatever others do at the
        same time; without one, LATEST is published. With ``expected_sha256`` it is published only
        if this is its digest. Content that has a version already keeps it; if that was deleted, it
        is back.
        """
        if source is not None:
            return publishing.publish(self._home, name, source, metadata, expected_sha256, progress)
        if metadata:
            raise InvalidMetadata("metadata belongs to content: give it to put, or with a source")
        return publishing.publish_latest(self._home, name, expected_sha256)

    @speaks_ours
    def get(
        self,
        artifact: str | Artifact,
        version: int | str | None = None,
        *,
        to: str | PathLike[str],
        progress: Progress = no_progress,
    ) -> Path:
        """Download a version and return where it is.

        ``to`` is the file or, for a packed folder, the folder to make; in a folder that exists, the
        content gets the name it was put with. The file appears only when all of it is there and its
        digest is right; nothing is left behind otherwise. Raises ``DigestMismatch``,
        ``ContentMissing``, and ``Corrupt`` for a name or an archive that leads out of ``to``.
        """
        found = self._found(artifact, version)
        target = _target(Path(to), found)
        chunks = _counted(self._chunks(found), progress)
        try:
            _arrive(chunks, target, found)
        except OSError as error:
            raise Unusable(f"{target} cannot be written: {error.strerror or error}") from error
        return target

    @speaks_ours
    def open(self, artifact: str | Artifact, version: int | str | None = None) -> BinaryIO:
        """A stream over the content of a version.

        Reading past its end raises ``DigestMismatch`` when what was read is not right.
        """
        chunks = self._chunks(self._found(artifact, version))
        return cast("BinaryIO", io.BufferedReader(Reader(chunks), 1024 * 1024))

    @speaks_ours
    def read(self, artifact: str | Artifact, version: int | str | None = None) -> bytes:
        """The content of a version, whole and verified."""
        return b"".join(self._chunks(self._found(artifact, version)))

    # --- versions ---------------------------------------------------------------------------------

    @speaks_ours
    def show(
        self, name: str, version: int | str | None = None, *, include_deleted: bool = False
    ) -> Artifact:
        """What is known about a version; None is LATEST."""
        return versions.show(self._home, name, version, include_deleted=include_deleted)

    @speaks_ours
    def find(self, reference: str, key: str | None = None) -> Artifact:
        """The version that ``my-app``, ``my-app/3`` or ``my-app@prod`` means."""
        wanted = parse_reference(reference)
        if wanted.alias is not None:
            return resolving.resolve(self._home, wanted.name, wanted.alias, key)
        return versions.show(self._home, wanted.name, wanted.version)

    @speaks_ours
    def list_names(self, *, limit: int = DEFAULT_LIMIT, cursor: str | None = None) -> Page[str]:
        """The names of all artifacts, a page at a time."""
        return versions.list_names(self._home, limit=limit, cursor=cursor)

    @speaks_ours
    def list_versions(
        self,
        name: str,
        *,
        limit: int = DEFAULT_LIMIT,
        cursor: str | None = None,
        oldest_first: bool = False,
        include_deleted: bool = False,
    ) -> Page[Artifact]:
        """LATEST, then the numbered versions, newest first unless asked otherwise."""
        return versions.list_versions(
            self._home,
            name,
            limit=limit,
            cursor=cursor,
            oldest_first=oldest_first,
            include_deleted=include_deleted,
        )

    @speaks_ours
    def require_artifact(self, name: str) -> None:
        """Raises ``ArtifactNotFound`` when there is no artifact of this name."""
        versions.require_artifact(self._home, name)

    @speaks_ours
    def delete(self, name: str, version: int | str | None = None) -> Artifact:
        """Hide a version until it is undeleted. Raises ``VersionInUse`` if an alias needs it."""
        return versions.delete(self._home, name, version)

    @speaks_ours
    def undelete(self, name: str, version: int | str | None = None) -> Artifact:
        """Bring a deleted version back."""
        return versions.undelete(self._home, name, version)

    @speaks_ours
    def purge(self, name: str, version: int | str | None) -> Artifact:
        """Remove a deleted version for good; its number is never used again."""
        return versions.purge(self._home, name, version)

    @speaks_ours
    def purge_artifact(self, name: str) -> int:
        """Remove all versions of an artifact for good, deleted or not; returns how many."""
        return versions.purge_artifact(self._home, name)

    # --- aliases ----------------------------------------------------------------------------------

    @speaks_ours
    def put_alias(
        self,
        name: str,
        alias: str,
        version: int | str | None = None,
        secondary_version: int | str | None = None,
        secondary_version_weight: int | None = None,
        *,
        expected_revision: int | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> Alias:
        """Let an alias point at a version, or divide keys between two.

        With ``expected_revision`` (0: it must not exist) it is changed only if it still is at that
        revision; otherwise raises ``AliasChanged``.
        """
        note = Note("put", by, reason, expected_revision)
        return aliases.put_alias(
            self._home, name, alias, version, secondary_version, secondary_version_weight, note
        )

    @speaks_ours
    def get_alias(self, name: str, alias: str) -> Alias:
        """Where an alias points, and at which revision it is."""
        return aliases.get_alias(self._home, name, alias)

    @speaks_ours
    def list_aliases(
        self, name: str, *, limit: int = DEFAULT_LIMIT, cursor: str | None = None
    ) -> Page[Alias]:
        """The aliases of an artifact, a page at a time."""
        return aliases.list_aliases(self._home, name, limit=limit, cursor=cursor)

    @speaks_ours
    def delete_alias(
        self,
        name: str,
        alias: str,
        *,
        expected_revision: int | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Remove an alias; its history stays."""
        note = Note("delete", by, reason, expected_revision)
        aliases.delete_alias(self._home, name, alias, note)

    @speaks_ours
    def canary(
        self,
        name: str,
        alias: str,
        version: int | str | None,
        weight: int,
        *,
        expected_revision: int | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> Alias:
        """Give ``weight`` percent of the keys another version; the rest keeps the one it has."""
        note = Note("canary", by, reason, expected_revision)
        return aliases.canary(self._home, name, alias, version, weight, note)

    @speaks_ours
    def promote(
        self,
        name: str,
        alias: str,
        *,
        expected_revision: int | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> Alias:
        """End a canary: everybody gets the secondary version."""
        note = Note("promote", by, reason, expected_revision)
        return aliases.promote(self._home, name, alias, note)

    @speaks_ours
    def abort(
        self,
        name: str,
        alias: str,
        *,
        expected_revision: int | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> Alias:
        """End a canary: everybody gets the primary version again."""
        note = Note("abort", by, reason, expected_revision)
        return aliases.abort(self._home, name, alias, note)

    @speaks_ours
    def rollback(
        self,
        name: str,
        alias: str,
        revision: int | None = None,
        *,
        expected_revision: int | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> Alias | None:
        """Go back to how an alias was after a revision, by default before its last change.

        Returns None when that means that there is no alias. It is a change like any other: it is
        recorded, and can be rolled back itself.
        """
        note = Note("rollback", by, reason, expected_revision)
        return aliases.rollback(self._home, name, alias, revision, note)

    @speaks_ours
    def history(
        self, name: str, alias: str, *, limit: int = DEFAULT_LIMIT, cursor: str | None = None
    ) -> Page[AliasChange]:
        """The changes of an alias, newest first, a page at a time."""
        return aliases.history(self._home, name, alias, limit=limit, cursor=cursor)

    @speaks_ours
    def resolve(self, name: str, alias: str, key: str | None = None) -> Artifact:
        """The version that an alias gives to a key, always the same one for the same key.

        Without a key it is drawn by weight.
        """
        return resolving.resolve(self._home, name, alias, key)

    # --- upkeep -----------------------------------------------------------------------------------

    @speaks_ours
    def verify(
        self,
        name: str | None = None,
        *,
        read_content: bool = True,
        progress: Progress = no_progress,
    ) -> Verification:
        """Check that rows, counts and bytes agree, for one artifact or for all."""
        return verifying.verify(self._home, name, read_content=read_content, progress=progress)

    @speaks_ours
    def gc(self, *, grace: timedelta = DEFAULT_GRACE, dry_run: bool = False) -> Collection:
        """Reclaim bytes that no version has pointed at for as long as the grace period."""
        return collecting.gc(self._home, grace, dry_run)

    # --- plumbing ---------------------------------------------------------------------------------

    def _found(self, artifact: str | Artifact, version: int | str | None) -> Artifact:
        if not isinstance(artifact, str):  # a row of ours, or a PynamoDB model of one
            return artifact
        return versions.show(self._home, artifact, version)

    def _chunks(self, artifact: Artifact) -> Iterator[bytes]:
        key = blobs.key_of(self._home, artifact)
        where = f"{key} in {self._home.storage.uri}"
        return verified(self._home.storage.read(key), str(artifact.sha256), artifact.size, where)


def _open_table(uri: str, session: Any, create: bool | None) -> Table:
    options = {}
    if session is not None and parse(uri).kind != "file":
        # The engine takes botocore's session; boto3 offers no public way to the one inside it.
        options["session"] = getattr(session, "_session", session)
    return Table(open_engine(uri, TABLE, create=create, **options))


def _this_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        return "unknown"


def _target(to: Path, artifact: Artifact) -> Path:
    return to / artifact.file_name if to.is_dir() else to


def _arrive(chunks: Iterator[bytes], target: Path, artifact: Artifact) -> None:
    if not artifact.is_folder:
        save(chunks, target)
        return
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder, "packed")
        save(chunks, packed)
        unpack(packed, target)


def _counted(chunks: Iterator[bytes], progress: Progress) -> Iterator[bytes]:
    for chunk in chunks:
        yield chunk
        progress(len(chunk))
