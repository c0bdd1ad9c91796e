"""MLflow's commands that ask for a SQL database, as they answer for our stores.

A command does what it says, or says in a sentence what to do instead. With other URIs it is
MLflow's own.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from contextvars import ContextVar
from types import ModuleType
from typing import Any

import click
from mlflow.exceptions import MlflowException
from mlflow.version import VERSION

from mlflow_dynamodbstore.mlflow_compat.post_import import replace
from mlflow_dynamodbstore.mlflow_compat.server_settings import is_ours

_logger = logging.getLogger(__name__)

NOTHING_TO_MIGRATE = (
    "Nothing to migrate: a table of mlflow-dynamodbstore has no schema to upgrade. Items of older "
    "releases are read as they are."
)
NO_ANALYTICS = "Nothing to prepopulate: this store keeps the sums of a trace with the trace."
NO_ROLLUPS = "Nothing to delete: this store has no SQL trace rollups."
NO_MIGRATION_TO_DEFAULT = (
    "this command is for SQL databases. To move everything of a workspace into the default one: "
    "mlflow-dynamodbstore --uri {uri} workspace delete NAME --mode set_default"
)
NO_MOVE = (
    "this command is for SQL databases. On this store resources move between workspaces only into "
    "the default one: mlflow-dynamodbstore --uri {uri} workspace delete NAME --mode set_default"
)
NO_FOLDERS = (
    "this command writes only SQLite databases. To import the folder into the table: "
    "mlflow-dynamodbstore --uri {uri} import {source}"
)


def replace_in_db(module: ModuleType) -> None:
    """``mlflow db``."""
    _answer(module, "upgrade", _says(NOTHING_TO_MIGRATE))
    _answer(module, "prepopulate_trace_analytics", _says(NO_ANALYTICS))
    _answer(module, "delete_trace_rollups", _says(NO_ROLLUPS))
    _answer(module, "migrate_to_default_workspace", _refuses(NO_MIGRATION_TO_DEFAULT))
    _answer(module, "move_resources", _refuses(NO_MOVE))


def replace_in_auth_db(module: ModuleType) -> None:
    """``python -m mlflow.server.auth db``."""
    _answer(module, "upgrade", _says(NOTHING_TO_MIGRATE))


def replace_in_crypto(rotate: Callable[[str, str], tuple[int, int]], module: ModuleType) -> None:
    """``mlflow crypto rotate-kek``. ``rotate`` takes a URI and the new passphrase."""
    _answer(module, "rotate_kek", functools.partial(_rotate, rotate), "backend_store_uri")


def replace_in_migration(module: ModuleType) -> None:
    """``mlflow migrate-filestore``."""
    _answer(module, "migrate_filestore", _refuses(NO_FOLDERS), "target")


def replace_in_cli(make_job_store: Callable[[str], Any], module: ModuleType) -> None:
    """``mlflow gc``."""
    collect = functools.partial(_collect_with_jobs, make_job_store)
    if not replace(module, "_gc_tracking_resources", collect):
        _logger.warning(
            "MLflow %s lacks mlflow.cli._gc_tracking_resources: `mlflow gc` deletes no jobs.",
            VERSION,
        )
        return
    _answer(module, "gc", _gc, "backend_store_uri", also_passed=True)


# --- answers ------------------------------------------------------------------------------------


def _answer(
    module: ModuleType,
    name: str,
    answer: Callable[..., Any],
    parameter: str = "url",
    *,
    also_passed: bool = False,
) -> None:
    """Let a command answer by itself when a parameter of it, or the environment, is a URI of ours.

    ``answer`` is given the URI and the parameters, and before them the command's own callback if
    that is ``also_passed``. A release without the command is left as it is.
    """
    command = vars(module).get(name)
    if not isinstance(command, click.Command) or command.callback is None:
        return
    theirs = command.callback

    @functools.wraps(theirs)
    def callback(*args: Any, **parameters: Any) -> Any:
        uri = parameters.get(parameter) or os.environ.get("MLFLOW_TRACKING_URI")
        if not is_ours(uri):
            return theirs(*args, **parameters)
        if also_passed:
            return answer(theirs, uri, *args, **parameters)
        return answer(uri, *args, **parameters)

    command.callback = callback


def _says(sentence: str) -> Callable[..., None]:
    def say(_uri: str, *_args: Any, **_parameters: Any) -> None:
        click.echo(sentence)

    return say


def _refuses(sentence: str) -> Callable[..., None]:
    def refuse(uri: str, *_args: Any, **parameters: Any) -> None:
        raise click.ClickException(sentence.format(**{**parameters, "uri": uri}))

    return refuse


def _rotate(
    rotate: Callable[[str, str], tuple[int, int]],
    uri: str,
    new_passphrase: str,
    yes: bool,
    **_parameters: Any,
) -> None:
    if not os.environ.get("MLFLOW_CRYPTO_KEK_PASSPHRASE"):
        raise click.ClickException(
            "set MLFLOW_CRYPTO_KEK_PASSPHRASE to the current passphrase, and "
            "MLFLOW_CRYPTO_KEK_VERSION to its version, before changing it"
        )
    if not yes:
        click.confirm("Are all servers stopped, and shall the passphrase change?", abort=True)
    try:
        count, version = rotate(uri, new_passphrase)
    except MlflowException as error:
        raise click.ClickException(error.message) from error
    click.echo(
        f"{count:,} secrets changed. Start the servers with the new MLFLOW_CRYPTO_KEK_PASSPHRASE "
        f"and with MLFLOW_CRYPTO_KEK_VERSION={version}."
    )


# --- mlflow gc ----------------------------------------------------------------------------------


_jobs_to_delete: ContextVar[tuple[str, list[str] | None] | None] = ContextVar(
    "jobs_to_delete", default=None
)
"""The URI of a store and the ids of jobs, or None for all, while ``mlflow gc`` runs."""


def _gc(
    theirs: Callable[..., None],
    uri: str,
    *args: Any,
    jobs: bool = False,
    job_ids: str | None = None,
    **parameters: Any,
) -> None:
    wanted = (uri, job_ids.split(",") if job_ids else None) if jobs or job_ids else None
    marked = _jobs_to_delete.set(wanted)
    try:
        theirs(*args, jobs=False, job_ids=None, **parameters)
    finally:
        _jobs_to_delete.reset(marked)


def _collect_with_jobs(
    make_job_store: Callable[[str], Any], theirs: Callable[..., None], *args: Any, **kwargs: Any
) -> None:
    """What ``mlflow gc`` does in each workspace, and then the jobs of that workspace."""
    theirs(*args, **kwargs)
    wanted = _jobs_to_delete.get()
    if wanted is None:
        return
    uri, job_ids = wanted
    older_than = kwargs.get("time_delta", 0)
    for job_id in make_job_store(uri).delete_jobs(older_than=older_than, job_ids=job_ids):
        click.echo(f"Job with ID {job_id} has been permanently deleted.")
