"""MLflow reaches every kind of store through its own registries."""

from __future__ import annotations

import pytest
from mlflow.exceptions import MlflowException
from mlflow.tracking import _tracking_service

from mlflow_dynamodbstore.mlflow_compat.workspaces import get_workspace_store
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.workspaces.store import DynamoDBWorkspaceStore
from versioned.mlflow_artifacts import VersionedArtifactRepository


@pytest.fixture
def uri(tmp_path):
    return f"dynamodb:///{tmp_path}/mlflow.ddb"


def test_a_tracking_uri_opens_our_tracking_store(uri):
    assert isinstance(_tracking_service.utils._get_store(uri), DynamoDBTrackingStore)


def test_a_registry_uri_opens_our_registry_store(uri):
    from mlflow.tracking._model_registry.utils import _get_store

    assert isinstance(_get_store(uri), DynamoDBRegistryStore)


def test_a_workspace_uri_opens_our_workspace_store(uri):
    store = get_workspace_store(workspace_uri=uri)
    assert isinstance(store, DynamoDBWorkspaceStore)
    assert store.get_default_workspace().name == "default"


def test_scorers_are_asked_of_the_tracking_store_at_the_uri(uri):
    from mlflow.genai.scorers.registry import _get_scorer_store

    store = _get_scorer_store(uri)
    assert isinstance(store._tracking_store, DynamoDBTrackingStore)


def test_a_versioned_uri_opens_the_files_of_a_version(monkeypatch):
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    repository = get_artifact_repository("versioned:/app@prod")
    assert isinstance(repository, VersionedArtifactRepository)
    monkeypatch.delenv("VERSIONED_TABLE", raising=False)
    with pytest.raises(MlflowException, match="VERSIONED_TABLE"):
        repository.list_artifacts()


def test_a_wrong_uri_is_explained_with_a_right_one():
    with pytest.raises(MlflowException, match="dynamodb://us-east-1/mlflow"):
        _tracking_service.utils._get_store("dynamodb://nowhere/mlflow")
