"""A second database is imported into a table in use: new ids, and all that refers to them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result
from mlflow.entities import ExperimentTag, Metric, Param, RunStatus, ViewType
from mlflow.entities.model_registry import ModelVersionTag
from mlflow.exceptions import MlflowException
from mlflow.prompt.constants import IS_PROMPT_TAG_KEY
from mlflow.server.auth.sqlalchemy_store import SqlAlchemyStore
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.auth.store import DynamoDBAuthStore
from mlflow_dynamodbstore.cli import main
from mlflow_dynamodbstore.cli.exits import FINDINGS
from mlflow_dynamodbstore.table.location import parse
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.transfer.sql.database import Database
from mlflow_dynamodbstore.transfer.sql.renumbering import Changes
from mlflow_dynamodbstore.transfer.sql.transfer import Transfer
from tests.faults import CrashingEngine
from tests.sql import empty_database
from tests.stores import everything_in
from tests.traces.making import NOON
from tests.transfer.sql.helpers import stores
from tests.transfer.sql.mlflow_database import Theirs
from tests.transfer.sql.test_resuming import engine_in

pytestmark = pytest.mark.index_at_once


def merged(uri: str, table: Table, **changes: Any) -> dict[str, str]:
    """Import a database with changes, all of which must succeed; returns the new ids."""
    transfer = Transfer.from_database(Database.to_read(uri), table, Changes(**changes))
    move = transfer.move(lambda kind, done: None)
    assert move.findings.first == []
    verified = transfer.verify(lambda kind, done: None)
    assert verified.findings.first == []
    assert transfer.renumbering is not None
    return transfer.renumbering.numbers()["experiments"]


def named(tracking: Any, name: str) -> Any:
    """The experiment with a name, which must exist."""
    return tracking.get_experiment_by_name(name)


@pytest.fixture
def in_use(table: Table) -> Table:
    """A table with experiments 1 to 3 of its own, a run in each, and a model."""
    tracking, registry = stores(table)
    for n in range(1, 4):
        assert tracking.create_experiment(f"own {n}") == str(n)
        tracking.create_run(str(n), "bob", NOON, [], f"own run {n}")
    registry.create_registered_model("own model")
    return table


def contents(tracking: Any, experiment_id: str) -> dict[str, Any]:
    runs = tracking.search_runs([experiment_id], "", ViewType.ALL, 100)
    return {
        run.info.run_id: (
            run.info.run_name,
            run.data.params,
            run.data.tags,
            repr(sorted(run.data.metrics.items())),
            len(tracking.get_metric_history(run.info.run_id, "loss")),
        )
        for run in runs
    }


def test_a_second_database_is_found_beside_the_first(source: Theirs, in_use: Table):
    numbers = merged(source.uri, in_use)
    assert numbers == {"0": "0", "1": "4", "2": "5", "3": "6"}
    tracking, registry = stores(in_use)
    assert named(tracking, "first").experiment_id == "4"
    assert contents(tracking, "4") == contents(source.tracking, "1")
    assert [run.info.run_name for run in tracking.search_runs(["1"], "", ViewType.ALL, 9)] == [
        "own run 1"
    ]
    theirs = source.tracking.search_traces(["1"])[0]
    assert {one.trace_id for one in tracking.search_traces(["4"])[0]} == {
        one.trace_id for one in theirs
    }
    found, expected = (
        tracking.search_logged_models(["4"]),
        source.tracking.search_logged_models(["1"]),
    )
    assert {model.model_id for model in found} == {model.model_id for model in expected}
    assert int(registry.get_model_version_by_alias("iris", "champion").version) == 2
    assert {one.scorer_name for one in tracking.list_scorers("4")} == {
        one.scorer_name for one in source.tracking.list_scorers("1")
    }
    (dataset,) = tracking.search_datasets(["4"], "name = 'used'")
    assert tracking.get_dataset_experiment_ids(dataset.dataset_id) == ["0", "4"]
    assert tracking.create_experiment("next") == "7"


def test_a_repeated_import_changes_nothing_even_after_a_renaming(source: Theirs, tmp_path: Path):
    engine = CrashingEngine(engine_in(tmp_path, "twice"))
    table = Table(engine)
    tracking, _ = stores(table)
    tracking.create_experiment("own")
    merged(source.uri, table)
    before, written = everything_in(table), engine.writes
    transfer = Transfer.from_database(Database.to_read(source.uri), table, Changes())
    tallies = [transfer.move(lambda kind, done: None).tallies for _ in range(2)]
    assert engine.writes - written == 2 * 2  # the note that an import runs, and its removal
    assert everything_in(table) == before
    assert all(t.same == t.found > 0 for some in tallies for t in some.values())
    tracking.rename_experiment("3", "another name")
    transfer = Transfer.from_database(Database.to_read(source.uri), table, Changes())
    move = transfer.move(lambda kind, done: None)
    (finding,) = move.findings.first
    assert finding.title == "renamed ü"
    assert all(tally.written == 0 for tally in move.tallies.values())


def test_a_prefix_names_experiments_models_and_links_to_prompts(source: Theirs, in_use: Table):
    source.registry.copy_model_version(source.registry.get_model_version("iris", "2"), "copied")
    merged(source.uri, in_use, prefix="b-")
    tracking, registry = stores(in_use)
    default = named(tracking, "b-Default")
    assert default.experiment_id == "4"
    assert default.tags == {"of the default": "yes"}
    assert len(tracking.search_runs(["4"], "", ViewType.ALL, 9)) == 1
    assert tracking.search_runs(["0"], "", ViewType.ALL, 9) == []
    assert registry.get_registered_model("b-iris").description == "flowers"
    with pytest.raises(MlflowException, match="not found"):
        registry.get_registered_model("iris")
    assert registry.get_model_version("b-copied", "1").source == "models:/b-iris/2"
    assert registry.get_model_version_download_uri(
        "b-copied", "1"
    ) == source.registry.get_model_version_download_uri("iris", "2")
    experiment = named(tracking, "b-first").experiment_id
    linked = tracking.search_traces([experiment], "prompt = 'b-greeting/1'")[0]
    assert len(linked) == 1


def test_everything_can_go_into_a_workspace(source: Theirs, in_use: Table, monkeypatch):
    merged(source.uri, in_use, workspace="team-b")
    monkeypatch.setenv("MLFLOW_ENABLE_WORKSPACES", "true")
    tracking, registry = stores(in_use)
    with WorkspaceContext("team-b"):
        names = {one.name for one in tracking.search_experiments(ViewType.ALL)}
        assert names == {"Default", "first", "renamed ü", "gone"}
        assert len(registry.list_webhooks()) == 2
        assert registry.get_registered_model("iris").description == "flowers"
        runs = tracking.search_runs([named(tracking, "first").experiment_id], "", ViewType.ALL, 9)
        assert len(runs) == 6
    with WorkspaceContext("default"):
        assert {one.name for one in tracking.search_experiments(ViewType.ALL)} == {
            "Default",
            "own 1",
            "own 2",
            "own 3",
        }


# --- conflicts ----------------------------------------------------------------------------------


def run(table: Table, *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["--uri", table.engine.uri, *arguments])
    assert result.exit_code == code, result.output
    return result


def said(result: Result) -> str:
    return " ".join(result.output.split())


def test_what_is_taken_is_shown_by_name_with_what_to_do_and_nothing_is_written(
    source: Theirs, in_use: Table, tmp_path: Path
):
    tracking, registry = stores(in_use)
    before = everything_in(in_use)
    plain = said(run(in_use, "import", source.uri, code=FINDINGS))
    assert (
        "experiments 1 'first' needs the id 1, which 'own 1' has. Import with --renumber" in plain
    )
    assert "Nothing was imported." in plain
    assert everything_in(in_use) == before
    dry = run(in_use, "import", source.uri, "--dry-run", "--json", code=FINDINGS)
    assert len(json.loads(dry.stdout)["findings"]) == 3
    tracking.create_experiment("renamed ü", tags=[ExperimentTag("whose", "ours")])
    source.registry.create_registered_model("own model")
    before, noted = everything_in(in_use), str(tmp_path / "m.json")
    renumbered = said(
        run(in_use, "import", source.uri, "--renumber", "--map", noted, code=FINDINGS)
    )
    assert "experiments 2 'renamed ü' needs the name 'renamed ü', which experiment 4 has." in (
        renumbered
    )
    assert "registered models default/own model needs the name 'own model'" in renumbered
    assert "Import with --prefix or --into-workspace, or rename one of the two." in renumbered
    assert everything_in(in_use) == before
    # Each of the advices works, also after the attempts before.
    run(in_use, "import", source.uri, "--prefix", "b-", "--map", noted)
    assert registry.get_registered_model("b-own model")


def test_the_rest_is_imported_on_demand_and_what_was_left_later(
    source: Theirs, in_use: Table, tmp_path: Path
):
    tracking, registry = stores(in_use)
    tracking.create_experiment("renamed ü", tags=[ExperimentTag("whose", "ours")])
    registry.set_registered_model_alias(
        "own model", "x", registry.create_model_version("own model", "s3://x").version
    )
    source.registry.create_registered_model("own model")
    arguments = ("import", source.uri, "--renumber", "--map", str(tmp_path / "m.json"))
    left = said(run(in_use, *arguments, "--skip-taken", code=FINDINGS))
    assert "experiments 4 'renamed ü' exists and differs" in left
    assert "registered models default/own model exists and differs" in left
    tracking.rename_experiment("4", "another name")
    registry.rename_registered_model("own model", "our own model")
    run(in_use, *arguments)
    assert named(tracking, "renamed ü").experiment_id not in ("1", "2", "3", "4")


def test_what_refers_to_an_experiment_that_is_left_is_left_too(source: Theirs, in_use: Table):
    """Here its number names an experiment of somebody else."""
    tracking, _ = stores(in_use)
    left = said(run(in_use, "import", source.uri, "--skip-taken", code=FINDINGS))
    assert "Held back with it: 2 datasets, 6 runs" in left
    assert tracking.search_datasets(["1"]) == []
    (used,) = source.tracking.search_datasets(["1"])
    with pytest.raises(MlflowException, match="not found"):
        tracking.get_dataset(used.dataset_id)
    assert not [key for key in everything_in(in_use) if used.dataset_id in str(key)]


def test_grants_for_an_experiment_that_is_left_are_left(
    source: Theirs, in_use: Table, tmp_path: Path
):
    path = Database.to_read(source.uri).engine.url.database
    assert path is not None
    users = SqlAlchemyStore()
    users.init_db(f"sqlite:///{path}")
    users.create_user("eve", "a long password", is_admin=False)
    users.create_experiment_permission("1", "eve", "MANAGE")
    run(in_use, "import", source.uri, "--skip-taken", code=FINDINGS)
    ours = DynamoDBAuthStore(in_use.engine.uri, table=in_use)
    assert ours.get_user("eve")
    with pytest.raises(MlflowException, match="not found"):
        ours.get_experiment_permission("1", "eve")


def test_a_source_is_not_imported_a_second_time_under_other_names(
    source: Theirs, table: Table, tmp_path: Path
):
    arguments = ("import", source.uri, "--map", str(tmp_path / "m.json"))
    run(table, "import", source.uri)
    before = everything_in(table)
    for other in (["--prefix", "b-"], ["--into-workspace", "team-b"]):
        again = said(run(table, *arguments, *other, code=FINDINGS))
        assert "experiments 1 'first' was imported as 'first'. Use the same" in again
        assert "registered models default/iris was imported as 'iris'." in again
        assert everything_in(table) == before
    # Even on demand no id exists twice.
    moved = json.loads(
        run(
            table, *arguments, "--prefix", "b-", "--skip-taken", "--no-verify", "--json",
            code=FINDINGS,
        ).stdout
    )  # fmt: skip
    for kind in ("runs", "logged models", "issues"):
        assert moved["moved"][kind]["refused"] == moved["moved"][kind]["found"] > 0
    sentences = {one["sentence"] for one in moved["findings"] if one["kind"] == "runs"}
    assert "cannot be moved: it is in experiment 1 already, from another import" in sentences


def test_two_databases_of_one_name_in_two_folders_are_two_sources(
    source: Theirs, in_use: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for team in ("red", "blue"):
        (tmp_path / team).mkdir()
        path = Database.to_read(source.uri).engine.url.database
        shutil.copyfile(str(path), tmp_path / team / "mlflow.db")
    other = Theirs(f"sqlite:///{tmp_path}/blue/mlflow.db")
    with Database.to_read(other.uri).transaction() as transaction:  # not the same data
        for statement in (
            "UPDATE experiments SET creation_time = creation_time + 1",
            "DELETE FROM registered_model_aliases",
        ):
            transaction.connection.execute(sa.text(statement))
    for team, prefix in (("red", "r-"), ("blue", "b-")):
        monkeypatch.chdir(tmp_path / team)
        noted = json.loads(
            run(
                in_use, "import", "sqlite:///mlflow.db", "--prefix", prefix, "--skip-taken",
                "--no-verify", "--json", code=0 if team == "red" else FINDINGS,
            ).stdout
        )  # fmt: skip
        assert noted["moved"]["experiments"]["written"] == 4


def test_a_new_database_at_the_address_of_another_gets_its_own_numbers(
    source: Theirs, in_use: Table, tmp_path: Path
):
    path = str(Database.to_read(source.uri).engine.url.database)
    assert merged(source.uri, in_use, prefix="old-")["1"] == "5"
    Path(path).unlink()
    (tmp_path / "new").mkdir()
    new = Theirs(empty_database(tmp_path / "new"))
    new.tracking.create_experiment("new")
    shutil.copyfile(str(Database.to_read(new.uri).engine.url.database), path)
    assert merged(source.uri, in_use, prefix="new-") == {"0": "8", "1": "9", "2": "6", "3": "7"}
    tracking, _ = stores(in_use)
    assert named(tracking, "new-new").experiment_id == "9"
    assert named(tracking, "old-first").experiment_id == "5"


def test_the_map_is_written_and_read_for_grants(source: Theirs, in_use: Table, tmp_path: Path):
    users = SqlAlchemyStore()
    users.init_db(f"sqlite:///{tmp_path}/users.db")
    for name in ("ada", "bob"):
        users.create_user(name, "a long password", is_admin=False)
    users.create_experiment_permission("1", "bob", "EDIT")
    role = users.create_role("readers", "default", "those who read")
    users.add_role_permission(role.id, "experiment", "2", "READ")
    users.assign_role_to_user(users.get_user("ada").id, role.id)

    ours = DynamoDBAuthStore(in_use.engine.uri, table=in_use)
    for name in ("carl", "bob"):
        ours.create_user(name, "another password", is_admin=False)
    number_of_bob = ours.get_user("bob").id
    uri, noted = f"sqlite:///{tmp_path}/users.db", tmp_path / "map.json"
    said = run(in_use, "import", uri, "--renumber", "--map", str(noted), code=FINDINGS).output
    assert "grant for experiment 1 of another database" in " ".join(said.split())
    noted.unlink()
    run(in_use, "import", source.uri, "--renumber", "--map", str(noted))
    assert json.loads(noted.read_text())["experiments"]["1"] == "4"
    said = run(in_use, "import", uri, "--renumber", "--map", str(noted), code=FINDINGS).output
    assert "password_hash: another one" in " ".join(said.split())
    assert "scrypt" not in said
    assert ours.get_user("bob").id == number_of_bob
    assert ours.get_experiment_permission("4", "bob").permission == "EDIT"
    ada = ours.get_user("ada")
    (granted,) = [r for r in ours.list_user_roles(ada.id) if r.name == "readers"]
    assert [(p.resource_pattern, p.permission) for p in granted.permissions] == [("5", "READ")]
    kept = json.loads(noted.read_text())
    assert kept["experiments"]["1"] == "4"
    assert set(kept["users"]) == {"1", "2"}


def test_a_prefix_that_no_model_may_have_is_refused(source: Theirs, in_use: Table):
    said = run(in_use, "import", source.uri, "--prefix", "b/", code=2).output
    assert "cannot contain '/'" in " ".join(said.split())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"table": "dynamodb://elsewhere/t"}', "name another file"),
        ("no map", "is not a map of an import"),
        ("[1]", "is not a map of an import"),
        ('{"table": "TABLE", "experiments": [3]}', "experiments is no object"),
    ],
)
def test_a_file_that_is_no_map_of_this_table_is_not_overwritten(
    source: Theirs, in_use: Table, tmp_path: Path, text: str, sentence: str
):
    noted = tmp_path / "map.json"
    noted.write_text(text.replace("TABLE", str(parse(in_use.engine.uri))))
    before = noted.read_text(), everything_in(in_use)
    refused = run(in_use, "import", source.uri, "--renumber", "--map", str(noted), code=1)
    assert sentence in " ".join(refused.output.split())
    assert (noted.read_text(), everything_in(in_use)) == before


def test_names_of_two_workspaces_that_become_one_are_refused(
    source: Theirs, in_use: Table, tmp_path
):
    shutil.copyfile(Database.to_read(source.uri).engine.url.database, tmp_path / "two.db")
    uri = f"sqlite:///{tmp_path}/two.db"
    database = Database.to_read(uri)
    with database.transaction() as transaction:
        transaction.insert("workspaces", [{"name": "other"}])
        transaction.connection.execute(
            sa.text(
                "UPDATE experiments SET workspace = 'other', name = 'first' WHERE name = 'gone'"
            )
        )
    transfer = Transfer.from_database(database, in_use, Changes(workspace="team-b"))
    move = transfer.move(lambda kind, done: None)
    (finding,) = move.findings.first
    assert "two workspaces of the source have one named 'first'" in finding.sentence
    assert move.tallies["runs"].held_back == 1


# --- two databases of a thousand runs -----------------------------------------------------------


def thousand(folder: Path, team: str) -> Theirs:
    """A database with ten experiments of a hundred runs each, and a registered model."""
    folder.mkdir()
    theirs = Theirs(empty_database(folder))
    for e in range(10):
        experiment_id = theirs.tracking.create_experiment(f"{team} {e}")
        for n in range(100):
            run_id = theirs.tracking.create_run(
                experiment_id, team, NOON + n, [], f"{n}"
            ).info.run_id
            metrics = [Metric("loss", 1 / (n + step + 1), NOON + step, step) for step in range(3)]
            theirs.tracking.log_batch(run_id, metrics, [Param("n", str(n))], [])
            theirs.tracking.update_run_info(run_id, RunStatus.FINISHED, NOON + 9, None)
    theirs.registry.create_registered_model(f"{team} model")
    theirs.registry.create_model_version(
        f"{team} model", "s3://x", tags=[ModelVersionTag(IS_PROMPT_TAG_KEY, "false")]
    )
    return theirs


def test_two_databases_of_a_thousand_runs_each(table: Table, tmp_path: Path):
    teams = {team: thousand(tmp_path / team, team) for team in ("red", "blue")}
    maps = {team: str(tmp_path / f"{team}.json") for team in teams}
    for _ in range(2):
        for team, theirs in teams.items():
            done = json.loads(
                run(
                    table, "import", theirs.uri, "--renumber", "--map", maps[team],
                    "--keep-forever", "--json",
                ).stdout
            )  # fmt: skip
            assert done["findings"] == done["differences"] == []
            assert done["verified"]["runs"]["same"] == 1_000
    assert done["moved"]["runs"] == {
        **dict.fromkeys(done["moved"]["runs"], 0),
        "found": 1_000,
        "same": 1_000,
    }
    tracking, _ = stores(table)
    for team in teams:
        numbers = json.loads(Path(maps[team]).read_text())["experiments"]
        ids = [new for old, new in numbers.items() if old != "0"]
        found = tracking.search_runs(
            ids, "metrics.loss < 0.1 and params.n = '50'", ViewType.ALL, 99
        )
        assert len(found) == 10
        assert {run.info.user_id for run in found} == {team}
