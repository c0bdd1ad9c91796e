"""Document 001, the decision record: a test for each prefix, sort key and index, named after it.

Where 001 and 000 name a key differently, 000 holds: `EXPNAME#` and not `EXP_NAME#`.
"""

from __future__ import annotations

import pytest
from mlflow.entities import (
    Dataset,
    DatasetInput,
    ExperimentTag,
    Metric,
    Param,
    RunStatus,
    RunTag,
    ViewType,
)
from mlflow.entities.model_registry import RegisteredModelTag
from mlflow.entities.workspace import Workspace

from mlflow_dynamodbstore.auth.store import DynamoDBAuthStore
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.shared.policies import TEXT_FIELDS
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.upkeep.lookups import find_runs, find_traces
from mlflow_dynamodbstore.workspaces.store import DynamoDBWorkspaceStore
from tests.specification.logged import Logged, logged
from tests.traces.making import NOON, make_info, make_spans, trace_id

__all__ = ["logged"]

pytestmark = pytest.mark.one_volume(reason="the document states what is in one partition")
TRACE = trace_id(1)
INDEXED = ("run.name", "experiment.name", "registered_model.name")


class Filled:
    """One of everything."""

    def __init__(self, logged: Logged) -> None:
        self.logged = logged
        store, registry = logged.tracking, logged.registry
        field = {"levels": ["trigram", "word"], "complete": True, "gsi2": True}
        store.policies.set(TEXT_FIELDS, dict.fromkeys(INDEXED, field))
        store.policies.set("trace_retention_days", 40)
        self.experiment = store.create_experiment("iris study", tags=[ExperimentTag("team", "red")])
        self.pk = f"EXP#{self.experiment}"
        tags = [RunTag("kind", "test")]
        made = store.create_run(self.experiment, "ada", NOON, tags, "iris run")
        self.run = str(made.info.run_id)
        metrics = [Metric("loss", 0.5, NOON, 3), Metric("loss", 0.4, NOON + 1, 4)]
        store.log_batch(self.run, metrics, [Param("lr", "0.1")], [RunTag("a", "b")])
        dataset = Dataset(name="mnist", digest="9f2c", source_type="local", source="{}")
        store.log_inputs(self.run, [DatasetInput(dataset, [])])
        store.update_run_info(self.run, RunStatus.FINISHED, NOON + 1, None)
        store.log_spans(self.experiment, make_spans(TRACE))
        store.start_trace(make_info(TRACE, self.experiment, client_request_id="order-17"))
        registry.create_registered_model("iris", [RegisteredModelTag("team", "red")])
        registry.create_model_version("iris", "s3://b/m")
        registry.set_registered_model_alias("iris", "champion", 1)
        DynamoDBWorkspaceStore("", table=logged.table).create_workspace(Workspace("team"))
        auth = DynamoDBAuthStore("", table=logged.table)
        auth.create_user("ada", "a long password")
        auth.create_experiment_permission(self.experiment, "ada", "READ")
        auth.create_registered_model_permission("iris", "ada", "EDIT")

    def item(self, pk: str, sk: str) -> Item:
        found = self.logged.table.get(Key(pk, sk))
        assert found is not None, (pk, sk)
        return found

    def in_index(self, index: str, partition: str, beginning: str = "") -> Item:
        """The one entry of an index in a partition."""
        (found,) = self.logged.in_index(index, partition, beginning)
        return found


@pytest.fixture(scope="module")
def filled(logged: Logged) -> Filled:
    return Filled(logged)


class TestPartitions:
    """Every item shares the same table and the same PK and SK."""

    def test_experiments_runs_metrics_params_tags_traces(self, filled: Filled):
        """EXP#."""
        kinds = {sk.split("#")[0] for sk in filled.logged.sort_keys(f"^{filled.pk}$")}
        assert {"E", "R", "T", "RANK", "FTS", "FTS_REV", "D", "DLINK"} <= kinds

    def test_registered_models_versions_aliases_model_tags(self, filled: Filled):
        """RM#."""
        assert filled.logged.sort_keys("^RM#iris$") == [
            "M#ALIAS#champion",
            "M#META",
            "M#TAG#team",
            "M#V#0000000001",
        ]

    def test_workspace_metadata(self, filled: Filled):
        """WORKSPACE#."""
        assert filled.item("WORKSPACE#team", "WS#META")

    def test_auth_users_and_permissions(self, filled: Filled):
        """USER#."""
        assert set(filled.logged.sort_keys("^USER#ada$")) >= {
            "U#META",
            f"U#PERM#{filled.experiment}",
            "U#RPERM#iris",
        }

    def test_system_configuration(self, filled: Filled):
        """CONFIG: TTL policy, FTS fields."""
        assert filled.item("CONFIG", "CFG#trace_retention_days")["value"] == 40
        assert set(filled.item("CONFIG", "CFG#fts_fields")["value"]) == set(INDEXED)


