"""Wrong inputs: each ends with its exit code and a sentence that says what to write instead."""

from __future__ import annotations

import shlex
import sqlite3
from pathlib import Path

import boto3
import pytest
from click.testing import CliRunner
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

from mlflow_dynamodbstore.cli import main
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore

HERE = "--uri dynamodb:///here.ddb"

WRONG = [
    # which table
    ("stats", 2, "name a table: --name mlflow --region us-east-1"),
    ("stats --name mlflow", 2, "--name mlflow needs --region us-east-1"),
    ("stats --uri here.ddb", 2, "is not a table URI; write dynamodb://us-east-1/mlflow"),
    ("stats --uri dynamodb://us-east-1", 2, "the URI names no table"),
    ("stats --uri dynamodb://mlflow", 2, "write dynamodb://us-east-1/mlflow"),
    ("stats --uri dynamodb:///here.ddb?sync=OFF", 2, "the URI of a file takes synchronous"),
    ("stats --uri dynamodb://user:pw@us-east-1/mlflow", 2, "must not hold credentials"),
    ("stats --uri dynamodb://us-east-1/x", 2, "'x' is not a table name"),
    ("stats --name mlflow --endpoint-url localhost:8000", 2, "must look like http://localhost:80"),
    ("stats --uri dynamodb:///typo.ddb", 3, "there is no table at "),
    ("stats --uri dynamodb:///notes.txt", 3, "is not a table file"),
    ("stats --uri dynamodb://us-esat-1/mlflow", 2, "did you mean us-east-1?"),
    ("stats --uri dynamodb://us-east-1/mlflow", 4, "Unable to locate credentials. Check them"),
    ("stats --uri dynamodb://localhost:1/mlflow", 5, "cannot be reached"),
    (f"{HERE} stats --uri dynamodb:///a.ddb", 2, "--uri is given twice"),
    (f"{HERE} stats --name mlflow", 2, "give --uri without --name"),
    # which command
    (f"{HERE} statz", 2, "there is no command 'statz'; did you mean `stats`?"),
    (f"{HERE} cleanup", 2, "did you mean `ttl cleanup`?"),
    (f"{HERE} frobnicate", 2, "the commands are: alias, compare, config"),
    (f"{HERE} help", 2, "did you mean `--help`?"),
    (f"{HERE} --json stats", 2, "--json comes after the command"),
    (f"{HERE} doctor --quik", 2, "--quick"),
    (f"{HERE} stats extra", 2, "unexpected extra argument"),
    # settings
    (f"{HERE} ttl set", 2, "give at least one policy"),
    (f"{HERE} ttl set --trace-retention-days forever", 2, "'forever' is not a number of days"),
    (f"{HERE} ttl set --trace-retention-days 99999", 2, "from 0 (never expire) to 36500"),
    (f"{HERE} config set trace_retention_days -5", 2, "'-5' is not a number of days"),
    (f"{HERE} config set --nope 5", 2, "No such option"),
    (f"{HERE} config get nope", 2, "'nope' is not a setting; these are: denormalized_tags"),
    (f"{HERE} config set xray_region Ohio", 2, "'Ohio' is not an AWS region"),
    (f"{HERE} fts add runs.name", 2, "give run.name, run.tags.<key>"),
    (f"{HERE} ttl set --keep-forever --trace-retention-days 5", 2, "without other policies"),
    (f"{HERE} ttl cleanup --grace soon", 2, "'soon' is not a valid number"),
    (f"{HERE} config set denormalized_tags 5", 2, "use `tag add` and `tag remove`"),
    (f"{HERE} fts add run.tags.", 2, "run.tags.<key>, experiment.name or registered_model.name"),
    (f"{HERE} fts remove run.name", 2, "`fts list` shows the indexed texts"),
    (f"{HERE} tag add ''", 2, "an empty pattern matches nothing"),
    (f"{HERE} gateway rotate-key --new-passphrase ''", 2, "the new passphrase is empty"),
    (f"{HERE} fts backfill run.name", 2, "run `fts add run.name` first"),
    (f"{HERE} tag remove nope", 2, "`tag list` shows the patterns"),
    (f"{HERE} trace cache", 2, "set its region with `config set xray_region us-east-1`"),
    # searches and models
    (f"{HERE} explain 'metrics.loss <'", 2, "Invalid clause(s) in filter string"),
    (f"{HERE} explain --experiment 77", 3, "No Experiment with id=77 exists"),
    (f"{HERE} explain --path nope", 2, "nope cannot answer this search; ByTime"),
    (f"{HERE} alias show nomodel", 3, "Registered Model with name=nomodel not found"),
    (f"{HERE} alias show iris nope", 3, "the model 'iris' has no alias 'nope': it has no aliases"),
    (f"{HERE} alias split iris nope 1 --weight 5", 3, "the model 'iris' has no alias 'nope'"),
    (f"{HERE} alias history iris nope", 3, "there is no recorded change of alias 'nope'"),
    (f"{HERE} alias show iris --workspace nope", 3, "Registered Model with name=iris not found"),
    (f"{HERE} run datasets nope", 3, "Run with id=nope not found"),
    (f"{HERE} explain --order-by 'metrics.loss UP'", 2, "Invalid ordering key"),
    (f"{HERE} alias set iris champion 99", 3, "version=99"),
    (f"{HERE} alias set iris champion one", 2, "must be an integer"),
    (f"{HERE} alias split iris champion 1 --weight 120", 2, "0<=x<=99"),
    (f"{HERE} alias rollback iris champion --to last", 2, "`alias history iris` lists them"),
    (f"{HERE} workspace create 'Team A'", 2, "must match the pattern"),
    (f"{HERE} workspace delete nope --yes", 3, "Workspace 'nope' not found"),
    (f"{HERE} workspace delete nope", 1, "--yes confirms without a question"),
    # moving data
    (f"{HERE} copy dynamodb:///here.ddb", 1, "is the source: name another table"),
    (f"{HERE} copy sqlite:///x.db", 2, "is not a table URI"),
    (f"{HERE} dump nowhere/x.gz", 1, "nowhere/x.gz cannot be written"),
    (f"{HERE} dump notes.txt", 1, "notes.txt already exists"),
    (f"{HERE} load missing.gz", 1, "there is no file missing.gz"),
    (f"{HERE} load notes.txt", 1, "is not a complete archive"),
    (f"{HERE} compare dynamodb:///typo.ddb", 3, "there is no table at "),
    (f"{HERE} import sqlite:///typo.db", 2, "there is no MLflow database at sqlite:////"),
    (f"{HERE} import sqlite:///other.db", 2, "there is no MLflow database at sqlite:////"),
    (f"{HERE} import other.db", 2, "write sqlite:///other.db"),
    (f"{HERE} import mlruns", 2, "not a folder of MLflow's file store"),
    (f"{HERE} import http://localhost:5000", 2, "no server answers at http://localhost:5000"),
    (
        "import sqlite:///full.db --renumber --map nowhere/map.json --uri dynamodb:///new.ddb",
        1,
        "nowhere/map.json cannot be written: there is no folder nowhere",
    ),
    (
        "import sqlite:///full.db --prefix b- --map notes.txt --uri dynamodb:///new.ddb",
        1,
        "notes.txt is not a map of an import",
    ),
    (f"{HERE} import sqlite:///full.db --map x.json", 2, "--map needs --renumber"),
    (f"{HERE} import mysql://host/db", 2, "install its driver"),
    (f"{HERE} export other.db", 2, "write sqlite:///other.db"),
    (f"{HERE} export dynamodb:///x.ddb", 2, "`copy` moves a whole table"),
    (f"{HERE} export sqlite:///full.db", 1, "holds other data: its experiment 1 is 'theirs'"),
    (f"{HERE} export sqlite:///nowhere/x.db", 1, "unable to open database file"),
    # AWS
    ("destroy --name mlflow --region us-east-1 --yes", 4, "`aws sts get-caller-identity`"),
    ("iam-policy writer --name mlflow --region us-east-1 --account me", 2, "12 digits"),
    (f"{HERE} deploy", 2, "a file needs no stack"),
    (f"{HERE} iam-policy reader", 2, "a file has no IAM policy"),
    (
        "iam-policy admin --name mlflow --region us-east-1",
        2,
        "'admin' is not one of 'reader'",
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a model, and files of other kinds."""
    made = tmp_path_factory.mktemp("inputs")
    uri = f"dynamodb:///{made}/here.ddb"
    DynamoDBTrackingStore(uri, str(made)).create_experiment("ours")
    registry = DynamoDBRegistryStore(uri)
    registry.create_registered_model("iris")
    registry.create_model_version("iris", "runs:/x")
    (made / "notes.txt").write_text("not a table\n" * 100)
    (made / "mlruns").mkdir()
    with sqlite3.connect(made / "other.db") as other:
        other.execute("create table t (a)")
    theirs = SqlAlchemyStore(f"sqlite:///{made}/full.db", str(made))
    theirs.create_experiment("theirs")
    theirs._dispose_engine()
    return made


@pytest.fixture(autouse=True)
def _without_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it remembers the keys of other tests
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.parametrize(("line", "code", "sentence"), WRONG, ids=[line for line, _, _ in WRONG])
def test_a_wrong_input_ends_with_a_code_and_a_sentence(line, code, sentence, folder, monkeypatch):
    monkeypatch.chdir(folder)
    before = sorted(path.name for path in folder.iterdir())
    done = CliRunner().invoke(main, shlex.split(line), prog_name="mlflow-dynamodbstore")
    assert done.exit_code == code, (done.output, done.exception)
    assert sentence in done.stderr
    assert "Traceback" not in done.output
    assert sorted(path.name for path in folder.iterdir()) == before


def test_an_option_of_the_table_may_come_after_the_command(folder, monkeypatch):
    monkeypatch.chdir(folder)
    uri = ["--uri", "dynamodb:///here.ddb"]
    shown = [
        CliRunner().invoke(main, arguments)
        for arguments in ([*uri, "ttl", "show"], ["ttl", *uri, "show"], ["ttl", "show", *uri])
    ]
    assert [one.exit_code for one in shown] == [0, 0, 0]
    assert len({one.stdout for one in shown}) == 1
