"""Point 7: content streams both ways in bounded memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import versioned
from tests.versioned.conftest import Backing

PROGRAM = Path(__file__).parent / "programs" / "transfer.py"
MEGABYTES = int(os.environ.get("VERSIONED_LARGE_FILE_MB", "80"))
BOUND_MEGABYTES = 64


def test_a_large_file_is_put_and_got_within_64_megabytes_over_the_baseline(
    backing: Backing, tmp_path: Path, record_property
):
    """With VERSIONED_LARGE_FILE_MB=1024 the file has the gigabyte that was promised."""
    assert MEGABYTES > BOUND_MEGABYTES
    arguments = [backing.table_uri, backing.storage_uri, str(tmp_path), str(MEGABYTES)]
    run = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(versioned.__file__).parents[1])},
    )
    assert run.returncode == 0, run.stderr
    baseline, put, got = map(float, run.stdout.split())
    record_property("megabytes over the baseline", {"put": put, "get": got, "baseline": baseline})
    assert put <= BOUND_MEGABYTES
    assert got <= BOUND_MEGABYTES
