"""Values that earlier releases took from clients are read as text, and the doctor names them."""

from __future__ import annotations

import pytest
from boto3.dynamodb.conditions import Attr
from mlflow.entities import RunStatus, ViewType

from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.upkeep.doctor import Level
from tests.places import run_place, trace_place
from tests.stores import everything_in
from tests.traces.making import make_info, trace_id
from tests.upkeep.helpers import make_run
from tests.upkeep.test_doctor import findings

TRACE = trace_id(1)


def change(store, sk, **values):
    """Store values as an earlier release would have."""
    (item,) = [one for one in everything_in(store.table) if one["SK"] == sk]
    store.table.write([Put({**item, **values})])


def odd(store):
    found = findings(store.table)["values"]
    return found.text if found.level == Level.WARNING else None


def test_a_table_without_any_is_well(store):
    make_run(store)
    store.start_trace(make_info(TRACE, "0"))
    assert odd(store) is None


@pytest.mark.parametrize("value", [{"epoch": 5}, [1], True, 5, b"x"], ids=repr)
def test_a_tag_of_a_live_run_is_named(store, value):
    run = make_run(store, ended=False)
    change(store, f"R#{run}#TAG#team", value=value)
    assert f"R#{run}#TAG#team in {run_place(run).pk}: value is " in odd(store)


def test_a_run_is_sealed_with_texts(store):
    run = make_run(store, ended=False)
    change(store, f"R#{run}#PARAM#lr", value={"epoch": 5})
    store.update_run_info(run, RunStatus.FINISHED, 2_000, None)
    assert store.get_run(run).data.params == {"lr": "{'epoch': 5}"}


def test_a_param_of_a_sealed_run_is_named(store):
    run = make_run(store)
    (item,) = [one for one in everything_in(store.table) if one["SK"] == f"R#{run}"]
    summary = large_values.load(store.table, item, "summary")
    summary["p"]["lr"] = {"epoch": 5}
    change(store, f"R#{run}", summary=large_values.pack(summary))
    assert f"R#{run} in {run_place(run).pk}: param lr is of type dict" in odd(store)
    assert store.get_run(run).data.params == {"lr": "{'epoch': 5}"}


@pytest.mark.parametrize("moment", [10**30, -(10**30), "yesterday", [1]], ids=repr)
def test_a_time_is_named_and_the_run_can_be_sent(store, moment):
    run = make_run(store)
    change(store, f"R#{run}", end_time=moment)
    assert f"R#{run} in {run_place(run).pk}: end_time is " in odd(store)
    store.get_run(run).to_proto()
    for found in store.search_runs(["0"], "", ViewType.ALL):
        found.to_proto()


def test_a_user_is_named_and_the_run_can_be_sent(store):
    run = make_run(store)
    change(store, f"R#{run}", user=["ada"], artifact_uri={"a": 1})
    assert f"R#{run} in {run_place(run).pk}: user is of type list" in odd(store)
    store.get_run(run).to_proto()


def test_tags_and_metadata_of_a_trace_are_named_and_it_can_be_sent(store):
    store.start_trace(make_info(TRACE, "0", tags={"a": "1"}, metadata={"b": "2"}))
    change(store, f"T#{TRACE}", **{"t:a": {"epoch": 5}, "request_time": 10**30})
    pk = trace_place(store.table, TRACE).pk
    assert f"T#{TRACE} in {pk}: request_time is a number beyond 64 bits" in odd(store)
    info = store.get_trace_info(TRACE)
    assert info.tags["a"] == "{'epoch': 5}"
    info.to_proto()


def test_the_value_is_written_again(store):
    run = make_run(store, ended=False)
    key = Key(run_place(run).pk, f"R#{run}#TAG#team")
    store.table.update(key, Update(set={"value": [1]}), condition=Attr("value").exists())
    assert odd(store) is not None
    store.update_run_info(run, RunStatus.RUNNING, None, None)
    store.delete_tag(run, "team")
    assert odd(store) is None
