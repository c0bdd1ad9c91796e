"""Document 002, the access patterns of experiments, runs and what belongs to them.

Each test makes one call and looks at the requests that it made.
"""

from __future__ import annotations

from typing import Any

import pytest
from mlflow.entities import ExperimentTag, Workspace

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.workspaces.store import DynamoDBWorkspaceStore
from tests.specification.rows import Home, Request
from tests.specification.test_document_000 import EXPERIMENT, new_run, used


class TestExperiments:
    def test_search_experiments_by_the_end_of_their_names(self, home: Home):
        """Query on GSI5 with the reversed end, whatever else the workspace holds."""
        for n in range(20):
            home.store.create_experiment(f"trial {n} v{n % 5}")
        assert names(home, "name LIKE '%v3'") == {f"trial {n} v3" for n in (3, 8, 13, 18)}
        home.time.sleep(2 * HOUR)
        with home.recorded() as made:
            assert names(home, "name LIKE '%v3'") == {f"trial {n} v3" for n in (3, 8, 13, 18)}
        queries = [one for one in made if one.operation == "Query" and one.partition != "CONFIG"]
        assert {(one.partition, one.index) for one in queries} == {
            ("WS#default#EXP_REV", "GSI5"),
            ("WORKSPACE#default", "LSI2"),
        }
        assert all(one.between[0] == "3v" for one in queries if one.index == "GSI5")
        (read,) = [one for one in made if one.operation == "BatchGetItem"]
        assert len(read.keys) == 4

    def test_names_of_older_releases_are_found_by_their_ends(self, home: Home):
        """They are in neither index; the searches that list all names add them."""
        for name in ("one v3", "two v3"):
            make_old(home, home.store.create_experiment(name), name)
        for _ in range(3):
            assert names(home, "name LIKE '%v3'") == {"one v3", "two v3"}
        make_old(home, home.store.create_experiment("late v3"), "late v3")
        home.time.sleep(25 * HOUR)
        for _ in range(3):
            assert names(home, "name LIKE '%v3'") == {"one v3", "two v3", "late v3"}
        assert home.item("WORKSPACE#default", "EXPNAME#late%20v3")["lsi2sk"]  # type: ignore[index]

    @pytest.mark.parametrize(
        "filter_string", ["name LIKE '%v3' AND tags.a = 'b'", "name LIKE '%3'"]
    )
    def test_the_end_of_a_name_is_one_term_among_others(self, home: Home, filter_string: str):
        home.store.create_experiment("one v3", tags=[ExperimentTag("a", "b")])
        renamed = home.store.create_experiment("two v3")
        names(home, "name LIKE '%v3'")
        home.store.rename_experiment(renamed, "two v4")
        assert names(home, filter_string) == {"one v3"}
        assert names(home, "name LIKE '%v4'") == {"two v4"}


HOUR = 3600


def names(home: Home, filter_string: str) -> set[str]:
    return {one.name for one in home.store.search_experiments(filter_string=filter_string)}


def make_old(home: Home, experiment_id: str, name: str) -> None:
    """Give an experiment's items the form of a release before the indexes of reversed names."""
    guard = access_keys.experiment_name_guard(name)
    home.table.update(guard, Update(remove=("lsi2sk",)))
    reversed_name = Key(f"EXP#{experiment_id}", "E#NAME_REV")
    home.table.update(reversed_name, Update(remove=("gsi5pk", "gsi5sk")))


class TestDatasets:
    def test_list_datasets_for_run(self, home: Home):
        """Query: PK=EXP#<id>, SK in DLINK#<run_id>#; then the datasets by their keys."""
        run_id, other = new_run(home), new_run(home)
        home.store.log_inputs(run_id, [used("mnist", "1"), used("mnist", "2"), used("iris")])
        home.store.log_inputs(other, [used("wine")])
        with home.recorded() as made:
            found = home.store.inputs.list_datasets(run_id)
        assert {(one.name, one.digest, one.source) for one in found} == {
            ("mnist", "1", "s3://mnist/1"),
            ("mnist", "2", "s3://mnist/2"),
            ("iris", "9f", "s3://iris/9f"),
        }
        query, read = made
        assert (query.operation, query.index, query.partition) == ("Query", None, EXPERIMENT)
        assert query.between == (f"DLINK#{run_id}#", f"DLINK#{run_id}$")
        assert read.operation == "BatchGetItem"
        assert {key.sk.split("#")[0] for key in read.keys} == {"D"}


