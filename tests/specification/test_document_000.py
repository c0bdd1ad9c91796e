"""Document 000, the schema: a test for each row of experiments, runs and their datasets."""

from __future__ import annotations

from typing import Any

import pytest
from mlflow.entities import (
    Dataset,
    DatasetInput,
    ExperimentTag,
    InputTag,
    Metric,
    Param,
    RunStatus,
    RunTag,
)
from mlflow.entities.model_registry import RegisteredModelTag
from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT

from mlflow_dynamodbstore.auth.store import DynamoDBAuthStore
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.specification.rows import Home
from tests.stores import ARTIFACTS

pytestmark = pytest.mark.one_volume(reason="the document states what is in one partition")
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

    def test_experiment_metadata(self, home: Home):
        """`E#META`: name, artifact location, lifecycle stage, creation and update time."""
        experiment_id = home.store.create_experiment("nlp")
        row = home.item(f"EXP#{experiment_id}", "E#META")
        assert row is not None
        assert (row["name"], row["lifecycle"]) == ("nlp", "active")
        assert row["artifact_location"].endswith(f"/{experiment_id}")
        assert {"creation_time", "last_update_time"} < row.keys()

    def test_experiment_tag(self, home: Home):
        """`E#TAG#<key>`."""
        experiment_id = home.store.create_experiment("nlp", tags=[ExperimentTag("team", "blue")])
        home.store.set_experiment_tag(experiment_id, ExperimentTag("later", "red"))
        rows = home.rows(f"EXP#{experiment_id}", "E#TAG#")
        assert {sk: row["value"] for sk, row in rows.items()} == {
            "E#TAG#later": "red",
            "E#TAG#team": "blue",
        }


class TestRunRows:
    def test_run_metadata(self, home: Home):
        """`R#<run_id>`: name, status, lifecycle stage, start and end time, user, artifact URI."""
        run_id = new_run(home)
        finish(home, run_id)
        row = home.item(EXPERIMENT, f"R#{run_id}")
        assert row is not None
        facts = {"name": "night-owl", "status": "FINISHED", "lifecycle": "active", "user": "ada"}
        assert facts.items() <= row.items()
        assert (row["start_time"], row["end_time"]) == (1_000, 2_000)
        assert run_id in row["artifact_uri"]

    def test_param_and_tag(self, home: Home):
        """`R#<run_id>#PARAM#<key>` and `R#<run_id>#TAG#<key>`."""
        run_id = new_run(home, team="blue")
        home.store.log_param(run_id, Param("lr", "0.1"))
        param, tag = (home.item(EXPERIMENT, f"R#{run_id}#{s}") for s in ("PARAM#lr", "TAG#team"))
        assert param is not None
        assert tag is not None
        assert (param["value"], tag["value"]) == ("0.1", "blue")

    def test_latest_metric_of_a_finished_run(self, home: Home):
        """`R#<run_id>#METRIC#<key>`: the most recent value."""
        run_id = new_run(home)
        for step, value in enumerate((0.9, 0.5)):
            home.store.log_metric(run_id, Metric("loss", value, 1_000 + step, step))
        finish(home, run_id)
        row = home.item(EXPERIMENT, f"R#{run_id}#METRIC#loss")
        assert row is not None
        assert row["value"] == 0.5


class TestRankingEntities:
    def test_metric_rank_is_inverted(self, home: Home):
        """`RANK#m#<key>#<inv_value>#<run_id>`: the greatest value comes first."""
        run_ids = []
        for value in (0.5, 2.0, -1.0):
            run_ids.append(new_run(home))
            home.store.log_metric(run_ids[-1], Metric("auc", value, 1_000, 0))
            finish(home, run_ids[-1])
        ranks = list(home.rows(EXPERIMENT, "RANK#m#auc#"))
        assert [sk.rpartition("#")[2] for sk in ranks] == [run_ids[1], run_ids[0], run_ids[2]]
        assert ranks[1] == f"RANK#m#auc#401fffffffffffff#{run_ids[0]}"

    def test_param_rank(self, home: Home):
        """`RANK#p#<key>#<value>#<run_id>`."""
        run_id = new_run(home)
        home.store.log_param(run_id, Param("lr", "0.1"))
        finish(home, run_id)
        assert list(home.rows(EXPERIMENT, "RANK#p#")) == [f"RANK#p#lr#0.1#{run_id}"]


