"""A PostgreSQL of our own for the comparison: loopback, a temporary folder, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.contract import TMPFS
from tests.engines import free_port

DEBIAN = Path("/usr/lib/postgresql")
START_SECONDS = 20.0


@contextmanager
def postgres_server(say: Callable[[str], None]) -> Iterator[str | None]:
    """Gives the URI of an empty database, or None after a word on why there is none."""
    programs = find_programs()
    if programs is None or find_spec("psycopg2") is None:
        missing = "PostgreSQL" if programs is None else "psycopg2"
        say(f"{missing} is not installed: MLflow on PostgreSQL is left out")
        yield None
        return
    memory = TMPFS if TMPFS.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="bench-pg-", dir=memory) as made:
        who = owner()
        if who:
            shutil.chown(made, who["user"], who["group"])
        data, port = f"{made}/data", free_port()
        initdb = [str(programs / "initdb"), "-D", data, "-U", "bench", "-A", "trust", "-E", "UTF8"]
        subprocess.run(initdb, cwd=made, check=True, stdout=subprocess.DEVNULL, **who)
        serve = [str(programs / "postgres"), "-D", data, "-h", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen([*serve, "-k", made], cwd=made, stderr=subprocess.DEVNULL, **who)
        try:
            wait_for(programs, port)
            yield f"postgresql+psycopg2://bench@127.0.0.1:{port}/postgres"
        finally:
            process.terminate()  # SIGTERM lets PostgreSQL wait for its clients to go
            try:
                process.wait(2)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def find_programs() -> Path | None:
    """The folder of initdb and postgres: on the PATH, or the newest that Debian installed."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    installed = [found.parent for found in DEBIAN.glob("*/bin/initdb")]
    return max(installed, key=lambda folder: int(folder.parent.name), default=None)


def owner() -> dict[str, Any]:
    """Whom to run as: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = "postgres" if "postgres" in names else "nobody"
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


def wait_for(programs: Path, port: int) -> None:
    ask = [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    deadline = time.monotonic() + START_SECONDS
    while subprocess.run(ask, check=False).returncode != 0:
        if time.monotonic() > deadline:
            raise RuntimeError(f"PostgreSQL did not answer within {START_SECONDS:g} seconds")
        time.sleep(0.1)
