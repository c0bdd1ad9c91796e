"""Names of processes, by which a runner sees at once that another on its machine is gone.

A runner elsewhere is known to be gone only when its lease has ended.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

BOOT = Path("/proc/sys/kernel/random/boot_id")
NAMESPACE = Path("/proc/self/ns/pid")


def name_of_process(pid: int) -> str:
    """A name that no process elsewhere has; the number alone on systems without ``/proc``."""
    return f"{_machine()}/{pid}"


def is_gone(name: str) -> bool:
    """Whether a process is known to have ended: it is of this machine and not there."""
    machine, _, pid = name.rpartition("/")
    if not machine or machine != _machine() or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


@cache
def _machine() -> str:
    """This start of this machine and this container's numbers of processes."""
    try:
        return f"{BOOT.read_text().strip()}/{NAMESPACE.stat().st_ino}"
    except OSError:
        return ""
