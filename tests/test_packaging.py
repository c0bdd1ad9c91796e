"""What is installed, what MLflow finds of it, and what it costs to load."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from importlib.metadata import distribution, entry_points
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

import mlflow_dynamodbstore
from mlflow_dynamodbstore.table import location

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
    packages = {name.partition(".")[0] for name in after - before} - sys.stdlib_module_names
    assert packages == {"mlflow_dynamodbstore"}
    ours = {name for name in after if name.startswith("mlflow_dynamodbstore.")}
    assert {name.partition(".")[2] for name in ours} == {
        "plugin",
        "mlflow_compat",
        "mlflow_compat.hooks",
        "mlflow_compat.post_import",
    }


def test_nothing_of_ours_runs_when_an_interpreter_starts():
    """An editable install adds a folder to the path; a line with code would run at every start."""
    files = [file for file in distribution(DISTRIBUTION).files or () if file.suffix == ".pth"]
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert not [line for line in lines if line.startswith("import")]
    assert "mlflow_dynamodbstore" not in loaded_by("pass")


def test_the_package_says_that_it_is_typed():
    from importlib.resources import files

    assert files(mlflow_dynamodbstore).joinpath("py.typed").is_file()


# --- what is released ---------------------------------------------------------------------------

ROOT = Path(__file__).parents[1]
PYPROJECT = (ROOT / "pyproject.toml").read_text()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return folder


def test_the_wheel_and_the_sdist_pass_the_checks_of_pypi(built):
    files = sorted(str(path) for path in built.iterdir())
    assert [Path(file).suffix for file in files] == [".whl", ".gz"]
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *files],
        check=False,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout


def test_the_readme_on_pypi_leads_to_the_repository(built):
    (wheel,) = built.glob("*.whl")
    with ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        told = archive.read(name).decode()
    targets = re.findall(r"\]\(([^)\s]+)\)", told)
    assert targets
    assert [t for t in targets if not t.startswith(("https://", "http://", "#"))] == []
    local = re.findall(r"/(?:raw|blob)/v[\d.]+/([^)\s#]+)", told)
    assert [path for path in local if not (ROOT / path).exists()] == []
    # All of them from the one base URL.
    (repository,) = re.findall(r'^repository = "(.*)"$', PYPROJECT, flags=re.MULTILINE)
    assert all(t.startswith(repository) for t in targets if "/raw/" in t or "/blob/" in t)
    assert f"Project-URL: Source, {repository}" in told


def test_the_sdist_has_what_building_it_needs_and_nothing_private(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "hatch_build.py", "README.md", "LICENSE"} <= names
    assert not [n for n in names if n.startswith((".venv", ".dyn", "data/", "site/", ".ci"))]


def test_the_workflows_test_the_python_versions_that_the_package_names():
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PYPROJECT)
    jobs = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == named


def test_workflows_and_make_agree():
    """A workflow calls targets of the Makefile only, so that people can run what CI runs."""
    makefile = (ROOT / "Makefile").read_text()
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        targets = re.findall(r"run: make ([a-z0-9]+)", path.read_text())
        assert targets
        assert [t for t in targets if f"\n{t}:" not in makefile] == []


def test_the_image_runs_as_nobody_in_particular_and_says_whether_it_is_healthy():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    final = lines[max(n for n, line in enumerate(lines) if line.startswith("FROM ")) :]
    assert "USER 10001:10001" in final
    assert final.index("USER 10001:10001") < next(
        n for n, line in enumerate(final) if line.startswith("ENTRYPOINT")
    )
    assert any(line.startswith("HEALTHCHECK ") for line in final)
    copied = [name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]]
    assert [n for n in copied if not n.startswith(("-", "/")) and not (ROOT / n).exists()] == []


def test_compose_names_a_table_that_the_server_understands():
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    command = services["mlflow"]["command"]
    table = location.parse(command[command.index("--table") + 1])
    assert table.endpoint == "http://dynamodb:8000"
    assert "dynamodb" in services
