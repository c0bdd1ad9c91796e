"""Document 002, the access patterns of experiments, runs and what belongs to them.

Each test makes one call and looks at the requests that it made.
"""

from __future__ import annotations

from typing import Any

from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.table.values import Key
from tests.specification.rows import Home
from tests.specification.test_document_000 import EXPERIMENT, new_run, used


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
