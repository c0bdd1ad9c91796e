"""Runs that one process deletes while another restores them."""

from __future__ import annotations

import pytest
from mlflow.entities import Metric, Param, RunStatus, RunTag

from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.table.contract import Query
from tests.interleaving import at_every_moment, two_stores
from tests.places import run_place


def made(store):
    run_id = store.create_run("0", "ada", 0, [RunTag("a", "1")], "n").info.run_id
    store.log_batch(run_id, [Metric("m", 1.0, 1, 1)], [Param("p", "x")], [])
    store.update_run_info(run_id, RunStatus.FINISHED, 9, None)
    return run_id


def check_is_dated_as_a_whole(store, run_id):
    """All items of a run expire with it, or none of them does."""
    run = store.table.get(run_place(run_id).key)
    within = Query(run_place(run_id).pk, run_keys.run_children(run_id).on())
    children = [item for item in store.table.items(within) if "#MHIST#" not in item["SK"]]
    assert len(children) == 4
    assert {item.get("ttl") for item in children} == {run.get("ttl")}
    assert ("ttl" in run) == (run["lifecycle"] == "deleted")


@pytest.mark.parametrize(
    ("interrupted", "meanwhile"),
    [
        ("delete_run", ["restore_run"]),
        ("restore_run", ["delete_run"]),
        ("delete_run", ["restore_run", "delete_run"]),
        ("restore_run", ["delete_run", "restore_run"]),
        ("restore_run", ["restore_run"]),
    ],
)
def test_a_run_and_its_items_expire_together(tmp_path, interrupted, meanwhile):
    """Were an active run left with items that expire, it would lose them months later."""
    two = two_stores(tmp_path)
    moments = run = 0

    def other():
        two.second.table.clock.sleep(5)
        for name in meanwhile:
            getattr(two.second, name)(run)

    for moments in at_every_moment(two, other):  # noqa: B007
        run = made(two.second)
        if interrupted == "restore_run":
            two.second.delete_run(run)
        getattr(two.first, interrupted)(run)
        check_is_dated_as_a_whole(two.second, run)
    assert moments > 5
