"""MLflow's commands that ask for a SQL database: what they do on our stores, or say instead."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import click
import mlflow.cli
import mlflow.db
import mlflow.server
import mlflow.server.auth.cli
import pytest
from click.testing import CliRunner
from mlflow.entities import Workspace
from mlflow.exceptions import MlflowException
from mlflow.projects.docker import get_docker_tracking_cmd_and_envs
from mlflow.server import handlers
from mlflow.server.jobs import utils
from mlflow.store.tracking.file_store import FileStore
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore import plugin
from mlflow_dynamodbstore.cli import main
from mlflow_dynamodbstore.mlflow_compat import job_runner, server_start
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.releases import needs

READ_REPLICA = "_MLFLOW_SERVER_READ_REPLICA_BACKEND_STORE"  # set by `mlflow server`


@pytest.fixture
def uri(tmp_path):
    return f"dynamodb:///{tmp_path}/mlflow.ddb?synchronous=NORMAL"


@pytest.fixture
def command(monkeypatch):
    """Runs a command of MLflow's; answers its code and what it printed."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def run(*arguments, **environment):
        restored = {READ_REPLICA: None, **environment}
        result = CliRunner().invoke(mlflow.cli.cli, arguments, env=restored)
        assert result.exception is None or isinstance(result.exception, SystemExit), result
        return result.exit_code, result.output

    return run


def start(**options):
    """Start a server with these options alone; it gets no further."""
    vars(mlflow.server)["_run_server"](**options)


def has_command(name: str) -> bool:
    return name in mlflow.db.commands.commands


# --- what has nothing to do ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["upgrade"], "Nothing to migrate"),
        (["prepopulate-trace-analytics"], "Nothing to prepopulate"),
        (["delete-trace-rollups"], "Nothing to delete"),
    ],
)
def test_there_is_nothing_to_migrate(command, uri, arguments, sentence):
    if not has_command(arguments[0]):
        pytest.skip("this release has no such command")
    code, output = command("db", *arguments, uri)
    assert (code, sentence in output) == (0, True)


def test_there_is_nothing_to_migrate_for_users_either(uri):
    result = CliRunner().invoke(mlflow.server.auth.cli.commands, ["db", "upgrade", "--url", uri])
    assert (result.exit_code, "Nothing to migrate" in result.output) == (0, True)


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["migrate-to-default-workspace"],
        ["move-resources", "--from", "a", "--to", "b", "--resource-type", "experiment"],
    ],
)
def test_moving_between_workspaces_names_the_command_that_does_it(command, uri, arguments):
    code, output = command("db", *arguments, uri)
    assert code == 1
    assert f"mlflow-dynamodbstore --uri {uri} workspace delete NAME --mode set_default" in output


