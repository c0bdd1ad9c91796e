"""How often a write forces the disk, counted at the system calls."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

WRITES = 20
SCRIPT = """
import sys
from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.embedded import EmbeddedEngine
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE

engine = EmbeddedEngine(sys.argv[1], MLFLOW_TABLE, synchronous=sys.argv[2])
engine.prepare(create=True)
for n in range(int(sys.argv[3])):
    engine.apply(Put({"PK": "p", "SK": "s", "n": n}))
"""


def syncs(path, synchronous, writes):
    """The forced writes of a process that changes one item so many times."""
    log = path.with_name(f"{synchronous}-{writes}.trace")
    table = path.with_name(f"{synchronous}-{writes}.ddb")
    command = ["strace", "-f", "-e", "trace=fsync,fdatasync", "-o", log, sys.executable, "-c"]
    arguments = [SCRIPT, table, synchronous, str(writes)]
    traced = subprocess.run([*command, *arguments], check=False, capture_output=True, text=True)
    if traced.returncode:
        pytest.skip(f"strace may not trace here: {traced.stderr.strip()[-200:]}")
    return log.read_text().count("sync(")


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize(("synchronous", "each"), [("FULL", 1), ("NORMAL", 0)])
def test_each_change_is_forced_to_the_disk_once(path, synchronous, each):
    """With FULL every change costs one sync, with NORMAL none; opening costs the rest."""
    idle, busy = syncs(path, synchronous, 1), syncs(path, synchronous, 1 + WRITES)
    assert busy - idle == each * WRITES