class TestSortKeysOfAnExperiment:
    """The sort key encodes the hierarchy."""

    @pytest.mark.parametrize(
        ("sk", "attribute", "value"),
        [
            ("E#META", "name", "iris study"),
            ("E#TAG#team", "value", "red"),
            ("R#{run}", "name", "iris run"),
            ("R#{run}#METRIC#loss", "value", 0.4),
            ("R#{run}#PARAM#lr", "value", "0.1"),
            ("R#{run}#TAG#kind", "value", "test"),
            ("R#{run}#TAG#a", "value", "b"),
            ("T#{trace}", "state", "OK"),
        ],
    )
    def test_a_key_holds_its_value(self, filled: Filled, sk: str, attribute: str, value: object):
        item = filled.item(filled.pk, sk.format(run=filled.run, trace=TRACE))
        assert item[attribute] == value

    def test_metric_history_point(self, filled: Filled):
        """R#<run_ulid>#MHIST#<key>#<step>."""
        step = f"{3 + 2**63:016x}"
        history = f"^R#{filled.run}#MHIST#loss#{step}#"
        assert filled.logged.sort_keys(f"^{filled.pk}$", history)
        points = filled.logged.tracking.get_metric_history(filled.run, "loss")
        assert [(point.step, point.value) for point in points] == [(3, 0.5), (4, 0.4)]

    def test_run_ulid(self, filled: Filled):
        """Ids of runs sort by the time they were made."""
        store = filled.logged.tracking
        runs = [store.create_run("0", "u", NOON, [], f"r{n}").info.run_id for n in range(3)]
        assert sorted(runs) == runs

    def test_full_text_search_forward_and_reverse(self, filled: Filled):
        """FTS#<level>#<token>#... and FTS_REV#<entity>#..., of words and of three letters."""
        for level, token in (("word", "iris"), ("trigram", "iri"), ("trigram", "s%20r")):
            filled.item(filled.pk, f"FTS#{level}#{token}#run.name#{filled.run}")
            filled.item(filled.pk, f"FTS_REV#run.name#{filled.run}#{level}#{token}")


class TestGlobalIndexes:
    """Five of them, each with its prefixes."""

    def test_five_global_and_five_local_indexes(self, filled: Filled):
        assert [index.name for index in MLFLOW_TABLE.indexes if not index.is_local] == [
            f"GSI{n}" for n in range(1, 6)
        ]
        assert [index.name for index in MLFLOW_TABLE.indexes if index.is_local] == [
            f"LSI{n}" for n in range(1, 6)
        ]

    def test_gsi1_run(self, filled: Filled):
        """RUN#."""
        assert filled.in_index("GSI1", f"RUN#{filled.run}")["gsi1sk"] == filled.pk

    def test_gsi1_trace(self, filled: Filled):
        """TRACE#."""
        assert filled.in_index("GSI1", f"TRACE#{TRACE}")["gsi1sk"] == filled.pk

    def test_gsi1_client(self, filled: Filled):
        """CLIENT#: the trace of a client's request, across experiments, without walking time."""
        entry = filled.in_index("GSI1", "CLIENT#order-17")
        assert (entry["PK"], entry["SK"]) == (filled.pk, f"T#{TRACE}#CLIENT")
        with filled.logged.requests() as made:
            (found,) = find_traces(filled.logged.table, "order-17")
        assert (found.trace_id, found.experiment_id) == (TRACE, filled.experiment)
        assert [(one.operation, one.index) for one in made] == [
            ("Query", "GSI1"),
            ("BatchGetItem", None),
        ]

    def test_client_requests_are_searched_in_lsi5(self, filled: Filled):
        """MLflow's own search names its experiments and must not miss what was just written."""
        store = filled.logged.tracking
        store.search_traces([filled.experiment], "client_request_id = 'x'")
        with filled.logged.requests() as made:
            found, _ = store.search_traces([filled.experiment], "client_request_id = 'order-17'")
        assert [info.trace_id for info in found] == [TRACE]
        assert [(one.operation, one.index) for one in made] == [
            ("Query", "LSI5"),
            ("BatchGetItem", None),
        ]

    def test_gsi1_ds(self, filled: Filled):
        """DS#: the runs that used a dataset, across experiments."""
        entry = filled.in_index("GSI1", "DS#9f2c")
        assert (entry["PK"], entry["gsi1sk"]) == (filled.pk, f"RUN#{filled.run}")
        assert entry["SK"].startswith(f"DLINK#{filled.run}#mnist")
        with filled.logged.requests() as made:
            (found,) = find_runs(filled.logged.table, "9f2c")
        assert (found.run_id, found.experiment_id) == (filled.run, filled.experiment)
        assert [(one.operation, one.index) for one in made] == [
            ("Query", "GSI1"),
            ("BatchGetItem", None),
        ]

    def test_datasets_are_searched_in_lsi5(self, filled: Filled):
        store, experiments = filled.logged.tracking, [filled.experiment, "0"]
        store.search_runs(experiments, "dataset.digest = 'x'", ViewType.ACTIVE_ONLY)
        with filled.logged.requests() as made:
            found = store.search_runs(experiments, "dataset.digest = '9f2c'", ViewType.ACTIVE_ONLY)
        assert [run.info.run_id for run in found] == [filled.run]
        assert {one.index for one in made if one.operation == "Query"} <= {"LSI5", None}
        assert not [one for one in made.queries(None) if one.partition.startswith("EXP#")]

    def test_gsi2_experiments_of_a_workspace(self, filled: Filled):
        """EXPERIMENTS#, in 000 WS#<workspace>."""
        assert filled.in_index("GSI2", "WS#default", filled.pk)["PK"] == filled.pk

    def test_gsi2_cross_partition_fts(self, filled: Filled):
        """FTS_NAMES#, in 000 FTS#<token>: runs, experiments and models with one word."""
        found = {item["gsi2sk"] for item in filled.logged.in_index("GSI2", "FTS#iris")}
        assert found == {
            f"word#run.name#{filled.run}",
            f"word#experiment.name#{filled.experiment}",
            "word#registered_model.name#iris",
        }

    def test_gsi3_experiment_name(self, filled: Filled):
        """EXP_NAME#, in 000 EXPNAME#<name>."""
        assert filled.in_index("GSI3", "EXPNAME#iris%20study")["gsi3sk"] == filled.pk

    def test_gsi3_model_name(self, filled: Filled):
        """MODEL_NAME#, in 000 RMNAME#<name>."""
        assert filled.in_index("GSI3", "RMNAME#iris")["gsi3sk"] == "RM#iris"

    def test_gsi3_alias(self, filled: Filled):
        """ALIAS#: the models that have an alias."""
        entry = filled.in_index("GSI3", "ALIAS#champion")
        assert (entry["PK"], entry["SK"]) == ("RM#iris", "M#ALIAS#champion")
        assert entry["gsi3sk"] == "RM#iris"
        with filled.logged.requests() as made:
            found = filled.logged.registry.find_registered_models_with_alias("champion")
        assert {name: target.version for name, target in found.items()} == {"iris": 1}
        assert [(one.operation, one.index) for one in made] == [
            ("Query", "GSI3"),
            ("BatchGetItem", None),
        ]

    def test_gsi4_permissions_by_resource(self, filled: Filled):
        """PERM#, in 000 EXPPERM# and RMPERM#."""
        for partition in (f"EXPPERM#{filled.experiment}", "RMPERM#iris"):
            assert filled.in_index("GSI4", partition)["gsi4sk"] == "USER#ada"

    def test_gsi5_sorted_name_listings(self, filled: Filled):
        """EXP_NAMES# and MODEL_NAMES#, in 000 WS#<workspace>#EXP and RM_LIST."""
        assert filled.in_index("GSI5", "WS#default#EXP", "iris%20study")["PK"] == filled.pk
        assert filled.in_index("GSI5", "RM_LIST", "iris")["PK"] == "RM#iris"


