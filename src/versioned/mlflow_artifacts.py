"""Versioned artifacts where MLflow expects an artifact URI.

``versioned:/my-app@prod``, ``versioned:/my-app/3`` and ``versioned:/my-app`` (its LATEST) can be
downloaded and listed like any other artifacts, by MLflow's client and by its server. A version is a
folder: it holds the one file that was published, or the files of the folder that was.

Table and storage come from ``VERSIONED_TABLE``, ``VERSIONED_STORAGE`` and ``VERSIONED_NAMESPACE``
and from nowhere else: a server must not open whatever a client writes into a URI. ``?key=`` says
for whom an alias with a canary is resolved.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import parse_qs, unquote, urlsplit

from mlflow.entities import FileInfo
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import (
    INTERNAL_ERROR,
    INVALID_PARAMETER_VALUE,
    RESOURCE_DOES_NOT_EXIST,
)
from mlflow.store.artifact.artifact_repo import ArtifactRepository

from versioned.errors import InvalidInput, InvalidReference, NotFound, VersionedError
from versioned.names import LATEST
from versioned.references import Reference, parse_reference
from versioned.repository import Repository
from versioned.rows import Artifact

_READ_ONLY = (
    "a version never changes, so nothing can be logged to a versioned:/ URI: publish new content "
    "with `versioned publish`, and let an alias point at it"
)


class VersionedArtifactRepository(ArtifactRepository):
    """What MLflow asks of an artifact store, for reading.

    MLflow may give the whole URI here, or its last part as the first path it asks for: both are
    read as one.
    """

    def __init__(
        self, artifact_uri: str, tracking_uri: str | None = None, registry_uri: str | None = None
    ) -> None:
        super().__init__(artifact_uri, tracking_uri, registry_uri)
        parts = urlsplit(artifact_uri)
        if parts.netloc:
            raise MlflowException(
                f"write versioned:/{parts.netloc} with one slash: {artifact_uri!r} names a host",
                INVALID_PARAMETER_VALUE,
            )
        self._root = unquote(parts.path).strip("/")
        self._key = parse_qs(parts.query).get("key", [None])[-1]
        self._opened: Repository | None = None
        self._found: dict[Reference, Artifact] = {}
        self._unpacked: dict[Reference, Path] = {}

    def list_artifacts(self, path: str | None = None) -> list[FileInfo]:
        """The files directly under a path; none when it is a file."""
        with _speaking_mlflow():
            reference, inner = self._split(path)
            row = self._artifact(reference)
            if not row.is_folder:
                self._check_filename(reference, inner)
                whole = FileInfo(_joined(path, row.file_name), is_dir=False, file_size=row.size)
                return [] if inner else [whole]
            here = self._local(reference, inner)
            if here.is_file():
                return []
            return [_file_info(entry, path) for entry in sorted(here.iterdir())]

    def download_artifacts(self, artifact_path: str | None, dst_path: str | None = None) -> str:
        """Download a version, or a file or folder of it, and return where it is.

        The path of a version that is one file is that of the file.
        """
        target = Path(dst_path or tempfile.mkdtemp()).absolute()
        if not target.is_dir():
            raise MlflowException(
                f"the destination {target} does not exist or is not a folder: make it first",
                INVALID_PARAMETER_VALUE if target.exists() else RESOURCE_DOES_NOT_EXIST,
            )
        with _speaking_mlflow():
            reference, inner = self._split(artifact_path)
            row = self._artifact(reference)
            if not row.is_folder:
                file = self._download_whole(reference, inner, target)
                return str(file if artifact_path else target)
            source = self._local(reference, inner)
            return str(_copy(source, target / (artifact_path or "")))

    def _download_file(self, remote_file_path: str, local_path: str) -> None:
        with _speaking_mlflow():
            reference, inner = self._split(remote_file_path)
            if self._artifact(reference).is_folder:
                _copy(self._local(reference, inner), Path(local_path))
            else:
                self._check_filename(reference, inner)
                self._repository.get(self._artifact(reference), to=local_path)

    # ruff: noqa: ARG002 - the signatures are MLflow's

    def log_artifact(self, local_file: str, artifact_path: str | None = None) -> NoReturn:
        """Refused: see the message."""
        raise MlflowException(_READ_ONLY, INVALID_PARAMETER_VALUE)

    def log_artifacts(self, local_dir: str, artifact_path: str | None = None) -> NoReturn:
        """Refused: see the message."""
        raise MlflowException(_READ_ONLY, INVALID_PARAMETER_VALUE)

    def delete_artifacts(self, artifact_path: str | None = None) -> NoReturn:
        """Refused: deleting an MLflow run must not delete a version that others use."""
        raise MlflowException(
            "MLflow cannot delete a version: use `versioned delete`",
            INVALID_PARAMETER_VALUE,
        )

    # --- which version, and where in it ----------------------------------------------------------

    def _split(self, path: str | None) -> tuple[Reference, str]:
        """The version that the URI and a path name together, and the path inside it."""
        parts = [part for part in posixpath.join(self._root, path or "").split("/") if part]
        first, *rest = parts or [""]
        if "@" not in first and rest and (rest[0].isdecimal() or rest[0] == LATEST):
            first = f"{first}/{rest.pop(0)}"
        if any(part == ".." for part in rest):
            raise InvalidReference(f"{path!r} leaves its artifact")
        return parse_reference(first), "/".join(rest)

    def _artifact(self, reference: Reference) -> Artifact:
        """The version, looked up once: all that one repository is asked for is of one version."""
        if reference not in self._found:
            self._found[reference] = self._repository.find(str(reference), self._key)
        return self._found[reference]

    @property
    def _repository(self) -> Repository:
        if self._opened is None:
            self._opened = _open_from_environment()
            weakref.finalize(self, self._opened.close)
        return self._opened

    # --- files -----------------------------------------------------------------------------------

    def _download_whole(self, reference: Reference, inner: str, target: Path) -> Path:
        row = self._artifact(reference)
        self._check_filename(reference, inner)
        return self._repository.get(row, to=target / row.file_name)

    def _check_filename(self, reference: Reference, inner: str) -> None:
        filename = self._artifact(reference).file_name
        if inner not in ("", filename):
            raise NotFound(f"{reference} holds {filename!r} and no {inner!r}")

    def _local(self, reference: Reference, inner: str) -> Path:
        """A path in a folder that was published, unpacked once."""
        if reference not in self._unpacked:
            row = self._artifact(reference)
            folder = tempfile.mkdtemp(prefix="versioned-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._unpacked[reference] = self._repository.get(row, to=Path(folder, "content"))
        found = self._unpacked[reference] / inner
        if not found.exists():
            raise NotFound(f"{reference} holds no {inner!r}")
        return found


def _open_from_environment() -> Repository:
    table, storage = os.environ.get("VERSIONED_TABLE"), os.environ.get("VERSIONED_STORAGE")
    if not table or not storage:
        raise InvalidInput(
            "a versioned:/ URI needs the environment variables VERSIONED_TABLE and "
            "VERSIONED_STORAGE, for example dynamodb://us-east-1/artifacts and s3://bucket/prefix"
        )
    namespace = os.environ.get("VERSIONED_NAMESPACE") or None
    return Repository(table, storage, namespace=namespace, create=False)


def _joined(path: str | None, name: str) -> str:
    return posixpath.join(path, name) if path else name


def _file_info(entry: Path, path: str | None) -> FileInfo:
    size = None if entry.is_dir() else entry.stat().st_size
    return FileInfo(_joined(path, entry.name), entry.is_dir(), size)


def _copy(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copyfile(source, target)
    return target


@contextmanager
def _speaking_mlflow() -> Iterator[None]:
    """Turn our errors into MLflow's in one place."""
    try:
        yield
    except VersionedError as error:
        code: Any = INTERNAL_ERROR
        if isinstance(error, NotFound):
            code = RESOURCE_DOES_NOT_EXIST
        elif isinstance(error, InvalidInput):
            code = INVALID_PARAMETER_VALUE
        raise MlflowException(str(error), code) from error
