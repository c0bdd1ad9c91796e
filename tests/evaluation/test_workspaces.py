"""Datasets, scorers and issues of another workspace look as if they did not exist."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow.entities import Workspace
from mlflow.entities.workspace import WorkspaceDeletionMode
from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.workspaces.store import DynamoDBWorkspaceStore
from tests.lagging import LAGGING
from tests.stores import everything_in, open_tracking_store, refused
from tests.table.fakes import FakeTime


@pytest.fixture
def store(
    tmp_path: Path, time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DynamoDBTrackingStore]:
    monkeypatch.setenv(MLFLOW_ENABLE_WORKSPACES.name, "true")
    opened = open_tracking_store(tmp_path, time, options=LAGGING)
    with WorkspaceContext("default"):
        yield opened
    opened.table.close()


@pytest.fixture
def workspaces(store):
    made = DynamoDBWorkspaceStore("", table=store.table)
    made.create_workspace(Workspace("team-b"))
    return made


class Theirs:
    """What another team has."""

    def __init__(self, store):
        with WorkspaceContext("team-b"):
            self.experiment = store.create_experiment("theirs")
            made = store.create_dataset("questions", {"k": "v"}, [self.experiment])
            self.dataset = made.dataset_id
            store.upsert_dataset_records(self.dataset, [{"inputs": {"q": 1}}])
            (record,), _ = store._load_dataset_records(self.dataset)
            self.record = record.dataset_record_id
            self.scorer = store.register_scorer(self.experiment, "s", "{}")
            self.config = store.upsert_online_scoring_config(self.experiment, "s", 0)
            self.issue = store.create_issue(self.experiment, "slow", "too long").issue_id


@pytest.fixture
def theirs(store, workspaces):
    return Theirs(store)


CALLS = {
    "get_dataset": lambda s, t: s.get_dataset(t.dataset),
    "set_dataset_tags": lambda s, t: s.set_dataset_tags(t.dataset, {"a": "b"}),
    "upsert": lambda s, t: s.upsert_dataset_records(t.dataset, [{"inputs": {"q": 2}}]),
    "delete records": lambda s, t: s.delete_dataset_records(t.dataset, [t.record]),
    "load": lambda s, t: s._load_dataset_records(t.dataset),
    "add": lambda s, t: s.add_dataset_to_experiments(t.dataset, []),
    "remove": lambda s, t: s.remove_dataset_from_experiments(t.dataset, [t.experiment]),
    "register": lambda s, t: s.register_scorer(t.experiment, "s", "{}"),
    "list": lambda s, t: s.list_scorers(t.experiment),
    "get_scorer": lambda s, t: s.get_scorer(t.experiment, "s"),
    "versions": lambda s, t: s.list_scorer_versions(t.experiment, "s"),
    "delete_scorer": lambda s, t: s.delete_scorer(t.experiment, "s"),
    "configure": lambda s, t: s.upsert_online_scoring_config(t.experiment, "s", 0),
    "by id": lambda s, t: s.scorers.version_by_id(t.scorer.scorer_id),
    "create_issue": lambda s, t: s.create_issue(t.experiment, "n", "d"),
    "get_issue": lambda s, t: s.get_issue(t.issue),
    "update_issue": lambda s, t: s.update_issue(t.issue, name="mine"),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_another_workspace_has_does_not_exist(store, theirs, call):
    before = everything_in(store.table)
    with refused("RESOURCE_DOES_NOT_EXIST", "not found|No Experiment|Could not find"):
        CALLS[call](store, theirs)
    assert everything_in(store.table) == before


def test_nothing_leaks_through_lists(store, theirs):
    own = store.create_dataset("mine")
    before = everything_in(store.table)
    assert [one.dataset_id for one in store.search_datasets()] == [own.dataset_id]
    assert store.search_datasets(experiment_ids=[theirs.experiment]) == []
    assert store.get_dataset_experiment_ids(theirs.dataset) == []
    assert store.list_scorers_across_experiments([theirs.experiment]) == []
    assert store.get_online_scoring_configs([theirs.scorer.scorer_id]) == []
    assert store.get_active_online_scorers() == []
    assert store.search_issues() == []
    assert store.search_issues(theirs.experiment) == []
    store.delete_dataset(theirs.dataset)
    store.delete_dataset_tag(theirs.dataset, "k")
    assert everything_in(store.table) == before
    with WorkspaceContext("team-b"):
        assert store.get_dataset(theirs.dataset).tags == {"k": "v"}
        assert store.get_dataset_experiment_ids(theirs.dataset) == [theirs.experiment]
        assert store.get_online_scoring_configs([theirs.scorer.scorer_id]) == [theirs.config]
        assert [one.issue_id for one in store.search_issues()] == [theirs.issue]


def test_datasets_scorers_and_issues_move_with_their_workspace(store, workspaces, theirs):
    workspaces.delete_workspace("team-b", WorkspaceDeletionMode.SET_DEFAULT)
    assert [one.name for one in store.search_datasets()] == ["questions"]
    assert len(store._load_dataset_records(theirs.dataset)[0]) == 1
    assert store.get_dataset_experiment_ids(theirs.dataset) == [theirs.experiment]
    assert store.scorers.version_by_id(theirs.scorer.scorer_id).scorer_version == 1
    assert [one.issue_id for one in store.search_issues()] == [theirs.issue]


def test_a_name_that_is_taken_keeps_datasets_from_moving(store, workspaces, theirs):
    store.create_dataset("questions")
    with refused("INVALID_STATE", "evaluation_datasets: 'questions'"):
        workspaces.delete_workspace("team-b", WorkspaceDeletionMode.SET_DEFAULT)


def test_datasets_go_with_their_workspace(store, workspaces, theirs):
    workspaces.delete_workspace("team-b", WorkspaceDeletionMode.CASCADE)
    assert not [i for i in everything_in(store.table) if i["PK"].startswith("EVALDS")]
