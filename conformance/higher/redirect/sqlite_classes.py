"""A pytest plugin: MLflow's tests that open its SQL stores by their classes open ours.

Only in the modules of tests. MLflow itself keeps its classes, and ours are none of them.
"""

from __future__ import annotations

import importlib
import sys

import sqlite_stores

CLASSES = {
    "mlflow.store.tracking.sqlalchemy_store.SqlAlchemyStore": sqlite_stores.TrackingStore,
    "mlflow.store.tracking.sqlalchemy_workspace_store.WorkspaceAwareSqlAlchemyStore": (
        sqlite_stores.TrackingStore
    ),
    "mlflow.store.model_registry.sqlalchemy_store.SqlAlchemyStore": sqlite_stores.RegistryStore,
    "mlflow.store.workspace.sqlalchemy_store.SqlAlchemyStore": sqlite_stores.WorkspaceStore,
    "mlflow.store.jobs.sqlalchemy_store.SqlAlchemyJobStore": sqlite_stores.JobStore,
    "mlflow.store.jobs.sqlalchemy_workspace_store.WorkspaceAwareSqlAlchemyJobStore": (
        sqlite_stores.JobStore
    ),
    "mlflow.server.auth.sqlalchemy_store.SqlAlchemyStore": sqlite_stores.AuthStore,
}
CONSTANTS = ("TRACE_FOLDER_NAME", "ARTIFACTS_FOLDER_NAME")


def pytest_collection_finish() -> None:
    """Replace the classes in all modules of tests, which are imported by now."""
    ours = {}
    for path, replacement in CLASSES.items():
        module, _, name = path.rpartition(".")
        if module in sys.modules:
            theirs = getattr(importlib.import_module(module), name)
            ours[theirs] = replacement
            for constant in CONSTANTS:
                if constant in dir(theirs) and constant not in dir(replacement):
                    setattr(replacement, constant, getattr(theirs, constant))
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] == "tests":
            for name, value in list(vars(module).items()):
                if isinstance(value, type) and value in ours:
                    setattr(module, name, ours[value])
