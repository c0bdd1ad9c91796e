"""Document 002, access patterns: traces, full-text search and lookups by index, a test a row."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from boto3.dynamodb.conditions import Key as KeyCondition
from mlflow.entities import Dataset, DatasetInput, RunStatus, RunTag, ViewType

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.shared.policies import TEXT_FIELDS
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import Key
from tests.specification.logged import Logged, logged
from tests.traces.making import NOON, make_info, make_spans, trace_id

__all__ = ["logged"]

pytestmark = pytest.mark.one_volume(reason="the document states what is in one partition")

CLIENT = """
import mlflow

mlflow.set_experiment("traced by the client")

@mlflow.trace
def answer(n):
    with mlflow.start_span("search"):
        return n + 1

for n in range(20):
    answer(n)
mlflow.flush_trace_async_logging()
"""


def pk_of(experiment: str) -> str:
    return f"EXP#{experiment}"


class TestTraces:
    """The rows on traces."""

    @pytest.mark.parametrize("first", ["spans", "info"])
    def test_create_trace_and_spans(self, logged: Logged, first: str):
        """T#<trace_id> and T#<trace_id>#SPANS, whichever comes first; begun by a transaction."""
        experiment = logged.tracking.create_experiment(f"created {first} first")
        trace = trace_id(1 if first == "spans" else 2)
        calls: list[Callable[[], object]] = [
            lambda: logged.tracking.log_spans(experiment, make_spans(trace)),
            lambda: logged.tracking.start_trace(make_info(trace, experiment)),
        ]
        with logged.requests() as made:
            for call in calls if first == "spans" else reversed(calls):
                call()
        assert made[-1].operation == "Write"
        assert [one.operation for one in made if one.operation == "TransactWriteItems"]
        found = logged.sort_keys(f"^{pk_of(experiment)}$", f"^T#{trace}")
        assert found == [f"T#{trace}", f"T#{trace}#SPANS"]

    def test_get_trace_spans(self, logged: Logged):
        """T#<trace_id>#SPANS holds the first batch of spans, numbered items the later ones."""
        experiment = logged.tracking.create_experiment("batches")
        trace, spans = trace_id(3), make_spans(trace_id(3))
        logged.tracking.start_trace(make_info(trace, experiment))
        for n in range(3):
            logged.tracking.log_spans(experiment, spans[n : n + 1])
        assert logged.sort_keys(f"^{pk_of(experiment)}$", "#SPANS") == [
            f"T#{trace}#SPANS",
            f"T#{trace}#SPANS#0001",
            f"T#{trace}#SPANS#0002",
        ]
        item = logged.table.get(Key(pk_of(experiment), f"T#{trace}#SPANS"))
        assert item is not None
        logged.tracking.trace_lookup.forget(trace)
        with logged.requests() as made:
            found = logged.tracking.get_trace(trace, allow_partial=True).data.spans
        assert len(found) == 3
        assert [one.operation for one in made] == ["GetItem", "Query"]

    def test_get_trace_spans_as_mlflows_client_sends_them(self, logged: Logged):
        """Every trace of a program has its first spans in #SPANS, although infos often overtake."""
        subprocess.run(
            [sys.executable, "-c", CLIENT],
            check=True,
            timeout=180,
            env={**os.environ, "MLFLOW_TRACKING_URI": logged.uri},
        )
        found = logged.tracking.get_experiment_by_name("traced by the client")
        assert found is not None
        own = f"^{pk_of(found.experiment_id)}$"
        traces = logged.sort_keys(own, "^T#[^#]*$")
        assert len(traces) == 20
        assert set(logged.sort_keys(own, "#SPANS$")) == {f"{trace}#SPANS" for trace in traces}

    def test_get_trace_by_id(self, logged: Logged):
        """By TRACE#<trace_id> to its experiment, then T#<trace_id>.

        The locator says at once what GSI1 says a moment later (ADR 0041).
        """
        experiment = logged.tracking.create_experiment("by id")
        trace = trace_id(100)
        logged.tracking.start_trace(make_info(trace, experiment))
        (entry,) = logged.in_index("GSI1", f"TRACE#{trace}")
        assert (entry["PK"], entry["SK"]) == (pk_of(experiment), f"T#{trace}")
        assert entry["gsi1sk"] == pk_of(experiment)
        locator = logged.table.get(Key(f"TRACE#{trace}", "T#LOC"))
        assert locator is not None
        assert locator["experiment_id"] == experiment
        logged.tracking.trace_lookup.forget(trace)
        with logged.requests() as made:
            assert logged.tracking.get_trace_info(trace).experiment_id == experiment
        assert [(one.operation, one.partition) for one in made] == [
            ("GetItem", f"TRACE#{trace}"),
            ("GetItem", pk_of(experiment)),
        ]

    def test_list_traces_in_experiment(self, logged: Logged):
        """SK begins_with T#."""
        experiment = logged.tracking.create_experiment("listed")
        traces = [trace_id(110 + n) for n in range(3)]
        for trace in traces:
            logged.tracking.log_spans(experiment, make_spans(trace))
        query = Query(pk_of(experiment), where=KeyCondition("SK").begins_with("T#"))
        found = [str(item["SK"]) for item in logged.table.items(query)]
        assert [sk for sk in found if sk.count("#") == 1] == [f"T#{trace}" for trace in traces]
        listed, _ = logged.tracking.search_traces([experiment])
        assert {info.trace_id for info in listed} == {*traces}

    def test_sort_traces_by_time(self, logged: Logged):
        """LSI2 is in order of time; searches read LSI1, which has whole traces too (ADR 0043)."""
        experiment = logged.tracking.create_experiment("by time")
        for n, start in enumerate([5, 1, 3]):
            info = make_info(trace_id(120 + n), experiment, start=NOON + start)
            logged.tracking.start_trace(info)
        in_order = [f"T#{trace_id(120 + n)}" for n in (1, 2, 0)]
        for index in ("LSI1", "LSI2"):
            entries = logged.in_index(index, pk_of(experiment), "T#")
            assert [item["SK"] for item in entries] == in_order
        with logged.requests() as made:
            found, _ = logged.tracking.search_traces([experiment], order_by=["timestamp ASC"])
        assert [f"T#{info.trace_id}" for info in found] == in_order
        assert [one.index for one in made if one.operation == "Query"] == ["LSI1"]

    def test_sort_traces_by_name(self, logged: Logged):
        """LSI4 ordered by lsi4sk: a page costs what it shows, not all traces."""
        experiment = logged.tracking.create_experiment("by name")
        for n in range(60):
            name = f"n-{n * 7 % 60:02}"
            logged.tracking.start_trace(make_info(trace_id(200 + n), experiment, name=name))
        entries = logged.in_index("LSI4", pk_of(experiment), "T#")
        assert [item["lsi4sk"].split("#")[1] for item in entries] == [
            f"n-{n:02}" for n in range(60)
        ]
        with logged.requests() as made:
            found, _ = logged.tracking.search_traces(
                [experiment], order_by=["name DESC"], max_results=3
            )
        names = [info.tags["mlflow.traceName"] for info in found]
        assert names == ["n-59", "n-58", "n-57"]
        assert made.queries("LSI4")
        assert made.items_read < 40

    def test_set_trace_tag(self, logged: Logged):
        """T#<trace_id>#TAG#<key>, and on the trace itself, where searches read it (ADR 0040)."""
        experiment = logged.tracking.create_experiment("tagged")
        trace = trace_id(300)
        logged.tracking.start_trace(make_info(trace, experiment, tags={"early": "1"}))
        logged.tracking.set_trace_tag(trace, "team", "red")
        assert logged.sort_keys(f"^{pk_of(experiment)}$", "#TAG#") == [f"T#{trace}#TAG#team"]
        item = logged.table.get(Key(pk_of(experiment), f"T#{trace}#TAG#team"))
        own = logged.table.get(Key(pk_of(experiment), f"T#{trace}"))
        assert item is not None
        assert own is not None
        assert item["value"] == own["t:team"] == "red"
        assert own["t:early"] == "1"