class TestLoggedModels:
    def test_log_model_to_run(self, home: Home):
        """PutItem: PK=EXP#<id>, SK=R#<run_id>#LM#<model_name>."""
        run_id = new_run(home)
        with home.recorded() as made:
            model = home.store.create_logged_model("0", "iris", run_id)
        written = [key for one in made if one.operation == "PutItem" for key in one.keys]
        assert written == [
            Key(EXPERIMENT, f"R#{run_id}#LM#iris"),
            Key(EXPERIMENT, f"LM#{model.model_id}"),
        ]

    def test_list_logged_models_for_run(self, home: Home):
        """Query: PK=EXP#<id>, SK in R#<run_id>#LM#; a search by source run reads no others."""
        run_id, other = new_run(home), new_run(home)
        names = ("iris", "iris", "lily")
        mine = [home.store.create_logged_model("0", name, run_id) for name in names]
        for _ in range(5):
            home.store.create_logged_model("0", "iris", other)
        home.store.delete_logged_model(mine[2].model_id)
        with home.recorded() as made:
            found = home.store.search_logged_models(["0"], f"source_run_id = '{run_id}'")
        assert {one.model_id for one in found} == {one.model_id for one in mine[:2]}
        query, read = made
        assert (query.operation, query.index, query.partition) == ("Query", None, EXPERIMENT)
        assert query.between == (f"R#{run_id}", f"R#{run_id}#LM$")
        assert {key.sk for key in read.keys} == {f"LM#{one.model_id}" for one in mine}

    def test_a_search_by_source_run_gives_what_a_walk_gives(self, home: Home):
        """Over pages, with other terms, in any order, in several experiments."""
        second = home.store.create_experiment("second")
        run_id = new_run(home)
        for n in range(12):
            home.store.create_logged_model(("0", second)[n % 2], f"m{n % 3}", run_id)
        by_run = f"source_run_id = '{run_id}'"
        for terms in (by_run, f"{by_run} AND name != 'm1'", f"name LIKE 'm%' AND {by_run}"):
            for order in (None, [{"field_name": "name", "ascending": False}]):
                for experiments in (["0"], ["0", second]):
                    walked, listed = (
                        pages(home, experiments, term, order)
                        for term in (terms.replace("=", "LIKE", 1), terms)
                    )
                    assert listed == walked
                    assert listed

    def test_a_run_of_an_older_release_is_found_by_walking(self, home: Home):
        """Its entries may lack models: one of a name overwrote the other."""
        run_id = new_run(home)
        lost, listed = (home.store.create_logged_model("0", "iris", run_id) for _ in range(2))
        plain = Key(EXPERIMENT, run_keys.run_logged_model(run_id, "iris"))
        home.table.delete(
            Key(EXPERIMENT, run_keys.run_logged_model(run_id, "iris", listed.model_id))
        )
        home.table.put({"PK": plain.pk, "SK": plain.sk, "model_id": listed.model_id})
        home.store.create_logged_model("0", "lily", run_id)
        found = home.store.search_logged_models(["0"], f"source_run_id = '{run_id}'")
        assert {lost.model_id, listed.model_id} < {one.model_id for one in found}
        home.store._hard_delete_logged_model(listed.model_id)
        found = home.store.search_logged_models(["0"], f"source_run_id = '{run_id}'")
        assert lost.model_id in {one.model_id for one in found}


def pages(home: Home, experiments: list[str], terms: str, order: Any) -> list[str]:
    found: list[str] = []
    token = None
    while True:
        page = home.store.search_logged_models(
            experiments, terms, max_results=4, order_by=order, page_token=token
        )
        found += [one.model_id for one in page]
        token = page.token
        if not token:
            return found


class TestConfiguration:
    def test_get_config_value(self, home: Home):
        """GetItem: PK=CONFIG, SK=CFG#<key>."""
        home.store.policies.set("primary_metric", "auc")
        with home.recorded() as made:
            assert home.store.policies.read("primary_metric") == "auc"
            assert home.store.policies.stored("trace_retention_days") is None
        assert made == [
            Request("GetItem", (Key("CONFIG", f"CFG#{name}"),))
            for name in ("primary_metric", "trace_retention_days")
        ]

    def test_set_config_value(self, home: Home):
        """PutItem: PK=CONFIG, SK=CFG#<key>."""
        with home.recorded() as made:
            home.store.policies.set("primary_metric", "auc")
        assert made == [Request("PutItem", (Key("CONFIG", "CFG#primary_metric"),))]

    def test_list_all_config(self, home: Home):
        """Query: PK=CONFIG, SK in CFG#."""
        home.store.policies.set("primary_metric", "auc")
        with home.recorded() as made:
            assert home.store.policies.all()["primary_metric"] == "auc"
        assert made == [Request("Query", (), None, "CONFIG", ("CFG#", "CFG$"))]


class TestWorkspace:
    def test_get_workspace(self, home: Home):
        """GetItem: PK=WORKSPACE#<name>, SK=WS#META."""
        workspaces = DynamoDBWorkspaceStore("", table=home.table)
        with home.recorded() as made:
            assert workspaces.get_workspace("default").description == "Default workspace"
        assert made == [Request("GetItem", (Key("WORKSPACE#default", "WS#META"),))]

    def test_create_and_update_workspace(self, home: Home):
        """PutItem: PK=WORKSPACE#<name>, SK=WS#META; a change is an UpdateItem of the same item."""
        workspaces = DynamoDBWorkspaceStore("", table=home.table)
        own = Key("WORKSPACE#team", "WS#META")
        with home.recorded() as made:
            workspaces.create_workspace(Workspace("team", "ours"))
        assert Request("PutItem", (own,)) in made
        with home.recorded() as made:
            workspaces.update_workspace(Workspace("team", "theirs"))
        assert made == [Request("UpdateItem", (own,))]
