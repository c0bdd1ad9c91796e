"""The modules of MLflow in which we replace something once they are imported.

Every program that imports MLflow imports this module, so it imports nothing of MLflow itself.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from types import ModuleType
from typing import Any

from mlflow_dynamodbstore.mlflow_compat.post_import import after_import

_logger = logging.getLogger(__name__)

COMPAT = "mlflow_dynamodbstore.mlflow_compat"
NO_JOBS = "background jobs are off"
AWAITED: tuple[tuple[str, str, str, str], ...] = (
    ("mlflow.server.handlers", "job_runner", "replace_in_handlers", NO_JOBS),
    (
        "mlflow.server.handlers",
        "server_start",
        "replace_in_handlers",
        "a server without the keys of its secrets says so late",
    ),
    ("mlflow.server.jobs.utils", "job_runner", "replace_in_utils", NO_JOBS),
    ("mlflow.server.jobs.lock_manager", "job_runner", "replace_in_locks", NO_JOBS),
    (
        "mlflow.genai.scorers.online.trace_processor",
        "online_scoring",
        "replace_in_trace_processor",
        "a trace may be scored again after a job was killed",
    ),
    (
        "mlflow.server",
        "server_start",
        "replace_in_server",
        "options for SQL databases are not refused",
    ),
    ("mlflow.cli", "commands", "replace_in_cli", "`mlflow gc` deletes no jobs"),
    (
        "mlflow.cli.crypto",
        "commands",
        "replace_in_crypto",
        "`mlflow crypto` is for SQL databases",
    ),
    ("mlflow.db", "commands", "replace_in_db", "`mlflow db` is for SQL databases"),
    (
        "mlflow.server.auth.db.cli",
        "commands",
        "replace_in_auth_db",
        "its `db` is for SQL databases",
    ),
    (
        "mlflow.store.fs2db.cli",
        "commands",
        "replace_in_migration",
        "`mlflow migrate-filestore` is for SQL databases",
    ),
)
"""Modules of MLflow; ours that replaces, its function for that, and what is lost if it cannot."""

_said: set[str] = set()


def await_modules(
    make_job_store: Callable[[str], Any], rotate_key: Callable[[str, str], tuple[int, int]]
) -> None:
    """Replace what must be replaced in each module, as soon as it is imported.

    ``make_job_store`` makes the store at a URI; ``rotate_key`` changes the passphrase of the
    secrets there.
    """
    given: dict[tuple[str, str], tuple[Any, ...]] = {
        ("mlflow.server.handlers", "job_runner"): (make_job_store,),
        ("mlflow.cli", "commands"): (make_job_store,),
        ("mlflow.cli.crypto", "commands"): (rotate_key,),
    }
    for name, module, function, lost in AWAITED:
        after_import(name, _with(module, function, lost, given.get((name, module), ())))


def _with(
    module: str, function: str, lost: str, arguments: tuple[Any, ...]
) -> Callable[[ModuleType], None]:
    """Call a function of a module of ours, which is imported then.

    If a release of MLflow lacks what our module imports, MLflow's module stays as it is: a server
    on another store must start all the same.
    """

    def act(imported: ModuleType) -> None:
        try:
            ours = importlib.import_module(f"{COMPAT}.{module}")
        except ImportError as error:
            if lost not in _said:
                _said.add(lost)
                _logger.warning("With this release of MLflow %s: %s", lost, error)
            return
        getattr(ours, function)(*arguments, imported)

    return act
