"""An MLflow whose auth app does not run on our store is refused, and the refusal says why."""

from __future__ import annotations

import types

import pytest
from mlflow.exceptions import MlflowException
from mlflow.server import auth
from mlflow.server.auth.sqlalchemy_store import SqlAlchemyStore

from mlflow_dynamodbstore.auth.app import REPLACEMENTS
from mlflow_dynamodbstore.auth.filtered_lists import FILTERS
from tests.auth.stores import open_auth_store


def test_the_installed_mlflow_takes_our_store():
    REPLACEMENTS.check(auth)


@pytest.fixture
def copy():
    """The names of MLflow's module, in a module that can be changed."""
    made = types.ModuleType(auth.__name__)
    for name, value in vars(auth).items():
        own = isinstance(value, types.FunctionType) and value.__globals__ is vars(auth)
        moved = (
            types.FunctionType(value.__code__, vars(made), name, value.__defaults__)
            if own
            else value
        )
        vars(made)[name] = moved
    theirs = {vars(auth)[name]: vars(made)[name] for name in FILTERS}
    made.AFTER_REQUEST_HANDLERS = {  # type: ignore[attr-defined]
        place: theirs.get(handler, handler)
        for place, handler in auth.AFTER_REQUEST_HANDLERS.items()
    }
    REPLACEMENTS.check(made)
    return made


def refused(module, match):
    with pytest.raises(MlflowException, match=match):
        REPLACEMENTS.check(module)


def test_a_store_that_is_kept_elsewhere_is_noticed(copy):
    del copy.store
    refused(copy, "does not keep its store in the variable store")


def test_a_store_that_is_read_from_elsewhere_is_noticed(copy):
    copy.authenticate_request_basic_auth = lambda: None
    refused(copy, r"authenticate_request_basic_auth\(\) does not read the variable store")


def test_a_check_that_finds_runs_elsewhere_is_noticed(copy):
    copy._run_requirement = lambda run_id, action: None
    refused(copy, r"_run_requirement\(\) does not use _get_tracking_store\(\)")


def test_searches_of_servers_that_are_filled_up_elsewhere_are_noticed(copy):
    copy._filter_search_mcp_servers = lambda username, body, request: body
    refused(copy, r"_filter_search_mcp_servers\(\) does not use _backfill_readable_mcp_results")


def test_searches_of_servers_that_are_filled_up_in_another_way_are_noticed(copy):
    copy._backfill_readable_mcp_results = lambda can_read, rows: None
    refused(copy, r"_backfill_readable_mcp_results\(\) takes other arguments")


def test_a_new_method_of_mlflows_store_is_noticed(copy, monkeypatch):
    monkeypatch.setattr(SqlAlchemyStore, "list_teams", lambda self: [], raising=False)
    refused(copy, r"its store has list_teams\(\), ours does not")


def test_a_new_argument_of_a_method_is_noticed(copy, monkeypatch):
    monkeypatch.setattr(
        SqlAlchemyStore, "get_user", lambda self, username, realm: None, raising=True
    )
    refused(copy, r"get_user\(\) of its store takes realm, ours does not")


def test_a_private_method_that_the_app_begins_to_call_is_noticed(copy, monkeypatch):
    monkeypatch.setattr(SqlAlchemyStore, "_teams", lambda self: [], raising=False)
    REPLACEMENTS.check(copy)
    scope = vars(copy)
    exec("def list_teams(): return store._teams()", scope)
    scope["list_teams"].__module__ = copy.__name__
    refused(copy, r"its store has _teams\(\), ours does not")


def test_a_hook_that_the_app_no_longer_uses_is_noticed(copy):
    del copy._before_request
    refused(copy, r"create_app\(\) does not use _before_request\(\)")


def test_a_filter_of_lists_that_is_hung_elsewhere_is_noticed(copy):
    copy.AFTER_REQUEST_HANDLERS = {}
    refused(copy, r"filter_search_experiments\(\) is not among its AFTER_REQUEST_HANDLERS")


def test_our_store_takes_the_place_of_theirs(copy, tmp_path):
    store = open_auth_store(tmp_path)
    REPLACEMENTS.install(copy, store)
    assert copy.store is store
    store.create_user("ada", "a long password")
    assert copy._authenticate_cached("ada", "a long password").username == "ada"
