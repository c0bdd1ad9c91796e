"""Index keys sort and group as the indexes promise."""

from __future__ import annotations

from typing import Any

import pytest
from boto3.dynamodb.conditions import Key as KeyCondition
from hypothesis import assume, example, given
from hypothesis import strategies as st

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import registry as registry_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from tests.keys.strategies import any_texts, doubles, int64

times = st.none() | int64
RUN: dict[str, Any] = {
    "run_id": "r1",
    "experiment_id": "7",
    "lifecycle": "active",
    "start_time": 0,
    "status": "RUNNING",
    "name": "n",
}


def test_a_live_run_is_in_all_indexes_of_runs():
    assert index_keys.run_index(**RUN, live=True) == {
        "gsi1pk": "RUN#r1",
        "gsi1sk": "EXP#7",
        "lsi1sk": "ACTIVE#1970-01-01T00:00:00.000Z#r1",
        "lsi2sk": "R#1970-01-01T00:00:00.000Z#r1",
        "lsi3sk": "RUNNING#1970-01-01T00:00:00.000Z#r1",
        "lsi4sk": "R#n#r1",
        "lsi5sk": "LIVE#r1",
    }


def test_a_sealed_run_is_in_lsi5_by_its_primary_metric_or_not_at_all():
    assert "lsi5sk" not in index_keys.run_index(**RUN, live=False)
    assert index_keys.lsi5_run("r1", "loss", 0.0) == "M#loss#8000000000000000#r1"


def test_a_trace_is_in_the_indexes_of_traces():
    trace: dict[str, Any] = {
        "trace_id": "tr-1",
        "experiment_id": "7",
        "request_time": 0,
        "status": "OK",
    }
    nameless = {
        "gsi1pk": "TRACE#tr-1",
        "gsi1sk": "EXP#7",
        "lsi1sk": "T#1970-01-01T00:00:00.000Z#tr-1",
        "lsi2sk": "T#1970-01-01T00:00:00.000Z#tr-1",
        "lsi3sk": "OK#1970-01-01T00:00:00.000Z#tr-1",
    }
    assert index_keys.trace_index(**trace, name=None) == nameless
    assert index_keys.trace_index(**trace, name="chat") == {**nameless, "lsi4sk": "T#chat#tr-1"}


def test_a_logged_model_is_found_by_its_id_and_by_creation_time_within_its_stage():
    index = index_keys.logged_model_index(
        model_id="m-1", experiment_id="7", lifecycle="active", creation_time=1000
    )
    assert index == {
        "gsi1pk": "LM#m-1",
        "gsi1sk": "EXP#7",
        "lsi1sk": "LM#ACTIVE#1970-01-01T00:00:01.000Z#m-1",
    }
    assert index["lsi1sk"] in index_keys.logged_models_by_lifecycle("active")
    assert index["lsi1sk"] in index_keys.logged_models_by_lifecycle("active", 1000, 1000)
    assert index["lsi1sk"] not in index_keys.logged_models_by_lifecycle("active", 1001)
    assert index["lsi1sk"] not in index_keys.logged_models_by_lifecycle("deleted")
    assert index["lsi1sk"] not in index_keys.runs_by_lifecycle("active")


def test_an_experiment_is_found_by_workspace_and_name():
    assert index_keys.experiment_index(experiment_id="7", name="nlp", workspace="team-a") == {
        "gsi2pk": "WS#team-a",
        "gsi2sk": "EXP#7",
        "gsi3pk": "EXPNAME#team-a#nlp",
        "gsi3sk": "EXP#7",
        "gsi5pk": "WS#team-a#EXP",
        "gsi5sk": "nlp",
    }


def test_a_registered_model_is_found_by_workspace_and_name():
    assert index_keys.model_index(name="iris", workspace="team-a") == {
        "gsi3pk": "RMNAME#team-a#iris",
        "gsi3sk": "RM#team-a#iris",
        "gsi5pk": "RM_LIST#team-a",
        "gsi5sk": "iris",
    }


def test_the_attributes_are_those_of_the_schema():
    made = {
        *index_keys.run_index(**RUN, live=True),
        *index_keys.experiment_index(experiment_id="7", name="nlp"),
        *index_keys.gsi4_experiment_permission("7", "ada"),
    }
    assert {"PK", "SK", *made} == set(MLFLOW_TABLE.key_attributes)


@given(any_texts, any_texts, times, times, any_texts, any_texts)
def test_runs_sort_by_time_within_stage_status_and_all(one, other, time, time2, stage, status):
    expected = (-(2**64) if time is None else time, one.encode()) < (
        -(2**64) if time2 is None else time2,
        other.encode(),
    )
    assume(max(len(one), len(other)) < 20)
    for made, made2 in (
        (index_keys.lsi1_run(one, stage, time), index_keys.lsi1_run(other, stage, time2)),
        (index_keys.lsi2_run(one, time), index_keys.lsi2_run(other, time2)),
        (index_keys.lsi2_trace(one, time), index_keys.lsi2_trace(other, time2)),
        (index_keys.lsi3_run(one, status, time), index_keys.lsi3_run(other, status, time2)),
    ):
        assert (made.encode() < made2.encode()) == expected


