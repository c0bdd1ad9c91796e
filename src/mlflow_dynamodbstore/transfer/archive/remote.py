"""Archives that lie elsewhere: in S3, or wherever MLflow keeps artifacts."""

from __future__ import annotations

from pathlib import Path

from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

from mlflow_dynamodbstore.transfer.archive.errors import Refused


def split(address: str) -> tuple[str, str]:
    """The folder and the name of an archive such as ``s3://bucket/backups/monday.jsonl.gz``."""
    folder, _, name = address.rpartition("/")
    if not name or folder.endswith("/"):
        raise Refused(f"{address} names no file; write for example s3://bucket/mlflow.jsonl.gz")
    return folder, name


def send(file: Path, address: str) -> None:
    """Copy a file to an address; the last part of the address must be the file's name."""
    folder, name = split(address)
    assert file.name == name
    get_artifact_repository(folder).log_artifact(str(file))


def fetch(address: str, into: Path) -> Path:
    """Copy an archive from an address into a folder."""
    folder, name = split(address)
    return Path(get_artifact_repository(folder).download_artifacts(name, str(into)))
