"""Workspaces: creating, listing and changing them, and deleting them with their contents."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mlflow.entities import ExperimentTag, Metric, RunStatus, ViewType, Workspace
from mlflow.entities.model_registry import RegisteredModelTag
from mlflow.entities.webhook import WebhookAction, WebhookEntity, WebhookEvent
from mlflow.entities.workspace import WorkspaceDeletionMode
from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES
from mlflow.exceptions import MlflowException
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import registry as registry_keys
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.shared.names import claims
from mlflow_dynamodbstore.shared.policies import DAY
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.workspaces import resources
from mlflow_dynamodbstore.workspaces.store import DynamoDBWorkspaceStore
from tests.places import items_in, partitions
from tests.stores import everything_in, open_tracking_store, refused, settle_claims
from tests.table.fakes import FakeTime

RESTRICT = WorkspaceDeletionMode.RESTRICT
CASCADE = WorkspaceDeletionMode.CASCADE
SET_DEFAULT = WorkspaceDeletionMode.SET_DEFAULT


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def tracking(
    tmp_path: Path, time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DynamoDBTrackingStore]:
    monkeypatch.setenv(MLFLOW_ENABLE_WORKSPACES.name, "true")
    store = open_tracking_store(tmp_path, time, options="synchronous=NORMAL&index_lag=60")
    yield store
    store.table.close()


@pytest.fixture
def store(tracking: DynamoDBTrackingStore) -> DynamoDBWorkspaceStore:
    return DynamoDBWorkspaceStore("", table=tracking.table)


def names(store: DynamoDBWorkspaceStore) -> list[str]:
    return [workspace.name for workspace in store.list_workspaces()]


# --- the workspaces themselves --------------------------------------------------------------------


def test_the_default_workspace_exists_without_being_created(store):
    assert names(store) == ["default"]
    assert store.get_default_workspace().description == "Default workspace"
    with refused("RESOURCE_ALREADY_EXISTS", "Workspace 'default' already exists"):
        store.create_workspace(Workspace("default"))


def test_the_default_workspace_can_be_described_anew(store):
    changed = Workspace("default", "ours", "s3://root", "s3://archive", "7d")
    assert store.update_workspace(changed) == changed
    assert store.get_default_workspace() == changed
    assert list(store.list_workspaces()) == [changed]


def test_what_was_created_is_listed_by_name_at_once(store):
    for name in ("zeta", "alpha", "team-1"):
        store.create_workspace(Workspace(name, description=f"of {name}"))
    assert names(store) == ["alpha", "default", "team-1", "zeta"]
    assert store.get_workspace("zeta") == Workspace("zeta", "of zeta")


def test_a_workspace_used_but_never_created_is_not_listed(store, tracking):
    with WorkspaceContext("team-a"):
        tracking.create_experiment("one")
    assert names(store) == ["default"]
    store.create_workspace(Workspace("team-a"))
    assert names(store) == ["default", "team-a"]


def test_a_workspace_can_be_deleted_and_created_again(store):
    for description in ("first", None):
        created = store.create_workspace(Workspace("team-a", description, "s3://x"))
        assert created == Workspace("team-a", description, "s3://x")
        store.delete_workspace("team-a")
        assert names(store) == ["default"]
        with refused("RESOURCE_DOES_NOT_EXIST", "Workspace 'team-a' not found"):
            store.get_workspace("team-a")


def test_an_update_changes_what_it_names_and_clears_what_is_empty(store):
    store.create_workspace(Workspace("team-a", "d", "s3://root", "s3://archive", "7d"))
    store.update_workspace(Workspace("team-a", trace_archival_retention="9h"))
    assert store.get_workspace("team-a") == Workspace(
        "team-a", "d", "s3://root", "s3://archive", "9h"
    )
    store.update_workspace(Workspace("team-a", "", "", "", ""))
    assert store.get_workspace("team-a") == Workspace("team-a", "")


def test_an_update_creates_no_workspace(store):
    with refused("RESOURCE_DOES_NOT_EXIST", "Workspace 'team-a' not found"):
        store.update_workspace(Workspace("team-a", "d"))
    assert names(store) == ["default"]


@pytest.mark.parametrize("name", ["Team", "a", "x" * 64, "-a", "a_b", "api", "a#b", "", None])
def test_an_invalid_name_is_refused(store, name):
    with refused("INVALID_PARAMETER_VALUE", "Workspace name"):
        store.create_workspace(Workspace(name))


def test_of_many_who_create_a_workspace_one_succeeds(store):
    def create(n: int) -> bool:
        try:
            store.create_workspace(Workspace("team-a", str(n)))
        except MlflowException:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(create, range(6))) == 1


def test_roots_and_archival_follow_the_workspace(store):
    store.create_workspace(Workspace("team-a", None, "s3://a", "s3://archive/a", "7d"))
    assert store.resolve_artifact_root("s3://d", "team-a") == ("s3://a", False)
    assert store.resolve_artifact_root("s3://d", "unknown") == ("s3://d", True)
    own = store.resolve_trace_archival_config("s3://t", "30d", "team-a")
    assert (own.config.location, own.config.retention) == ("s3://archive/a", "7d")
    assert not own.append_workspace_prefix
    inherited = store.resolve_trace_archival_config("s3://t", "30d", "default")
    assert (inherited.config.location, inherited.config.retention) == ("s3://t", "30d")
    assert inherited.append_workspace_prefix


def test_the_store_opens_a_table_by_its_uri(tmp_path):
    uri = f"dynamodb:///{tmp_path / 'mlflow.ddb'}"
    DynamoDBWorkspaceStore(uri).create_workspace(Workspace("team-a"))
    assert names(DynamoDBWorkspaceStore(uri)) == ["default", "team-a"]


# --- deleting -------------------------------------------------------------------------------------


def add_model(store: DynamoDBWorkspaceStore, name: str, workspace: str) -> None:
    """A registered model with versions, tags and an alias."""
    registry = DynamoDBRegistryStore("", table=store.table)
    with WorkspaceContext(workspace):
        registry.create_registered_model(name, [RegisteredModelTag("k", "v" * 5_000)])
        for n in range(3):
            registry.create_model_version(name, f"s3://{n}", run_id=f"run{n}")
        registry.set_registered_model_alias(name, "champion", "2")


def add_webhook(store: DynamoDBWorkspaceStore, name: str, workspace: str) -> None:
    event = WebhookEvent(WebhookEntity.REGISTERED_MODEL, WebhookAction.CREATED)
    with WorkspaceContext(workspace):
        # An IP address, so that no name is looked up.
        DynamoDBRegistryStore("", table=store.table).create_webhook(
            name, "https://93.184.215.14/hook", [event]
        )


def add_experiment(tracking: DynamoDBTrackingStore, name: str, workspace: str) -> tuple[str, str]:
    with WorkspaceContext(workspace):
        experiment_id = tracking.create_experiment(name, tags=[ExperimentTag("k", "v")])
        run_id: str = tracking.create_run(experiment_id, "me", 1, [], "run").info.run_id
        tracking.log_metric(run_id, Metric("m", 1.0, 1, 1))
        tracking.update_run_info(run_id, RunStatus.FINISHED, 2, None)
    return experiment_id, run_id


@pytest.fixture
def filled(
    store: DynamoDBWorkspaceStore, tracking: DynamoDBTrackingStore
) -> tuple[DynamoDBWorkspaceStore, str, str]:
    """A workspace with an experiment, a model and a webhook."""
    store.create_workspace(Workspace("team-a"))
    experiment_id, run_id = add_experiment(tracking, "one", "team-a")
    add_model(store, "iris", "team-a")
    add_webhook(store, "hook", "team-a")
    return store, experiment_id, run_id


def test_a_workspace_that_holds_something_is_not_deleted_by_default(filled, tracking):
    store, *_ = filled
    before = everything_in(store.table)
    with refused("INVALID_STATE", "'registered_models' still contains 1 resource"):
        store.delete_workspace("team-a")
    resources.RegisteredModelKind().remove(store.table, "team-a", guard_of(store.table, "iris"))
    with refused("INVALID_STATE", "'experiments' still contains 1 resource"):
        store.delete_workspace("team-a", RESTRICT)
    assert len(everything_in(store.table)) < len(before)
    assert names(store) == ["default", "team-a"]


def guard_of(table: Table, name: str) -> Item:
    guard = table.get(access_keys.model_name_guard(name, "team-a"))
    assert guard is not None
    return guard


def test_a_soft_deleted_experiment_counts_until_it_expires(store, tracking, time):
    store.create_workspace(Workspace("team-a"))
    with WorkspaceContext("team-a"):
        tracking.delete_experiment(tracking.create_experiment("one"))
    with refused("INVALID_STATE", "still contains 1 resource"):
        store.delete_workspace("team-a")
    time.sleep(91 * DAY)
    store.delete_workspace("team-a")
    assert names(store) == ["default"]


def test_the_default_workspace_is_never_deleted(store):
    for mode in WorkspaceDeletionMode:
        with refused("INVALID_STATE", "Cannot delete the reserved 'default' workspace"):
            store.delete_workspace("default", mode)


def test_an_unknown_mode_or_workspace_is_refused(store):
    with refused("RESOURCE_DOES_NOT_EXIST", "Workspace 'team-a' not found"):
        store.delete_workspace("team-a", CASCADE)
    store.create_workspace(Workspace("team-a"))
    with refused("INVALID_PARAMETER_VALUE", "Invalid workspace deletion mode"):
        store.delete_workspace("team-a", "ALL")
    assert names(store) == ["default", "team-a"]


def test_cascading_removes_everything_that_the_workspace_held(store, tracking):
    before = everything_in(store.table)
    store.create_workspace(Workspace("team-a"))
    add_experiment(tracking, "one", "team-a")
    add_model(store, "iris", "team-a")
    add_model(store, "\U0001f600" * 250, "team-a")
    store.delete_workspace("team-a", CASCADE)
    kept = {access_keys.sequence_key("experiment").sk, access_keys.workspace_entry_key("team-a").sk}
    assert [item for item in everything_in(store.table) if item["SK"] not in kept] == before


def test_cascading_leaves_other_workspaces_alone(filled, tracking):
    store, *_ = filled
    add_experiment(tracking, "one", "default")
    add_model(store, "iris", "default")
    before = [i for i in everything_in(store.table) if "team-a" not in f"{i['PK']}{i}"]
    store.delete_workspace("team-a", CASCADE)
    after = everything_in(store.table)
    assert [i for i in before if i["PK"] not in partitions(store.table, "1")] == [
        i for i in after if i["SK"] != access_keys.workspace_entry_key("team-a").sk
    ]


def test_moving_brings_everything_to_the_default_workspace(filled, tracking):
    store, experiment_id, run_id = filled
    store.delete_workspace("team-a", SET_DEFAULT)
    assert names(store) == ["default"]
    tracking.experiment_lookup._workspace_of.forget(experiment_id)
    with WorkspaceContext("default"):
        found = tracking.get_experiment_by_name("one")
        assert (found.experiment_id, found.workspace) == (experiment_id, "default")
        assert found.tags == {"k": "v"}
        assert {e.name for e in tracking.search_experiments()} == {"Default", "one"}
        assert tracking.get_run(run_id).data.metrics == {"m": 1.0}
        registry = DynamoDBRegistryStore("", table=store.table)
        assert [m.name for m in registry.search_registered_models()] == ["iris"]
        assert registry.get_registered_model("iris").tags == {"k": "v" * 5_000}
        assert registry.get_model_version_by_alias("iris", "champion").source == "s3://1"
        assert [int(v.version) for v in registry.search_model_versions("run_id = 'run2'")] == [3]
        assert [hook.name for hook in registry.list_webhooks()] == ["hook"]
    assert partition(store.table, registry_keys.model_pk("iris", "team-a")) == []
    assert partition(store.table, access_keys.workspace_pk("team-a")) == []


def partition(table: Table, pk: str) -> list[dict[str, object]]:
    return list(table.items(Query(pk)))


def test_moving_is_refused_as_a_whole_where_names_are_taken(filled, tracking):
    store, *_ = filled
    add_experiment(tracking, "one", "default")
    add_model(store, "iris", "default")
    add_webhook(store, "hook", "default")
    before = everything_in(store.table)
    with refused(
        "INVALID_STATE",
        "already exist in the default workspace and would cause conflicts:\n"
        "  - registered_models: 'iris'\n  - experiments: 'one'\n  - webhooks: 'hook'\n",
    ):
        store.delete_workspace("team-a", SET_DEFAULT)
    assert everything_in(store.table) == before


@pytest.mark.parametrize("kind", [resources.RegisteredModelKind, resources.ExperimentKind])
def test_a_name_taken_while_things_are_moved_is_a_conflict_too(filled, tracking, monkeypatch, kind):
    store, *_ = filled
    move = kind.move

    def late(self: resources.ResourceKind, *args: object) -> None:
        if kind is resources.RegisteredModelKind:
            add_model(store, "iris", "default")
        else:
            add_experiment(tracking, "one", "default")
        move(self, *args)

    monkeypatch.setattr(kind, "move", late)
    with refused("INVALID_STATE", "already exist in the default workspace"):
        store.delete_workspace("team-a", SET_DEFAULT)
    assert names(store) == ["default", "team-a"]


class Interruption(BaseException):
    """Stands for the end of a process."""


@pytest.mark.parametrize("mode", [CASCADE, SET_DEFAULT])
def test_a_deletion_interrupted_anywhere_is_finished_by_the_next_call(
    filled, tracking, time, monkeypatch, mode
):
    """Each attempt is interrupted one write later than the one before, until one succeeds."""
    store, experiment_id, run_id = filled
    table = store.table
    for allowed in range(60):
        left = allowed
        with monkeypatch.context() as patch:
            for method in ("write", "transact", "put", "update", "delete"):
                real = getattr(table, method)

                def limited(*args, real=real, **options):
                    nonlocal left
                    if left == 0:
                        raise Interruption
                    left -= 1
                    return real(*args, **options)

                patch.setattr(table, method, limited)
            try:
                store.delete_workspace("team-a", mode)
            except Interruption:
                assert names(store) == ["default", "team-a"]
                continue
        break
    assert allowed > 1
    assert names(store) == ["default"]
    time.sleep(claims.LEASE_SECONDS)
    settle_claims(table)
    for pk in (access_keys.workspace_pk("team-a"), registry_keys.model_pk("iris", "team-a")):
        assert partition(table, pk) == []
    tracking.experiment_lookup._workspace_of.forget(experiment_id)
    registry = DynamoDBRegistryStore("", table=table)
    with WorkspaceContext("default"):
        if mode == CASCADE:
            assert items_in(table, experiment_id) == []
            assert [e.name for e in tracking.search_experiments(ViewType.ALL)] == ["Default"]
            assert partition(table, registry_keys.model_pk("iris")) == []
        else:
            assert tracking.get_run(run_id).info.experiment_id == experiment_id
            assert len(registry.search_model_versions("name = 'iris'")) == 3
            assert len(registry.list_webhooks()) == 1
