"""The face of the job store: every method of MLflow's stores, and the part that answers it."""

from __future__ import annotations

import inspect

import pytest
from mlflow.store.jobs.abstract_store import AbstractJobStore
from mlflow.store.jobs.sqlalchemy_store import SqlAlchemyJobStore

from mlflow_dynamodbstore.jobs.store import DynamoDBJobStore
from tests.releases import takes

METHODS = sorted(
    {
        name
        for store in (AbstractJobStore, SqlAlchemyJobStore)
        for name in vars(store)
        if not name.startswith("_")
    }
)


@pytest.mark.parametrize("name", METHODS)
def test_every_public_method_of_mlflows_stores_is_on_the_face(name):
    assert name in vars(DynamoDBJobStore)
    if name == "supports_workspaces":  # a property there, a constant here
        return
    ours, theirs = (
        list(inspect.signature(getattr(store, name)).parameters)
        for store in (DynamoDBJobStore, SqlAlchemyJobStore)
    )
    assert takes(ours, theirs)


def test_every_method_is_answered_by_a_part(tmp_path):
    store = DynamoDBJobStore(f"dynamodb:///{tmp_path}/mlflow.ddb")
    assert store.supports_workspaces
    assert [n for n in METHODS if not callable(getattr(store, n))] == ["supports_workspaces"]


def test_the_store_gathers_its_parts_without_inheriting_from_them():
    ours = [c for c in DynamoDBJobStore.__mro__ if c.__module__.startswith("mlflow_dynamodbstore")]
    assert len(ours) <= 2