class TestModelRegistryPartition:
    def test_model_version_tag_and_alias(self, home: Home):
        """`RM#<name>`: `M#META`, `M#V#<version>`, `M#TAG#<key>`, `M#ALIAS#<alias>`."""
        registry = DynamoDBRegistryStore("", table=home.table)
        registry.create_registered_model("iris", description="flowers")
        registry.create_model_version("iris", "s3://m", None)
        registry.set_registered_model_tag("iris", RegisteredModelTag("team", "blue"))
        registry.set_registered_model_alias("iris", "champion", "1")
        rows = home.rows("RM#iris")
        assert rows["M#META"]["description"] == "flowers"
        assert rows["M#V#0000000001"]["source"] == "s3://m"
        assert rows["M#TAG#team"]["value"] == "blue"
        assert int(rows["M#ALIAS#champion"]["version"]) == 1
        meta = rows["M#META"]
        assert (meta["gsi3pk"], meta["gsi3sk"]) == ("RMNAME#iris", "RM#iris")
        assert (meta["gsi5pk"], meta["gsi5sk"]) == ("RM_LIST", "iris")


class TestUserPartition:
    def test_user_and_permissions(self, home: Home):
        """`USER#<username>`: `U#META`, `U#PERM#<experiment_id>`, `U#RPERM#<model_name>`."""
        auth = DynamoDBAuthStore("", table=home.table)
        auth.create_user("ada", "a long enough password")
        auth.create_experiment_permission("7", "ada", "READ")
        auth.create_registered_model_permission("iris", "ada", "EDIT")
        rows = home.rows("USER#ada")
        assert {"U#META", "U#PERM#7", "U#RPERM#iris"} <= rows.keys()
        assert "password" not in str(rows["U#META"]).lower().replace("password_hash", "")
        perm, rperm = rows["U#PERM#7"], rows["U#RPERM#iris"]
        assert (perm["permission"], rperm["permission"]) == ("READ", "EDIT")
        assert (perm["gsi4pk"], perm["gsi4sk"]) == ("EXPPERM#7", "USER#ada")
        assert (rperm["gsi4pk"], rperm["gsi4sk"]) == ("RMPERM#iris", "USER#ada")


class TestIndexAttributes:
    def test_run_in_gsi1_and_all_local_indexes(self, home: Home):
        """RUN#<run_id> to EXP#<id>; lifecycle, time, status, name and metric."""
        run_id = new_run(home)
        home.store.log_metric(run_id, Metric("auc", 0.5, 1_000, 0))
        finish(home, run_id)
        row = home.item(EXPERIMENT, f"R#{run_id}")
        assert row is not None
        time = "1970-01-01T00:00:01.000Z"
        assert {name: row[name] for name in row if name.startswith(("gsi", "lsi"))} == {
            "gsi1pk": f"RUN#{run_id}",
            "gsi1sk": "EXP#0",
            "lsi1sk": f"ACTIVE#{time}#{run_id}",
            "lsi2sk": f"R#{time}#{run_id}",
            "lsi3sk": f"FINISHED#{time}#{run_id}",
            "lsi4sk": f"R#night-owl#{run_id}",
            "lsi5sk": f"M#auc#bfe0000000000000#{run_id}",
        }

    def test_experiment_in_gsi2_gsi3_and_gsi5(self, home: Home):
        """The list of its workspace, its name, and the list by name."""
        experiment_id = home.store.create_experiment("nlp")
        row = home.item(f"EXP#{experiment_id}", "E#META")
        assert row is not None
        assert {name: row[name] for name in row if name.startswith("gsi")} == {
            "gsi2pk": "WS#default",
            "gsi2sk": f"EXP#{experiment_id}",
            "gsi3pk": "EXPNAME#nlp",
            "gsi3sk": f"EXP#{experiment_id}",
            "gsi5pk": "WS#default#EXP",
            "gsi5sk": "nlp",
        }
