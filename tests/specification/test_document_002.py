"""Document 002, the access patterns of experiments, runs and what belongs to them.

Each test makes one call and looks at the requests that it made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mlflow.entities import ExperimentTag, Metric, Param, RunStatus, RunTag, Workspace

from mlflow_dynamodbstore.auth.store import DynamoDBAuthStore
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.workspaces.store import DynamoDBWorkspaceStore
from tests.specification.rows import Home, Request
from tests.specification.test_document_000 import EXPERIMENT, finish, new_run, used


class TestExperiments:
    @pytest.mark.index_at_once
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

    @pytest.mark.index_at_once
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


@pytest.mark.one_volume(reason="the document states what is in one partition")
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


@pytest.mark.one_volume(reason="the document states what is in one partition")
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


class TestExperimentItems:
    def test_get_experiment_by_id(self, home: Home):
        """GetItem: PK=EXP#<id>, SK=E#META."""
        experiment_id = home.store.create_experiment("nlp")
        with home.recorded() as made:
            home.store.get_experiment(experiment_id)
        assert made == [Request("GetItem", (Key(f"EXP#{experiment_id}", "E#META"),))]

    @pytest.mark.index_at_once
    def test_get_experiment_by_name(self, home: Home):
        """By the guard of the name, consistently, instead of GSI3: see 0123."""
        experiment_id = home.store.create_experiment("nlp")
        with home.recorded() as made:
            home.store.get_experiment_by_name("nlp")
        assert made == [
            Request("GetItem", (Key("WORKSPACE#default", "EXPNAME#nlp"),)),
            Request("GetItem", (Key(f"EXP#{experiment_id}", "E#META"),)),
        ]
        query = Query("EXPNAME#nlp", index="GSI3")
        (found,) = home.table.items(query)
        assert found["PK"] == f"EXP#{experiment_id}"

    @pytest.mark.index_at_once
    def test_list_experiments_in_workspace_and_by_name(self, home: Home):
        """By the guards, consistently, instead of GSI2 and GSI5, which have the same: see 0123."""
        made_ids = {home.store.create_experiment(name) for name in ("b", "a")}
        with home.recorded() as made:
            home.store.search_experiments(order_by=["name"])
        listing = made[0]
        assert (listing.operation, listing.partition) == ("Query", "WORKSPACE#default")
        assert listing.between == ("EXPNAME#", "EXPNAME$")
        listed = home.table.items(Query("WS#default", index="GSI2"))
        assert {str(item["PK"]) for item in listed} == {f"EXP#{n}" for n in (*made_ids, "0")}
        named = home.table.items(Query("WS#default#EXP", index="GSI5"))
        assert [item["gsi5sk"] for item in named] == ["Default", "a", "b"]

    def test_create_experiment(self, home: Home):
        """One transaction: E#META on the condition that it and its name are new."""
        with home.recorded() as made:
            experiment_id = home.store.create_experiment("nlp")
        (write,) = [one for one in made if one.operation == "TransactWriteItems"]
        assert set(write.keys) == {
            Key(f"EXP#{experiment_id}", "E#META"),
            Key(f"EXP#{experiment_id}", "E#NAME_REV"),
            Key("WORKSPACE#default", "EXPNAME#nlp"),
        }

    def test_delete_and_restore_experiment(self, home: Home):
        """An update of E#META, with the guard of its name."""
        experiment_id = home.store.create_experiment("nlp")
        own = {Key(f"EXP#{experiment_id}", "E#META"), Key("WORKSPACE#default", "EXPNAME#nlp")}
        for call in (home.store.delete_experiment, home.store.restore_experiment):
            with home.recorded() as made:
                call(experiment_id)
            (write,) = [one for one in made if one.operation == "TransactWriteItems"]
            assert set(write.keys) == own

    def test_set_experiment_tag(self, home: Home):
        """Put of E#TAG#<key>, together with the copy on E#META."""
        with home.recorded() as made:
            home.store.set_experiment_tag("0", ExperimentTag("team", "blue"))
        (write,) = [one for one in made if one.operation == "TransactWriteItems"]
        assert set(write.keys) == {Key(EXPERIMENT, "E#META"), Key(EXPERIMENT, "E#TAG#team")}


