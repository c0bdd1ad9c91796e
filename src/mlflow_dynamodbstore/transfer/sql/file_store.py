"""A folder of MLflow's file store as a database: MLflow's own conversion, into a temporary file."""

from __future__ import annotations

import logging
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.mlflow_compat.databases import MIGRATION_LOG, migrate_file_store
from mlflow_dynamodbstore.transfer.sql.database import Database

_POINT = re.compile(r"|-?\d+ \S+( -?\d+)?")
MOST_SHOWN = 60


def folder_of(source: str) -> Path | None:
    """The folder that a source names, if it is one."""
    path = Path(source.removeprefix("file://"))
    return path if path.is_dir() else None


def database_of_folder(folder: Path, into: Path) -> Database:
    """The contents of a folder as a database in another folder, which must outlive it.

    ``unread`` of the database counts the files that could not be read and are left out.
    """
    uri = f"sqlite:///{into / 'converted.db'}"
    warned = _Warnings()
    logger = logging.getLogger(MIGRATION_LOG)
    logger.addHandler(warned)
    try:
        with redirect_stdout(StringIO()):  # it prints a summary
            migrate_file_store(folder, uri, progress=False)
    except MlflowException as error:
        raise ValueError(f"{folder} is not a folder of MLflow's file store: {error}") from error
    except (ValueError, OSError) as error:  # it warns of broken YAML, and gives up at a metric
        where = _broken_metric(folder) or str(error)
        raise ValueError(
            f"MLflow's conversion of {folder} failed at {where}. Correct or remove that file in a "
            "copy of the folder, and import the copy"
        ) from error
    finally:
        logger.removeHandler(warned)
    made = Database.to_read(uri)
    made.address = folder.resolve().as_uri()
    made.unread = warned.count
    return made


def _broken_metric(folder: Path) -> str | None:
    """The first line of a metric that is not ``timestamp value [step]``."""
    for path in sorted(folder.glob("**/metrics/**/*")):
        lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
        for number, line in enumerate(lines, 1):
            if not _POINT.fullmatch(line.strip()):
                return f"line {number} of {path}: {line[:MOST_SHOWN]!r}"
    return None


class _Warnings(logging.Handler):
    """Counts the warnings of the conversion: each is a file that it could not read."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        del record
        self.count += 1
