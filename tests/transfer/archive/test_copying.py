"""A copy holds what its source holds, and answers as it does."""

from __future__ import annotations

import pytest

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.table.contract import Scan
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.transfer.archive.comparison import compare
from mlflow_dynamodbstore.transfer.archive.errors import Refused
from mlflow_dynamodbstore.transfer.archive.fill import TableFill, require_complete
from mlflow_dynamodbstore.transfer.archive.sources import TableSource
from tests.transfer.archive.populated import (
    EXPIRED,
    MOVING,
    index_answers,
    lines_of,
    store_answers,
)

pytestmark = pytest.mark.index_at_once


def copy(source, target):
    return TableFill(target, TableSource(source)).run()


def raw_items(table):
    """Everything that the engine holds."""
    page = table.engine.scan(Scan())
    items = list(page.items)
    while page.cursor is not None:
        page = table.engine.scan(Scan(cursor=page.cursor))
        items += page.items
    return items


def test_a_copy_in_a_file_holds_and_answers_the_same(source, opened):
    target = opened("target")
    filled = copy(source, target)
    assert filled.items == filled.moved == len(lines_of(source)) > 100
    assert lines_of(target) == lines_of(source)
    assert [line for line in lines_of(target) if b"#PART#" in line]
    assert index_answers(target) == index_answers(source)
    assert store_answers(target) == store_answers(source)


@pytest.mark.one_volume(reason="DynamoDB does not know the option that spreads the source")
def test_a_copy_of_a_copy_of_a_copy_is_the_same(source, opened, dynoxide_host):
    """From a file to DynamoDB, from there to another table, and back into a file."""
    there, beyond = opened(f"{dynoxide_host}/there"), opened(f"{dynoxide_host}/beyond")
    back = opened("back")
    copy(source, there)
    assert index_answers(there) == index_answers(source)
    assert store_answers(there) == store_answers(source)
    copy(there, beyond)
    copy(beyond, back)
    assert lines_of(back) == lines_of(beyond) == lines_of(there) == lines_of(source)
    assert compare(TableSource(source), TableSource(back), source.clock()).is_same
    assert store_answers(back) == store_answers(source)


def test_what_has_expired_is_left_out_and_counted(source, opened):
    target = opened("target")
    filled = copy(source, target)
    gone = [item for item in raw_items(source) if str(item["SK"]).startswith("X#gone")]
    assert filled.expired == len(gone) == EXPIRED
    assert not [item for item in raw_items(target) if str(item["SK"]).startswith("X#gone")]


def test_expiry_goes_along(source, opened, time):
    target = opened("target")
    copy(source, target)
    soon = Key("EXP#77", "X#soon")
    assert target.get(soon) == source.get(soon) is not None
    time.now += 3601
    assert target.get(soon) is None


def test_no_item_changes_its_version_on_the_way(source, opened):
    """Neither one that is old nor one that this release does not know."""
    target = opened("target")
    copy(source, target)
    for sk in ("R#later", "T#earlier"):
        key = Key("EXP#77", sk)
        assert target.engine.get(key) == source.engine.get(key) is not None


def test_places_in_the_source_stay_there(source, opened):
    target = opened("target")
    copy(source, target)
    filling = access_keys.fill_state_key().sk
    left = {i["SK"] for i in raw_items(source)} - {i["SK"] for i in raw_items(target)}
    assert {sk for sk in left if sk.startswith("CFG")} == {
        "CFG#state.cleanup",
        "CFG#state.backfill.fts",
    }
    assert len(left) == EXPIRED + MOVING
    assert {i["SK"] for i in raw_items(target)} - {i["SK"] for i in raw_items(source)} == {filling}


def test_a_finished_copy_is_not_begun_again(source, opened):
    target = opened("target")
    first = copy(source, target)
    source.put({"PK": "EXP#77", "SK": "X#after", "value": 1})
    again = copy(source, target)
    assert (again.items, again.moved, again.ended) == (first.items, 0, first.ended)
    found = compare(TableSource(source), TableSource(target), source.clock())
    assert [(d.key.sk, d.where) for d in found.differences] == [("X#after", "first only")]


def test_a_table_that_holds_anything_is_refused(source, opened):
    target = opened("target")
    target.put({"PK": "EXP#0", "SK": "E#META"})
    with pytest.raises(Refused, match="already holds data, such as E#META in EXP#0: use an empty"):
        copy(source, target)
    assert len(raw_items(target)) == 1


def test_what_has_expired_in_a_target_does_not_count(source, opened, time):
    target = opened("target")
    target.put({"PK": "EXP#77", "SK": "X#values", "ttl": int(time())})
    copy(source, target)
    assert lines_of(target) == lines_of(source)


def test_a_table_is_not_copied_into_itself(source):
    with pytest.raises(Refused, match="name another table"):
        copy(source, source)


def test_a_part_of_another_copy_is_refused(source, opened):
    target, other = opened("target"), opened("other")
    other.put({"PK": "EXP#0", "SK": "E#META"})
    copy(other, target)
    with pytest.raises(Refused, match=r"already holds the contents of \S+other.ddb"):
        copy(source, target)


def test_an_unfinished_copy_is_not_taken_for_a_table(source, opened):
    target = opened("target")
    copy(source, target)
    require_complete(target)
    note = target.get(access_keys.fill_state_key())
    target.put({**note, "ended": None})
    with pytest.raises(Refused, match="is not complete: a transfer from"):
        require_complete(target)


def test_who_was_overtaken_stops(source, opened, monkeypatch):
    """Two processes go on with one copy: the one that came first notices at its next page."""
    target, pages = opened("target"), []

    class Slow(TableSource):
        def pages(self, place=None):
            for page in super().pages(place):
                pages.append(page)
                if len(pages) == 1:
                    copy(source, target)
                yield page

    with pytest.raises(Refused, match="another process is filling"):
        TableFill(target, Slow(source)).run()
    assert lines_of(target) == lines_of(source)
