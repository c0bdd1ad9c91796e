"""How the server passes its settings to the processes that it starts: by environment variables.

The names are those of ``mlflow.server.constants``. They are spelled here, since importing that
module imports the server.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

SCHEME = "dynamodb"
BACKEND_STORE_URI = "_MLFLOW_SERVER_FILE_STORE"
ARTIFACT_ROOT = "_MLFLOW_SERVER_ARTIFACT_ROOT"
QUEUE_FOLDER = "_MLFLOW_HUEY_STORAGE_PATH"


def is_ours(uri: str | None) -> bool:
    """Whether a URI is one of our stores'."""
    return (uri or "").partition(":")[0] == SCHEME


_starting: ContextVar[bool] = ContextVar("starting", default=False)


@contextmanager
def starting_server() -> Iterator[None]:
    """While ``mlflow server`` opens its stores, before it starts any process."""
    marked = _starting.set(True)
    try:
        yield
    finally:
        _starting.reset(marked)


def is_server() -> bool:
    """Whether this is a process of a server, or is about to start one.

    MLflow's command line loads the server's modules for every command, so they are no sign.
    """
    return BACKEND_STORE_URI in os.environ or _starting.get()


def backend_uri() -> str | None:
    """The URI of the server's store, in a process of the server."""
    return os.environ.get(BACKEND_STORE_URI)


def queue_name() -> str | None:
    """A name for the queues of this process's server; None outside a server that runs jobs."""
    folder = os.environ.get(QUEUE_FOLDER)  # made anew at each start of a server
    return None if folder is None else f"{socket.gethostname()}:{folder}"


def server_artifact_root() -> str | None:
    """Where the server's new experiments keep their artifacts, in a process of the server."""
    return os.environ.get(ARTIFACT_ROOT)