def test_a_folder_is_imported_with_the_command_that_is_named(command, uri, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    FileStore(str(tmp_path / "mlruns")).create_experiment("from a folder")
    code, output = command("migrate-filestore", "--source", str(tmp_path), "--target", uri)
    assert code == 1
    named = output.partition("mlflow-dynamodbstore ")[2].split()
    assert named == ["--uri", uri, "import", str(tmp_path)]
    done = CliRunner().invoke(main, named)
    assert done.exit_code == 0, done.output
    assert DynamoDBTrackingStore(uri).get_experiment_by_name("from a folder") is not None


def test_a_read_replica_is_refused_when_the_server_starts(uri):
    with pytest.raises(click.ClickException, match=r"read replica .* is for SQL databases"):
        start(file_store_path=uri, read_replica_backend_store_uri="sqlite:///r.db")


def test_a_read_replica_of_the_users_is_refused_when_the_server_starts(uri, tmp_path, monkeypatch):
    written = tmp_path / "auth.ini"
    written.write_text("[mlflow]\nread_database_uri = sqlite:///r.db\n", "utf-8")
    monkeypatch.setenv("MLFLOW_AUTH_CONFIG_PATH", str(written))
    monkeypatch.setenv(server_start.TOKEN, "a token")
    with pytest.raises(click.ClickException, match=r"read replica of the users .* remove the line"):
        start(file_store_path=uri, app_name="dynamodb-auth")
    started = []

    def serve(**options):
        started.append(options["app_name"])

    server_start._run_server(serve, file_store_path=uri, app_name="dynamodb")  # it has no users
    written.write_text("[mlflow]\ndatabase_uri = sqlite:///r.db\n", "utf-8")
    server_start._run_server(serve, file_store_path=uri, app_name="dynamodb-auth")
    assert started == ["dynamodb", "dynamodb-auth"]


def test_rollups_are_refused_when_the_server_starts(uri, monkeypatch):
    monkeypatch.setenv("MLFLOW_SQL_TRACE_ROLLUPS_ENABLED", "true")
    with pytest.raises(click.ClickException, match=r"SQL trace rollups .* are for SQL databases"):
        start(file_store_path=uri)


def test_the_server_prints_a_refusal_without_a_traceback(command, uri, tmp_path):
    code, output = command(
        *("server", "--backend-store-uri", uri, "--read-replica-backend-store-uri", "sqlite://"),
        *("--default-artifact-root", str(tmp_path)),
    )
    assert (code, "Error: a read replica" in output, "Traceback" in output) == (1, True, False)


def test_jobs_of_our_auth_app_can_call_the_gateway(uri, monkeypatch):
    """Each start of a server has a token of its own, which the app and the jobs know."""
    monkeypatch.delenv(server_start.TOKEN, raising=False)
    seen = []

    def serve(**_options):
        seen.append(os.environ.get(server_start.TOKEN))

    server_start._run_server(serve, file_store_path=uri, app_name="dynamodb-auth")
    monkeypatch.delenv(server_start.TOKEN)
    server_start._run_server(serve, file_store_path=uri, app_name=None)
    assert len(seen[0] or "") == 64
    assert seen[1] is None


@needs("description of the server")
def test_the_server_names_no_type_for_our_store(uri, monkeypatch):
    monkeypatch.setattr(handlers, "_get_tracking_store", lambda: DynamoDBTrackingStore(uri))
    assert handlers.build_server_info_payload()["store_type"] is None


def test_a_table_in_a_file_is_not_mounted_into_a_projects_container(uri):
    mounts, _ = get_docker_tracking_cmd_and_envs(uri)
    assert mounts == []


def test_windows_runs_no_jobs(uri, monkeypatch):
    monkeypatch.setattr(f"{job_runner.__name__}.os.name", "nt")
    with pytest.raises(MlflowException, match="does not support Windows"):
        utils._check_requirements(uri)
    monkeypatch.setenv("_MLFLOW_SERVER_FILE_STORE", uri)
    said = job_runner._server_info(lambda: {"trace_archival_enabled": True})
    assert said == {"trace_archival_enabled": False}


SHOWN_BY = {
    "`mlflow db upgrade`": test_there_is_nothing_to_migrate,
    "`python -m mlflow.server.auth db upgrade`": (
        test_there_is_nothing_to_migrate_for_users_either
    ),
    "`mlflow db prepopulate-trace-analytics`": test_there_is_nothing_to_migrate,
    "`mlflow db delete-trace-rollups`": test_there_is_nothing_to_migrate,
    "`mlflow db migrate-to-default-workspace`": (
        test_moving_between_workspaces_names_the_command_that_does_it
    ),
    "`mlflow db move-resources`": test_moving_between_workspaces_names_the_command_that_does_it,
    "`mlflow migrate-filestore`": test_a_folder_is_imported_with_the_command_that_is_named,
    "`mlflow server --read-replica-backend-store-uri`": (
        test_the_server_prints_a_refusal_without_a_traceback
    ),
    "`read_database_uri` in the auth file": (
        test_a_read_replica_of_the_users_is_refused_when_the_server_starts
    ),
    "`MLFLOW_SQL_TRACE_ROLLUPS_ENABLED`": test_rollups_are_refused_when_the_server_starts,
    "`store_type` of `server-info`": test_the_server_names_no_type_for_our_store,
    "`mlflow run` in Docker": test_a_table_in_a_file_is_not_mounted_into_a_projects_container,
    "jobs on Windows": test_windows_runs_no_jobs,
}


def test_the_table_in_the_documentation_has_the_lines_that_are_tested():
    page = (Path(__file__).parents[2] / "docs" / "jobs.md").read_text()
    _, _, table = page.partition("## What MLflow supports only on SQL databases")
    lines = re.findall(r"^\| ([^|]+) \|", table, flags=re.MULTILINE)
    assert lines[2:] == list(SHOWN_BY)


# --- what is done -------------------------------------------------------------------------------


def ended_job(store):
    job_id = store.create_job("f", "{}").job_id
    store.start_job(job_id)
    store.finish_job(job_id, "1")
    return job_id


def test_gc_deletes_jobs_that_have_ended(command, uri):
    store = plugin.job_store(uri)
    ended, waiting = ended_job(store), store.create_job("f", "{}").job_id
    code, output = command("gc", "--backend-store-uri", uri, "--jobs", MLFLOW_TRACKING_URI=uri)
    assert code == 0, output
    assert f"Job with ID {ended} has been permanently deleted." in output
    assert [job.job_id for job in store.list_jobs()] == [waiting]


def test_gc_deletes_the_jobs_that_are_named(command, uri):
    store = plugin.job_store(uri)
    kept, *named = (ended_job(store) for _ in range(3))
    code, output = command(
        *("gc", "--backend-store-uri", uri, "--job-ids", ",".join(named)), MLFLOW_TRACKING_URI=uri
    )
    assert code == 0, output
    assert [job.job_id for job in store.list_jobs()] == [kept]


def test_gc_keeps_younger_jobs(command, uri):
    store = plugin.job_store(uri)
    kept = ended_job(store)
    options = ("--backend-store-uri", uri, "--jobs", "--older-than", "1d")
    code, output = command("gc", *options, MLFLOW_TRACKING_URI=uri)
    assert code == 0, output
    assert [job.job_id for job in store.list_jobs()] == [kept]


def test_gc_without_jobs_keeps_them(command, uri):
    store = plugin.job_store(uri)
    kept = ended_job(store)
    assert command("gc", "--backend-store-uri", uri, MLFLOW_TRACKING_URI=uri)[0] == 0
    assert [job.job_id for job in store.list_jobs()] == [kept]


def test_gc_deletes_the_jobs_of_all_workspaces(command, uri, monkeypatch):
    monkeypatch.setenv("MLFLOW_ENABLE_WORKSPACES", "true")
    plugin.workspace_store(uri).create_workspace(Workspace("other"))
    store = plugin.job_store(uri)
    for workspace in ("default", "other"):
        with WorkspaceContext(workspace):
            ended_job(store)
    options = ("--backend-store-uri", uri, "--jobs", "--all-workspaces")
    code, output = command("gc", *options, MLFLOW_TRACKING_URI=uri)
    assert (code, output.count("permanently deleted")) == (0, 2), output


def test_gc_needs_no_passphrase(command, uri, monkeypatch):
    """MLflow's command line loads its server's modules, and is none."""
    monkeypatch.setenv("MLFLOW_CRYPTO_KEK_PASSPHRASE", "the passphrase so far")
    DynamoDBTrackingStore(uri).create_gateway_secret("openai", {"api_key": "sk-123"})
    monkeypatch.delenv("MLFLOW_CRYPTO_KEK_PASSPHRASE")
    assert "mlflow.server.handlers" in sys.modules
    code, output = command("gc", "--backend-store-uri", uri, "--jobs", MLFLOW_TRACKING_URI=uri)
    assert code == 0, output


def test_the_passphrase_of_the_gateway_is_changed(command, uri, monkeypatch):
    monkeypatch.setenv("MLFLOW_CRYPTO_KEK_PASSPHRASE", "the passphrase so far")
    store = DynamoDBTrackingStore(uri)
    secret = store.create_gateway_secret("openai", {"api_key": "sk-123"})
    options = ("--backend-store-uri", uri, "--new-passphrase", "the passphrase from now on")
    code, output = command("crypto", "rotate-kek", *options, "--yes")
    assert code == 0, output
    assert "1 secrets changed" in output
    assert "MLFLOW_CRYPTO_KEK_VERSION=2" in output
    monkeypatch.setenv("MLFLOW_CRYPTO_KEK_PASSPHRASE", "the passphrase from now on")
    monkeypatch.setenv("MLFLOW_CRYPTO_KEK_VERSION", "2")
    assert DynamoDBTrackingStore(uri)._get_decrypted_secret(secret.secret_id) == {
        "api_key": "sk-123"
    }


def test_a_wrong_passphrase_changes_nothing_and_says_so(command, uri, monkeypatch):
    monkeypatch.delenv("MLFLOW_CRYPTO_KEK_PASSPHRASE", raising=False)
    options = ("--backend-store-uri", uri, "--new-passphrase", "new", "--yes")
    code, output = command("crypto", "rotate-kek", *options)
    assert (code, "set MLFLOW_CRYPTO_KEK_PASSPHRASE" in output) == (1, True)


# --- other stores -------------------------------------------------------------------------------


def test_on_sql_databases_the_commands_are_mlflows_own(command, tmp_path):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    assert command("db", "upgrade", uri)[0] == 0
    assert (tmp_path / "mlflow.db").exists()
