"""Which files are made, taken and refused, and what the refusal says."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from mlflow_dynamodbstore.table.contract import Delete, Put
from mlflow_dynamodbstore.table.embedded import EmbeddedEngine
from mlflow_dynamodbstore.table.errors import (
    BadTableURI,
    Damaged,
    InvalidRequest,
    SchemaMismatch,
    TableMissing,
)
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE, Index, Schema
from mlflow_dynamodbstore.table.uri import open_engine
from tests.table.embedded.opened import KEY, item, open_file


def prepare(path: Path, schema: Schema = MLFLOW_TABLE, *, create: bool = True) -> None:
    engine = EmbeddedEngine(path, schema)
    try:
        engine.prepare(create=create)
    finally:
        engine.close()


def test_folders_on_the_way_are_made(tmp_path):
    """A file in a folder that is not there yet is made together with it."""
    path = tmp_path / "a" / "b" / "table.ddb"
    prepare(path)
    assert path.is_file()


@pytest.mark.parametrize("name", ["with space.ddb", "per%cent.ddb", "hash#.ddb", "ümlaut 😀.ddb"])
def test_any_name_of_a_file_will_do(tmp_path, name):
    """Characters that mean something in a URI are part of a file's name here."""
    engine = open_file(tmp_path / name)
    engine.apply(Put(item(a=1)))
    engine.close()
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_relative_path_stays_where_it_was(tmp_path, monkeypatch):
    """A table opened by a relative path is not lost when the process changes its folder."""
    monkeypatch.chdir(tmp_path)
    engine = open_file(Path("table.ddb"))
    monkeypatch.chdir("/")
    engine.apply(Put(item(a=1)))
    engine.close()
    assert (tmp_path / "table.ddb").is_file()


def test_closing_leaves_one_file(embedded, path):
    """The log is folded back into the file when its last user closes it."""
    embedded.apply(Put(item(a=1)))
    embedded.close()
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_an_absent_file_is_missing_unless_asked_for(path):
    """Without ``create`` nothing is made."""
    with pytest.raises(TableMissing, match=str(path)):
        prepare(path, create=False)
    assert not path.exists()


def test_an_engine_that_was_not_prepared_says_what_is_missing(path):
    """Using a file that is not there, or is still empty, is a missing table."""
    engine = EmbeddedEngine(path, MLFLOW_TABLE)
    with pytest.raises(TableMissing, match="there is no table"):
        engine.get(KEY)
    path.touch()
    with pytest.raises(TableMissing, match="there is no table"):
        engine.get(KEY)
    engine.close()


def test_an_empty_file_is_taken(path):
    """A file of no bytes is nobody's, and becomes ours."""
    path.touch()
    with pytest.raises(TableMissing):
        prepare(path, create=False)
    prepare(path)
    prepare(path, create=False)


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(path: Path) -> dict[str, int]:
    """The permissions of the files of a table, by the ends of their names."""
    return {
        p.name[len(path.name) :]: p.stat().st_mode & 0o777
        for p in path.parent.glob(f"{path.name}*")
    }


def test_only_its_owner_may_read_a_new_file(path, umask):
    """So are the logs beside it, whatever the process would allow."""
    engine = open_file(path)
    engine.apply(Put(item(a=1)))
    assert modes(path) == {"": 0o600, "-wal": 0o600, "-shm": 0o600}
    engine.close()


def test_an_existing_file_keeps_its_mode(path, umask):
    """Those whom its owner lets read it also read the logs."""
    prepare(path)
    path.chmod(0o664)
    engine = open_file(path)
    engine.apply(Put(item(a=1)))
    assert modes(path) == {"": 0o664, "-wal": 0o664, "-shm": 0o664}
    engine.close()


def test_a_link_to_a_file_that_is_not_there_creates_it_for_its_owner_alone(path, umask):
    target = path.with_name("target.ddb")
    path.symlink_to(target)
    prepare(path)
    assert modes(target) == {"": 0o600}


