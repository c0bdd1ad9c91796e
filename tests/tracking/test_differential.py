"""Random sequences of calls give the same answers and errors on MLflow's SqlAlchemyStore and ours.

The short form is part of ``make test``; ``make fuzz`` runs long ones. With an index lag nothing may
differ either: what MLflow's API promises at once must not wait for a global index.
"""

from __future__ import annotations

import itertools
import math
import shutil
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)
from mlflow.entities import ExperimentTag, Metric, Param, RunStatus, RunTag, ViewType
from mlflow.exceptions import MlflowException
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.tracking import metric_log
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.engines import dynoxide_server, find_dynoxide
from tests.sql import empty_database

pytestmark = pytest.mark.hypothesis  # so that `make fuzz` runs it too

KEYS = st.sampled_from(["a", "b", "k 1", "x/y", "ż"])
TEXTS = st.sampled_from(["", "v", "w", "longer text", "it's 50%", "🙂", "n" * 300])
VALUES = st.one_of(
    st.sampled_from([0.0, 1.0, -1.5, math.nan, math.inf, -math.inf, 1e300, 5e-324]),
    st.floats(-10, 10, width=16),
)
LARGEST = sys.float_info.max
STEPS = st.integers(-3, 6)
TIMES = st.integers(0, 8)
POINTS = st.builds(Metric, KEYS, VALUES, TIMES, STEPS)
STATUSES = st.sampled_from(
    [None, RunStatus.RUNNING, RunStatus.FINISHED, RunStatus.FAILED, RunStatus.KILLED]
)
NAMES = st.sampled_from(["n1", "n2", "n3"])
VIEWS = st.sampled_from([ViewType.ACTIVE_ONLY, ViewType.DELETED_ONLY, ViewType.ALL])

_fresh = itertools.count()


