"""Databases for MLflow's own SQL stores, which tests compare ours with."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from mlflow.store.db.utils import _initialize_tables, create_sqlalchemy_engine


def empty_database(folder: Path) -> str:
    """The URI of a new database that has MLflow's tables, and nothing in them."""
    path = folder / "theirs.db"
    shutil.copyfile(_template(), path)
    return f"sqlite:///{path}"


@functools.cache
def _template() -> Path:
    """A database that went through all of MLflow's migrations: a second or two, so only once."""
    folder = tempfile.mkdtemp(prefix="mlflow-tables-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "empty.db"
    engine = create_sqlalchemy_engine(f"sqlite:///{path}")
    _initialize_tables(engine)
    engine.dispose()
    return path
