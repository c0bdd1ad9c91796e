"""An archive of a stranger is refused with the number of the bad line, before the first write."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from mlflow_dynamodbstore.cli.main import main
from mlflow_dynamodbstore.table.errors import InvalidRequest, NewerItem
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.transfer.archive.errors import BadArchive
from mlflow_dynamodbstore.transfer.archive.file import Archive
from mlflow_dynamodbstore.transfer.archive.fill import TableFill
from mlflow_dynamodbstore.transfer.archive.item_checks import check_item
from mlflow_dynamodbstore.transfer.archive.lines import content_of, item_of

KEY = b'"PK":{"S":"EXP#1"},"SK":{"S":"X#1"}'


def with_key(rest: bytes) -> bytes:
    return b'{"Item":{' + KEY + b"," + rest + b"}}"


def nested(depth: int) -> bytes:
    return b'"a":' + b'{"L":[' * depth + b'{"S":""}' + b"]}" * depth


BAD = {
    "no PK": b'{"Item":{"SK":{"S":"X#1"}}}',
    "no SK": b'{"Item":{"PK":{"S":"EXP#1"}}}',
    "nothing": b'{"Item":{}}',
    "a numeric PK": b'{"Item":{"PK":{"N":"1"},"SK":{"S":"X#1"}}}',
    "a numeric SK": b'{"Item":{"PK":{"S":"EXP#1"},"SK":{"N":"1"}}}',
    "an SK of bytes": b'{"Item":{"PK":{"S":"EXP#1"},"SK":{"B":"AAAA"}}}',
    "an empty PK": b'{"Item":{"PK":{"S":""},"SK":{"S":"X#1"}}}',
    "a long PK": b'{"Item":{"PK":{"S":"%s"},"SK":{"S":"X#1"}}}' % (b"p" * 2_049),
    "a long SK": b'{"Item":{"PK":{"S":"EXP#1"},"SK":{"S":"%s"}}}' % (b"s" * 1_025),
    "half a character in SK": b'{"Item":{"PK":{"S":"EXP#1"},"SK":{"S":"\\ud800"}}}',
    "half a character": with_key(b'"a":{"S":"\\udfff"}'),
    "half a character in a name": with_key(b'"\\udfff":{"S":"v"}'),
    "a numeric index key": with_key(b'"gsi1pk":{"N":"1"},"gsi1sk":{"S":"x"}'),
    "a null index key": with_key(b'"lsi1sk":{"NULL":true}'),
    "an empty index key": with_key(b'"lsi3sk":{"S":""}'),
    "39 digits": with_key(b'"a":{"N":"%s"}' % (b"9" * 39)),
    "39 negative digits": with_key(b'"a":{"N":"-%s"}' % (b"9" * 39)),
    "39 digits inside": with_key(b'"a":{"L":[{"M":{"w":{"N":"1%s"}}}]}' % (b"0" * 38)),
    "a million digits": with_key(b'"a":{"N":"%s"}' % (b"9" * 10**6)),
    "a million plain digits": with_key(b'"a":{"N":%s}' % (b"9" * 10**6)),
    "a plain number": with_key(b'"a":{"N":1}'),
    "a fraction": with_key(b'"a":{"N":"1.5"}'),
    "a number that is no number": with_key(b'"a":{"N":"NaN"}'),
    "a double that is none": with_key(b'"a":{"F":"x"}'),
    "a NaN of too many bits": with_key(b'"a":{"F":"nan:%s"}' % (b"f" * 20)),
    "400 KB": with_key(b'"a":{"S":"%s"}' % (b"x" * 400 * 1024)),
    "many bytes": with_key(b'"a":{"B":"%s"}' % base64.b64encode(bytes(400 * 1024))),
    "many names": with_key(b",".join(b'"n%d":{"NULL":true}' % n for n in range(70_000))),
    "a ttl that is text": with_key(b'"ttl":{"S":"1700000000"}'),
    "a ttl that is a double": with_key(b'"ttl":{"F":"1.7e9"}'),
    "a ttl that is true": with_key(b'"ttl":{"BOOL":true}'),
    "a ttl beyond 64 bits": with_key(b'"ttl":{"N":"%d"}' % 2**63),
    "a version that is text": with_key(b'"v":{"S":"1"}'),
    "a version that is a list": with_key(b'"v":{"L":[]}'),
    "a version of 0": with_key(b'"v":{"N":"0"}'),
    "33 levels": with_key(nested(32)),
    "300 levels": with_key(nested(300)),
    "a million levels": with_key(b'"a":' + b'{"L":[' * 10**6),
    "a million levels that end": with_key(nested(10**6 // 2)),
    "a list that is text": with_key(b'"a":{"L":""}'),
    "a list that is a map": with_key(b'"a":{"L":{}}'),
    "a map that is a list": with_key(b'"a":{"M":[]}'),
    "a null that is false": with_key(b'"a":{"NULL":false}'),
    "a bool that is a number": with_key(b'"a":{"BOOL":1}'),
    "text that is a number": with_key(b'"a":{"S":1}'),
    "bytes that are none": with_key(b'"a":{"B":"?"}'),
    "two types": with_key(b'"a":{"S":"","N":"1"}'),
    "no type": with_key(b'"a":{}'),
    "an unknown type": with_key(b'"a":{"SS":["a"]}'),
    "a plain value": with_key(b'"a":1'),
    "an infinity": with_key(b'"a":Infinity'),
    "bytes that are no text": with_key(b'"a":{"S":"\xff"}'),
    "a list": b'{"Item":[]}',
    "two things": b'{"Item":{},"More":{}}',
}


def rewrite(path, position, *lines_put):
    """Put lines into an archive, with a trailer that fits as well as it can."""
    with gzip.open(path) as file:
        lines = file.read().splitlines(keepends=True)
    lines[position:position] = [line + b"\n" for line in lines_put]
    trailer = content_of(lines[-1], "Trailer")
    total = int(trailer["digest"], 16)
    total += sum(int(hashlib.sha256(line).hexdigest(), 16) for line in lines_put)
    trailer["digest"] = f"{total % 2**256:064x}"
    trailer["items"] += len(lines_put)
    trailer["sha256"] = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    lines[-1] = json.dumps({"Trailer": trailer}).encode() + b"\n"
    path.write_bytes(gzip.compress(b"".join(lines), 1))


@pytest.mark.parametrize("bad", BAD)
def test_what_no_table_can_hold_is_refused_with_its_line(path, bad):
    rewrite(path, 7, BAD[bad])
    with pytest.raises(BadArchive, match="line 8 is not an item: ") as caught:
        Archive(path).check()
    assert len(str(caught.value)) < 1_000


def test_an_item_of_a_stranger_that_is_right_is_loaded(path, opened):
    rewrite(
        path, 7, with_key(b'"a":{"N":"%s"},%s' % (b"9" * 38, nested(31).replace(b'"a"', b'"b"')))
    )
    archive, target = Archive(path), opened("target")
    archive.check()
    TableFill(target, archive).run()
    assert target.get(Key("EXP#1", "X#1"))


def test_an_item_that_is_too_large_with_its_copy_in_an_index_cannot_be_loaded(path):
    """LSI1 carries whole items, and both count; an archive of an older file may hold such items."""
    rewrite(path, 7, with_key(b'"a":{"S":"%s"},"lsi1sk":{"S":"x"}' % (b"x" * 250 * 1024)))
    Archive(path).check()
    with pytest.raises(BadArchive, match="line 8 is not an item: it and its copy in an index"):
        Archive(path, with_copies=True).check()


@pytest.mark.parametrize("uri", ["dynamodb://127.0.0.1:1/mlflow", "dynamodb:///{}/new.ddb"])
def test_load_refuses_such_an_item_before_it_writes(path, uri, tmp_path):
    rewrite(path, 7, with_key(b'"a":{"S":"%s"},"lsi1sk":{"S":"x"}' % (b"x" * 250 * 1024)))
    uri = uri.format(tmp_path)
    result = CliRunner().invoke(main, ["--uri", uri, "load", str(path)])
    assert "it and its copy in an index" in result.output


def test_a_key_that_comes_twice_is_refused(path):
    rewrite(path, 7, with_key(b'"a":{"N":"1"}'), with_key(b'"a":{"N":"2"}'))
    with pytest.raises(BadArchive, match="line 9 has a key that is in another line"):
        Archive(path).check()


@pytest.mark.parametrize(
    "bad", ["a numeric PK", "a ttl that is text", "a million levels", "400 KB"]
)
def test_load_writes_nothing_and_makes_no_file(path, tmp_path, bad):
    rewrite(path, 7, BAD[bad])
    target = tmp_path / "new" / "target.ddb"
    ran = CliRunner().invoke(main, ["--uri", f"dynamodb:///{target}", "load", str(path)])
    assert ran.exit_code == 1
    assert "line 8 is not an item" in " ".join(ran.output.split())
    assert not target.parent.exists()


@pytest.mark.parametrize("position", [0, -1])
def test_a_header_or_trailer_that_is_nested_too_deep_is_refused(path, position):
    with gzip.open(path) as file:
        lines = file.read().splitlines(keepends=True)
    lines[position] = b'{"Header":' + b"[" * 10**6 + b"\n"
    path.write_bytes(gzip.compress(b"".join(lines), 1))
    with pytest.raises(BadArchive):
        Archive(path).check()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["S", "N", "F", "B", "BOOL", "NULL", "L", "M", "x"]), inner, max_size=2
        )
    ),
    max_leaves=6,
)
ATTRIBUTES = st.sampled_from(["PK", "SK", "ttl", "gsi1pk", "gsi1sk", "lsi1sk", "v", "a"])
TYPED = st.dictionaries(
    ATTRIBUTES,
    JSON | st.builds(lambda text: {"S": text}, st.text(max_size=5)),
    max_size=5,
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    folder = tmp_path_factory.mktemp("strangers")
    made = Table(open_engine(f"dynamodb:///{folder}/table.ddb?synchronous=NORMAL"))
    yield made
    made.close()


@given(TYPED)
def test_whatever_is_not_refused_can_be_written(table, typed):
    """A table takes every item that passes the check."""
    try:
        item = item_of(json.dumps({"Item": typed}).encode())
        check_item(item, MLFLOW_TABLE)
    except (ValueError, InvalidRequest):
        return
    table.put(item)
    try:
        table.get(MLFLOW_TABLE.key_of(item))
    except NewerItem:
        assert item["v"] > 1
