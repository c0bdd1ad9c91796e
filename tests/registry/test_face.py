"""The registry's face has every method of MLflow's registry stores, and nothing by accident."""

from __future__ import annotations

import inspect

import pytest
from mlflow.store.model_registry.abstract_store import AbstractStore
from mlflow.store.model_registry.sqlalchemy_store import SqlAlchemyStore

from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore

INHERITED = {
    "copy_model_version",
    "create_prompt",
    "create_prompt_version",
    "delete_prompt",
    "delete_prompt_alias",
    "delete_prompt_tag",
    "delete_prompt_version",
    "delete_prompt_version_tag",
    "get_prompt",
    "get_prompt_version",
    "get_prompt_version_by_alias",
    "link_prompt_version_to_model",
    "link_prompt_version_to_run",
    "link_prompts_to_trace",
    "search_prompt_versions",
    "search_prompts",
    "set_prompt_alias",
    "set_prompt_tag",
    "set_prompt_version_tag",
    "supports_workspaces",
}
"""What MLflow's classes answer by means of the other methods."""
SQL_ONLY = {"CREATE_MODEL_VERSION_RETRIES"}
BEYOND_MLFLOW = {
    "find_registered_models_with_alias",
    "get_registered_model_alias",
    "list_registered_model_alias_changes",
    "list_registered_model_aliases",
    "rollback_registered_model_alias",
    "split_registered_model_alias",
}


def public(store: type) -> set[str]:
    return {name for name in dir(store) if not name.startswith("_")}


THEIRS = public(AbstractStore) | public(SqlAlchemyStore) - SQL_ONLY
OURS = {name for name in vars(DynamoDBRegistryStore) if not name.startswith("_")}


def test_every_method_of_mlflows_stores_is_on_the_face_or_inherited_on_purpose():
    assert THEIRS - OURS == INHERITED
    assert OURS - THEIRS == BEYOND_MLFLOW


@pytest.mark.parametrize("name", sorted(OURS - BEYOND_MLFLOW))
def test_a_method_takes_what_mlflows_takes(name):
    ours, theirs = (
        list(inspect.signature(getattr(store, name)).parameters)
        for store in (DynamoDBRegistryStore, AbstractStore)
    )
    assert ours == theirs


def test_every_method_of_the_face_has_a_part_that_answers_it(store):
    assert all(callable(getattr(store, name)) for name in OURS)


def test_the_face_inherits_from_mlflow_alone():
    ours = [c for c in DynamoDBRegistryStore.__mro__ if c.__module__.startswith("mlflow_dynamo")]
    assert ours == [DynamoDBRegistryStore]
