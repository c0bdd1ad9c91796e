"""The face of the auth store: every method of MLflow's store, and the part that answers it."""

from __future__ import annotations

import inspect

import pytest
from mlflow.server.auth.sqlalchemy_store import SqlAlchemyStore

from mlflow_dynamodbstore.auth.store import DynamoDBAuthStore
from tests.auth.stores import open_auth_store
from tests.releases import takes

METHODS = [name for name in vars(SqlAlchemyStore) if not name.startswith("_")]


def test_mlflows_store_is_the_one_we_compare_with():
    assert len(METHODS) > 60


@pytest.mark.parametrize("name", METHODS)
def test_every_public_method_of_mlflows_store_is_on_the_face(name):
    assert name in vars(DynamoDBAuthStore)
    ours, theirs = (
        list(inspect.signature(getattr(store, name)).parameters)
        for store in (DynamoDBAuthStore, SqlAlchemyStore)
    )
    assert takes(ours, theirs)


def test_every_method_is_answered_by_a_part(tmp_path):
    store = open_auth_store(tmp_path)
    assert [name for name in METHODS if not callable(getattr(store, name))] == []


def test_the_store_gathers_its_parts_without_inheriting_from_them():
    ours = [c for c in DynamoDBAuthStore.__mro__ if c.__module__.startswith("mlflow_dynamodbstore")]
    assert len(ours) <= 2
