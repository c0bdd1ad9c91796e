"""What a changed retention does to the traces that are there."""

from __future__ import annotations

import time

import pytest
from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.cli.exits import INTERRUPTED
from mlflow_dynamodbstore.shared.policies import DAY, Policies
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.traces import retention
from mlflow_dynamodbstore.traces.retention import TraceRetention
from tests.cli.conftest import store_at
from tests.places import trace_place
from tests.traces.making import make_info, trace_id


@pytest.mark.parametrize(
    "change",
    [
        ("ttl", "set", "--trace-retention-days"),
        ("config", "set", "trace_retention_days"),
    ],
)
def test_a_longer_retention_prolongs_the_traces_of_all_workspaces(run, uri, monkeypatch, change):
    """Whatever the operator's own workspace is; a shorter one lets them be."""
    created = int(time.time()) - 10 * DAY
    store = store_at(uri, lambda: float(created))
    home = store.create_experiment("here")
    monkeypatch.setenv(MLFLOW_ENABLE_WORKSPACES.name, "true")
    with WorkspaceContext("team-a"):
        away = store.create_experiment("there")
        store.start_trace(make_info(trace_id(1), away))
    monkeypatch.delenv(MLFLOW_ENABLE_WORKSPACES.name)
    store.start_trace(make_info(trace_id(2), home))
    assert "2 traces checked, 2 prolonged" in run(*change, "60").stdout
    assert "2 traces checked, 0 prolonged" in run(*change, "5").stdout
    places = [trace_place(store.table, trace_id(n)).key for n in (1, 2)]
    dates = {item["ttl"] for item in store.table.get_many(places).values()}
    assert dates == {created + 60 * DAY}
    run(*change, "0", "--json")
    assert not [item for item in store.table.get_many(places).values() if "ttl" in item]


def test_ttl_set_tells_programs_what_became_of_traces(run):
    set_ = run.json("ttl", "set", "--trace-retention-days", "60")
    assert set_["traces"] == {"looked_at": 0, "prolonged": 0}
    assert "traces" not in run.json("ttl", "set", "--metric-history-retention-days", "60")


def test_a_renewal_that_was_stopped_is_ended_by_the_same_command(run, uri, monkeypatch):
    """The policy holds from the start, and what was done is kept."""
    store = store_at(uri)
    for n in range(5):
        store.start_trace(make_info(trace_id(n), "0"))
    monkeypatch.setattr(retention, "AT_ONCE", 2)
    change = ("ttl", "set", "--trace-retention-days", "60")
    prolong, calls = TraceRetention._prolong, iter(range(10))

    def stopped(upkeep: TraceRetention, item: Item, days: int) -> None:
        if next(calls) == 3:
            raise KeyboardInterrupt
        prolong(upkeep, item, days)

    monkeypatch.setattr(TraceRetention, "_prolong", stopped)
    assert "again to continue" in run(*change, code=INTERRUPTED).output
    assert run.json("ttl", "show")["trace_retention_days"]["days"] == 60
    monkeypatch.setattr(TraceRetention, "_prolong", prolong)
    assert run.json(*change)["traces"] == {"looked_at": 5, "prolonged": 2}
    assert run.json(*change)["traces"] == {"looked_at": 5, "prolonged": 0}


def test_traces_that_a_server_writes_before_it_knows_live_longer_too(run, uri, monkeypatch):
    """Servers keep policies for half a minute, and the command waits for them."""
    server = store_at(uri)
    server.start_trace(make_info(trace_id(1), "0"))

    def settle(policies, name, progress):
        server.start_trace(make_info(trace_id(2), "0"))

    monkeypatch.setattr(Policies, "wait_until_known", settle)
    change = ("ttl", "set", "--trace-retention-days", "60")
    assert run.json(*change)["traces"] == {"looked_at": 2, "prolonged": 2}


@pytest.mark.parametrize(
    ("days", "waits"), [("60", True), ("0", True), ("30", True), ("29", False), ("1", False)]
)
def test_a_shorter_retention_is_not_waited_for(run, settled, days, waits):
    """What is written by the longer one may stay longer. 30 is the default, and written down."""
    run("ttl", "set", "--trace-retention-days", days)
    assert bool(settled) == waits
    run("ttl", "set", "--trace-retention-days", "40", "--no-wait")
    assert bool(settled) == waits
