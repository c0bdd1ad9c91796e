"""Bad arguments are refused with MLflow's error, at once, and nothing of the call is written."""

from __future__ import annotations

import logging
import math
import time

import numpy as np
import pytest
from mlflow.entities import (
    Dataset,
    DatasetInput,
    ExperimentTag,
    Metric,
    Param,
    RunTag,
    ViewType,
)
from mlflow.entities.logged_model_parameter import LoggedModelParameter
from mlflow.entities.logged_model_tag import LoggedModelTag
from mlflow.entities.model_registry import ModelVersionTag, RegisteredModelTag
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from tests.stores import everything_in, open_tracking_store, refused
from tests.table.fakes import FakeTime
from tests.traces.making import make_info, make_span, trace_id

LARGE = "n" * 450_000
HALF = "a\ud800"
BEYOND = [2**63, -(2**63) - 1, 10**30]
TRACE = trace_id(1)


@pytest.fixture
def store(tmp_path):
    opened = open_tracking_store(tmp_path, FakeTime())
    vars(opened)["subject"] = opened.create_run("0", "ada", 1, [], "run").info.run_id
    yield opened
    opened.table.close()


@pytest.fixture
def registry(store):
    made = DynamoDBRegistryStore("", table=store.table)
    made.create_registered_model("model")
    made.create_model_version("model", "s3://bucket/model")
    return made


def unchanged(store, call, code="INVALID_PARAMETER_VALUE", match=""):
    before = everything_in(store.table)
    with refused(code, match):
        call()
    assert everything_in(store.table) == before


# --- pages, filters, orders -----------------------------------------------------------------------

SEARCHES = {
    "search_runs": lambda store, **given: store.search_runs(
        ["0"], given.get("filter_string", ""), ViewType.ALL, **_others(given)
    ),
    "search_experiments": lambda store, **given: store.search_experiments(**given),
    "search_traces": lambda store, **given: store.search_traces(["0"], **given),
    "search_datasets": lambda store, **given: store.search_datasets(["0"], **given),
    "search_mcp_servers": lambda store, **given: store.search_mcp_servers(**given),
}


def _others(given):
    return {name: value for name, value in given.items() if name != "filter_string"}


FINE = (None, "INVALID_PARAMETER_VALUE")


def outcome(call, *args, **given):
    """The code of a call's error; None if it is answered."""
    try:
        call(*args, **given)
    except MlflowException as error:
        return error.error_code
    return None


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("size", [-1, 1.5, 2**63, math.inf, math.nan, "many"], ids=str)
def test_a_page_has_a_whole_number_of_entries(store, search, size):
    with refused("INVALID_PARAMETER_VALUE", ""):
        SEARCHES[search](store, max_results=size)


@pytest.mark.parametrize("number", [*BEYOND, "1e400"], ids=str)
def test_a_filter_by_a_number_beyond_64_bits_is_answered_or_refused(store, number):
    for search, name in (
        ("search_runs", "attributes.start_time"),
        ("search_experiments", "creation_time"),
        ("search_traces", "timestamp_ms"),
        ("search_mcp_servers", "created_at"),
    ):
        for comparator in ("=", ">", "<="):
            filter_string = f"{name} {comparator} {number}"
            assert outcome(SEARCHES[search], store, filter_string=filter_string) in FINE


@pytest.mark.parametrize("search", SEARCHES)
def test_a_filter_with_half_a_character_is_answered_or_refused(store, search):
    for filter_string in (f"name = '{HALF}'", f"tags.`{HALF}` = 'x'", f"name LIKE '%{HALF}'"):
        assert outcome(SEARCHES[search], store, filter_string=filter_string) in FINE


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("clause", ["name" + " " * 450_000, f"tags.`{LARGE}`"], ids=["gap", "key"])
def test_a_very_long_order_is_refused_at_once(store, search, clause):
    began = time.process_time()
    with refused("INVALID_PARAMETER_VALUE", "2000 is the most"):
        SEARCHES[search](store, order_by=[clause])
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    ("count", "expected"), [(2_000, None), (50_000, "INVALID_PARAMETER_VALUE")]
)
def test_a_long_list_of_ids_is_answered_or_refused_soon(store, count, expected):
    ids = ", ".join(f"'{number:032x}'" for number in range(count))
    began = time.process_time()
    search = SEARCHES["search_runs"]
    assert outcome(search, store, filter_string=f"attributes.run_id IN ({ids})") == expected
    assert time.process_time() - began < 2


@pytest.mark.parametrize("token", ["é", HALF, 5, b"x"], ids=repr)
def test_what_cannot_be_a_page_token_is_refused(store, registry, token):
    for call in (
        lambda: store.search_experiments(page_token=token),
        lambda: registry.list_webhooks(page_token=token),
        lambda: registry.search_registered_models(page_token=token),
    ):
        assert outcome(call) == "INVALID_PARAMETER_VALUE"


