"""What the processes of a server that runs jobs on our store have in common."""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

from mlflow.utils.workspace_context import ServerWorkspaceContext

from mlflow_dynamodbstore.mlflow_compat.jobs import lease_seconds
from mlflow_dynamodbstore.mlflow_compat.server_settings import backend_uri, is_ours

logger = logging.getLogger("mlflow.server.jobs.dynamodb")  # shown as MLflow's own are

RENEWALS = 3
"""A lease is renewed so many times in its length."""

current_job: ContextVar[str | None] = ContextVar("current_job", default=None)
"""The job that this thread runs."""


def our_store() -> Any:
    """The job store of this process's server; None if it is not one of ours."""
    if not is_ours(backend_uri()):
        return None
    handlers = importlib.import_module("mlflow.server.handlers")
    return vars(handlers)["_get_job_store"]()


@contextmanager
def renewed(renew: Callable[[], object], what: str) -> Iterator[None]:
    """Renew something in a thread of its own, until the block ends."""
    ended = threading.Event()

    def keep_renewing() -> None:
        while not ended.wait(lease_seconds() / RENEWALS):
            try:
                renew()
            except Exception:  # the next renewal is due long before the lease ends
                logger.exception("The lease of %s could not be renewed.", what)

    thread = threading.Thread(target=keep_renewing, name=f"renew {what}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=5)


def in_workspace(workspace: str | None) -> AbstractContextManager[Any]:
    """The workspace of a job, for this thread alone; None without workspaces."""
    return nullcontext() if workspace is None else ServerWorkspaceContext(workspace)
