"""MLflow's SQL databases: making their tables, and checking their version."""

from __future__ import annotations

from typing import Any

from mlflow_dynamodbstore.mlflow_compat.names import private, private_later, unavailable

UTILS = "mlflow.store.db.utils"
DATABASES = "Import from and export to MLflow's databases"
AUTH_DATABASES = "Import and export of users and roles"

safe_initialize_tables: Any = private(UTILS, "_safe_initialize_tables", unavailable(DATABASES))
verify_schema: Any = private(UTILS, "_verify_schema", unavailable(DATABASES))
FILE_STORE = "Import from a folder of MLflow's file store"
MIGRATION_LOG = "mlflow.store.fs2db"
"""The logger to which the conversion of a folder says which files it cannot read."""
migrate_file_store: Any = private_later("mlflow.store.fs2db", "migrate", unavailable(FILE_STORE))

# These import the whole auth app.
migrate_if_needed: Any = private_later(
    "mlflow.server.auth.db.utils", "migrate_if_needed", unavailable(AUTH_DATABASES)
)
AuthBase: Any = private_later("mlflow.server.auth.db.models", "Base", unavailable(AUTH_DATABASES))
