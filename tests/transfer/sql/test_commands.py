"""``import`` and ``export`` on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result
from mlflow.entities import RunTag, ViewType

from mlflow_dynamodbstore.cli import main, output
from mlflow_dynamodbstore.cli.exits import FINDINGS, INTERRUPTED, USAGE
from mlflow_dynamodbstore.transfer.sql.database import Database
from mlflow_dynamodbstore.transfer.sql.move import Kind, Move
from tests.places import items_in
from tests.sql import empty_database
from tests.stores import everything_in
from tests.transfer.sql.helpers import stores
from tests.transfer.sql.mlflow_database import Theirs

pytestmark = pytest.mark.index_at_once


def run(table, *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["--uri", table.engine.uri, *arguments])
    assert result.exit_code == code, result.output
    return result


def test_there_and_back(source: Theirs, table, tmp_path):
    counted = json.loads(run(table, "import", source.uri, "--dry-run", "--json").stdout)
    assert counted["found"]["runs"] == 8
    done = json.loads(run(table, "import", source.uri, "--json").stdout)
    assert done["moved"]["runs"]["written"] == 8
    assert done["verified"]["runs"] == {"compared": 8, "same": 8, "different": 0, "missing": 0}
    back = json.loads(run(table, "export", empty_database(tmp_path), "--json").stdout)
    assert back["verified"].keys() == done["verified"].keys()
    assert all(one["same"] == one["compared"] > 0 for one in back["verified"].values())


def test_people_see_tables_and_sentences(source: Theirs, table):
    run(table, "import", source.uri, "--no-verify")
    tracking, _ = stores(table)
    (found,) = tracking.search_runs(["1"], "tags.n = '1'", ViewType.ALL, 1)
    tracking.set_tag(found.info.run_id, RunTag("n", "other"))
    shown = run(table, "import", source.uri, code=FINDINGS).output
    assert "conflicts" in shown
    assert "exists and differs: tags.n: '1', not 'other'" in " ".join(shown.split())


def test_an_import_says_first_what_will_expire(source: Theirs, table):
    said = run(table, "import", source.uri, "--no-verify").stderr
    assert "traces after 30 days, histories of metrics after 365 days" in " ".join(said.split())
    assert "--keep-forever keeps it" in said


def test_an_import_can_keep_everything_forever(source: Theirs, table):
    done = run(table, "import", source.uri, "--no-verify", "--keep-forever")
    assert "expire" not in done.output
    shown = json.loads(run(table, "ttl", "show", "--json").stdout)
    assert {policy["days"] for policy in shown.values()} == {0}
    assert [item for item in items_in(table, "1") if "ttl" in item] == []
    for item in everything_in(table):
        if "since" in item:
            table.put({**item, "since": 1})  # they were set long ago
    before = everything_in(table)
    run(table, "import", source.uri, "--no-verify", "--keep-forever")
    assert everything_in(table) == before


@pytest.mark.parametrize(("answer", "days"), [("\n", 0), ("y\n", 0), ("n\n", 30)])
def test_an_import_asks_on_a_terminal_and_keeps_by_default(
    source, table, monkeypatch, answer, days
):
    monkeypatch.setattr(output, "can_ask", lambda: True)
    arguments = ["--uri", table.engine.uri, "import", source.uri, "--no-verify"]
    done = CliRunner().invoke(main, arguments, input=answer)
    assert done.exit_code == 0, done.output
    assert "Keep everything forever instead? [Y/n]" in done.stderr
    shown = json.loads(run(table, "ttl", "show", "--json").stdout)
    assert shown["trace_retention_days"]["days"] == days


def test_an_import_that_may_expire_asks_and_says_nothing(source: Theirs, table):
    done = run(table, "import", source.uri, "--no-verify", "--let-expire")
    assert "--keep-forever" not in done.stderr
    shown = json.loads(run(table, "ttl", "show", "--json").stdout)
    assert shown["trace_retention_days"] == {"days": 30, "source": "default"}


def test_a_dry_export_makes_nothing(source: Theirs, table, tmp_path):
    run(table, "import", source.uri, "--no-verify")
    counted = run(table, "export", f"sqlite:///{tmp_path}/none.db", "--dry-run").output
    assert "dry run" in counted
    assert not (tmp_path / "none.db").exists()


def test_a_dry_import_makes_nothing(source: Theirs, tmp_path):
    target = tmp_path / "new" / "mlflow.ddb"
    arguments = ["--uri", f"dynamodb:///{target}", "import", source.uri, "--dry-run", "--json"]
    counted = CliRunner().invoke(main, arguments)
    assert counted.exit_code == 0, counted.output
    assert json.loads(counted.stdout)["found"]["runs"] == 8
    assert not target.parent.exists()


def test_a_half_done_import_shows_in_doctor_until_it_is_finished(
    source: Theirs, table, monkeypatch
):
    with monkeypatch.context() as patched:
        patched.setattr(Move, "move", stopped_at("runs", Move.move))
        run(table, "import", source.uri, code=INTERRUPTED)
    (found,) = completeness(table, code=FINDINGS)
    assert found["level"] == "failure"
    assert f"an import from {source.uri} has not finished" in found["text"]
    assert "run the same command again" in found["text"]
    assert not any(one.startswith("state.") for one in json_of(table, "config", "list"))
    run(table, "import", source.uri, "--dry-run")
    assert completeness(table, code=FINDINGS)
    run(table, "import", source.uri)
    assert completeness(table) == []


def stopped_at(name: str, move: Callable[[Move, Kind], None]) -> Callable[[Move, Kind], None]:
    def stopping(self: Move, kind: Kind) -> None:
        if kind.name == name:
            raise KeyboardInterrupt
        move(self, kind)

    return stopping


def completeness(table, code: int = 0) -> list[dict[str, str]]:
    findings = json_of(table, "doctor", "--quick", code=code)
    return [one for one in findings if one["check"] == "completeness"]


def json_of(table, *arguments: str, code: int = 0) -> Any:
    return json.loads(run(table, *arguments, "--json", code=code).stdout)


def test_what_is_no_database_is_said(table):
    assert "database" in run(table, "import", "nothing", code=USAGE).output


def test_what_stays_in_the_database_is_counted(source: Theirs, table):
    database = Database.to_read(source.uri)
    with database.transaction() as transaction:
        transaction.connection.execute(sa.text("CREATE TABLE of_a_later_release (x INTEGER)"))
        transaction.connection.execute(sa.text("INSERT INTO of_a_later_release VALUES (1)"))
    expected = {"of_a_later_release": 1}
    for more in (["--dry-run"], []):
        done = json.loads(run(table, "import", source.uri, "--json", *more).stdout)
        assert done["not_moved"] == expected
    assert "of_a_later_release" in run(table, "import", source.uri).output


def test_what_stays_in_the_table_is_counted(table, tmp_path):
    _, registry = stores(table)
    registry.create_registered_model("iris")
    for n in range(2):
        registry.create_model_version("iris", f"s3://{n}")
    registry.set_registered_model_alias("iris", "champion", "1")
    registry.split_registered_model_alias("iris", "champion", "2", 10)
    target = empty_database(tmp_path)
    done = json.loads(run(table, "export", target, "--json").stdout)
    assert done["not_moved"] == {
        "changes of aliases": 2,
        "second versions of aliases": 1,
    }
