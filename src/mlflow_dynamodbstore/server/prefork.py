"""``python -m mlflow_dynamodbstore.server.prefork``: uvicorn, with workers forked from one parent.

It takes uvicorn's own arguments. Uvicorn starts each worker as a new interpreter, which imports
MLflow's server again: four seconds of a core for each. Here the parent imports it once, before it
forks; what is imported takes memory once, too, and a worker that ended is replaced at once.
"""

from __future__ import annotations

import gc
import importlib
import logging
import multiprocessing
import os
import socket
import sys
import threading
from multiprocessing import reduction
from typing import Any

from uvicorn.config import HTTP_PROTOCOLS, Config
from uvicorn.importer import import_from_string
from uvicorn.main import main as uvicorn_main
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mlflow_dynamodbstore.mlflow_compat.server_app import mlflow_app
from mlflow_dynamodbstore.server import http_protocol
from mlflow_dynamodbstore.server.http_protocol import BoundedHttpToolsProtocol

_logger = logging.getLogger(__name__)

MAY_CHANGE_THE_ENVIRONMENT = "--env-file"
SPAWNING_MODULE, SPAWNING_NAME = "uvicorn._subprocess", "spawn"


def prepare(arguments: list[str]) -> bool:
    """Import the app, and let uvicorn fork its workers; whether that is possible.

    A file of variables is read by uvicorn, after this: then each worker imports the app itself.
    """
    if MAY_CHANGE_THE_ENVIRONMENT in arguments:
        return False
    spawning = importlib.import_module(SPAWNING_MODULE)
    if SPAWNING_NAME not in vars(spawning):
        _logger.info("this uvicorn starts workers in another way: each imports the app")
        return False
    importlib.import_module(arguments[-1].partition(":")[0])
    mlflow_app()
    if threading.active_count() > 1:
        return False  # a lock that another thread holds would stay locked in the workers
    gc.freeze()  # else the workers' collectors write to all pages that they share
    setattr(spawning, SPAWNING_NAME, multiprocessing.get_context("fork"))
    return True


class WorkerSocket(socket.socket):
    """A bound socket that becomes each worker's own when the worker begins to listen.

    The kernel spreads connections evenly over sockets of one address. Over workers that share one
    socket it does not: the worker that wakes up first gets nearly all, and the others do nothing.
    """

    def listen(self, backlog: int = socket.SOMAXCONN, /) -> None:
        with socket.socket(self.family, self.type, self.proto) as own:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            own.bind(self.getsockname())
            own.setblocking(self.getblocking())
            os.dup2(own.fileno(), self.fileno(), inheritable=False)
        super().listen(backlog)

    def __reduce__(self) -> tuple[Any, ...]:
        """How it gets to a worker that is not forked, as other sockets do."""
        file = reduction.DupFd(self.fileno())
        return _worker_socket, (file, self.family, self.type, self.proto)


def _worker_socket(file: Any, family: int, kind: int, protocol: int) -> WorkerSocket:
    return WorkerSocket(family, kind, protocol, fileno=file.detach())


def share_connections() -> None:
    """Let workers share the connections to the address that uvicorn binds for them.

    The address is bound before it may be shared, so another server that wants it is refused. The
    socket says that it is TCP, which uvicorn's does not: then asyncio leaves Nagle's algorithm on,
    and the body of each answer waits 40 ms until its head is acknowledged.
    """
    bind = Config.bind_socket

    def bind_for_workers(config: Config) -> socket.socket:
        bound = bind(config)
        if bound.family not in (socket.AF_INET, socket.AF_INET6):
            return bound
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        return WorkerSocket(bound.family, bound.type, socket.IPPROTO_TCP, fileno=bound.detach())

    setattr(Config, "bind_socket", bind_for_workers)  # noqa: B010 - mypy refuses an assignment


def bound_heads() -> None:
    """Let uvicorn refuse heads of requests that are too large, also if httptools reads them.

    Where uvicorn reads requests in another way by default, it goes on doing so.
    """
    chosen = HTTP_PROTOCOLS.get("auto")
    if chosen and import_from_string(chosen) is HttpToolsProtocol:
        HTTP_PROTOCOLS["auto"] = f"{http_protocol.__name__}:{BoundedHttpToolsProtocol.__name__}"


if __name__ == "__main__":
    share_connections()
    bound_heads()
    prepare(sys.argv[1:])
    uvicorn_main()
