"""The app ``dynamodb-auth``: MLflow's own auth app on our table.

``mlflow server --app-name dynamodb-auth --backend-store-uri dynamodb://...``
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
from typing import Any

from mlflow.environment_variables import MLFLOW_FLASK_SERVER_SECRET_KEY
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_ALREADY_EXISTS, ErrorCode

from mlflow_dynamodbstore.auth.filtered_lists import FILTERS
from mlflow_dynamodbstore.auth.rechecks import with_denials_rechecked, with_omissions_rechecked
from mlflow_dynamodbstore.auth.store import DynamoDBAuthStore
from mlflow_dynamodbstore.auth.tracking_lookups import CachedTrackingStore, fill_mcp_page
from mlflow_dynamodbstore.mlflow_compat.auth_app import (
    Replacements,
    configured_password,
    load_auth_app,
)
from mlflow_dynamodbstore.mlflow_compat.server import BACKEND_STORE_URI_ENV_VAR
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.table.location import SCHEME

DEFAULT_ADMIN = "admin"
_TAKEN = ErrorCode.Name(RESOURCE_ALREADY_EXISTS)

REPLACEMENTS = Replacements(
    store_class=DynamoDBAuthStore,
    wrap_tracking_store=lambda theirs, store: CachedTrackingStore(theirs, store.answers),
    fill_mcp_page=fill_mcp_page,
    before_request=with_denials_rechecked,
    after_request=with_omissions_rechecked,
    filters=FILTERS,
)

# `mlflow server` imports this module before it starts its processes, so an error is reported once.
# A process that fails at its start would be started again and again.
auth: Any = load_auth_app()
REPLACEMENTS.check(auth)


def create_app(*arguments: Any) -> Any:
    """MLflow's auth app with our store. MLflow's server calls it once in each of its processes."""
    uri = table_uri(auth.auth_config.database_uri)
    store = DynamoDBAuthStore(uri)
    REPLACEMENTS.install(auth, store)
    admin = auth.auth_config.admin_username or DEFAULT_ADMIN
    auth.auth_config = auth.auth_config._replace(database_uri=uri, admin_username=admin)
    ensure_admin(store, admin)
    if not MLFLOW_FLASK_SERVER_SECRET_KEY.get():
        os.environ[MLFLOW_FLASK_SERVER_SECRET_KEY.name] = secret_key(store, admin)
    return auth.create_app(*arguments)


def table_uri(configured: str) -> str:
    """The table of users and grants: the configured one, or else that of the server."""
    for uri in (configured, os.environ.get(BACKEND_STORE_URI_ENV_VAR, "")):
        if uri.startswith(SCHEME):
            return uri
    raise invalid(
        "The app dynamodb-auth keeps users in a DynamoDB table. Start the server with "
        "--backend-store-uri dynamodb://..., or set database_uri to such a URI in the file that "
        "MLFLOW_AUTH_CONFIG_PATH names."
    )


def ensure_admin(store: DynamoDBAuthStore, name: str) -> None:
    """Create the first user. Without a configured password one is generated and shown once."""
    configured = configured_password(auth)
    if store.has_user(name):
        return
    password = configured or secrets.token_urlsafe(18)
    try:
        auth.create_admin_user(name, password)
    except MlflowException as error:
        if error.error_code != _TAKEN:
            raise
        return  # another process created the user and showed the password
    if not configured:
        sys.stderr.write(
            f"\nCreated the user {name!r}, who may do everything, with the password\n\n"
            f"    {password}\n\nIt is shown only once. Keep it, or change it.\n\n"
        )
        sys.stderr.flush()


def secret_key(store: DynamoDBAuthStore, admin: str) -> str:
    """The key that MLflow signs forms with: the same in all processes on one table."""
    known = store.get_user(admin).password_hash
    return hashlib.sha256(f"mlflow forms {known}".encode()).hexdigest()
