"""What is said of a damaged file, and what can still be read from it."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.table.contract import Check, Damage, Delete, Patch, Put, Query, Scan
from mlflow_dynamodbstore.table.embedded import EmbeddedEngine
from mlflow_dynamodbstore.table.errors import Damaged, TableError
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key
from tests.table.embedded.damaging import change_rows, flip, overwrite_page
from tests.table.embedded.opened import item

ROWS = 60
FLIPS = 150
BAD = Key("p", "030")
NAMED = "'030' in 'p' is damaged: take it from a backup, or save everything else"


def sample(n):
    """An item of several hundred bytes, every third in an index."""
    whole = item(sk=f"{n:03}", text=f"<{n:03}>" + "x" * 400, n=n)
    keys = {"gsi1pk": f"word{n % 5}", "gsi1sk": f"{n:03}", "lsi1sk": f"{n}"}
    return whole if n % 3 else {**whole, **keys}


@pytest.fixture
def filled(embedded):
    embedded.apply_many([Put(sample(n)) for n in range(ROWS)])
    embedded.close()


@pytest.fixture
def again(opened, filled):
    """Opens the file again, once it is damaged."""
    return opened


def inspected(engine):
    damage: list[Damage] = []
    items = engine.capabilities.inspectable.readable_items(damage.append)
    found = {str(one["SK"]): one for one in items}
    return found, damage


@pytest.mark.parametrize(
    "read",
    [
        lambda engine: engine.get(BAD),
        lambda engine: engine.get_many([Key("p", "001"), BAD]),
        lambda engine: engine.query(Query("p")),
        lambda engine: engine.query(Query("p", index="LSI1")),
        lambda engine: engine.scan(Scan()),
        lambda engine: engine.apply(Patch(BAD, Update(set={"a": 1}))),
        lambda engine: engine.apply(Put(item(sk="030"), condition=Attr("n").eq(1))),
        lambda engine: engine.apply(Delete(BAD, returns="old")),
        lambda engine: engine.apply_many([Put(item(sk="030"), condition=Attr("n").eq(1))]),
        lambda engine: engine.transact([Check(BAD, Attr("n").eq(1))], "token"),
    ],
)
def test_whoever_meets_a_damaged_item_hears_its_key_and_what_to_do(again, path, read):
    """Its text is no longer UTF-8."""
    flip(path, b"<030>", at=2)
    with pytest.raises(Damaged, match=NAMED) as raised:
        read(again())
    assert raised.value.key == BAD


def test_everything_else_stays_readable(again, path):
    flip(path, b"<030>", at=2)
    engine = again()
    for n in range(ROWS):
        if n != 30:
            assert engine.get(Key("p", f"{n:03}")) == sample(n)
    assert len(engine.query(Query("p", keys_only=True)).items) == ROWS
    engine.apply(Delete(BAD))
    assert len(engine.query(Query("p")).items) == ROWS - 1


def test_a_damaged_item_can_be_put_again(again, path):
    flip(path, b"<030>", at=2)
    engine = again()
    engine.apply(Put(sample(30)))
    assert engine.get(BAD) == sample(30)


@pytest.mark.parametrize(
    "body",
    [b"", b"\x01", b"\x81\xa1", b"\xc1", b"\x92\x01\x02", b"\x81\xa1a\xc7\x01\x09x", 7, "text"],
)
def test_no_body_ends_in_an_error_of_another_library(again, path, body):
    change_rows(path, "UPDATE items SET body = ? WHERE sk = '030'", body)
    with pytest.raises(Damaged, match=NAMED):
        again().get(BAD)


def test_a_key_that_is_not_text_is_said(again, path):
    change_rows(path, "UPDATE items SET sk = CAST(x'30ff30' AS TEXT) WHERE sk = '030'")
    engine = again()
    with pytest.raises(Damaged, match=r"a key in .* is damaged"):
        engine.scan(Scan())
    found, damage = inspected(engine)
    assert len(found) == ROWS - 1
    assert [one.key for one in damage] == [Key("p", "0\ufffd0")]


def test_a_sound_file_is_found_sound(again):
    engine = again()
    assert engine.capabilities.inspectable.check_file() == []
    found, damage = inspected(engine)
    assert damage == []
    assert found == {f"{n:03}": sample(n) for n in range(ROWS)}


@pytest.mark.parametrize("at", [1, 5, 40])
@pytest.mark.parametrize("bits", [0x01, 0x20, 0x80])
def test_every_flipped_bit_of_a_body_is_found(again, path, at, bits):
    """Also one that leaves a text that can be read."""
    flip(path, b"<030>", at=at, with_=bits)
    found, damage = inspected(again())
    assert found == {f"{n:03}": sample(n) for n in range(ROWS) if n != 30}
    assert [(one.key, one.is_lost) for one in damage] == [(BAD, True)]


def test_a_changed_key_is_found(again, path):
    """The row is whole, but it is not what was written."""
    change_rows(path, "UPDATE items SET sk = '031x' WHERE sk = '031'")
    found, damage = inspected(again())
    assert "031x" not in found
    assert [one.key for one in damage] == [Key("p", "031x")]


def test_an_index_that_disagrees_with_the_table_is_found(again, path):
    """SQLite compares the two; the word is in the index, in the column and in the body."""
    content = path.read_bytes()
    entry = next(at for at in range(len(content)) if content.startswith(b"word0030p030", at))
    damaged = bytearray(content)
    damaged[entry] ^= 0x20
    path.write_bytes(damaged)
    assert any("index" in line for line in again().capabilities.inspectable.check_file())


def test_a_damaged_index_key_is_found_and_the_item_kept(again, path):
    column = "k" + str(MLFLOW_TABLE.key_attributes[2:].index("gsi1sk"))
    change_rows(path, f"UPDATE items SET {column} = 'elsewhere' WHERE sk = '030'")
    found, damage = inspected(again())
    assert found["030"] == sample(30)
    assert [(one.key, one.is_lost) for one in damage] == [(BAD, False)]


def test_what_lies_before_and_behind_a_lost_page_is_read(again, path):
    overwrite_page(path, b"<030>")
    engine = again()
    assert engine.capabilities.inspectable.check_file()
    found, damage = inspected(engine)
    lost = {f"{n:03}" for n in range(ROWS)} - found.keys()
    assert "030" in lost
    assert len(lost) < 12
    assert all(found[sk] == sample(int(sk)) for sk in found)
    named = {one.key.sk for one in damage if one.key}
    assert named == {sk for sk in lost if int(sk) % 3 == 0}


def test_what_lies_between_lost_pages_is_read_where_an_index_knows_it(again, path):
    overwrite_page(path, b"<015>")
    overwrite_page(path, b"<045>")
    found, _ = inspected(again())
    assert {"000", "030", "059"} <= found.keys()
    assert len(found) > ROWS - 24


def answers(engine):
    """What can be read by inspection, after every kind of read gave an answer or a table error."""
    reads = [
        lambda: [engine.get(Key("p", f"{n:03}")) for n in range(ROWS)],
        lambda: engine.query(Query("p")),
        lambda: engine.query(Query("p", index="LSI1")),
        lambda: engine.scan(Scan()),
    ]
    for read in reads:
        with suppress(TableError):
            read()
    return inspected(engine), engine.capabilities.inspectable.check_file()


def test_no_flipped_bit_anywhere_goes_unnoticed_or_ends_in_a_raw_error(path, filled):
    """What is read is what was written, or something is reported."""
    whole = path.read_bytes()
    rng = random.Random(7)
    for _ in range(FLIPS):
        content = bytearray(whole)
        content[rng.randrange(100, len(whole))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        engine = EmbeddedEngine(path, MLFLOW_TABLE)
        with suppress(TableError):
            engine.prepare(create=False)
            (found, damage), complaints = answers(engine)
            if found != {f"{n:03}": sample(n) for n in range(ROWS)}:
                assert damage or complaints
        engine.close()
        for log in path.parent.glob("table.ddb-*"):
            log.unlink()


def test_a_file_of_the_first_format_gets_checksums_as_it_is_written(again, path):
    """Its rows have none until then, and are read and judged by what can be read of them."""
    change_rows(path, "ALTER TABLE items DROP COLUMN checksum")
    change_rows(path, "UPDATE meta SET value = '1' WHERE name = 'format'")
    engine = again()
    assert engine.get(BAD) == sample(30)
    assert inspected(engine)[1] == []
    engine.apply(Put(sample(31)))
    engine.close()
    flip(path, b"<031>", at=1, with_=1)
    _, damage = inspected(again())
    assert [one.key for one in damage] == [Key("p", "031")]