SPANS = {
    "stage": (
        lambda time: index_keys.lsi1_run("r", "active", time),
        lambda *ends: index_keys.runs_by_lifecycle("active", *ends),
    ),
    "runs": (lambda time: index_keys.lsi2_run("r", time), index_keys.runs_by_time),
    "traces": (lambda time: index_keys.lsi2_trace("r", time), index_keys.traces_by_time),
    "status": (
        lambda time: index_keys.lsi3_run("r", "FAILED", time),
        lambda *ends: index_keys.by_status("FAILED", *ends),
    ),
}


@pytest.mark.parametrize("place", SPANS)
@given(time=times, since=times, until=times)
@example(time=5, since=5, until=5)
@example(time=None, since=None, until=5)
@example(time=None, since=None, until=None)
def test_a_span_of_time_includes_its_ends_and_no_unknown_time(place, time, since, until):
    make, span = SPANS[place]
    if time is None:
        expected = since is None and until is None
    else:
        expected = (since is None or since <= time) and (until is None or time <= until)
    assert (make(time) in span(since, until)) == expected


def test_deleted_runs_and_traces_are_not_among_active_runs():
    assert index_keys.lsi1_run("r", "deleted", 0) not in index_keys.runs_by_lifecycle("active")
    assert index_keys.lsi2_trace("r", 0) not in index_keys.runs_by_time()
    assert index_keys.lsi4_trace("r", "n") not in index_keys.runs_by_name()
    assert index_keys.lsi4_run("r", "n") not in index_keys.traces_by_name()


@given(any_texts, any_texts, any_texts)
def test_runs_of_a_name_are_those_of_exactly_this_name(name, other, run_id):
    assert index_keys.lsi4_run(run_id, name) in index_keys.runs_named(name)
    assert index_keys.lsi4_trace(run_id, name) in index_keys.traces_named(name)
    assert (index_keys.lsi4_run(run_id, other) in index_keys.runs_named(name)) == (other == name)
    assert (index_keys.lsi4_trace(run_id, other) in index_keys.traces_named(name)) == (
        other == name
    )


@given(any_texts, any_texts, doubles, doubles, any_texts)
def test_sealed_runs_ascend_by_metric_and_live_ones_stand_apart(key, other, value, value2, run_id):
    one, two = index_keys.lsi5_run(run_id, key, value), index_keys.lsi5_run(run_id, key, value2)
    assert (one < two) == (value < value2)
    assert one in index_keys.runs_by_metric(key)
    assert (one in index_keys.runs_by_metric(other)) == (key == other)
    assert one not in index_keys.LIVE_RUNS
    assert index_keys.lsi5_live(run_id) in index_keys.LIVE_RUNS
    assert index_keys.lsi5_live(run_id) not in index_keys.runs_by_metric(key)


IN_WORKSPACE = {
    "model": registry_keys.model_pk,
    "experiment name": lambda n, ws: index_keys.gsi3_experiment(n, "7", ws)["gsi3pk"],
    "model name": lambda n, ws: index_keys.gsi3_model(n, ws)["gsi3pk"],
    "permissions": lambda n, ws: index_keys.gsi4_model_permission(n, "ada", ws)["gsi4pk"],
    "permission": access_keys.user_model_permission,
    "words": lambda n, ws: index_keys.gsi2_fts("name", n, "run", "r", ws)["gsi2pk"],
}


@pytest.mark.parametrize("place", IN_WORKSPACE)
@given(name=any_texts, workspace=any_texts, other=any_texts, workspace2=any_texts)
@example(name="a#b", workspace="default", other="b", workspace2="a")
@example(name="", workspace="default", other="", workspace2="")
def test_a_name_of_one_workspace_never_meets_one_of_another(
    place, name, workspace, other, workspace2
):
    make = IN_WORKSPACE[place]
    same = (name, workspace) == (other, workspace2)
    assert (make(name, workspace) == make(other, workspace2)) == same


@given(any_texts, any_texts)
def test_each_workspace_has_its_own_lists(workspace, other):
    for make in (
        lambda ws: index_keys.gsi5_model("iris", ws)["gsi5pk"],
        lambda ws: index_keys.gsi5_experiment("nlp", ws)["gsi5pk"],
        lambda ws: index_keys.gsi2_experiment("7", ws)["gsi2pk"],
    ):
        assert (make(workspace) == make(other)) == (workspace == other)


def test_locators_are_the_partitions_that_the_items_name():
    assert index_keys.run_locator("a#b") == index_keys.gsi1_run("a#b", "7")["gsi1pk"]
    assert (
        index_keys.logged_model_locator("a#b") == index_keys.gsi1_logged_model("a#b", "7")["gsi1pk"]
    )


def test_a_range_becomes_a_condition():
    assert run_keys.RUNS.on() == KeyCondition("SK").between("R#", "R$")
    assert index_keys.LIVE_RUNS.on("lsi5sk") == KeyCondition("lsi5sk").between("LIVE#", "LIVE$")
