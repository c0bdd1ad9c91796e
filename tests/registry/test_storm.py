"""The registry under throttling, lost answers and conflicts: nothing lost, nothing doubled."""

from __future__ import annotations

from pathlib import Path

from mlflow.entities.model_registry import ModelVersionTag, RegisteredModelTag

from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from tests.storms import THREADS, assert_one_made, in_threads, outcome, stormy_table

EACH = 4


def test_models_versions_and_aliases_in_a_storm(tmp_path: Path) -> None:
    """Every version has a number of its own, every name one model, every change its place."""
    with stormy_table(tmp_path) as table:
        store = DynamoDBRegistryStore(table.engine.uri, table=table)
        store.create_registered_model("shared")

        def work(thread: int) -> tuple[list[int], str]:
            numbers = []
            for n in range(EACH):
                source = f"s3://bucket/{thread}/{n}"
                made = store.create_model_version(
                    "shared", source, tags=[ModelVersionTag("of", source)]
                )
                numbers.append(int(made.version))
                store.set_registered_model_alias("shared", f"alias{thread}", made.version)
            for n in range(EACH):
                store.create_registered_model(f"model {thread} {n}")
                store.set_registered_model_tag(
                    f"model {thread} {n}", RegisteredModelTag("n", str(n))
                )
            store.rename_registered_model(f"model {thread} 0", f"renamed {thread}")
            store.delete_registered_model(f"model {thread} 1")
            return numbers, outcome(lambda: store.create_registered_model("same"))

        results = in_threads(work)
        assert_one_made([made for _, made in results])

        numbers = [number for some, _ in results for number in some]
        assert sorted(numbers) == list(range(1, THREADS * EACH + 1))
        for thread, (some, _) in enumerate(results):
            for n, number in enumerate(some):
                version = store.get_model_version("shared", str(number))
                assert version.source == f"s3://bucket/{thread}/{n}"
                assert version.tags == {"of": version.source}
            aliased = store.get_model_version_by_alias("shared", f"alias{thread}")
            assert int(aliased.version) == some[-1]
        names = {m.name for m in store.search_registered_models(max_results=1000)}
        assert names == {
            "shared",
            "same",
            *(f"renamed {thread}" for thread in range(THREADS)),
            *(f"model {thread} {n}" for thread in range(THREADS) for n in range(2, EACH)),
        }
        for thread in range(THREADS):
            assert store.get_registered_model(f"renamed {thread}").tags == {"n": "0"}
