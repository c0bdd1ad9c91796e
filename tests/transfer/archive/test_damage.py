"""What is saved from a damaged table, and what is said of the rest."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from mlflow_dynamodbstore.cli import main
from mlflow_dynamodbstore.cli.exits import DAMAGED, FINDINGS, OK
from mlflow_dynamodbstore.transfer.archive.file import Archive
from tests.table.embedded.damaging import flip, overwrite_page
from tests.transfer.archive.populated import lines_of

MARK = "a quick brown fox"
KEY = {"PK": "EXP#77", "SK": "X#marked"}


@pytest.fixture
def damaged(source, tmp_path):
    """The file of a table that is closed, for a test to damage."""
    source.put({**KEY, "text": MARK})
    source.close()
    return tmp_path / "source.ddb"


@pytest.fixture
def call(source, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def call_(*arguments, code, uri=source.engine.uri):
        result = CliRunner().invoke(main, ["--uri", uri, *map(str, arguments)])
        assert result.exit_code == code, (result.output, result.exception)
        return result.output

    return call_


@pytest.mark.parametrize("bits", [0x01, 0xFF], ids=["readable", "not text"])
def test_a_dump_does_not_take_damage_along(damaged, call, tmp_path, bits):
    flip(damaged, MARK.encode(), at=4, with_=bits)
    said = call("dump", tmp_path / "d.gz", code=DAMAGED)
    assert "X#marked in EXP#77: its content is damaged" in said
    assert "dump --skip-damaged" in said
    assert not list(tmp_path.glob("d.gz*"))


@pytest.mark.parametrize("bits", [0x01, 0xFF], ids=["readable", "not text"])
def test_everything_else_is_saved_and_the_rest_listed(damaged, call, opened, tmp_path, bits):
    call("dump", tmp_path / "before.gz", code=OK)
    flip(damaged, MARK.encode(), at=4, with_=bits)
    said = call("dump", tmp_path / "d.gz", "--skip-damaged", "--verify", code=FINDINGS)
    assert "Left out: 1 damaged." in said
    assert "X#marked in EXP#77: its content is damaged" in said
    for name in ("d", "before"):
        call("load", tmp_path / f"{name}.gz", code=OK, uri=f"dynamodb:///{tmp_path}/{name}.ddb")
    assert len(lines_of(opened("d"))) == len(lines_of(opened("before"))) - 1
    said = call("dump", tmp_path / "e.gz", "--skip-damaged", "--json", code=FINDINGS)
    assert json.loads(said)["damaged"] == [{**KEY, "why": "its content is damaged"}]


def test_a_sound_table_is_dumped_as_ever(damaged, call, tmp_path):
    call("dump", tmp_path / "d.gz", "--skip-damaged", "--verify", code=OK)


@pytest.mark.one_volume(reason="now and then the page is an inner one, which costs more")
def test_a_lost_page_costs_only_what_was_on_it(damaged, call, tmp_path):
    call("dump", tmp_path / "before.gz", code=OK)
    overwrite_page(damaged, MARK.encode())
    call("dump", tmp_path / "d.gz", code=DAMAGED)
    said = call("dump", tmp_path / "d.gz", "--skip-damaged", code=FINDINGS)
    assert "a page cannot be read" in said
    whole, rest = Archive(tmp_path / "before.gz"), Archive(tmp_path / "d.gz")
    whole.check()
    rest.check()
    assert whole.trailer["items"] - 60 < rest.trailer["items"] < whole.trailer["items"]
