"""An archive holds the whole table, tells whether it is whole, and can be read by anybody."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import stat
import tracemalloc
import zlib
from pathlib import Path

import pytest

from mlflow_dynamodbstore import __version__
from mlflow_dynamodbstore.table.contract import Scan
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.transfer.archive import lines
from mlflow_dynamodbstore.transfer.archive.comparison import compare
from mlflow_dynamodbstore.transfer.archive.errors import BadArchive, Refused
from mlflow_dynamodbstore.transfer.archive.file import Archive, write_archive
from mlflow_dynamodbstore.transfer.archive.fill import TableFill
from mlflow_dynamodbstore.transfer.archive.sources import TableSource
from tests.transfer.archive.populated import EXPIRED, ODD, lines_of, store_answers

pytestmark = pytest.mark.index_at_once

PAGE = Path(__file__).parents[3] / "docs" / "moving.md"


def dump(table, path):
    return write_archive(path, TableSource(table), table.schema, table.clock())


def load(path, table):
    archive = Archive(path)
    archive.check()
    return TableFill(table, archive).run()


def test_what_was_dumped_and_loaded_is_the_same(path, source, opened):
    target = opened("target")
    filled = load(path, target)
    assert filled.items == len(lines_of(source))
    assert lines_of(target) == lines_of(source)
    assert store_answers(target) == store_answers(source)


def test_archives_of_a_table_and_of_its_copy_have_one_digest(path, source, opened, dynoxide_host):
    """Whatever order the engines give their items in."""
    target = opened(f"{dynoxide_host}/target")
    load(path, target)
    again = path.with_name("again.gz")
    dumped = dump(target, again)
    first, second = Archive(path), Archive(again)
    first.check()
    second.check()
    assert dumped.digest == first.trailer["digest"] == second.trailer["digest"]
    assert compare(first, TableSource(target), source.clock()).is_same


def test_what_has_expired_is_left_out_when_dumped_and_when_loaded(path, source, opened, time):
    target = opened("target")
    assert dump(source, path.with_name("other.gz")).expired == EXPIRED
    settled = [item for item in scanned(source) if "settled" in item]
    time.now += 3601
    assert load(path, target).expired == 1 + len(settled)
    assert Key("EXP#77", "X#soon") not in {target.schema.key_of(i) for i in scanned(target)}


def scanned(table):
    return table.engine.scan(Scan()).items


def test_a_stranger_can_read_it_as_the_page_says(path, source):
    """By nothing but what the documentation says, and the standard library."""
    with gzip.open(path) as file:
        lines = file.read().splitlines()
    header, trailer = json.loads(lines[0])["Header"], json.loads(lines[-1])["Trailer"]
    assert header["format"] == "mlflow-dynamodbstore archive"
    assert (header["version"], header["schema"]) == (1, "mlflow")
    assert header["written_by"].endswith(__version__)
    assert header["families"] == {"EXP/E": 3, "EXP/T": 2}
    above = b"".join(line + b"\n" for line in lines[:-1])
    assert trailer["sha256"] == hashlib.sha256(above).hexdigest()
    total = sum(int(hashlib.sha256(line).hexdigest(), 16) for line in lines[1:-1])
    assert trailer["digest"] == f"{total % 2**256:064x}"
    assert trailer["items"] == sum(trailer["families"].values()) == len(lines) - 2
    items = [json.loads(line)["Item"] for line in lines[1:-1]]
    (odd,) = [item for item in items if item["SK"] == {"S": "X#values"}]
    assert [one["F"] for one in odd["doubles"]["L"]] == [repr(number) for number in ODD]
    assert odd["whole"]["L"][0] == {"N": "9" * 38}
    assert base64.b64decode(odd["bytes"]["M"]["some"]["B"]) == b"\x00\x01\xff"
    assert odd["nothing"] == {"NULL": True}


def test_the_page_names_every_field_and_every_type(path):
    archive = Archive(path)
    archive.check()
    named = set(re.findall("`([A-Za-z0-9_]+)`", PAGE.read_text()))
    assert named >= {*archive.header, *archive.trailer, *lines._VALUES}


# --- a file that is not whole -------------------------------------------------------------------


def refused(path, target):
    with pytest.raises(BadArchive, match=r"^\S+ is not a complete archive: .*nothing was read"):
        load(path, target)
    assert not scanned(target)


def test_a_file_that_was_cut_is_refused_wherever_it_was_cut(path, opened):
    whole, target = path.read_bytes(), opened("target")
    ends = [0, 1, 9, 10, 11, 50, len(whole) // 2, *range(len(whole) - 9, len(whole))]
    for end in ends:
        path.write_bytes(whole[:end])
        refused(path, target)


def test_a_file_with_a_changed_byte_is_refused(path, opened):
    whole, target = path.read_bytes(), opened("target")
    for place in [0, 1, 2, *range(12, len(whole), len(whole) // 12), len(whole) - 1]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        refused(path, target)


CHANGES = {
    "an item is missing": lambda lines: [*lines[:3], *lines[4:]],
    "an item is there twice": lambda lines: [*lines[:3], lines[2], *lines[3:]],
    "two items have changed places": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "a value is another": lambda lines: [*lines[:3], lines[3].replace(b"S", b"N", 1), *lines[4:]],
    "the header is missing": lambda lines: lines[1:],
    "the trailer is missing": lambda lines: lines[:-1],
    "something follows the trailer": lambda lines: [*lines, lines[2]],
    "the trailer stands twice": lambda lines: [*lines, lines[-1]],
    "nothing is there": lambda _: [],
    "only the header is there": lambda lines: lines[:1],
    "it is of another kind of table": lambda lines: [
        lines[0].replace(b'"mlflow"', b'"versioned"'),
        *lines[1:],
    ],
    "the form is newer": lambda lines: [
        lines[0].replace(b'"version":1', b'"version":2'),
        *lines[1:],
    ],
    "the end of a line is missing": lambda lines: [*lines[:-1], lines[-1][:-1]],
    "another program wrote it": lambda _: [b"{}\n", b"[1]\n", b"null\n"],
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_was_packed_again_is_refused(path, opened, change):
    with gzip.open(path) as file:
        lines = file.read().splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join(CHANGES[change](lines))))
    refused(path, opened("target"))


def test_a_line_that_is_no_item_is_refused_though_its_digest_is_right(path, opened):
    with gzip.open(path) as file:
        lines = file.read().splitlines(keepends=True)
    lines[5] = b'{"Item":{"PK":{"Z":""}}}\n'
    trailer = json.loads(lines[-1])
    trailer["Trailer"]["sha256"] = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    lines[-1] = json.dumps(trailer).encode() + b"\n"
    path.write_bytes(gzip.compress(b"".join(lines)))
    with pytest.raises(BadArchive, match="line 6 is not an item"):
        load(path, opened("target"))


def test_a_line_without_end_is_not_read_to_its_end(path, opened):
    packer = zlib.compressobj(wbits=31)
    blank = b" " * 2**20
    path.write_bytes(b"".join([*(packer.compress(blank) for _ in range(24)), packer.flush()]))
    tracemalloc.start()
    try:
        refused(path, opened("target"))
        assert tracemalloc.get_traced_memory()[1] < 24 * 2**20
    finally:
        tracemalloc.stop()


def test_what_is_not_packed_or_not_there_is_refused(path, opened, tmp_path):
    path.write_text("hello")
    refused(path, opened("target"))
    with pytest.raises(BadArchive, match="there is no file"):
        load(tmp_path / "nowhere.gz", opened("target"))


def test_a_table_with_other_data_is_refused(path, source, opened):
    target = opened("target")
    target.put({"PK": "EXP#0", "SK": "E#META"})
    with pytest.raises(Refused, match="already holds data"):
        load(path, target)
    assert len(scanned(target)) == 1


# --- writing ------------------------------------------------------------------------------------


class Broken:
    """A source that ends in the midst."""

    identity = "broken"

    def pages(self, place=None):
        yield [{"PK": "EXP#0", "SK": "E#META"}], 1
        raise KeyboardInterrupt


def test_a_dump_that_was_stopped_leaves_nothing(source, tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    with pytest.raises(KeyboardInterrupt):
        write_archive(folder / "table.gz", Broken(), source.schema, 0.0)
    assert not list(folder.iterdir())


def test_a_file_that_is_there_is_not_touched(path, source):
    before = path.read_bytes()
    with pytest.raises(Refused, match="already exists"):
        dump(source, path)
    assert path.read_bytes() == before


def test_a_disk_that_refuses_is_named(source, tmp_path, monkeypatch):
    with pytest.raises(Refused, match="cannot be written: No such file or directory"):
        dump(source, tmp_path / "nowhere" / "table.gz")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    folder = tmp_path / "new"
    folder.mkdir()
    with pytest.raises(Refused, match="cannot be written: No space left on device"):
        dump(source, folder / "table.gz")
    assert not list(folder.iterdir())


def test_nobody_else_may_read_it(source, tmp_path):
    """It holds digests of passwords."""
    dump(source, tmp_path / "new.gz")
    assert stat.S_IMODE((tmp_path / "new.gz").stat().st_mode) == 0o600


class Long:
    """A source of 8 MB."""

    identity = "long"

    def pages(self, place=None):
        for n in range(20):
            yield [{"PK": "EXP#0", "SK": f"R#{n}#{k}", "a": str(k) * 2_000} for k in range(100)], n


def test_no_more_is_in_memory_than_a_few_pages(source, tmp_path):
    tracemalloc.start()
    try:
        made = write_archive(tmp_path / "long.gz", Long(), source.schema, 0.0)
        Archive(tmp_path / "long.gz").check()
        assert made.items == 2_000
        assert tracemalloc.get_traced_memory()[1] < 6 * 2**20
    finally:
        tracemalloc.stop()
