"""Documents 000 and 002, the rows of metrics and datasets: raw items, and the requests made."""

from __future__ import annotations

from mlflow.entities import Metric, ViewType

from mlflow_dynamodbstore.shared.policies import PRIMARY_INDEX
from tests.places import run_place
from tests.specification.rows import Home
from tests.specification.test_document_000 import EXPERIMENT, finish, new_run, used


class TestMetrics:
    def test_log_metric(self, home: Home):
        """One PutItem into the log of the run; METRIC and MHIST come with the end (0098)."""
        run_id = new_run(home)
        home.store.log_metric(run_id, Metric("loss", 0.9, 1_000, 0))
        with home.recorded() as made:
            home.store.log_metric(run_id, Metric("loss", 0.5, 1_001, 1))
        assert [one.operation for one in made] == ["PutItem", "GetItem"]
        assert made[0].keys[0].sk.startswith(f"LIVE#{run_id}#")
        assert not home.rows(run_place(run_id).pk, f"R#{run_id}#M")
        finish(home, run_id)
        assert [sk.split("#")[2] for sk in home.rows(run_place(run_id).pk, f"R#{run_id}#M")] == [
            "METRIC",
            "MHIST",
        ]

    def test_log_metric_history(self, home: Home):
        """`R#<run_id>#MHIST#<key>#<step>#<ts>`, at the first of the points that lie together."""
        run_id = new_run(home)
        for step in range(3, 6):
            home.store.log_metric(run_id, Metric("loss", 0.5, 1_000 + step, step))
        finish(home, run_id)
        (sk,) = home.rows(run_place(run_id).pk, f"R#{run_id}#MHIST#loss#")
        assert sk.startswith(f"R#{run_id}#MHIST#loss#8000000000000003#80000000000003eb#")

    def test_get_metric_history(self, home: Home):
        """Query: PK=EXP#<id>, SK in R#<run_id>#MHIST#<key>#; before it, the log of the run."""
        run_id = new_run(home)
        for step in range(3):
            home.store.log_metric(run_id, Metric("loss", float(step), 1_000 + step, step))
        finish(home, run_id)
        with home.recorded() as made:
            found = home.store.get_metric_history(run_id, "loss")
        assert [point.value for point in found] == [0.0, 1.0, 2.0]
        assert [(one.operation, one.index, one.between[0]) for one in made] == [
            ("Query", None, f"LIVE#{run_id}#"),
            ("Query", None, f"R#{run_id}#MHIST#loss#"),
        ]

    def test_sort_runs_by_metric(self, home: Home):
        """Query on LSI5, by the metric that the operator chose."""
        home.needs_fetches()
        home.store.policies.set(PRIMARY_INDEX, {"metric": "auc", "complete": True})
        run_ids = []
        for value in (0.5, 2.0, -1.0):
            run_ids.append(new_run(home))
            home.store.log_metric(run_ids[-1], Metric("auc", value, 1_000, 0))
            finish(home, run_ids[-1])
        with home.recorded() as made:
            found = home.store.search_runs(["0"], "", ViewType.ALL, 2, ["metrics.auc DESC"])
        assert [run.info.run_id for run in found] == [run_ids[1], run_ids[0]]
        read = [one for one in made if one.operation == "Query" and one.index == "LSI5"]
        assert any(one.between[0].startswith("M#auc#") for one in read)


class TestDatasets:
    def test_create_dataset(self, home: Home):
        """PutItem: PK=EXP#<id>, SK=D#<dataset_hash>, with name and digest, and packed the rest."""
        run_id = new_run(home)
        with home.recorded() as made:
            home.store.log_inputs(run_id, [used("mnist", "1")])
        written = [key.sk for one in made if one.operation == "PutItem" for key in one.keys]
        (sk,) = [sk for sk in written if sk.startswith("D#")]
        row = home.item(EXPERIMENT, sk)
        assert row is not None
        assert (row["name"], row["digest"]) == ("mnist", "1")
        (dataset,) = home.store.inputs.list_datasets(run_id)
        assert dataset.source == "s3://mnist/1"

    def test_use_of_a_dataset(self, home: Home):
        """`DCTX#<dataset_hash>#<context>`: what the datasets of an experiment are used for."""
        run_id = new_run(home)
        home.store.log_inputs(run_id, [used("mnist", "1", "train"), used("mnist", "1", "eval")])
        (dataset,) = home.rows(EXPERIMENT, "D#")
        uses = [sk.rpartition("#")[2] for sk in home.rows(EXPERIMENT, f"DCTX#{dataset[2:]}")]
        assert uses
        summaries = home.store._search_datasets(["0"])
        assert {(one.name, one.digest, one.context) for one in summaries} == {
            ("mnist", "1", context) for context in uses
        }
