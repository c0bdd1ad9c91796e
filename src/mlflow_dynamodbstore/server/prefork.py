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
import socket
import sys
import threading

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


def send_at_once() -> None:
    """Let the sockets of workers send each piece of an answer at once.

    A socket that uvicorn opens for several workers does not say that it is TCP, so asyncio leaves
    Nagle's algorithm on: the body of each answer waits 40 ms until its head is acknowledged.
    """
    bind = Config.bind_socket

    def bind_without_delay(config: Config) -> socket.socket:
        bound = bind(config)
        if bound.family in (socket.AF_INET, socket.AF_INET6):
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections inherit it
        return bound

    setattr(Config, "bind_socket", bind_without_delay)  # noqa: B010 - mypy refuses an assignment


def bound_heads() -> None:
    """Let uvicorn refuse heads of requests that are too large, also if httptools reads them.

    Where uvicorn reads requests in another way by default, it goes on doing so.
    """
    chosen = HTTP_PROTOCOLS.get("auto")
    if chosen and import_from_string(chosen) is HttpToolsProtocol:
        HTTP_PROTOCOLS["auto"] = f"{http_protocol.__name__}:{BoundedHttpToolsProtocol.__name__}"


if __name__ == "__main__":
    send_at_once()
    bound_heads()
    prepare(sys.argv[1:])
    uvicorn_main()
