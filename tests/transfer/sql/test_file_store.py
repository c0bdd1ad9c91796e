"""A folder of MLflow's file store is imported as a database is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from mlflow.entities import (
    Dataset,
    DatasetInput,
    ExperimentTag,
    InputTag,
    Metric,
    Param,
    RunStatus,
    RunTag,
    ViewType,
)
from mlflow.entities.model_registry import ModelVersionTag
from mlflow.store.model_registry.file_store import FileStore as FileRegistry
from mlflow.store.tracking.file_store import FileStore

from mlflow_dynamodbstore.cli import main
from mlflow_dynamodbstore.cli.exits import USAGE
from tests.traces.making import NOON
from tests.transfer.sql.helpers import stores

pytestmark = pytest.mark.index_at_once


def run(table: Any, *arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["--uri", table.engine.uri, *arguments])
    assert done.exit_code == code, done.output
    return done


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two experiments, five runs, one of them deleted, and a model."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    path = tmp_path / "mlruns"
    store = FileStore(str(path))
    first = store.create_experiment("first", tags=[ExperimentTag("team", "blue")])
    for n in range(5):
        where = first if n else "0"
        run_id = store.create_run(where, "ada", NOON + n, [RunTag("n", str(n))], f"run {n}")
        run_id = run_id.info.run_id
        points = [Metric("loss", 1 / (s + 1), NOON + s, s) for s in range(20)]
        store.log_batch(run_id, points, [Param("depth", str(n))], [])
        store.update_run_info(run_id, RunStatus.FINISHED, NOON + 99, None)
    dataset = Dataset("wine", "d1", "local", "{}", '{"columns": 3}', None)
    store.log_inputs(run_id, [DatasetInput(dataset, [InputTag("mlflow.data.context", "train")])])
    store.delete_run(run_id)
    registry = FileRegistry(str(path))
    registry.create_registered_model("iris", description="flowers")
    registry.create_model_version("iris", "s3://m/1", run_id, [ModelVersionTag("a", "b")])
    registry.set_registered_model_alias("iris", "champion", "1")
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")
    return path


def test_a_folder_is_imported_and_verified(folder: Path, table: Any):
    before = sorted(path for path in folder.rglob("*"))
    done = json.loads(run(table, "import", str(folder), "--json").stdout)
    assert done["moved"]["runs"]["written"] == 5
    assert done["verified"]["runs"] == {"compared": 5, "same": 5, "different": 0, "missing": 0}
    assert done["not_moved"] == {}
    assert sorted(path for path in folder.rglob("*")) == before  # nothing is written to it
    tracking, registry = stores(table)
    found: Any = tracking.get_experiment_by_name("first")
    assert found.tags == {"team": "blue"}
    runs = tracking.search_runs([found.experiment_id], "", ViewType.ACTIVE_ONLY, 9)
    assert {one.data.params["depth"] for one in runs} == {"1", "2", "3"}
    history = tracking.get_metric_history(runs[0].info.run_id, "loss")
    assert [point.value for point in history] == [1 / (s + 1) for s in range(20)]
    (deleted,) = tracking.search_runs([found.experiment_id], "", ViewType.DELETED_ONLY, 9)
    assert deleted.inputs.dataset_inputs[0].dataset.name == "wine"
    version = registry.get_model_version_by_alias("iris", "champion")
    assert (version.run_id, version.tags) == (deleted.info.run_id, {"a": "b"})
    again = json.loads(run(table, "import", f"file://{folder}", "--json").stdout)
    assert again["moved"]["runs"]["same"] == 5


def test_a_folder_goes_into_a_table_in_use(folder: Path, table: Any, tmp_path: Path):
    tracking, _ = stores(table)
    tracking.create_experiment("own")
    done = json.loads(
        run(
            table, "import", str(folder), "--prefix", "b-", "--map", str(tmp_path / "m"), "--json"
        ).stdout
    )
    assert done["findings"] == done["differences"] == []
    assert tracking.get_experiment_by_name("b-first") is not None


def test_files_that_cannot_be_read_are_counted(folder: Path, table: Any):
    found = sorted(folder.glob("*/*/meta.yaml"))
    meta = next(path for path in found if "run_id" in path.read_text())
    meta.write_text("{ this is: not [ yaml")
    done = json.loads(run(table, "import", str(folder), "--json").stdout)
    assert done["not_moved"]["files that cannot be read"] >= 1
    assert done["moved"]["runs"]["written"] == 4


def test_another_folder_gets_a_sentence(table: Any, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    said = run(table, "import", str(tmp_path / "empty"), code=USAGE).output
    assert "is not a folder of MLflow's file store" in " ".join(said.split())


def test_a_broken_line_of_a_metric_is_named(folder: Path, table: Any):
    metric = next(iter(sorted(folder.glob("*/*/metrics/loss"))))
    metric.write_text(metric.read_text() + "not a point of a metric\n")
    said = " ".join(run(table, "import", str(folder), code=USAGE).output.split())
    assert "failed at line 21 of" in said
    assert "'not a point of a metric'" in said
