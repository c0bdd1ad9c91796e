"""Traces by the client's id of their request, runs by dataset, models by alias; and old tables."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from mlflow.entities import Dataset, DatasetInput, RunStatus, ViewType

from mlflow_dynamodbstore.cli import main
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.shared.experiment_items import OLD_LOOKUPS, OLD_TRACES
from mlflow_dynamodbstore.table.contract import Delete, Put
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.upkeep.lookups import LookupBackfill, find_runs, find_traces
from tests.specification.logged import Logged
from tests.stores import everything_in
from tests.traces.making import NOON, make_info, make_spans, trace_id

pytestmark = pytest.mark.index_at_once

NEW = ("gsi1pk", "gsi1sk", "lsi5sk")


@pytest.fixture
def logged(tmp_path) -> Iterator[Logged]:
    made = Logged(f"dynamodb:///{tmp_path}/mlflow.ddb?synchronous=NORMAL")
    yield made
    made.table.close()


def dataset(name: str, digest: str) -> DatasetInput:
    return DatasetInput(Dataset(name=name, digest=digest, source_type="s", source="{}"), [])


def run_with(store, experiment, *inputs, end=True):
    run_id = store.create_run(experiment, "u", NOON, [], "r").info.run_id
    store.log_inputs(run_id, [*inputs])
    if end:
        store.update_run_info(run_id, RunStatus.FINISHED, NOON + 1, None)
    return run_id


def found_runs(store, experiments, filter_string):
    found = store.search_runs(experiments, filter_string, ViewType.ACTIVE_ONLY)
    return {run.info.run_id for run in found}


def found_traces(store, experiments, filter_string):
    return {info.trace_id for info in store.search_traces(experiments, filter_string)[0]}


@pytest.fixture
def filled(logged):
    """Two experiments with requests and datasets, and two models with an alias."""
    store, registry = logged.tracking, logged.registry
    one, two = store.create_experiment("one"), store.create_experiment("two")
    for n, experiment in enumerate([one, one, two, two]):
        given = "order-7" if n in (1, 2) else None
        store.start_trace(
            make_info(trace_id(n), experiment, start=NOON + n, client_request_id=given)
        )
    runs = [
        run_with(store, one, dataset("a", "d1"), dataset("b", "d2")),
        run_with(store, two, dataset("c", "d1"), end=False),
        run_with(store, two, dataset("a", "d3")),
    ]
    for name in ("m1", "m2", "m3"):
        registry.create_registered_model(name)
        registry.create_model_version(name, "s")
        registry.set_registered_model_alias(name, "champion" if name != "m2" else "other", 1)
    return one, two, runs


def as_it_was(logged):
    """Rewrite the table as a release before lookup entries left it."""
    for item in everything_in(logged.table):
        if item["SK"] == experiment_keys.EXPERIMENT_META:
            old = {name: item[name] for name in item if name != OLD_LOOKUPS}
            logged.engine.apply(Put({**old, "v": 2}))
        elif item["SK"].endswith("#CLIENT"):
            logged.engine.apply(Delete(Key(item["PK"], item["SK"])))
        elif item["SK"].startswith("DLINK#"):
            logged.engine.apply(Put({n: item[n] for n in item if n not in NEW}))
        elif item["SK"].startswith("M#ALIAS#"):
            logged.engine.apply(Put({n: item[n] for n in item if not n.startswith("gsi3")}))


def check_searches(logged, one, two, runs):
    store = logged.tracking
    both = [one, two]
    assert found_traces(store, both, "client_request_id = 'order-7'") == {trace_id(1), trace_id(2)}
    assert found_traces(store, [two], "client_request_id = 'order-7'") == {trace_id(2)}
    assert found_traces(store, both, "client_request_id = 'order-8'") == set()
    assert found_runs(store, both, "dataset.digest = 'd1'") == {runs[0], runs[1]}
    assert found_runs(store, both, "dataset.digest IN ('d2', 'd3')") == {runs[0], runs[2]}
    assert found_runs(store, both, "dataset.digest = 'd1' AND dataset.name = 'c'") == {runs[1]}
    assert found_runs(store, both, "dataset.digest = 'd4'") == set()


def check_finds(logged, one, two, runs):
    assert [trace[:2] for trace in find_traces(logged.table, "order-7")] == [
        (trace_id(1), one),
        (trace_id(2), two),
    ]
    assert {(run.run_id, run.experiment_id) for run in find_runs(logged.table, "d1")} == {
        (runs[0], one),
        (runs[1], two),
    }
    aliases = logged.registry.find_registered_models_with_alias("champion")
    assert {name: target.version for name, target in aliases.items()} == {"m1": 1, "m3": 1}


def test_they_are_found(logged, filled):
    check_searches(logged, *filled)
    check_finds(logged, *filled)


@pytest.mark.one_volume(reason="counts the requests to one partition")
def test_a_search_reads_the_entries_and_what_they_name(logged, filled):
    """Not the others, however many there are."""
    one, two, _ = filled
    for n in range(100, 150):
        logged.tracking.start_trace(make_info(trace_id(n), one, client_request_id=f"c{n}"))
        run_with(logged.tracking, one, dataset("a", f"d{n}"), end=False)
    check_searches(logged, *filled)
    with logged.requests() as made:
        found_traces(logged.tracking, [one, two], "client_request_id = 'order-7'")
    assert len(made.queries("LSI5")) == 2
    assert len(made) == 4
    assert made.items_read == 4
    with logged.requests() as made:
        found_runs(logged.tracking, [two], "dataset.digest = 'd3'")
    assert len(made.queries("LSI5")) == 2  # counted, then read
    assert made.items_read == 4  # and the run, and its dataset


def test_an_old_table_is_searched_and_can_be_brought_up_to_date(logged, filled):
    as_it_was(logged)
    fresh = Logged(logged.uri)
    check_searches(fresh, *filled)
    assert find_traces(fresh.table, "order-7") == []
    done = LookupBackfill(fresh.table).backfill()
    assert done.entries == 2 + 4 + 3
    check_finds(fresh, *filled)
    check_searches(fresh, *filled)
    with fresh.requests() as made:
        check_searches(fresh, *filled)
    assert not made.queries("LSI1")
    meta = fresh.engine.get(experiment_keys.experiment_key(filled[0]))
    assert meta is not None
    assert meta["v"] == 3
    assert OLD_LOOKUPS not in meta
    assert LookupBackfill(fresh.table).backfill().entries == 0
    fresh.table.close()


def test_a_table_from_before_lsi1_keeps_both_marks_apart(logged, filled):
    """Bringing its traces into LSI1 does not claim that lookup entries are there."""
    as_it_was(logged)
    key = experiment_keys.experiment_key(filled[0])
    meta = logged.engine.get(key)
    logged.engine.apply(Put({**meta, "v": 1}))
    fresh = Logged(logged.uri)
    fresh.tracking.trace_retention.renew([filled[0]])
    meta = fresh.engine.get(key)
    assert meta is not None
    assert OLD_TRACES not in meta
    assert meta[OLD_LOOKUPS]
    check_searches(fresh, *filled)
    LookupBackfill(fresh.table).backfill()
    check_searches(fresh, *filled)
    fresh.table.close()


def test_the_entry_of_a_request_follows_its_trace(logged):
    """Begun by spans, given another id, moved, deleted."""
    store = logged.tracking
    one, two = store.create_experiment("one"), store.create_experiment("two")
    store.log_spans(one, make_spans(trace_id(1)))
    store.start_trace(make_info(trace_id(1), one, client_request_id="first"))
    assert found_traces(store, [one], "client_request_id = 'first'") == {trace_id(1)}
    store.start_trace(make_info(trace_id(1), one, client_request_id="second"))
    assert found_traces(store, [one], "client_request_id = 'first'") == set()
    assert found_traces(store, [one], "client_request_id = 'second'") == {trace_id(1)}
    store.start_trace(make_info(trace_id(1), two, client_request_id="second"))
    assert found_traces(store, [one], "client_request_id = 'second'") == set()
    assert found_traces(store, [two], "client_request_id = 'second'") == {trace_id(1)}
    assert [found.experiment_id for found in find_traces(logged.table, "second")] == [two]
    store.start_trace(make_info(trace_id(1), two))
    assert not logged.items("", "#CLIENT$")
    store.start_trace(make_info(trace_id(1), two, client_request_id="third"))
    (entry,) = logged.items("", "#CLIENT$")
    assert entry["ttl"] == store.trace_lookup.get(trace_id(1))["ttl"]
    store.delete_traces(two, trace_ids=[trace_id(1)])
    assert not logged.items("", "#CLIENT$")


def test_an_alias_follows_its_model(logged, filled):
    registry = logged.registry
    registry.rename_registered_model("m1", "renamed")
    assert [*registry.find_registered_models_with_alias("champion")] == ["m3", "renamed"]
    registry.delete_registered_model_alias("m3", "champion")
    registry.create_model_version("renamed", "s")
    registry.set_registered_model_alias("renamed", "champion", 2)
    found = registry.find_registered_models_with_alias("champion")
    assert {name: target.version for name, target in found.items()} == {"renamed": 2}
    registry.delete_registered_model("renamed")
    assert registry.find_registered_models_with_alias("champion") == {}
    long = "é" * 255
    registry.set_registered_model_alias("m2", long, 1)
    registry.rename_registered_model("m2", "m4")
    assert [*registry.find_registered_models_with_alias(long)] == ["m4"]


def asked(logged, *arguments):
    result = CliRunner().invoke(main, ["--uri", logged.uri, *arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_the_commands(logged, filled):
    one, two, runs = filled
    assert [trace["experiment_id"] for trace in asked(logged, "find", "traces", "order-7")] == [
        one,
        two,
    ]
    assert {run["run_id"] for run in asked(logged, "find", "runs", "d1")} == {*runs[:2]}
    assert [one["model"] for one in asked(logged, "alias", "find", "champion")] == ["m1", "m3"]
    assert asked(logged, "find", "backfill")["entries"] == 0
    shown = CliRunner().invoke(main, ["--uri", logged.uri, "find", "runs", "d1"])
    assert runs[0] in shown.output


def test_the_registry_of_another_process_sees_aliases(logged, filled):
    other = DynamoDBRegistryStore(logged.uri, table=logged.table)
    assert [*other.find_registered_models_with_alias("other")] == ["m2"]