def indexed(logged: Logged, *fields: str) -> None:
    """Let texts be indexed that this table does not have yet."""
    now = logged.tracking.policies.all()[TEXT_FIELDS]
    field = {"levels": ["trigram", "word"], "complete": True, "gsi2": True}
    logged.tracking.policies.set(TEXT_FIELDS, {**now, **dict.fromkeys(fields, field)})


def ended(logged: Logged, experiment: str, name: str) -> str:
    run_id = str(logged.tracking.create_run(experiment, "u", NOON, [], name).info.run_id)
    logged.tracking.update_run_info(run_id, RunStatus.FINISHED, NOON + 1, None)
    return run_id


def settle(logged: Logged) -> None:
    """Let the last entries of all experiments be two minutes old."""
    for item in logged.items("^EXP#", "^E#TEXTS$"):
        logged.table.put({**item, "at": item["at"] - 120})


class TestFullText:
    """The rows on full-text search."""

    def test_full_text_search_forward(self, logged: Logged):
        """SK begins_with FTS#<level>#<token>, read by a search of one experiment."""
        indexed(logged, "run.name")
        experiment = logged.tracking.create_experiment("forward")
        run_id = ended(logged, experiment, "night owl")
        ended(logged, experiment, "early bird")
        assert logged.sort_keys(f"^{pk_of(experiment)}$", "^FTS#word#owl") == [
            f"FTS#word#owl#run.name#{run_id}"
        ]
        with logged.requests() as made:
            found = logged.tracking.search_runs(
                [experiment], "attributes.run_name LIKE '%owl%'", ViewType.ACTIVE_ONLY
            )
        assert [run.info.run_id for run in found] == [run_id]
        assert [one for one in made.queries(None) if one.partition == pk_of(experiment)]
        assert not made.queries("LSI1")

    def test_full_text_search_global(self, logged: Logged):
        """gsi2pk=FTS#<token>: one query for all experiments."""
        indexed(logged, "run.name")
        places = [logged.tracking.create_experiment(f"global {n}") for n in range(6)]
        runs = {ended(logged, places[n], "lonely walrus") for n in (1, 4)}
        entries = logged.in_index("GSI2", "FTS#walrus")
        assert {item["gsi2sk"] for item in entries} == {f"word#run.name#{one}" for one in runs}
        settle(logged)
        with logged.requests() as made:
            found = logged.tracking.search_runs(
                places, "attributes.run_name LIKE '%walrus%'", ViewType.ACTIVE_ONLY
            )
        assert {run.info.run_id for run in found} == runs
        assert made.queries("GSI2")
        assert not [one for one in made.queries(None) if one.partition.startswith("EXP#")]

    def test_fts_index_cleanup(self, logged: Logged):
        """SK begins_with FTS_REV#<entity_type>#<entity_id>: the entries to remove."""
        indexed(logged, "run.tags.note")
        experiment = logged.tracking.create_experiment("cleanup")
        store = logged.tracking
        run_id = ended(logged, experiment, "r")
        own = f"^{pk_of(experiment)}$"
        store.set_tag(run_id, RunTag("note", "red"))
        store.update_run_info(run_id, RunStatus.FINISHED, NOON + 2, None)
        assert logged.sort_keys(own, f"^FTS_REV#run.tags.note#{run_id}#word#") == [
            f"FTS_REV#run.tags.note#{run_id}#word#red"
        ]
        store.set_tag(run_id, RunTag("note", "blue"))
        store.update_run_info(run_id, RunStatus.FINISHED, NOON + 3, None)
        assert logged.sort_keys(own, "^FTS#word#.*#run.tags.note#") == [
            f"FTS#word#blue#run.tags.note#{run_id}"
        ]
        assert logged.in_index("GSI2", "FTS#red", "word#run.tags.note#") == []

    def test_search_experiments_fts(self, logged: Logged):
        """gsi2pk=FTS#<token> has them; a search reads the workspace's own entries (ADR 0052)."""
        indexed(logged, "experiment.name")
        experiment = logged.tracking.create_experiment("quiet giraffe")
        (entry,) = logged.in_index("GSI2", "FTS#giraffe")
        assert (entry["PK"], entry["SK"]) == (
            "WORKSPACE#default",
            f"FTS#word#giraffe#experiment.name#{experiment}",
        )
        assert entry["gsi2sk"] == f"word#experiment.name#{experiment}"
        with logged.requests() as made:
            found = logged.tracking.search_experiments(filter_string="name LIKE '%giraffe%'")
        assert [one.experiment_id for one in found] == [experiment]
        assert {one.partition for one in made.queries(None)} <= {"WORKSPACE#default", "CONFIG"}
        assert made.items_read < 20

    def test_search_models_fts(self, logged: Logged):
        """Names of models likewise."""
        indexed(logged, "registered_model.name")
        logged.registry.context.policies.all()  # read anew
        logged.registry.create_registered_model("sleepy ocelot")
        (entry,) = logged.in_index("GSI2", "FTS#ocelot")
        assert entry["gsi2sk"] == "word#registered_model.name#sleepy%20ocelot"
        found = logged.registry.search_registered_models("name LIKE '%ocelot%'")
        assert [model.name for model in found] == ["sleepy ocelot"]


class TestLookups:
    """What 001 adds to the rows: CLIENT#, DS# and ALIAS#."""

    def test_runs_of_a_dataset_over_many_experiments(self, logged: Logged):
        """One query of LSI5 for each experiment, consistently; no run is walked over."""
        places = [logged.tracking.create_experiment(f"data {n}") for n in range(5)]
        runs = [ended(logged, place, "r") for place in places for _ in range(5)]
        dataset = Dataset(name="mnist", digest="77aa", source_type="local", source="{}")
        logged.tracking.log_inputs(runs[7], [DatasetInput(dataset, [])])
        logged.tracking.search_runs(places, "dataset.digest = 'x'", ViewType.ACTIVE_ONLY)
        with logged.requests() as made:
            found = logged.tracking.search_runs(
                places, "dataset.digest = '77aa'", ViewType.ACTIVE_ONLY
            )
        assert [run.info.run_id for run in found] == [runs[7]]
        assert not made.queries("LSI1")
        (link,) = logged.in_index("LSI5", pk_of(places[1]), "DS#77aa#")
        assert experiment_keys.dataset_link_run(str(link["SK"])) == runs[7]
