"""What is installed, what MLflow finds of it, and what it costs to load."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import distribution, entry_points

import pytest

import mlflow_dynamodbstore

DISTRIBUTION = "mlflow-dynamodbstore"
STORE_GROUPS = {
    "mlflow.tracking_store": "tracking_store",
    "mlflow.model_registry_store": "model_registry_store",
}


def loaded_by(statements: str) -> set[str]:
    """The modules a fresh interpreter has loaded after some statements."""
    program = f"import sys\n{statements}\nprint(*sys.modules, sep='\\n')"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(run.stdout.split())


def test_the_installed_version_is_the_one_in_the_package():
    assert distribution(DISTRIBUTION).version == mlflow_dynamodbstore.__version__


@pytest.mark.parametrize("group", STORE_GROUPS)
def test_mlflow_finds_a_factory_for_the_dynamodb_scheme(group):
    (entry,) = entry_points(group=group, name="dynamodb")
    assert entry.dist is not None
    assert entry.dist.name == DISTRIBUTION
    assert entry.load().__name__ == STORE_GROUPS[group]


def test_every_entry_point_can_be_loaded():
    entries = distribution(DISTRIBUTION).entry_points
    assert entries
    for entry in entries:
        assert callable(entry.load()), entry


def test_mlflow_registers_our_factories_for_server_and_client():
    from mlflow.server import handlers
    from mlflow.tracking._model_registry import utils as registry_utils
    from mlflow.tracking._tracking_service import utils as tracking_utils

    from mlflow_dynamodbstore import plugin

    uri = "dynamodb:///mlflow.ddb"
    tracking = (handlers._tracking_store_registry, tracking_utils._tracking_store_registry)
    assert {r.get_store_builder(uri) for r in tracking} == {plugin.tracking_store}
    models = (handlers._model_registry_store_registry, registry_utils._get_store_registry())
    assert {r.get_store_builder(uri) for r in models} == {plugin.model_registry_store}


def test_loading_the_entry_points_loads_nothing_but_the_plugin_module():
    """MLflow loads them at every start, for people who never use this store, too."""
    before = loaded_by("import __future__, typing")
    after = loaded_by("import __future__, typing, mlflow_dynamodbstore.plugin")
    assert after - before == {"mlflow_dynamodbstore", "mlflow_dynamodbstore.plugin"}


def test_nothing_of_ours_runs_when_an_interpreter_starts():
    """An editable install adds a folder to the path; a line with code would run at every start."""
    files = [file for file in distribution(DISTRIBUTION).files or () if file.suffix == ".pth"]
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert not [line for line in lines if line.startswith("import")]
    assert "mlflow_dynamodbstore" not in loaded_by("pass")


def test_the_package_says_that_it_is_typed():
    from importlib.resources import files

    assert files(mlflow_dynamodbstore).joinpath("py.typed").is_file()
