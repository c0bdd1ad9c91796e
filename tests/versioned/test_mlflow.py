"""MLflow downloads and lists versioned artifacts like any other."""

from __future__ import annotations

from pathlib import Path

import mlflow
import mlflow.pyfunc
import pytest
from mlflow.exceptions import MlflowException
from mlflow.pyfunc.model import PythonModel
from mlflow.store.artifact.artifact_repository_registry import (
    _artifact_repository_registry,
    get_artifact_repository,
)

from tests.versioned.conftest import Backing
from versioned import Repository
from versioned.mlflow_artifacts import VersionedArtifactRepository


@pytest.fixture
def repo(local: Backing, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setenv("VERSIONED_TABLE", local.table_uri)
    monkeypatch.setenv("VERSIONED_STORAGE", local.storage_uri)
    monkeypatch.setitem(
        _artifact_repository_registry._registry, "versioned", VersionedArtifactRepository
    )
    return local.open()


@pytest.fixture
def file(repo: Repository, tmp_path: Path) -> Path:
    path = tmp_path / "weights.bin"
    for content in (b"one", b"two"):
        path.write_bytes(content)
        repo.publish("weights", path)
    repo.put_alias("weights", "prod", 1)
    return path


@pytest.fixture
def folder(repo: Repository, tmp_path: Path) -> Path:
    made = tmp_path / "model"
    (made / "data").mkdir(parents=True)
    (made / "MLmodel").write_text("flavors: {}\n")
    (made / "data" / "weights.bin").write_bytes(b"one")
    repo.publish("model", made)
    repo.put_alias("model", "prod", 1)
    return made


@pytest.mark.parametrize(
    ("uri", "content"),
    [
        ("versioned:/weights/1", b"one"),
        ("versioned:/weights/2", b"two"),
        ("versioned:/weights", b"two"),
        ("versioned:/weights/LATEST", b"two"),
        ("versioned:/weights@prod", b"one"),
        ("versioned:/weights@prod?key=user-1", b"one"),
        ("versioned:/weights/1/weights.bin", b"one"),
        ("versioned:/weights@prod/weights.bin", b"one"),
    ],
)
def test_a_file_is_downloaded_by_its_uri(uri, content, file: Path, tmp_path: Path):
    target = tmp_path / "to"
    target.mkdir()
    path = Path(mlflow.artifacts.download_artifacts(artifact_uri=uri, dst_path=str(target)))
    assert (path, path.read_bytes()) == (target / "weights.bin", content)
    assert Path(mlflow.artifacts.download_artifacts(uri)).read_bytes() == content


def test_a_folder_is_downloaded_by_its_uri(folder: Path):
    for uri in ("versioned:/model/1", "versioned:/model@prod"):
        path = Path(mlflow.artifacts.download_artifacts(uri))
        assert (path / "MLmodel").read_text() == "flavors: {}\n"
        assert (path / "data" / "weights.bin").read_bytes() == b"one"


def test_a_part_of_a_folder_is_downloaded(folder: Path):
    path = Path(mlflow.artifacts.download_artifacts("versioned:/model@prod/data/weights.bin"))
    assert path.read_bytes() == b"one"
    path = Path(mlflow.artifacts.download_artifacts("versioned:/model/1/data"))
    assert [entry.name for entry in path.iterdir()] == ["weights.bin"]


def test_files_are_listed(file: Path, folder: Path):
    def listed(uri: str, path: str | None = None) -> list[tuple[str, bool, int | None]]:
        found = get_artifact_repository(uri).list_artifacts(path)
        return [(info.path, info.is_dir, info.file_size) for info in found]

    assert listed("versioned:/weights/1") == [("weights.bin", False, 3)]
    assert listed("versioned:/weights/1", "weights.bin") == []
    assert listed("versioned:/model/1") == [("MLmodel", False, 12), ("data", True, None)]
    assert listed("versioned:/model@prod", "data") == [("data/weights.bin", False, 3)]
    assert listed("versioned:/model@prod", "MLmodel") == []
    assert [info.path for info in mlflow.artifacts.list_artifacts("versioned:/model/1")] == [
        "1/MLmodel", "1/data",
    ]  # fmt: skip


@pytest.fixture
def model(repo: Repository, tmp_path: Path) -> str:
    class Doubles(PythonModel):
        def predict(self, context, model_input: list[int], params=None) -> list[int]:
            return [2 * number for number in model_input]

    mlflow.pyfunc.save_model(tmp_path / "saved", python_model=Doubles(), pip_requirements=[])
    repo.publish("doubles", tmp_path / "saved")
    repo.put_alias("doubles", "prod", 1)
    return "versioned:/doubles@prod"


def test_a_model_is_loaded_from_an_alias(model: str):
    assert mlflow.pyfunc.load_model(model).predict([1, 2]) == [2, 4]


def test_a_registered_model_can_point_at_an_alias(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Whoever loads it from the registry gets what the alias points at now."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a registry that starts at once
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}/registry")
    client = mlflow.MlflowClient()
    client.create_registered_model("doubles")
    client.create_model_version("doubles", source=model)
    assert client.get_model_version_download_uri("doubles", "1") == model
    assert mlflow.pyfunc.load_model("models:/doubles/1").predict([3]) == [6]


def test_one_repository_keeps_to_one_version_of_a_canary(repo: Repository, file: Path):
    repo.canary("weights", "prod", 2, 50)
    for _ in range(10):
        store = get_artifact_repository("versioned:/weights@prod")
        contents = {Path(store.download_artifacts("weights.bin")).read_bytes() for _ in range(3)}
        assert len(contents) == 1


def test_the_key_in_the_uri_decides_about_a_canary(repo: Repository, file: Path):
    repo.canary("weights", "prod", 2, 50)
    for key in ("a", "b", "c", "d"):
        path = mlflow.artifacts.download_artifacts(f"versioned:/weights@prod?key={key}")
        assert Path(path).read_bytes() == repo.read(repo.resolve("weights", "prod", key))


@pytest.mark.parametrize(
    ("uri", "code", "message"),
    [
        ("versioned:/nothing", "RESOURCE_DOES_NOT_EXIST", "no artifact 'nothing'"),
        ("versioned:/weights/3", "RESOURCE_DOES_NOT_EXIST", "the newest is 2"),
        ("versioned:/weights@dev", "RESOURCE_DOES_NOT_EXIST", "no alias 'dev'"),
        ("versioned:/weights/1/other", "RESOURCE_DOES_NOT_EXIST", "holds 'weights.bin'"),
        ("versioned:/model/1/other", "RESOURCE_DOES_NOT_EXIST", "holds no 'other'"),
        ("versioned:/model/1/../secret", "INVALID_PARAMETER_VALUE", "leaves its artifact"),
        ("versioned:/é", "INVALID_PARAMETER_VALUE", "my-app@prod"),
        ("versioned:/", "INVALID_PARAMETER_VALUE", "my-app@prod"),
        ("versioned://weights/1", "INVALID_PARAMETER_VALUE", "one slash"),
    ],
)
def test_what_is_not_there_is_told_in_mlflows_words(uri, code, message, file: Path, folder: Path):
    with pytest.raises(MlflowException, match=message) as caught:
        get_artifact_repository(uri).download_artifacts("")
    assert caught.value.error_code == code


def test_a_version_cannot_be_changed_through_mlflow(file: Path):
    store = get_artifact_repository("versioned:/weights/1")
    for call in (
        lambda: store.log_artifact(str(file)),
        lambda: store.log_artifacts(str(file.parent)),
        store.delete_artifacts,
    ):
        with pytest.raises(MlflowException, match="versioned"):
            call()


def test_without_its_environment_it_says_what_is_missing(repo, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("VERSIONED_STORAGE")
    with pytest.raises(MlflowException, match="VERSIONED_STORAGE"):
        get_artifact_repository("versioned:/app").list_artifacts()
