"""The counters of all workers of a server, for the operator's page.

The workers are children of one process. Its number names a folder in which each keeps its file.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from mlflow_dynamodbstore.shared.counter_files import CounterFiles, ServerCounters

_NAME = "mlflow-dynamodbstore-counters-"


def counters_of_workers() -> Callable[[], ServerCounters]:
    """Begin to keep the counters of this worker; returns what reads those of all."""
    folder = _own_folder()
    _remove_old(folder)
    files = CounterFiles(folder)
    files.start()
    return files.read


def _own_folder() -> Path:
    """A folder that only this user may read and write."""
    folder = Path(tempfile.gettempdir()) / f"{_NAME}{os.getuid()}-{os.getppid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077 or folder.is_symlink():
        return Path(tempfile.mkdtemp(prefix=_NAME))  # somebody else was here first
    return folder


def _remove_old(own: Path) -> None:
    """Remove the folders of this user's servers that have ended."""
    for folder in own.parent.glob(f"{_NAME}{os.getuid()}-*"):
        number = folder.name.rpartition("-")[2]
        if number.isdigit() and folder != own and not _is_running(int(number)):
            shutil.rmtree(folder, ignore_errors=True)  # another worker may be faster


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