def test_a_folder_is_refused(tmp_path):
    """A folder in place of a file is refused, and the message shows a right URI."""
    with pytest.raises(BadTableURI, match=r"is a folder; name a file: dynamodb:////.*mlflow\.ddb"):
        prepare(tmp_path)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    """A file in the place of a folder on the way is named, with a way out."""
    (tmp_path / "file").touch()
    with pytest.raises(BadTableURI, match="name a file in a folder you may write to"):
        prepare(tmp_path / "file" / "sub" / "table.ddb")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path):
    """A folder that may not be written to is named, with a way out."""
    tmp_path.chmod(0o500)
    with pytest.raises(BadTableURI, match="cannot be written to"):
        prepare(tmp_path / "table.ddb")
    tmp_path.chmod(0o700)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_without_permission_is_refused(path):
    """A file that may not be written to is named, with a way out."""
    prepare(path)
    path.chmod(0o400)
    with pytest.raises(BadTableURI, match="cannot be written to"):
        prepare(path)


def test_a_file_that_is_no_database_is_refused(path):
    """A text file is left as it is."""
    path.write_text("dear diary, " * 100)
    with pytest.raises(SchemaMismatch, match="is not a table file"):
        prepare(path)
    assert path.read_text().startswith("dear diary")


def test_the_database_of_another_program_is_refused(path):
    """A SQLite file that is not ours gets no tables of ours."""
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE runs (id)")
    other.close()
    with pytest.raises(SchemaMismatch, match="another program"):
        prepare(path)
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("runs",)]
    other.close()


def test_a_table_of_another_kind_is_refused(path):
    """A file made for one system is not opened by another."""
    prepare(path)
    with pytest.raises(SchemaMismatch, match="of kind 'mlflow', not 'versioned'"):
        prepare(path, Schema("versioned"))


def test_a_table_with_other_indexes_is_refused(path):
    """The first index that differs is named."""
    prepare(path, Schema("mlflow", indexes=(Index("GSI1", pk="other", sk="gsi1sk"),)))
    with pytest.raises(SchemaMismatch, match="'GSI1', 'other'"):
        prepare(path)


def test_a_format_of_the_future_is_refused(path):
    """A file of a format we do not know is not guessed at."""
    prepare(path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE name = 'format'")
    connection.close()
    with pytest.raises(SchemaMismatch, match="has format 99"):
        prepare(path)


def test_a_damaged_file_is_told_from_an_empty_answer(embedded, path):
    """Reading a damaged page is an error, never a missing item."""
    for n in range(200):
        embedded.apply(Put(item(sk=f"{n:03}", a="x" * 1000)))
    embedded.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * (size - 8192))
    engine = EmbeddedEngine(path, MLFLOW_TABLE)
    with pytest.raises(Damaged, match=r"a page of .* is damaged; .*dump --skip-damaged"):
        engine.get(KEY)
    engine.close()


def test_a_closed_table_says_so(embedded):
    """A call after ``close`` is an error of the caller; closing again is none."""
    embedded.close()
    embedded.close()
    with pytest.raises(InvalidRequest, match="was closed"):
        embedded.get(KEY)


@pytest.mark.parametrize(
    "options",
    [{}, {"synchronous": "NORMAL"}, {"index_lag": 2.5, "collection_limit": 1000}],
    ids=str,
)
def test_its_uri_opens_it_again(path, options):
    """The URI carries the path and every option that is not the default."""
    engine = EmbeddedEngine(path, MLFLOW_TABLE, **options)
    engine.prepare(create=True)
    engine.apply(Put(item(a=1)))
    again = open_engine(engine.uri)
    assert again.get(KEY) == item(a=1)
    assert again.uri == engine.uri
    engine.close()
    again.close()


def test_a_returned_write_is_on_the_disk_by_default(path):
    """Without being asked for less, every commit is forced to the disk."""
    engine = EmbeddedEngine(path, MLFLOW_TABLE)
    engine.prepare(create=True)

    def level(connection: sqlite3.Connection) -> tuple[int, str]:
        (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
        (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
        return synchronous, journal

    assert engine._file.read(level) == (2, "wal")
    engine.close()


@pytest.mark.parametrize("synchronous", ["FULL", "NORMAL"])
def test_a_change_reaches_the_log_before_it_is_acknowledged(path, synchronous):
    """Each write that changes something adds to the log."""
    engine = open_file(path, synchronous=synchronous)
    log = path.with_name(path.name + "-wal")

    def growth(write):
        before = log.stat().st_size if log.exists() else 0
        engine.apply(write)
        return log.stat().st_size > before

    assert growth(Put(item(a=1)))
    assert growth(Put(item(a=2)))
    assert growth(Delete(KEY))
    engine.close()
