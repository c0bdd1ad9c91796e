"""The modules of MLflow in which we replace something once they are imported.

This module is imported by every program that imports MLflow, so it imports nothing itself.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from mlflow_dynamodbstore.mlflow_compat.post_import import after_import

COMPAT = "mlflow_dynamodbstore.mlflow_compat"


def await_modules(
    make_job_store: Callable[[str], Any], rotate_key: Callable[[str, str], tuple[int, int]]
) -> None:
    """Replace what must be replaced in each module, as soon as it is imported.

    ``make_job_store`` makes the store at a URI; ``rotate_key`` changes the passphrase of the
    secrets there.
    """
    actions: tuple[tuple[Any, ...], ...] = (
        ("mlflow.server.handlers", "job_runner", "replace_in_handlers", make_job_store),
        ("mlflow.server.handlers", "server_start", "replace_in_handlers"),
        ("mlflow.server.jobs.utils", "job_runner", "replace_in_utils"),
        ("mlflow.server.jobs.lock_manager", "job_runner", "replace_in_locks"),
        (
            "mlflow.genai.scorers.online.trace_processor",
            "online_scoring",
            "replace_in_trace_processor",
        ),
        ("mlflow.server", "server_start", "replace_in_server"),
        ("mlflow.cli", "commands", "replace_in_cli", make_job_store),
        ("mlflow.cli.crypto", "commands", "replace_in_crypto", rotate_key),
        ("mlflow.db", "commands", "replace_in_db"),
        ("mlflow.server.auth.db.cli", "commands", "replace_in_auth_db"),
        ("mlflow.store.fs2db.cli", "commands", "replace_in_migration"),
    )
    for name, *action in actions:
        after_import(name, _with(*action))


def _with(module: str, function: str, *arguments: Any) -> Callable[[ModuleType], None]:
    """Call a function of a module of ours, which is imported then."""

    def act(imported: ModuleType) -> None:
        ours = importlib.import_module(f"{COMPAT}.{module}")
        functools.partial(getattr(ours, function), *arguments)(imported)

    return act