# --- ids and texts --------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [5, 5.5, True, None, b"x", [1], {"a": 1}, HALF], ids=repr)
def test_an_id_that_is_no_text_is_not_found_or_refused(store, registry, given):
    for call in (
        lambda: store.get_run(given),
        lambda: store.get_trace_info(given),
        lambda: store.get_logged_model(given),
        lambda: store.get_dataset(given),
        lambda: store.delete_run(given),
        lambda: store.log_metric(given, Metric("m", 1.0, 1, 1)),
        lambda: registry.get_registered_model(given),
        lambda: registry.get_model_version("other", given),
    ):
        with pytest.raises(MlflowException) as caught:
            call()
        assert caught.value.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")


def test_an_empty_id_is_not_that_of_the_default_experiment(store):
    for call in (
        lambda: store.delete_experiment(""),
        lambda: store.delete_experiment_tag("", "k"),
        lambda: store.create_issue("", "name", "description"),
    ):
        unchanged(store, call, match="Experiment ID must be a valid integer")


@pytest.mark.parametrize(
    "call",
    [
        lambda store, text: store.create_experiment(text),
        lambda store, text: store.rename_experiment("0", text),
        lambda store, text: store.set_experiment_tag("0", ExperimentTag(text, "v")),
        lambda store, text: store.set_experiment_tag("0", ExperimentTag("k", text)),
        lambda store, text: store.create_run("0", "ada", 1, [], text),
        lambda store, text: store.create_run("0", "ada", 1, [RunTag("k", text)], "run"),
        lambda store, text: store.create_run("0", "ada", 1, [RunTag(text, "v")], "run"),
        lambda store, text: store.create_run("0", text, 1, [], "run"),
        lambda store, text: store.set_tag(store.subject, RunTag(text, "v")),
        lambda store, text: store.log_param(store.subject, Param(text, "v")),
        lambda store, text: store.log_metric(store.subject, Metric(text, 1.0, 1, 1)),
        lambda store, text: store.create_logged_model("0", "m", tags=[LoggedModelTag("k", text)]),
        lambda store, text: store.create_logged_model(
            "0", "m", params=[LoggedModelParameter(text, "v")]
        ),
        lambda store, text: store.create_dataset(text),
        lambda store, text: store.create_dataset("d", {"k": text}),
        lambda store, text: store.create_issue("0", text, "description"),
    ],
    ids=lambda call: str(call.__code__.co_firstlineno),
)
@pytest.mark.parametrize("text", [LARGE, HALF], ids=["450 KB", "half a character"])
def test_a_text_that_cannot_be_stored_leaves_nothing_behind(store, call, text):
    unchanged(store, lambda: call(store, text))


def test_a_tag_with_half_a_character_begins_no_trace(store):
    """One with a very long name does: it goes to the overflow of its trace."""
    unchanged(store, lambda: store.start_trace(make_info(TRACE, "0", tags={HALF: "v"})))
    store.start_trace(make_info(TRACE, "0", tags={LARGE: "v"}))
    assert store.get_trace_info(TRACE).tags[LARGE] == "v"


@pytest.mark.parametrize(
    "call",
    [
        lambda store, text: store.create_registered_model(text),
        lambda store, text: store.create_registered_model("m", [RegisteredModelTag("k", text)]),
        lambda store, text: store.rename_registered_model("model", text),
        lambda store, text: store.set_registered_model_tag("model", RegisteredModelTag(text, "v")),
        lambda store, text: store.create_model_version("model", text),
        lambda store, text: store.set_model_version_tag("model", "1", ModelVersionTag(text, "v")),
        lambda store, text: store.set_registered_model_alias("model", text, "1"),
    ],
    ids=lambda call: str(call.__code__.co_firstlineno),
)
@pytest.mark.parametrize("text", [LARGE, HALF], ids=["450 KB", "half a character"])
def test_a_text_that_the_registry_cannot_store_leaves_nothing_behind(store, registry, call, text):
    unchanged(store, lambda: call(registry, text))


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [*BEYOND, 1.5, math.inf, math.nan, "x", [1]], ids=str)
def test_a_step_is_a_whole_number_of_64_bits(store, step):
    good, bad = Metric("m", 1.0, 1, 1), Metric("m", 1.0, 1, step)
    unchanged(store, lambda: store.log_metric(store.subject, bad))
    unchanged(store, lambda: store.log_batch(store.subject, [good, bad], [], []))


@pytest.mark.parametrize("moment", [*BEYOND, 1.5, math.inf, "x"], ids=str)
def test_the_time_of_a_metric_is_a_whole_number_of_64_bits(store, moment):
    unchanged(store, lambda: store.log_metric(store.subject, Metric("m", 1.0, moment, 1)))


