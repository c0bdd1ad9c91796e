"""A store that remembers a run or a model does with it what one without memories does.

Whatever another process has made of it meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Dataset, DatasetInput, Metric, Param, RunStatus, RunTag, ViewType
from mlflow.entities.logged_model_output import LoggedModelOutput
from mlflow.entities.logged_model_parameter import LoggedModelParameter
from mlflow.entities.logged_model_status import LoggedModelStatus
from mlflow.entities.logged_model_tag import LoggedModelTag
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.stores import open_tracking_store
from tests.table.fakes import FakeTime

Names = dict[str, str]
Act = Callable[[DynamoDBTrackingStore, Names], Any]
Store = DynamoDBTrackingStore


def metric(model: str | None = None) -> Metric:
    return Metric("loss", 0.5, 1, 1, model_id=model)


def removed(store: Store, n: Names) -> None:
    store.delete_run(n["run"])
    store._hard_delete_run(n["run"])


def model_removed(store: Store, n: Names) -> None:
    store.delete_logged_model(n["model"])
    store._hard_delete_logged_model(n["model"])


MEANWHILE: dict[str, Act] = {
    "run deleted": lambda store, n: store.delete_run(n["run"]),
    "run removed": removed,
    "run finished": lambda store, n: store.update_run_info(
        n["run"], RunStatus.FINISHED, 1000, "done"
    ),
    "experiment deleted": lambda store, n: store.delete_experiment(n["experiment"]),
    "model deleted": lambda store, n: store.delete_logged_model(n["model"]),
    "model removed": model_removed,
}

THEN: dict[str, Act] = {
    "log_metric": lambda store, n: store.log_metric(n["run"], metric()),
    "log_batch": lambda store, n: store.log_batch(
        n["run"], [metric()], [Param("depth", "3")], [RunTag("colour", "red")]
    ),
    "log_param": lambda store, n: store.log_param(n["run"], Param("width", "3")),
    "set_tag": lambda store, n: store.set_tag(n["run"], RunTag("size", "large")),
    "delete_tag": lambda store, n: store.delete_tag(n["run"], "old"),
    "update_run_info": lambda store, n: (
        store.update_run_info(n["run"], RunStatus.FAILED, 2000, None).status
    ),
    "rename": lambda store, n: store.update_run_info(n["run"], None, None, "again").run_name,
    "log_inputs": lambda store, n: store.log_inputs(
        n["run"], [DatasetInput(Dataset("data", "digest", "local", "here"))]
    ),
    "log_outputs": lambda store, n: store.log_outputs(
        n["run"], [LoggedModelOutput(n["model"], step=1)]
    ),
    "get_metric_history": lambda store, n: [
        (point.value, point.step) for point in store.get_metric_history(n["run"], "first")
    ],
    "delete_run": lambda store, n: store.delete_run(n["run"]),
    "restore_run": lambda store, n: store.restore_run(n["run"]),
    "create_issue": lambda store, n: (
        store.create_issue(n["experiment"], "slow", "too slow", source_run_id=n["run"]).name
    ),
    "finalize_logged_model": lambda store, n: (
        store.finalize_logged_model(n["model"], LoggedModelStatus.READY).status
    ),
    "set_logged_model_tags": lambda store, n: store.set_logged_model_tags(
        n["model"], [LoggedModelTag("colour", "red")]
    ),
    "log_logged_model_params": lambda store, n: store.log_logged_model_params(
        n["model"], [LoggedModelParameter("depth", "3")]
    ),
    "get_logged_model": lambda store, n: store.get_logged_model(n["model"]).name,
}


def outcome(act: Act, store: Store, names: Names) -> Any:
    try:
        return act(store, names)
    except MlflowException as error:
        return error.error_code, _anonymous(error.message, names)


def _anonymous(text: str, names: Names) -> str:
    for what, name in names.items():
        if what != "experiment":
            text = text.replace(name, what)
    return text


def seen_by(store: Store, names: Names) -> Any:
    run = outcome(lambda s, n: _facts_of_run(s.get_run(n["run"])), store, names)
    found = store.search_runs([names["experiment"]], "", ViewType.ALL)
    models = store.search_logged_models([names["experiment"]])
    return run, [_facts_of_run(one) for one in found], [dict(one.tags) for one in models]


def _facts_of_run(run: Any) -> Any:
    tags = {key: value for key, value in run.data.tags.items() if key != "mlflow.runName"}
    return run.info.status, run.info.lifecycle_stage, run.data.metrics, run.data.params, tags


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_what_is_remembered_of_runs_and_models_changes_nothing(
    tmp_path: Path, meanwhile: str
) -> None:
    time = FakeTime()
    store, other, unaware, reader = stores = [open_tracking_store(tmp_path, time) for _ in range(4)]
    differing = {}
    for name, act in THEN.items():
        seen = []
        for actor in (store, unaware):
            names = known_to(store, f"{name} {actor is store}")
            MEANWHILE[meanwhile](other, names)
            done = outcome(act, actor, names)
            seen.append([done, seen_by(reader, names)])
        if _with_one_experiment(seen[0]) != _with_one_experiment(seen[1]):
            differing[name] = seen
    assert differing == {}
    for opened in stores:
        opened.table.close()


def known_to(store: Store, name: str) -> Names:
    """An experiment with a run and a model that a store has just written to."""
    home = store.create_experiment(name)
    run = store.create_run(home, "ada", 1, [RunTag("old", "yes")], "run").info.run_id
    model = store.create_logged_model(home, "model", source_run_id=run).model_id
    names = {"experiment": home, "run": run, "model": model}
    store.log_batch(run, [Metric("first", 1.0, 1, 1, model_id=model)], [], [])
    return names


def _with_one_experiment(seen: Any) -> str:
    """What was seen, without the numbers in which experiments differ."""
    return "".join(letter for letter in repr(seen) if not letter.isdigit())
