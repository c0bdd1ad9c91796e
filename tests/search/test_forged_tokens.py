"""Page tokens that somebody has changed: each is refused in a sentence, or is one of ours again."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Metric, Param, RunStatus, RunTag, ViewType
from mlflow.entities.trace_info import TraceInfo
from mlflow.entities.trace_location import TraceLocation
from mlflow.entities.trace_state import TraceState
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.shared.volumes import ANNOUNCED_SECONDS
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.stores import open_tracking_store
from tests.table.fakes import FakeTime

Walk = Callable[[Any, str | None], str | None]
"""Reads a page of one or two rows, and returns the token of the next one."""

PARTS: list[Any] = [None, "abc", "", -1, 10**40, 1e308, True, [], [1], {}, "9" * 3_000]
PRESENCES: list[Any] = [0, 1, 2, 3, -1, "0", None, []]


@pytest.fixture(scope="module")
def tracking(tmp_path_factory: pytest.TempPathFactory) -> DynamoDBTrackingStore:
    """A store with an experiment that has an open volume and a closed one, and some of all else."""
    folder: Path = tmp_path_factory.mktemp("tokens")
    time = FakeTime()
    store = open_tracking_store(folder, time)
    for n in range(3):
        store.create_experiment(f"e{n}")
        fill(store, n)
    volumes = store.experiment_lookup.volumes
    volumes.spread("0", 2)
    time.sleep(ANNOUNCED_SECONDS + 1)
    volumes.close("0", 0)
    time.sleep(ANNOUNCED_SECONDS + 1)
    for n in range(3, 6):
        fill(store, n)
    return store


def fill(store: DynamoDBTrackingStore, n: int) -> None:
    """One more of everything that is listed in pages."""
    run_id = store.create_run("0", "u", n, [RunTag("t", f"v{n}")], f"run {n}").info.run_id
    store.log_batch(run_id, [Metric("m", 0.5 * n, 1, 1)], [Param("p", f"v{n}")], [])
    store.update_run_info(run_id, RunStatus.FINISHED, n + 1, None)
    place, tags = TraceLocation.from_experiment_id("0"), {"mlflow.traceName": f"trace {n}"}
    info = TraceInfo(f"tr-{n:032x}", place, n, TraceState.OK, execution_duration=1, tags=tags)
    store.start_trace(info)
    store.create_logged_model("0", f"model {n}")
    store.create_dataset(f"dataset {n}", experiment_ids=["0"])
    store.create_issue("0", f"issue {n}", "it is slow")
    store.create_mcp_server(f"a.b/server{n}")
    store.create_review_queue("0", name=f"queue {n}", queue_type="custom")
    for step in range(3):
        store.log_metric(run_id, Metric("long", 1.0, step, step))


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> DynamoDBRegistryStore:
    store = DynamoDBRegistryStore(f"dynamodb:///{tmp_path_factory.mktemp('tokens')}/mlflow.ddb")
    for n in range(4):
        store.create_registered_model(f"model {n}")
        store.create_model_version("model 0", f"s3://b/{n}")
    return store


def runs(*order: str, where: str = "") -> Walk:
    return lambda store, token: (
        store.search_runs(["0"], where, ViewType.ALL, 2, list(order), page_token=token).token
    )


def traces(*order: str) -> Walk:
    return lambda store, token: store.search_traces(
        None, None, 2, list(order), token, locations=["0"]
    )[1]


def models(*order: str) -> Walk:
    clauses = [{"field_name": name, "ascending": True} for name in order]
    return lambda store, token: (
        store.search_logged_models(["0"], None, None, 2, clauses, token).token
    )


def experiments(*order: str) -> Walk:
    return lambda store, token: (
        store.search_experiments(ViewType.ALL, 2, None, list(order), token).token
    )


TRACKING: dict[str, Walk] = {
    "runs": runs(),
    "runs, oldest first": runs("start_time ASC"),
    "runs by a metric": runs("metrics.m DESC"),
    "runs by a param": runs("params.p ASC"),
    "runs by a tag": runs("tags.t ASC"),
    "runs by name": runs("attributes.run_name ASC"),
    "runs by end": runs("attributes.end_time DESC"),
    "runs with a status": runs(where="attributes.status = 'FINISHED'"),
    "runs with a param": runs(where="params.p LIKE 'v%'"),
    "traces": traces(),
    "traces by duration": traces("execution_time_ms ASC"),
    "traces by name": traces("tags.`mlflow.traceName` ASC"),
    "models": models(),
    "models by name": models("name"),
    "models by a metric": models("metrics.m"),
    "experiments": experiments(),
    "experiments by name": experiments("name ASC"),
    "datasets": lambda store, token: store.search_datasets(max_results=2, page_token=token).token,
    "datasets of an experiment": lambda store, token: (
        store.search_datasets(["0"], max_results=2, page_token=token).token
    ),
    "datasets by name": lambda store, token: (
        store.search_datasets(max_results=2, order_by=["name"], page_token=token).token
    ),
    "issues": lambda store, token: store.search_issues("0", max_results=2, page_token=token).token,
    "servers": lambda store, token: store.search_mcp_servers(max_results=2, page_token=token).token,
    "queues": lambda store, token: (
        store.list_review_queues("0", max_results=2, page_token=token).token
    ),
}
REGISTRY: dict[str, Walk] = {
    "registered models": lambda store, token: (
        store.search_registered_models(max_results=2, page_token=token).token
    ),
    "registered models by time": lambda store, token: (
        store.search_registered_models(None, 2, ["last_updated_timestamp DESC"], token).token
    ),
    "versions": lambda store, token: (
        store.search_model_versions(max_results=2, page_token=token).token
    ),
    "versions by number": lambda store, token: (
        store.search_model_versions(None, 2, ["version_number ASC"], token).token
    ),
}


def changed(token: str) -> Iterator[str]:
    """The token with each value of its position replaced by others."""
    parsed = json.loads(base64.b64decode(token))
    if isinstance(parsed["after"], str):  # a token within a token
        for inner in changed(parsed["after"]):
            yield encoded({**parsed, "after": inner})
        return
    for place, (presence, value) in enumerate(parsed["after"]):
        others = [[presence, other] for other in PARTS] + [[other, value] for other in PRESENCES]
        for other in others:
            position = [*parsed["after"]]
            position[place] = other
            yield encoded({**parsed, "after": position})
    yield encoded({**parsed, "after": parsed["after"][1:]})


def encoded(parsed: Any) -> str:
    return base64.b64encode(json.dumps(parsed).encode()).decode()


def check(store: Any, walk: Walk) -> None:
    token = walk(store, None)
    assert token is not None
    tried = list(changed(token))
    assert len(tried) > 15
    errors = {forged: error for forged in tried if (error := error_of(walk, store, forged))}
    assert errors
    for forged, error in errors.items():
        shown = base64.b64decode(forged)
        assert error.error_code == "INVALID_PARAMETER_VALUE", f"{shown!r}: {error}"


def error_of(walk: Walk, store: Any, token: str) -> MlflowException | None:
    try:
        walk(store, token)
    except MlflowException as error:
        return error
    return None


@pytest.mark.parametrize("name", TRACKING)
def test_a_changed_token_is_refused_in_a_sentence(tracking, name):
    check(tracking, TRACKING[name])


@pytest.mark.parametrize("name", REGISTRY)
def test_a_changed_token_of_the_registry_is_refused_in_a_sentence(registry, name):
    check(registry, REGISTRY[name])
