"""What ``mlflow server`` is told at its start on our store, before it starts anything.

What only SQL databases have is refused with a sentence, instead of being accepted and left undone.
"""

from __future__ import annotations

import configparser
import logging
import os
import secrets
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import click
from mlflow.version import VERSION

from mlflow_dynamodbstore.mlflow_compat.post_import import replace
from mlflow_dynamodbstore.mlflow_compat.server_settings import is_ours, starting_server

_logger = logging.getLogger(__name__)

ROLLUPS = "MLFLOW_SQL_TRACE_ROLLUPS_ENABLED"
TOKEN = "_MLFLOW_INTERNAL_GATEWAY_AUTH_TOKEN"  # noqa: S105 - the name of a variable
OUR_AUTH_APP = "dynamodb-auth"
AUTH_FILE = "MLFLOW_AUTH_CONFIG_PATH"
OUR_APPS = "mlflow_dynamodbstore.server."
PREFORK = "mlflow_dynamodbstore.server.prefork"
NO_REPLICA = (
    "a read replica (--read-replica-backend-store-uri) is for SQL databases. DynamoDB spreads "
    "reads by itself: leave the option away."
)
NO_REPLICA_OF_USERS = (
    f"a read replica of the users (read_database_uri in the file of {AUTH_FILE}) is for SQL "
    "databases. DynamoDB spreads reads by itself: remove the line."
)
NO_ROLLUPS = (
    f"SQL trace rollups ({ROLLUPS}) are for SQL databases. On this store metrics over traces are "
    "computed from the traces: unset the variable."
)


def replace_in_server(server: ModuleType) -> None:
    """Let ``mlflow.server`` look at its options first."""
    if not replace(server, "_run_server", _run_server):
        _logger.warning(
            "MLflow %s lacks mlflow.server._run_server: options for SQL databases are not refused.",
            VERSION,
        )
    replace(server, "_build_uvicorn_command", _build_uvicorn_command)  # or it starts later


def replace_in_handlers(handlers: ModuleType) -> None:
    """Let ``mlflow.server.handlers`` say when ``mlflow server`` opens its stores.

    Where this cannot be said, only the server's own processes check what a server must have.
    """
    replace(handlers, "initialize_backend_stores", _initialize_backend_stores)


def _initialize_backend_stores(theirs: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    with starting_server():
        theirs(*args, **kwargs)


def _build_uvicorn_command(
    theirs: Callable[..., list[str]], *args: Any, **kwargs: Any
) -> list[str]:
    """MLflow's command; for our apps, with a parent that imports them once for all workers."""
    command = theirs(*args, **kwargs)
    if sys.platform == "linux" and command[-1].startswith(OUR_APPS) and "uvicorn" in command:
        command[command.index("uvicorn")] = PREFORK
    return command


def _run_server(theirs: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    if is_ours(kwargs.get("file_store_path")):
        _check(kwargs.get("read_replica_backend_store_uri"))
        if kwargs.get("app_name") == OUR_AUTH_APP:
            _check_users()
            # Jobs call the AI gateway in the name of the user who submitted them. The app accepts
            # that from processes that know this token; MLflow makes one for its own app only.
            os.environ.setdefault(TOKEN, secrets.token_hex(32))
    theirs(*args, **kwargs)


def _check(read_replica: str | None) -> None:
    if read_replica:
        raise click.ClickException(NO_REPLICA)
    if os.environ.get(ROLLUPS, "").lower() in ("true", "1"):
        raise click.ClickException(NO_ROLLUPS)


def _check_users() -> None:
    """Look at the file that MLflow's auth app reads, without loading that app."""
    config = configparser.ConfigParser()
    config.read(os.environ.get(AUTH_FILE, ""))
    if config.get("mlflow", "read_database_uri", fallback=None):
        raise click.ClickException(NO_REPLICA_OF_USERS)
