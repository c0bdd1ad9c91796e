"""Entities are found by what they are associated with, as in MLflow's SQL store."""

from __future__ import annotations

import pytest
from mlflow.entities.entity_type import EntityAssociationType as Type
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

from tests.stores import ARTIFACTS, open_tracking_store
from tests.table.fakes import FakeTime
from tests.traces.making import make_info, make_prompt, trace_id

TYPES = [Type.TRACE, Type.RUN, Type.PROMPT_VERSION, Type.EVALUATION_DATASET, Type.EXPERIMENT]


@pytest.fixture(params=["ours", "sql"])
def store(request, tmp_path):
    if request.param == "ours":
        return open_tracking_store(tmp_path, FakeTime())
    return SqlAlchemyStore(f"sqlite:///{tmp_path}/mlflow.db", ARTIFACTS)


def test_links_are_followed_both_ways(store):
    one, two = (store.create_experiment(name) for name in ("one", "two"))
    traces = [trace_id(n) for n in range(3)]
    for n, trace in enumerate(traces):
        store.start_trace(make_info(trace, (one, two)[n % 2]))
    run = store.create_run(one, "ada", 1, [], "run").info.run_id
    store.link_traces_to_run(traces[:2], run)
    store.link_prompts_to_trace(traces[2], [make_prompt("greeting", 3)])
    dataset = store.create_dataset("data", {}, [one, two]).dataset_id
    by_source, by_destination = (
        store.search_entities_by_source,
        store.search_entities_by_destination,
    )
    assert list(by_source(traces, Type.TRACE, Type.RUN)) == [run]
    assert sorted(by_destination(run, Type.RUN, Type.TRACE)) == traces[:2]
    assert list(by_source(traces[2], Type.TRACE, Type.PROMPT_VERSION)) == ["greeting/3"]
    assert list(by_destination("greeting/3", Type.PROMPT_VERSION, Type.TRACE)) == [traces[2]]
    assert sorted(by_source(dataset, Type.EVALUATION_DATASET, Type.EXPERIMENT)) == [one, two]
    assert list(by_destination(two, Type.EXPERIMENT, Type.EVALUATION_DATASET)) == [dataset]
    first = by_destination(run, Type.RUN, Type.TRACE, max_results=1)
    rest = by_destination(run, Type.RUN, Type.TRACE, max_results=1, page_token=first.token)
    assert sorted([*first, *rest]) == traces[:2]
    assert rest.token is None


@pytest.mark.parametrize("destination", TYPES)
def test_what_is_not_associated_is_not_found(store, destination):
    assert list(store.search_entities_by_source("x", Type.MODEL, destination)) == []
    assert list(store.search_entities_by_destination("x", destination, Type.MODEL)) == []
