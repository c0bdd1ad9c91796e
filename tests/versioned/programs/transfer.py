"""Puts and gets one large file and says how much memory that took: table, storage, folder, MB.

The file is made of pieces that differ, and is removed as soon as it is stored.
"""

# ruff: noqa: T201 - speaks to the test that started it

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable
from pathlib import Path

from versioned import Repository

MEGABYTE = 1024 * 1024


def resident_megabytes(line: str) -> float:
    """``VmRSS`` is now, ``VmHWM`` the peak. What getrusage tells includes the parent process."""
    (kilobytes,) = re.findall(
        rf"^{line}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE
    )
    return int(kilobytes) / 1024


def peak_during(call: Callable[[], object]) -> float:
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak
    call()
    return resident_megabytes("VmHWM")


def make(path: Path, megabytes: int) -> str:
    digest = hashlib.sha256()
    with path.open("wb") as stream:
        for number in range(megabytes):
            piece = hashlib.sha256(str(number).encode()).digest() * (MEGABYTE // 32)
            digest.update(piece)
            stream.write(piece)
    return digest.hexdigest()


def main(table: str, storage: str, folder: str, megabytes: str) -> None:
    source, copy = Path(folder, "source"), Path(folder, "copy")
    with Repository(table, storage) as repo:
        # Everything that is loaded once is loaded now: the baseline is a working repository.
        repo.publish("small", b"small")
        repo.get("small", 1, to=copy)
        sha256 = make(source, int(megabytes))
        baseline = resident_megabytes("VmRSS")
        after_put = peak_during(lambda: repo.publish("large", source))
        source.unlink()
        assert repo.show("large", 1).sha256 == sha256
        after_get = peak_during(lambda: repo.get("large", 1, to=copy))
        with copy.open("rb") as stream:
            digest = hashlib.sha256()
            while piece := stream.read(MEGABYTE):
                digest.update(piece)
        assert digest.hexdigest() == sha256
        print(f"{baseline:.1f} {after_put - baseline:.1f} {after_get - baseline:.1f}")


main(*sys.argv[1:])