@pytest.mark.parametrize("moment", [*BEYOND, 2**63 - 1, 1.5, "x", None], ids=str)
def test_the_time_of_a_trace_is_one_that_the_server_can_send(store, moment):
    unchanged(store, lambda: store.start_trace(make_info(TRACE, "0", start=moment)))
    unchanged(store, lambda: store.start_trace(make_info(TRACE, "0", lasting=2**63 - 1)))


@pytest.mark.parametrize("field", ["_start_time", "_end_time", "_name"])
@pytest.mark.parametrize("value", [10**30, [1], HALF], ids=["10^30", "list", "half a character"])
def test_a_span_that_cannot_be_read_back_is_refused(store, field, value):
    span = make_span(TRACE, 0)
    vars(span._span)[field] = value
    unchanged(store, lambda: store.log_spans("0", [span]))
    store.log_spans("0", [make_span(TRACE, 0)])
    assert len(store.get_trace(TRACE).data.spans) == 1


def test_an_argument_that_does_not_exist_is_a_type_error_as_everywhere(store):
    with pytest.raises(TypeError, match="no_such_argument") as caught:
        store.get_run(store.subject, no_such_argument=1)
    assert isinstance(caught.value, MlflowException)


# --- what nobody foresaw --------------------------------------------------------------------------


def test_a_mistake_of_ours_is_an_internal_error_that_is_logged_with_its_cause(
    store, monkeypatch, caplog
):
    def broken(*_args):
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(store.runs.run_lookup, "find", broken)
    monkeypatch.setattr(store.runs.table, "get", broken)
    with (
        caplog.at_level(logging.ERROR),
        pytest.raises(MlflowException, match="failed: ZeroDivisionError") as caught,
    ):
        store.get_run(store.subject)
    assert caught.value.error_code == "INTERNAL_ERROR"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    (logged,) = [one for one in caplog.records if one.exc_info]
    assert isinstance(logged.exc_info[1], ZeroDivisionError)
    assert "a mistake" not in caught.value.message


def test_whole_numbers_of_numpy_are_numbers(store):
    run = store.create_run("0", "ada", np.int64(5), [], "run").info.run_id
    assert store.get_run(run).info.start_time == 5
    assert len(store.search_runs(["0"], "", ViewType.ALL, max_results=np.int64(1))) == 1


def test_what_mlflows_columns_do_not_take_is_refused_before_anything_is_written(store, monkeypatch):
    monkeypatch.setenv("MLFLOW_CRYPTO_KEK_PASSPHRASE", "n" * 32)
    dataset = store.create_dataset("d", experiment_ids=["0"])
    store.start_trace(make_info(TRACE, "0"))
    again = make_info(TRACE, "0")
    again.client_request_id = LARGE
    unnamed = make_info(TRACE, "0")
    unnamed.trace_id = ""
    bare = DatasetInput(Dataset("d", "1", "t", "s"), [])
    vars(bare)["_tags"] = None
    calls = {
        "start_trace": (again,),
        "start_trace of nothing": (unnamed,),
        "search_traces": (["words"],),
        "upsert_dataset_records": (dataset.dataset_id, [{"inputs": "words"}]),
        "log_inputs": (vars(store)["subject"], [bare]),
        "create_gateway_secret": (None, {"key": "value"}),
        "create_gateway_model_definition": (None, "s", "p", "m"),
        "create_gateway_model_definition of nobody": ("n", "s", None, "m"),
        "create_endpoint_binding": ("e", "scorer", None),
    }
    for call, given in calls.items():
        before = sorted(map(repr, everything_in(store.table)))
        with pytest.raises(MlflowException) as caught:
            getattr(store, call.split()[0])(*given)
        assert caught.value.error_code == "INVALID_PARAMETER_VALUE", call
        assert sorted(map(repr, everything_in(store.table))) == before, call


def test_the_largest_page_is_a_page(store):
    assert store.search_logged_models(["0"], max_results=2**63 - 1) == []
    dataset = store.create_dataset("d", experiment_ids=["0"])
    assert store._load_dataset_records(dataset.dataset_id, max_results=2**63 - 1) == ([], None)


def test_deleting_a_tag_that_a_new_run_does_not_have_writes_nothing(store):
    run_id = store.create_run("0", "ada", 1, [RunTag("t", "1")], "run").info.run_id
    before = sorted(map(repr, everything_in(store.table)))
    with refused("RESOURCE_DOES_NOT_EXIST", "No tag with name: no"):
        store.delete_tag(run_id, "no")
    assert sorted(map(repr, everything_in(store.table))) == before
    store.delete_tag(run_id, "t")
    assert "t" not in store.get_run(run_id).data.tags