@pytest.mark.one_volume(reason="the document states what is in one partition")
class TestRuns:
    def test_get_run_by_id(self, home: Home):
        """GetItem alone: our ids name their experiment. GSI1 has it, for ids from elsewhere."""
        run_id = new_run(home)
        finish(home, run_id)
        with home.recorded() as made:
            home.store.get_run(run_id)
        assert made == [Request("GetItem", (Key(EXPERIMENT, f"R#{run_id}"),))]
        (found,) = home.table.items(Query(index_keys.run_locator(run_id), index="GSI1"))
        assert found["gsi1sk"] == "EXP#0"

    def test_create_run(self, home: Home):
        """PutItem: PK=EXP#<id>, SK=R#<run_id>, after its tags."""
        with home.recorded() as made:
            run_id = new_run(home, team="blue")
        written = [key.sk for one in made if one.operation == "PutItem" for key in one.keys]
        assert set(written[:-1]) == {f"R#{run_id}#TAG#mlflow.runName", f"R#{run_id}#TAG#team"}
        assert written[-1] == f"R#{run_id}"

    def test_update_run_info(self, home: Home):
        """UpdateItem: PK=EXP#<id>, SK=R#<run_id>."""
        run_id = new_run(home)
        with home.recorded() as made:
            home.store.update_run_info(run_id, RunStatus.SCHEDULED, None, None)
        assert [one.operation for one in made] == ["UpdateItem"]
        assert made[0].keys == (Key(EXPERIMENT, f"R#{run_id}"),)

    def test_delete_and_restore_run(self, home: Home):
        """UpdateItem of R#<run_id> first, and last when it is restored."""
        run_id = new_run(home)
        own = Request("UpdateItem", (Key(EXPERIMENT, f"R#{run_id}"),))
        with home.recorded() as made:
            home.store.delete_run(run_id)
        assert made[0] == own
        with home.recorded() as made:
            home.store.restore_run(run_id)
        assert made[-1] == own
        assert own in made[:-1]  # beside queries, in any order

    @pytest.mark.parametrize(
        ("arguments", "index", "begins"),
        [
            (("", 1), "LSI1", "ACTIVE#"),
            (("", 2), "LSI1", "DELETED#"),
            (("attributes.status = 'FAILED'", 1), "LSI3", "FAILED#"),
            (("attributes.run_name = 'night-owl'", 1), "LSI4", "R#night-owl#"),
        ],
        ids=["active", "deleted", "status", "name"],
    )
    def test_runs_by_lifecycle_status_and_name(
        self, home: Home, arguments: tuple[str, int], index: str, begins: str
    ):
        """Queries on LSI1, LSI3 and LSI4."""
        home.needs_fetches()
        for n in range(40):
            run_id = new_run(home)
            home.store.update_run_info(run_id, RunStatus.FINISHED, 2_000, f"run {n}" if n else None)
        with home.recorded() as made:
            home.store.search_runs(["0"], *arguments, 2)
        queried = [one for one in made if one.index == index]
        assert queried
        assert all(one.partition == EXPERIMENT for one in queried)
        assert any(one.between[0].startswith(begins) for one in queried)


class TestRunData:
    def test_log_param_and_set_tag(self, home: Home):
        """PutItem: SK=R#<run_id>#PARAM#<key> and R#<run_id>#TAG#<key>."""
        run_id = new_run(home)
        with home.recorded() as made:
            home.store.log_param(run_id, Param("lr", "0.1"))
            home.store.set_tag(run_id, RunTag("team", "blue"))
        written = [key.sk for one in made if one.operation == "PutItem" for key in one.keys]
        assert written == [f"R#{run_id}#PARAM#lr", f"R#{run_id}#TAG#team"]

    def test_get_all_params_and_tags_of_a_live_run(self, home: Home):
        """Query: one range from R#<run_id>#OUTPUT to R#<run_id>#TAG, around the history."""
        run_id = new_run(home, team="blue")
        home.store.log_param(run_id, Param("lr", "0.1"))
        with home.recorded() as made:
            run = home.store.get_run(run_id)
        assert run.data.params == {"lr": "0.1"}
        ranges = [one.between for one in made if one.operation == "Query"]
        assert (f"R#{run_id}#OUTPUT#", f"R#{run_id}#TAG$") in ranges


class TestSearchAndRanking:
    def test_search_runs_by_metric_and_param_value(self, home: Home):
        """Query: SK in RANK#m#<key># and RANK#p#<key>#."""
        for n in range(60):
            run_id = new_run(home)
            metrics = [Metric("auc", n / 60, 1_000, 0), Metric("other", 1.0, 1_000, 0)]
            home.store.log_batch(run_id, metrics, [Param("lr", str(n))], [])
            finish(home, run_id)
        for terms, begins in (
            ("metrics.other > 5", "RANK#m#other#"),
            ("params.lr = '7'", "RANK#p#lr#7#"),
        ):
            with home.recorded() as made:
                home.store.search_runs(["0"], terms, 1, 10)
            ranges = [one.between[0] for one in made if one.operation == "Query" and one.between]
            assert [low for low in ranges if low.startswith(begins)], ranges


class TestModelRegistry:
    @pytest.mark.index_at_once
    def test_models_versions_tags_and_aliases_by_their_keys(self, home: Home):
        """Items of RM#<name>; a list reads the guards of names instead of GSI5: see 0123."""
        registry = DynamoDBRegistryStore("", table=home.table)
        registry.create_registered_model("iris")
        registry.create_model_version("iris", "s3://m", None)
        registry.set_registered_model_alias("iris", "champion", "1")
        calls: dict[str, Callable[[], object]] = {
            "model": lambda: registry.get_registered_model("iris"),
            "version": lambda: registry.get_model_version("iris", "1"),
            "alias": lambda: registry.get_model_version_by_alias("iris", "champion"),
        }
        for what, call in calls.items():
            with home.recorded() as made:
                call()
            asked = {key.pk for one in made for key in one.keys}
            asked |= {one.partition for one in made if one.partition}
            assert asked == {"RM#iris"}, what
            assert len(made) == 1, what
        with home.recorded() as made:
            registry.search_registered_models()
        assert [(one.operation, one.partition) for one in made] == [("Query", "WORKSPACE#default")]
        (named,) = home.table.items(Query("RM_LIST", index="GSI5"))
        assert named["gsi5sk"] == "iris"


class TestAuthorization:
    @pytest.mark.index_at_once
    def test_check_and_list_permissions(self, home: Home):
        """U#PERM# of the user by its key; those of an experiment by GRANT#, as GSI4 tells later."""
        auth = DynamoDBAuthStore("", table=home.table)
        auth.create_user("ada", "a long enough password")
        auth.create_experiment_permission("7", "ada", "READ")
        with home.recorded() as made:
            auth.get_user("ada")
        assert Request("GetItem", (Key("USER#ada", "U#META"),)) in made
        (listed,) = home.rows("GRANT#experiment#7")
        assert listed == "USER#default#ada"
        query = Query("EXPPERM#7", index="GSI4")
        (found,) = home.table.items(query)
        assert (found["PK"], found["SK"]) == ("USER#ada", "U#PERM#7")
