"""Experiments with workspaces switched on: whose they are, and where their artifacts go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow.entities import Dataset, DatasetInput, ExperimentTag, ViewType, Workspace
from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES, MLFLOW_TRACE_ARCHIVAL_CONFIG
from mlflow.exceptions import MlflowException
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.workspaces.store import DynamoDBWorkspaceStore
from tests.releases import needs
from tests.stores import ARTIFACTS, open_tracking_store, refused
from tests.table.fakes import FakeTime


@pytest.fixture
def enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MLFLOW_ENABLE_WORKSPACES.name, "true")


@pytest.fixture
def store(tmp_path: Path, enabled: None) -> Iterator[DynamoDBTrackingStore]:
    store = open_tracking_store(tmp_path, FakeTime(), options="synchronous=NORMAL&index_lag=60")
    yield store
    store.table.close()


@pytest.fixture
def workspaces(store: DynamoDBTrackingStore) -> DynamoDBWorkspaceStore:
    return DynamoDBWorkspaceStore("", table=store.table)


def location(store: DynamoDBTrackingStore, experiment_id: str) -> str:
    artifact_location: str = store.get_experiment(experiment_id).artifact_location
    return artifact_location


def test_each_workspace_sees_its_own(store):
    ids = {}
    for team in ("team-a", "team-b"):
        with WorkspaceContext(team):
            ids[team] = store.create_experiment("shared name", tags=[ExperimentTag("of", team)])
    for team, other in (("team-a", "team-b"), ("team-b", "team-a")):
        with WorkspaceContext(team):
            assert store.get_experiment_by_name("shared name").tags == {"of": team}
            assert store.get_experiment(ids[team]).workspace == team
            assert [e.experiment_id for e in store.search_experiments(ViewType.ALL)] == [ids[team]]
            assert store.experiment_lookup.ids() == [ids[team]]
            assert store.filter_active_experiment_ids([*ids.values(), "0"]) == [ids[team]]
            for call in (
                store.get_experiment,
                store.delete_experiment,
                store.restore_experiment,
                store._hard_delete_experiment,
                lambda i: store.rename_experiment(i, "mine"),
                lambda i: store.set_experiment_tag(i, ExperimentTag("k", "v")),
                lambda i: store.delete_experiment_tag(i, "of"),
            ):
                with refused("RESOURCE_DOES_NOT_EXIST", f"No Experiment with id={ids[other]} "):
                    call(ids[other])


def test_a_workspace_must_be_chosen(store):
    with refused("INVALID_PARAMETER_VALUE", "Active workspace is required"):
        store.create_experiment("one")


def test_artifacts_lie_under_the_name_of_the_workspace(store):
    for team in ("default", "team-a"):
        with WorkspaceContext(team):
            experiment_id = store.create_experiment("one")
            assert (
                location(store, experiment_id) == f"{ARTIFACTS}/workspaces/{team}/{experiment_id}"
            )
    with WorkspaceContext("default"):
        assert location(store, "0") == f"{ARTIFACTS}/workspaces/default/0"


def test_a_workspace_may_have_an_artifact_root_of_its_own(store, workspaces):
    workspaces.create_workspace(Workspace("team-a", default_artifact_root="s3://theirs/x"))
    with WorkspaceContext("team-a"):
        assert location(store, store.create_experiment("one")) == "s3://theirs/x/1"
        workspaces.update_workspace(Workspace("team-a", default_artifact_root="s3://other"))
        assert location(store, store.create_experiment("two")) == "s3://other/2"
        assert location(store, "1") == "s3://theirs/x/1"


def test_an_artifact_location_of_an_experiment_s_own_is_refused(store):
    with (
        WorkspaceContext("team-a"),
        refused(
            "INVALID_PARAMETER_VALUE",
            "artifact_location cannot be specified when workspaces are enabled",
        ),
    ):
        store.create_experiment("one", artifact_location="s3://mine")


@pytest.mark.parametrize(
    ("root", "fault"),
    [
        ("s3://b/workspaces", "ends with the reserved 'workspaces' segment"),
        ("file:///b/workspaces/", "ends with the reserved 'workspaces' segment"),
        ("s3://b/workspaces/x", "is already scoped under the reserved 'workspaces/<name>' prefix"),
        ("/b/workspaces/x", "is already scoped under the reserved 'workspaces/<name>' prefix"),
    ],
)
def test_a_root_that_looks_like_a_workspace_s_is_refused(store, root, fault):
    with refused("INVALID_STATE", f"Cannot enable workspace mode .* {fault}"):
        DynamoDBTrackingStore("", root, table=store.table)


@pytest.mark.parametrize("root", ["s3://b", "s3://workspaces/b", "/workspaces/a/b", "mlruns"])
def test_other_roots_are_taken(store, root):
    DynamoDBTrackingStore("", root, table=store.table)


def test_the_default_experiment_is_made_in_the_default_workspace(store):
    with WorkspaceContext("default"):
        assert store.get_experiment_by_name("Default").experiment_id == "0"
    with WorkspaceContext("team-a"):
        assert store.search_experiments() == []


def test_datasets_of_other_workspaces_are_not_listed(store):
    with WorkspaceContext("team-a"):
        experiment_id = store.create_experiment("one")
        run = store.create_run(experiment_id, "me", 1, [], "run")
        store.log_inputs(run.info.run_id, [DatasetInput(Dataset("d", "1", "s", "t"))])
        assert len(store._search_datasets([experiment_id])) == 1
    with WorkspaceContext("team-b"):
        assert store._search_datasets([experiment_id]) == []


# --- switching workspaces off ---------------------------------------------------------------------


def without_workspaces(
    monkeypatch: pytest.MonkeyPatch, store: DynamoDBTrackingStore
) -> DynamoDBTrackingStore:
    monkeypatch.setenv(MLFLOW_ENABLE_WORKSPACES.name, "false")
    return DynamoDBTrackingStore("", ARTIFACTS, table=store.table)


def test_workspaces_cannot_be_switched_off_while_others_hold_experiments(store, monkeypatch):
    with WorkspaceContext("team-a"):
        store.create_experiment("one")
    with refused("INVALID_STATE", "Cannot disable workspaces because experiments exist outside"):
        without_workspaces(monkeypatch, store)


def test_workspaces_can_be_switched_off_when_all_lies_in_the_default_one(
    store, workspaces, monkeypatch
):
    workspaces.create_workspace(Workspace("team-b"))
    with WorkspaceContext("default"):
        store.create_experiment("one")
    with WorkspaceContext("team-a"):
        experiment_id = store.create_experiment("two")
        store.delete_experiment(experiment_id)
        store._hard_delete_experiment(experiment_id)
    plain = without_workspaces(monkeypatch, store)
    assert {e.name for e in plain.search_experiments()} == {"Default", "one"}


# --- how long traces are kept ---------------------------------------------------------------------


@pytest.fixture
def archival(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "archival.yaml"
    config.write_text(
        "trace_archival:\n"
        "  enabled: true\n"
        f"  location: {(tmp_path / 'archive').as_uri()}\n"
        "  retention: 30d\n"
        "  long_retention_allowlist: ['2']\n"
    )
    monkeypatch.setenv(MLFLOW_TRACE_ARCHIVAL_CONFIG.name, str(config))


@needs("filters by experiment id")
def test_a_filter_by_id_finds_nothing_in_another_workspace(store):
    ids = []
    for team in ("team-a", "team-b"):
        with WorkspaceContext(team):
            ids.append(store.create_experiment("shared name"))
    by_id = f"experiment_id IN ('{ids[0]}', '{ids[1]}')"
    for team in ("team-a", "team-b"):
        with WorkspaceContext(team):
            assert len(store.search_experiments(filter_string=by_id)) == 1


def retention(store: DynamoDBTrackingStore, experiment_id: str) -> str | None:
    found = store.get_experiment(experiment_id)
    (searched,) = store.search_experiments(filter_string=f"name = '{found.name}'")
    assert searched.effective_trace_archival_retention == found.effective_trace_archival_retention
    return found.effective_trace_archival_retention


def test_an_experiment_inherits_the_retention_of_its_workspace(store, workspaces, archival):
    workspaces.create_workspace(Workspace("team-a", trace_archival_retention="14d"))
    for team, expected in (("default", "30d"), ("team-a", "14d")):
        with WorkspaceContext(team):
            assert retention(store, store.create_experiment("one")) == expected


def test_an_experiment_may_keep_traces_shorter_and_longer_only_where_allowed(store, archival):
    tag = "mlflow.trace.archivalRetention"
    with WorkspaceContext("default"):
        for wanted, expected in (("60d", "30d"), ("60d", "60d"), ("7d", "7d")):
            value = f'{{"type": "duration", "value": "{wanted}"}}'
            experiment_id = store.create_experiment(f"e{expected}")
            store.set_experiment_tag(experiment_id, ExperimentTag(tag, value))
            assert retention(store, experiment_id) == expected


def test_without_archival_there_is_no_retention(store):
    with WorkspaceContext("default"):
        assert retention(store, "0") is None


def test_a_wrong_configuration_of_archival_does_not_hide_experiments(store, tmp_path, monkeypatch):
    config = tmp_path / "wrong.yaml"
    config.write_text("trace_archival: 7\n")
    monkeypatch.setenv(MLFLOW_TRACE_ARCHIVAL_CONFIG.name, str(config))
    with WorkspaceContext("default"):
        assert retention(store, "0") is None


def test_another_provider_may_know_the_workspaces(store, monkeypatch):
    class Provider:
        def resolve_artifact_root(self, root: str, workspace: str) -> tuple[str | None, bool]:
            return (f"s3://{workspace}", False) if workspace == "team-a" else (None, True)

    monkeypatch.setattr(store.workspace_mode, "workspace_provider", Provider)
    with WorkspaceContext("team-a"):
        assert location(store, store.create_experiment("one")) == "s3://team-a/1"
    with (
        WorkspaceContext("team-b"),
        pytest.raises(
            MlflowException, match="Cannot determine an artifact root for workspace 'team-b'"
        ),
    ):
        store.create_experiment("one")
