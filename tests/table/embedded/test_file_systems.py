"""Files that may only be read, and files on network file systems."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import pytest
from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.table.contract import Patch, Put, Query, Scan
from mlflow_dynamodbstore.table.embedded import file as file_module
from mlflow_dynamodbstore.table.embedded import file_setup, file_systems
from mlflow_dynamodbstore.table.errors import BadTableURI, ConditionFailed, Unavailable
from mlflow_dynamodbstore.table.update import Update
from tests.table.embedded.opened import KEY, item, open_file

MOUNTS = r"""
22 1 0:20 / / rw shared:1 - ext4 /dev/sda1 rw
23 22 0:21 / /home rw shared:2 - nfs4 server:/home rw
24 23 0:22 / /home/ada/local rw - ext4 /dev/sdb1 rw
25 22 0:23 / /with\040space rw master:1 propagate_from:2 - fuse.sshfs host: rw
26 22 0:24 / /scratch rw - lustre host:/scratch rw
27 22 0:25 / /both rw - nfs server:/both rw
28 22 0:26 / /both rw - tmpfs tmpfs rw
""".strip()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/mlflow.ddb", None),
        ("/home/mlflow.ddb", "nfs4"),
        ("/home/ada/mlflow.ddb", "nfs4"),
        ("/home/ada/local/mlflow.ddb", None),
        ("/homer/mlflow.ddb", None),
        ("/with space/mlflow.ddb", "sshfs"),
        ("/scratch/a/b/mlflow.ddb", "lustre"),
        ("/both/mlflow.ddb", None),
    ],
)
def test_the_innermost_mount_tells_the_file_system(path, kind):
    assert file_systems._shared_type(Path(path), MOUNTS) == kind


def test_where_the_system_does_not_tell_a_file_is_local(monkeypatch, tmp_path):
    monkeypatch.setattr(file_systems, "_MOUNTS", tmp_path / "absent")
    assert file_systems.network_file_system(tmp_path) is None


@pytest.fixture
def on_nfs(monkeypatch):
    for module in (file_module, file_setup):
        monkeypatch.setattr(module, "network_file_system", lambda _path: "nfs4")


def settings(engine):
    return engine._file.read(
        lambda connection: [
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "mmap_size", "synchronous")
        ]
    )


def test_on_a_network_file_system_nothing_is_shared_in_memory(on_nfs, path):
    engine = open_file(path, synchronous="FULL")
    engine.apply(Put(item(a=1)))
    assert settings(engine) == ["delete", 0, 3]  # 3 is EXTRA
    assert {p.name for p in path.parent.iterdir()} <= {path.name, f"{path.name}-journal"}
    engine.close()


def test_a_file_that_was_moved_there_is_changed_and_back(path, monkeypatch):
    """A file that was closed has no log beside it, so that it may go anywhere."""
    engine = open_file(path)
    engine.apply(Put(item(a=1)))
    assert settings(engine)[0] == "wal"
    engine.close()
    with monkeypatch.context() as patch:
        for module in (file_module, file_setup):
            patch.setattr(module, "network_file_system", lambda _path: "nfs4")
        engine = open_file(path)
        assert engine.get(KEY) == item(a=1)
        assert settings(engine)[0] == "delete"
        engine.close()
    engine = open_file(path)
    assert settings(engine)[0] == "wal"
    engine.close()


def test_a_file_that_others_use_with_a_log_is_refused_there(path, monkeypatch):
    engine = open_file(path)
    engine.apply(Put(item(a=1)))
    for module in (file_module, file_setup):
        monkeypatch.setattr(module, "network_file_system", lambda _path: "nfs4")
    monkeypatch.setattr(file_module, "BUSY_SECONDS", 0.05)
    with pytest.raises((BadTableURI, Unavailable), match=r"end (it|all)"):
        open_file(path)
    engine.close()


def test_threads_that_read_and_write_there_lose_nothing(on_nfs, path):
    engine, other = open_file(path), open_file(path)
    failures: list[BaseException] = []

    def count(through):
        try:
            for _ in range(40):
                through.apply(Patch(KEY, Update(add={"n": 1})))
                through.query(Query(KEY.pk))
                through.scan(Scan())
        except BaseException as error:  # noqa: BLE001 - shown by the assertion
            failures.append(error)

    threads = [threading.Thread(target=count, args=(one,)) for one in (engine, engine, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert other.get(KEY) == item(n=120)
    with pytest.raises(ConditionFailed):
        engine.apply(Put(item(), condition=Attr("n").eq(0)))
    engine.close()
    other.close()


# --- files that may only be read ----------------------------------------------------------------

NOBODY = 65534
PROGRAM = """
import os, sys
from pathlib import Path
from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.errors import TableError
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.embedded import EmbeddedEngine
os.setuid(int(sys.argv[2]))
engine = EmbeddedEngine(Path(sys.argv[1]), MLFLOW_TABLE)
try:
    engine.prepare(create=True)
    engine.apply(Put({"PK": "p", "SK": "s"}))
except TableError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
@pytest.mark.parametrize(
    ("folder_mode", "file_mode", "said"),
    [
        (0o755, 0o644, "BadTableURI the folder .* cannot be written to; name a file in a folder"),
        (0o777, 0o644, "BadTableURI the file .* cannot be written to; change its permissions"),
        (0o777, 0o600, "BadTableURI the file .* cannot be written to; change its permissions"),
        (0o777, None, ""),
        (0o700, 0o644, "BadTableURI a folder above .* cannot be entered; change its permissions"),
        (0o700, None, "BadTableURI a folder above .* cannot be entered; change its permissions"),
    ],
)
def test_a_file_that_may_only_be_read_is_refused_with_a_sentence(folder_mode, file_mode, said):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.ddb"
        if file_mode is not None:
            open_file(path).close()
            path.chmod(file_mode)
        Path(folder).chmod(folder_mode)
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PROGRAM), str(path), str(NOBODY)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert bool(said) == bool(done.stdout)

        assert re.match(said, done.stdout)
