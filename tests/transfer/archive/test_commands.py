"""The commands as a person calls them."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from mlflow_dynamodbstore.cli import main
from mlflow_dynamodbstore.cli.exits import FAILED, FINDINGS, INTERRUPTED, NO_TABLE
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.transfer.archive.comparison import compare
from mlflow_dynamodbstore.transfer.archive.fill import TableFill
from mlflow_dynamodbstore.transfer.archive.sources import TableSource
from mlflow_dynamodbstore.upkeep.doctor import Doctor
from tests.transfer.archive.populated import EXPIRED, lines_of


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def call(source):
    def call_(*arguments, uri=source.engine.uri, code=0):
        result = CliRunner().invoke(main, ["--uri", uri, *map(str, arguments)])
        assert result.exit_code == code, (result.output, result.exception)
        return json.loads(result.stdout) if "--json" in arguments else result.output

    return call_


def by_the_real_clock(source):
    """How many items there are to commands, for whom those have not expired that are to."""
    return len(lines_of(source)) + EXPIRED


def test_a_copy_is_made_verified_and_found_complete(call, source, opened, tmp_path):
    target = f"dynamodb:///{tmp_path}/target.ddb"
    source.put({"PK": "EXP#77", "SK": "X#old", "ttl": 1_000})
    said = call("copy", target, "--verify")
    items = by_the_real_clock(source)
    assert f"{items} items in {target}. Left out: 1 expired." in said
    assert f"Both hold the same {items} items." in said
    assert "complete since" in call("copy", target)
    found = call("copy", target, "--verify", "--json")
    assert (found["items"], found["moved"], found["same"]) == (items, 0, True)
    assert found["families"]["EXP/T"] == {"source": 9, "target": 9, "same": True}
    assert lines_of(opened("target")) == lines_of(source)


def test_a_difference_is_named_and_ends_with_a_code(call, opened, tmp_path):
    target = f"dynamodb:///{tmp_path}/target.ddb"
    call("copy", target)
    opened("target").put({"PK": "EXP#77", "SK": "X#values", "whole": 1})
    said = call("copy", target, "--verify", code=FINDINGS)
    assert (
        "They differ. The first keys that do:\n  X#values in EXP#77: not the same in both" in said
    )
    found = call("compare", target, "--json", code=FINDINGS)
    assert found["differences"] == [
        {"PK": "EXP#77", "SK": "X#values", "where": "not the same in both"}
    ]
    assert found["digests"][0] != found["digests"][1]
    assert [name for name, one in found["families"].items() if not one["same"]] == ["EXP/X"]


def test_a_table_is_dumped_loaded_and_compared(call, source, opened, tmp_path):
    file, target = tmp_path / "table.gz", f"dynamodb:///{tmp_path}/target.ddb"
    items = by_the_real_clock(source)
    assert f"Both hold the same {items} items." in call("dump", file, "--verify")
    assert call("compare", file, "--json")["same"]
    found = call("load", file, "--verify", "--json", uri=target)
    assert (found["items"], found["same"], found["resumed"]) == (items, True, False)
    assert "already exists" in call("dump", file, code=FAILED)
    assert lines_of(opened("target")) == lines_of(source)


def test_a_damaged_file_is_refused_in_one_sentence(call, opened, tmp_path):
    file, target = tmp_path / "table.gz", f"dynamodb:///{tmp_path}/target.ddb"
    call("dump", file, "--json")
    file.write_bytes(file.read_bytes()[:-20])
    said = call("load", file, uri=target, code=FAILED)
    assert said.strip().endswith("it ends too early; nothing was read from it")
    assert not (tmp_path / "target.ddb").exists()


def test_a_dry_run_says_the_price_and_makes_nothing(call, source, opened, tmp_path, dynoxide_host):
    target = f"dynamodb:///{tmp_path}/target.ddb"
    free = call("copy", target, "--dry-run", "--verify", "--json")
    assert (free["read_units"], free["write_units"], free["dollars"]) == (0, 0, 0)
    assert free["items"] == by_the_real_clock(source)
    assert not (tmp_path / "target.ddb").exists()
    paid = call("copy", f"dynamodb://{dynoxide_host}/priced", "--dry-run", "--verify", "--json")
    assert paid["write_units"] > paid["items"]
    assert paid["read_units"] > 100
    assert paid["dollars"] > 0 < paid["monthly_dollars"]
    assert paid["trouble"] is None
    said = call("dump", tmp_path / "table.gz", "--dry-run")
    assert "Dry run: nothing was written." in said
    assert not (tmp_path / "table.gz").exists()


def test_the_price_is_told_to_who_has_no_table_yet(call, monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    said = call("copy", "dynamodb://127.0.0.1:9/mlflow", "--dry-run")
    assert "The target could not be checked" in said
    assert "write dynamodb://127.0.0.1:9/mlflow" in said


def test_a_source_that_is_missing_is_not_made(call, tmp_path):
    nowhere = f"dynamodb:///{tmp_path}/nowhere.ddb"
    for arguments in (["copy", f"dynamodb:///{tmp_path}/b.ddb"], ["dump", tmp_path / "x.gz"]):
        call(*arguments, uri=nowhere, code=NO_TABLE)
    call("compare", nowhere, code=NO_TABLE)
    assert not [path for path in tmp_path.iterdir() if path.stem in ("nowhere", "b", "x")]


def test_a_copy_that_was_stopped_goes_on(call, source, opened, tmp_path, monkeypatch):
    target = f"dynamodb:///{tmp_path}/target.ddb"
    note, calls = TableFill._note, []

    def stopping(self, place):
        note(self, place)
        calls.append(place)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(TableFill, "_note", stopping)
    call("copy", target, code=INTERRUPTED)
    unfinished = opened("target")
    examined = {found.check: found for found in Doctor(unfinished).examine(deep=False)}
    assert "a transfer from" in examined["completeness"].text
    assert examined["completeness"].needs_attention
    assert "is not complete" in call("dump", tmp_path / "x.gz", uri=target, code=FAILED)
    assert call("copy", target, "--json")["resumed"]
    assert unfinished.get(access_keys.fill_state_key())["ended"]
    assert compare(TableSource(source), TableSource(unfinished), source.clock()).is_same
