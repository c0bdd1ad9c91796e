"""The face of the tracking store is complete, and each of its parts is a class of its own."""

from __future__ import annotations

import inspect

from mlflow.store.tracking.abstract_store import AbstractStore
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

from mlflow_dynamodbstore.shared.events import Events
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore, TableOfContents
from tests.stores import open_tracking_store
from tests.table.fakes import FakeTime

AS_MLFLOW_DOES = {
    "delete_traces": "checks its arguments and calls _delete_traces",
    "search_runs": "calls _search_runs and makes a paged list",
    "log_metric_async": "the queue calls log_batch",
    "log_param_async": "the queue calls log_batch",
    "log_batch_async": "the queue calls log_batch",
    "set_tag_async": "the queue calls log_batch",
    "end_async_logging": "the queue of log_batch",
    "flush_async_logging": "the queue of log_batch",
    "shut_down_async_logging": "the queue of log_batch",
    "get_online_trace_details": "no store but Databricks' has it",
    "set_model_versions_tags": "no store but Databricks' has it",
    "link_mcp_server_versions_to_trace": "MLflow's SQL store has none either",
    "get_mcp_server_versions_for_trace": "MLflow's SQL store has none either",
}
"""Methods that MLflow's abstract store answers as well as ours could."""
SQL_ONLY = {
    "sanitize_metric_value": "a helper for columns that hold no NaN; our items hold every double",
}
"""Public methods of MLflow's SQL store that ours does not have."""


def public(kind: type) -> set[str]:
    """The methods that a class of MLflow's offers, its bases' included."""
    return {
        name
        for name, member in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


def test_every_method_of_mlflows_abstract_store_is_answered():
    answered = {*vars(TableOfContents), *vars(DynamoDBTrackingStore)}
    assert public(AbstractStore) - answered - set(AS_MLFLOW_DOES) == set()


def test_every_method_of_mlflows_sql_store_is_answered():
    answered = {*vars(TableOfContents), *vars(DynamoDBTrackingStore)}
    assert public(SqlAlchemyStore) - answered - set(AS_MLFLOW_DOES) - set(SQL_ONLY) == set()


def test_no_exception_is_listed_for_what_is_answered():
    assert set(vars(TableOfContents)) & {*AS_MLFLOW_DOES, *SQL_ONLY} == set()


def test_arguments_have_the_names_that_mlflow_gives_them():
    """MLflow's handlers pass many of them by name."""
    differing = {}
    for name in public(SqlAlchemyStore) & set(vars(TableOfContents)):
        theirs = list(inspect.signature(getattr(SqlAlchemyStore, name)).parameters)
        ours = list(inspect.signature(getattr(TableOfContents, name)).parameters)
        if theirs != ours[: len(theirs)]:
            differing[name] = (theirs, ours)
    assert differing == {}


def test_a_store_is_made_of_parts_not_of_bases():
    ours = [c for c in DynamoDBTrackingStore.__mro__ if c.__module__.startswith("mlflow_dynamo")]
    assert ours == [DynamoDBTrackingStore, TableOfContents]


def test_every_event_has_a_listener(tmp_path):
    store = open_tracking_store(tmp_path, FakeTime())
    events = store.runs.context.events
    store.table.close()
    assert [name for name in Events.__annotations__ if not vars(events)[name]._listeners] == []