class TestLocalIndexes:
    """LSI1 to LSI5 are alternative sort orders of an experiment's runs and traces."""

    @pytest.mark.parametrize(
        ("index", "run", "trace"),
        [
            ("LSI1", "ACTIVE#2023-11-14T22:13:20.000Z#", "T#2023-11-14T22:13:20.000Z#"),
            ("LSI2", "R#2023-11-14T22:13:20.000Z#", "T#2023-11-14T22:13:20.000Z#"),
            ("LSI3", "FINISHED#2023-11-14T22:13:20.000Z#", "OK#2023-11-14T22:13:20.000Z#"),
            ("LSI4", "R#iris%20run#", "T#predict#"),
        ],
    )
    def test_runs_and_traces(self, filled: Filled, index: str, run: str, trace: str):
        assert filled.in_index(index, filled.pk, run)["SK"] == f"R#{filled.run}"
        assert filled.in_index(index, filled.pk, trace)["SK"] == f"T#{TRACE}"

    def test_lsi5_runs_by_a_metric(self, filled: Filled):
        assert filled.in_index("LSI5", filled.pk, "M#loss#")["SK"] == f"R#{filled.run}"


class TestConsequences:
    """What the record says follows from it."""

    def test_collocated_data(self, filled: Filled):
        """A run's details are a single query of its partition."""
        with filled.logged.requests() as made:
            found = filled.logged.table.items(_below(filled))
            kinds = {str(item["SK"]).split("#")[2] for item in found if item["SK"].count("#") > 1}
        assert {"METRIC", "MHIST", "PARAM", "TAG", "INPUT"} <= kinds
        assert len(made) == 1

    def test_trigram_tokenization(self, filled: Filled):
        """Several forward and reverse items for an indexed text: 'iris run' has six threes."""
        own = f"^{filled.pk}$"
        run = filled.run
        assert len(filled.logged.sort_keys(own, f"^FTS#trigram#.*#run.name#{run}$")) == 6
        assert len(filled.logged.sort_keys(own, f"^FTS_REV#run.name#{run}#trigram#")) == 6

    def test_denormalization(self, filled: Filled):
        """Values of tags are on META items, so that filtered searches need no further lookups."""
        assert filled.item(filled.pk, "E#META")["t:team"] == "red"
        assert filled.item("RM#iris", "M#META")["t:team"] == "red"
        assert "summary" in filled.item(filled.pk, f"R#{filled.run}")


def _below(filled: Filled) -> Query:
    return Query(filled.pk, where=run_keys.run_children(filled.run).on())
