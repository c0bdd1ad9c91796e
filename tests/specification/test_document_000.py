"""Document 000, the schema: a test for each row of experiments, runs and their datasets."""

from __future__ import annotations

from typing import Any

from mlflow.entities import (
    Dataset,
    DatasetInput,
    InputTag,
    RunStatus,
    RunTag,
)
from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT

from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.specification.rows import Home
from tests.stores import ARTIFACTS

EXPERIMENT = "EXP#0"


def new_run(home: Home, experiment_id: str = "0", **tags: str) -> str:
    given = [RunTag(key, value) for key, value in tags.items()]
    run_id: str = home.store.create_run(experiment_id, "ada", 1_000, given, "night-owl").info.run_id
    return run_id


def finish(home: Home, run_id: str) -> None:
    home.store.update_run_info(run_id, RunStatus.FINISHED, 2_000, None)


def used(name: str, digest: str = "9f", context: str = "train") -> DatasetInput:
    data = Dataset(name=name, digest=digest, source_type="s3", source=f"s3://{name}/{digest}")
    return DatasetInput(data, [InputTag(MLFLOW_DATASET_CONTEXT, context)])


def digests(home: Home, run_id: str) -> list[tuple[str, str]]:
    inputs: Any = home.store.get_run(run_id).inputs
    return [(one.dataset.name, one.dataset.digest) for one in inputs.dataset_inputs]


class TestRunEntities:
    def test_input_of_a_run_lies_at_the_datasets_name(self, home: Home):
        """`R#<run_id>#INPUT#<name>`: no digest while a name has one dataset."""
        run_id = new_run(home)
        home.store.log_inputs(run_id, [used("mnist"), used("iris")])
        home.store.log_inputs(run_id, [used("mnist")])
        rows = home.rows(EXPERIMENT, f"R#{run_id}#INPUT#")
        assert list(rows) == [f"R#{run_id}#INPUT#iris", f"R#{run_id}#INPUT#mnist"]
        assert {row["digest"] for row in rows.values()} == {"9f"}

    def test_input_names_the_digest_where_one_name_has_several(self, home: Home):
        """`R#<run_id>#INPUT#<name>#<digest>` for the second dataset of a name and further ones."""
        run_id = new_run(home)
        home.store.log_inputs(run_id, [used("mnist", "1"), used("mnist", "2")])
        home.store.log_inputs(run_id, [used("mnist", "3"), used("mnist", "1"), used("mnist", "2")])
        plain = f"R#{run_id}#INPUT#mnist"
        assert list(home.rows(EXPERIMENT, plain)) == [plain, f"{plain}#2", f"{plain}#3"]
        assert digests(home, run_id) == [("mnist", "1"), ("mnist", "2"), ("mnist", "3")]

    def test_inputs_of_older_releases_are_read(self, home: Home):
        """They name the digest always; logged again, the first one counts."""
        run_id = new_run(home)
        home.store.log_inputs(run_id, [used("mnist", "1", "train")])
        rows = home.rows(EXPERIMENT, f"R#{run_id}#INPUT#")
        (row,) = rows.values()
        old = {**row, "SK": run_keys.run_input(run_id, "mnist", "1")}
        home.table.delete(home.table.schema.key_of(row))
        home.table.write([Put(old)])
        home.store.log_inputs(run_id, [used("mnist", "1", "eval")])
        inputs: Any = home.store.get_run(run_id).inputs
        (only,) = inputs.dataset_inputs
        assert [tag.value for tag in only.tags] == ["train"]
        finish(home, run_id)
        assert digests(home, run_id) == [("mnist", "1")]

    def test_logged_model_of_a_run_lies_at_the_models_name(self, home: Home):
        """`R#<run_id>#LM#<model_name>`: a second model of one name has its id behind the name."""
        run_id = new_run(home)
        first, second, other = (
            home.store.create_logged_model("0", name, run_id) for name in ("iris", "iris", "lily")
        )
        rows = home.rows(EXPERIMENT, f"R#{run_id}#LM#")
        assert {sk: row["model_id"] for sk, row in rows.items()} == {
            f"R#{run_id}#LM#iris": first.model_id,
            f"R#{run_id}#LM#iris#{second.model_id}": second.model_id,
            f"R#{run_id}#LM#lily": other.model_id,
        }


class TestDatasetEntities:
    def test_dataset_link(self, home: Home):
        """`DLINK#<run_id>#<dataset_name>`, with a digest where one name has several."""
        run_id = new_run(home)
        home.store.log_inputs(run_id, [used("mnist", "1"), used("mnist", "2"), used("iris")])
        home.store.log_inputs(run_id, [used("mnist", "2"), used("mnist", "1")])
        links = home.rows(EXPERIMENT, f"DLINK#{run_id}#")
        assert list(links) == [
            f"DLINK#{run_id}#iris",
            f"DLINK#{run_id}#mnist",
            f"DLINK#{run_id}#mnist#2",
        ]
        stored = home.rows(EXPERIMENT, "D#")
        for link in links.values():
            experiment_id, _, dataset_hash = link["dataset"].partition("/")
            assert experiment_id == "0"
            assert f"D#{dataset_hash}" in stored


class TestCoreEntities:
    def test_reversed_name(self, home: Home):
        """`E#NAME_REV`: the name spelled backwards, in GSI5 among those of its workspace."""
        experiment_id = home.store.create_experiment("nlp #1")
        row = home.item(f"EXP#{experiment_id}", "E#NAME_REV")
        assert row is not None
        assert row["value"] == "1# pln"
        assert (row["gsi5pk"], row["gsi5sk"]) == ("WS#default#EXP_REV", "1%23%20pln")
        home.store.rename_experiment(experiment_id, "vision")
        row = home.item(f"EXP#{experiment_id}", "E#NAME_REV")
        assert row is not None
        assert (row["value"], row["gsi5sk"]) == ("noisiv", "noisiv")


class TestWorkspacePartition:
    def test_workspace_metadata_of_default(self, home: Home):
        """`WORKSPACE#default`, `WS#META`: there from the first opening on."""
        row = home.item("WORKSPACE#default", "WS#META")
        assert row is not None
        assert row["description"] == "Default workspace"

    def test_workspace_metadata_of_default_in_an_older_table(self, home: Home):
        """A table that was filled before gets the item when it is opened again, and keeps it."""
        key = Key("WORKSPACE#default", "WS#META")
        home.table.delete(key)
        DynamoDBTrackingStore("", ARTIFACTS, table=home.table)
        assert home.item(*key) is not None
        home.table.update(key, Update(set={"description": "ours"}))
        DynamoDBTrackingStore("", ARTIFACTS, table=home.table)
        row = home.item(*key)
        assert row is not None
        assert row["description"] == "ours"


class TestConfigPartition:
    def test_configuration_entry(self, home: Home):
        """`CONFIG`, `CFG#<key>`."""
        home.store.policies.set("primary_metric", "auc")
        row = home.item("CONFIG", "CFG#primary_metric")
        assert row is not None
        assert row["value"] == "auc"
