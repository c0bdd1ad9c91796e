"""Open our stores wherever MLflow is told to open a SQLite database.

MLflow finds these factories by the entry points beside this file, which take the scheme ``sqlite``
from its own stores. So its tests run unchanged, their servers and subprocesses too. MLflow has no
entry points for jobs and users; their stores are replaced when the modules that make them are
imported, in every process that has this folder on its path. This module is imported by every one
of them, so it imports our stores only when they are opened.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Any

from mlflow_dynamodbstore import plugin  # noqa: F401 - replaces first what it replaces in MLflow
from mlflow_dynamodbstore.mlflow_compat import server_settings
from mlflow_dynamodbstore.mlflow_compat.post_import import after_import


def _stores() -> Any:
    return importlib.import_module("sqlite_stores")


def tracking_store(store_uri: str, artifact_uri: str | None = None) -> Any:
    """Our tracking store, for a SQLite URI."""
    return _stores().opened_tracking_store(store_uri, artifact_uri)


def model_registry_store(store_uri: str, **_: object) -> Any:
    """Our model registry, for a SQLite URI."""
    return _stores().RegistryStore(store_uri)


def workspace_store(workspace_uri: str) -> Any:
    """Our workspaces, for a SQLite URI."""
    return _stores().WorkspaceStore(workspace_uri)


def _replace_job_store(handlers: ModuleType) -> None:
    """Let ``mlflow.server.handlers`` make our job store for a SQLite URI."""

    def get_job_store(backend_store_uri: str | None = None) -> Any:
        if vars(handlers).get("_job_store") is None:  # a test may have put one there
            uri = backend_store_uri or os.environ[server_settings.BACKEND_STORE_URI]
            vars(handlers)["_job_store"] = _stores().server_job_store(uri)
        return vars(handlers)["_job_store"]

    vars(handlers)["_get_job_store"] = get_job_store


def _replace_auth_app(auth: ModuleType) -> None:
    """Let MLflow's auth app, however a test starts it, be ours with the users in our table.

    Our app takes no password that is known to all; the tests know no other.
    """
    theirs = vars(auth)["create_app"]

    def create_app(*arguments: Any) -> Any:
        vars(auth)["create_app"] = theirs  # our app looks at it when it is imported
        try:
            app = importlib.import_module("mlflow_dynamodbstore.auth.app")
            config = vars(auth)["auth_config"]
            uri = _stores().table_of(config.database_uri)
            vars(auth)["auth_config"] = config._replace(database_uri=uri)
            vars(auth)["_DEFAULT_ADMIN_PASSWORD"] = None
            return app.create_app(*arguments)
        finally:
            vars(auth)["create_app"] = create_app

    vars(auth)["create_app"] = create_app


server_settings.SCHEME = "sqlite"  # what we replace in MLflow for our URIs, replace for these
after_import("mlflow.server.handlers", _replace_job_store)
after_import("mlflow.server.auth", _replace_auth_app)