class Difference(RuleBasedStateMachine):
    """Every rule calls both stores and compares what comes back."""

    processes: ClassVar[list[Any]]
    """Our stores on one table, of which each call goes to the next."""
    theirs: ClassVar[Any]

    def __init__(self) -> None:
        super().__init__()
        self._turns = itertools.cycle(self.processes)

    @property
    def ours(self) -> Any:
        return next(self._turns)

    experiments = Bundle("experiments")
    runs = Bundle("runs")

    @initialize(target=experiments)
    def begin(self) -> Any:
        self.prefix = f"{type(self).__name__}-{next(_fresh)}"
        return self.same("create_experiment", f"{self.prefix} first")

    # --- both stores ----------------------------------------------------------------------------

    def same(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method on both; what they return, or refuse with, must be the same."""
        mine, other = (outcome(store, method, args, kwargs) for store in (self.ours, self.theirs))
        assert shown(mine) == shown(other), (method, args, kwargs)
        return mine

    # --- experiments ----------------------------------------------------------------------------

    @rule(target=experiments, name=NAMES, tag=TEXTS)
    def create_experiment(self, name: str, tag: str) -> Any:
        tags = [ExperimentTag("t", tag)]
        created = self.same("create_experiment", f"{self.prefix} {name}", tags=tags)
        return created if isinstance(created, str) else self.missing_experiment()

    def missing_experiment(self) -> str:
        return "987654321"

    @rule(experiment=experiments)
    def get_experiment(self, experiment: str) -> None:
        self.same("get_experiment", experiment)

    @rule(name=NAMES)
    def get_experiment_by_name(self, name: str) -> None:
        self.same("get_experiment_by_name", f"{self.prefix} {name}")

    @rule(experiment=experiments, name=NAMES)
    def rename_experiment(self, experiment: str, name: str) -> None:
        # A name that is taken makes MLflow's SQL store fail with the database's own words.
        taken = self.theirs.get_experiment_by_name(f"{self.prefix} {name}")
        if taken is None:
            self.same("rename_experiment", experiment, f"{self.prefix} {name}")

    @rule(experiment=experiments)
    def delete_experiment(self, experiment: str) -> None:
        self.same("delete_experiment", experiment)

    @rule(experiment=experiments)
    def restore_experiment(self, experiment: str) -> None:
        self.same("restore_experiment", experiment)

    @rule(experiment=experiments, key=KEYS, value=TEXTS)
    def set_experiment_tag(self, experiment: str, key: str, value: str) -> None:
        self.same("set_experiment_tag", experiment, ExperimentTag(key, value))

    @rule(experiment=experiments, key=KEYS)
    def delete_experiment_tag(self, experiment: str, key: str) -> None:
        self.same("delete_experiment_tag", experiment, key)

    @rule(view=VIEWS)
    def search_experiments(self, view: int) -> None:
        filter_string = f"name LIKE '{self.prefix} %'"
        self.same("search_experiments", view, 100, filter_string, ["name ASC"])

    # --- runs -----------------------------------------------------------------------------------

    @rule(target=runs, experiment=experiments, start=TIMES, name=NAMES, tag=TEXTS)
    def create_run(self, experiment: str, start: int, name: str, tag: str) -> str:
        tags = [RunTag("t", tag)]
        mine = outcome(self.ours, "create_run", (experiment, "u", start, list(tags), name), {})
        run_id = mine.info.run_id if not isinstance(mine, Refused) else "0" * 32
        same_id = mock.Mock(return_value=SimpleNamespace(hex=run_id))
        with mock.patch("mlflow.store.tracking.sqlalchemy_store.uuid.uuid4", same_id):
            other = outcome(
                self.theirs, "create_run", (experiment, "u", start, list(tags), name), {}
            )
        assert shown(mine) == shown(other)
        return run_id

    @rule(run=runs)
    def get_run(self, run: str) -> None:
        self.same("get_run", run)

    @rule(run=runs, point=POINTS)
    def log_metric(self, run: str, point: Metric) -> None:
        self.same("log_metric", run, point)

    @rule(run=runs, key=KEYS, value=TEXTS)
    def log_param(self, run: str, key: str, value: str) -> None:
        self.same("log_param", run, Param(key, value))

    @rule(
        run=runs,
        points=st.lists(POINTS, max_size=6),
        params=st.lists(st.builds(Param, KEYS, TEXTS), max_size=3),
        tags=st.lists(st.builds(RunTag, KEYS, TEXTS), max_size=3),
    )
    def log_batch(
        self, run: str, points: list[Metric], params: list[Param], tags: list[RunTag]
    ) -> None:
        self.same("log_batch", run, points, params, tags)

    @rule(run=runs, key=st.one_of(KEYS, st.just("mlflow.runName")), value=TEXTS)
    def set_tag(self, run: str, key: str, value: str) -> None:
        self.same("set_tag", run, RunTag(key, value))

    @rule(run=runs, key=st.one_of(KEYS, st.just("mlflow.runName")))
    def delete_tag(self, run: str, key: str) -> None:
        self.same("delete_tag", run, key)

    @rule(
        run=runs, status=STATUSES, end=st.one_of(st.none(), TIMES), name=st.one_of(st.none(), NAMES)
    )
    def update_run_info(self, run: str, status: Any, end: int | None, name: str | None) -> None:
        self.same("update_run_info", run, status, end, name)

    @rule(run=runs)
    def delete_run(self, run: str) -> None:
        self.same("delete_run", run)

    @rule(run=runs)
    def restore_run(self, run: str) -> None:
        self.same("restore_run", run)

    @rule(run=runs, key=KEYS)
    def history(self, run: str, key: str) -> None:
        self.same("get_metric_history", run, key)

    @rule(run=runs, key=KEYS, size=st.integers(1, 4))
    def sampled_history(self, run: str, key: str, size: int) -> None:
        self.same("get_metric_history_bulk_interval", [run], key, size, None, None)

    @rule(
        experiments=st.lists(experiments, min_size=1, max_size=3, unique=True),
        view=VIEWS,
        order=st.sampled_from([[], ["metrics.a DESC"], ["metrics.a ASC"], ["params.b ASC"]]),
        filter_string=st.sampled_from(["", "metrics.a > 0", "params.b = 'v'", "tags.t LIKE '%t%'"]),
    )
    def search_runs(
        self, experiments: list[str], view: int, order: list[str], filter_string: str
    ) -> None:
        self.same("search_runs", experiments, filter_string, view, 50, order)


class Refused(SimpleNamespace):
    """An error, as a caller sees it."""


def outcome(store: Any, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return getattr(store, method)(*args, **kwargs)
    except MlflowException as error:
        # The SQL store quotes its database after "Error:"; what comes before is MLflow's.
        return Refused(code=error.error_code, message=error.message.split(" Error: ")[0])


def shown(value: Any) -> Any:
    """A result as something that compares: times that pass between two calls are left out."""
    if isinstance(value, list):
        return [shown(item) for item in value]
    if hasattr(value, "run_id") and hasattr(value, "as_dict"):
        return shown(value.as_dict())
    if hasattr(value, "to_dictionary"):
        return shown(value.to_dictionary())
    if isinstance(value, dict):
        passing = {"creation_time", "last_update_time", "artifact_uri", "artifact_location"}
        # A run just created has no outputs in MLflow's answer, and none in ours.
        empty: dict[str, Any] = {"model_outputs": []}
        return {k: shown(v) for k, v in sorted(value.items()) if k not in passing and v != empty}
    if hasattr(value, "__dict__"):
        return shown({k.lstrip("_"): v for k, v in vars(value).items()})
    if isinstance(value, float):
        # MLflow keeps infinities as the largest numbers.
        return "nan" if math.isnan(value) else max(-LARGEST, min(LARGEST, value))
    return value


@pytest.fixture(scope="module")
def folder() -> Any:
    path = Path(tempfile.mkdtemp(prefix="differential-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    return SqlAlchemyStore(empty_database(folder), str(folder))


@pytest.mark.parametrize("option", ["synchronous=NORMAL", "synchronous=NORMAL&index_lag=2"])
def test_same_answers_as_mlflows_sql_store(folder: Path, theirs: Any, option: str) -> None:
    """Hundreds of random calls: same answers, same errors, same error codes."""
    name = "lagging" if "lag" in option else "plain"
    compare(f"dynamodb:///{folder}/{name}.ddb?{option}", theirs, folder, name, share=2)


def test_same_answers_on_dynamodb(folder: Path, theirs: Any) -> None:
    """The same over DynamoDB's protocol, in a shorter run."""
    if find_dynoxide() is None:
        pytest.skip("dynoxide is not installed: tools/install_dynoxide.sh")
    with dynoxide_server() as address:
        compare(f"dynamodb://{address}/differential", theirs, folder, "dynoxide", share=5)


def test_same_answers_from_several_processes(
    folder: Path, theirs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three processes write to the same runs in turn, and fold their metrics after a few calls."""
    monkeypatch.setattr(metric_log, "SEGMENT_BYTES", 60)
    monkeypatch.setattr(metric_log, "SEGMENTS_BEFORE_FOLDING", 2)
    uri = f"dynamodb:///{folder}/several.ddb?synchronous=NORMAL&index_lag=2"
    compare(uri, theirs, folder, "several", share=2, processes=3)


def compare(uri: str, theirs: Any, folder: Path, name: str, share: int, processes: int = 1) -> None:
    """Run the machine on our stores of one table, for a share of the profile's examples."""
    Difference.theirs = theirs
    Difference.processes = [
        DynamoDBTrackingStore(uri, str(folder), table=Table(open_engine(uri)))
        for _ in range(processes)
    ]
    # Experiment ids are drawn one by one in both stores: bring them level.
    level(Difference.processes[0], theirs, name)
    machine = type(f"Difference_{name}", (Difference,), {})
    examples = max(1, settings().max_examples // share)
    run_state_machine_as_test(
        machine, settings=settings(stateful_step_count=50, deadline=None, max_examples=examples)
    )


def level(ours: Any, theirs: Any, name: str) -> None:
    """Make both stores give the next experiment the same id."""
    count = itertools.count()
    mine, other = (int(s.create_experiment(f"level {name}")) for s in (ours, theirs))
    while mine != other:
        behind = ours if mine < other else theirs
        number = int(behind.create_experiment(f"level {name} {next(count)}"))
        mine, other = (number, other) if behind is ours else (mine, number)
