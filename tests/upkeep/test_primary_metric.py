"""LSI5 follows the primary metric by a backfill, and is searched only while it is complete."""

from __future__ import annotations

import pytest
from mlflow.entities import Metric, RunStatus, RunTag, ViewType

from mlflow_dynamodbstore.shared.policies import PRIMARY_INDEX, PRIMARY_METRIC, Policies
from mlflow_dynamodbstore.tracking.run_search.search import forced_path, parse_run_query
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.upkeep import backfill
from mlflow_dynamodbstore.upkeep.backfill import POSITION
from mlflow_dynamodbstore.upkeep.primary_metric import PrimaryMetric
from tests.stores import ARTIFACTS, everything_in
from tests.upkeep.helpers import items_of, make_run


@pytest.fixture
def primary(store, time):
    return PrimaryMetric(store.table, store.policies, sleep=time.sleep)


def places(store):
    """Where each run stands in LSI5, by its id."""
    runs = [item for item in everything_in(store.table) if "lifecycle" in item and "state" in item]
    return {str(run["SK"])[2:]: run.get("lsi5sk") for run in runs}


def best(store, metric="loss", path=None):
    """Runs in the order of a metric, read by LSI5 where that is complete."""
    token = forced_path.set(path)
    try:
        found, _ = store._search_runs(
            ["0"], f"metrics.{metric} >= 0", ViewType.ALL, 100, [f"metrics.{metric} ASC"], None
        )
    finally:
        forced_path.reset(token)
    return [run.info.run_id for run in found]


def able(store, metric="loss"):
    parsed = parse_run_query("", [f"metrics.{metric} ASC"], ViewType.ALL)
    return store.run_search._with_indexes(parsed).plans().base.name


def test_a_metric_is_not_searched_by_the_index_before_its_backfill(store, primary):
    """Runs sealed before stand where another metric put them."""
    run_id = make_run(store, metrics={"acc": 0.5, "loss": 1.0})
    store.policies.set(PRIMARY_METRIC, "loss")
    assert places(store)[run_id].startswith("M#acc#")
    assert able(store) == "ByMetric"
    done = primary.backfill()
    assert (done.entities, done.entries) == (1, 1)
    assert places(store)[run_id].startswith("M#loss#")
    assert able(store) == "ByPrimaryMetric"
    assert best(store) == [run_id]


def test_runs_without_the_metric_leave_the_index_and_are_found_last(store, primary):
    """An order by the metric has them behind those that have it."""
    without = make_run(store, metrics={"acc": 0.5})
    having = make_run(store, metrics={"loss": 0.5})
    store.policies.set(PRIMARY_METRIC, "loss")
    primary.backfill()
    assert places(store)[without] is None
    found, _ = store._search_runs(["0"], "", ViewType.ALL, 9, ["metrics.loss ASC"], None)
    assert [run.info.run_id for run in found] == [having, without]


def test_live_and_deleted_runs_are_found(store, primary):
    """What is live stays listed as live; a deleted run has its place, and keeps it restored."""
    live = make_run(store, metrics={"loss": 2.0}, ended=False)
    deleted = make_run(store, metrics={"acc": 0.1, "loss": 1.0})
    store.delete_run(deleted)
    store.policies.set(PRIMARY_METRIC, "loss")
    primary.backfill()
    assert places(store)[live].startswith("LIVE#")
    assert best(store) == [deleted, live]
    store.restore_run(deleted)
    store.update_run_info(live, RunStatus.FINISHED, 9, None)
    assert places(store)[live].startswith("M#loss#")
    assert best(store) == [deleted, live]


def test_a_run_that_is_sealed_again_meanwhile_is_not_moved_back(store, primary):
    """Its sealer knows the new metric, and more than the summary that the backfill read."""
    run_id = make_run(store, metrics={"acc": 0.5, "loss": 1.0})
    store.policies.set(PRIMARY_METRIC, "loss")
    moves = list(primary._moves([own(store, run_id)], "loss"))
    store.log_metric(run_id, Metric("loss", 3.0, 9, 9))
    assert [outcome.status for outcome in store.table.write(moves)] == ["refused"]
    assert places(store)[run_id].startswith("LIVE#")


def test_a_run_being_sealed_again_stays_among_the_live(store, primary):
    """It is marked as sealing, and has written more than its last summary says."""
    run_id = make_run(store, metrics={"acc": 0.5, "loss": 1.0})
    store.log_metric(run_id, Metric("loss", 3.0, 9, 9))
    item = {**own(store, run_id), "state": "sealing"}
    assert not list(primary._moves([item], "loss"))


def test_another_metric_takes_over_in_steps(store, primary, time):
    """Searches stop, then sealing changes, then runs move, then searches begin: a minute each."""
    store.policies.set(PRIMARY_METRIC, "loss")
    primary.backfill()
    store.policies.set(PRIMARY_METRIC, "acc")
    # The wish alone changes nothing: whoever still searches by loss must not miss a run.
    late = make_run(store, metrics={"acc": 0.5, "loss": 1.0})
    assert places(store)[late].startswith("M#loss#")
    assert able(store) == "ByPrimaryMetric"
    states = []

    def noted(done):
        if done.waiting:
            index = Policies(store.table).all()[PRIMARY_INDEX]
            states.append((index["metric"], index["complete"]))

    began = time.now
    PrimaryMetric(store.table, store.policies, sleep=time.sleep, progress=noted).backfill()
    assert list(dict.fromkeys(states)) == [("loss", False), ("acc", False)]
    assert time.now - began >= 120
    assert places(store)[late].startswith("M#acc#")
    assert (able(store), able(store, "acc")) == ("ByMetric", "ByPrimaryMetric")


def test_a_process_with_old_settings_misses_nothing(store, primary, time):
    """Settings are kept for half a minute; until they are read anew, runs are sealed by them."""
    store.policies.set(PRIMARY_METRIC, "loss")
    primary.backfill()
    behind = DynamoDBTrackingStore("", ARTIFACTS, table=store.table)
    assert able(behind) == "ByPrimaryMetric"
    store.policies.set(PRIMARY_METRIC, "acc")
    run_id = make_run(store, metrics={"acc": 0.5, "loss": 1.0})
    assert best(behind) == [run_id]


def test_no_metric_any_more(store, primary):
    """Without a wish the index is let go, and runs stand by their first metric again."""
    store.policies.set(PRIMARY_METRIC, "loss")
    primary.backfill()
    store.policies.set(PRIMARY_METRIC, "")
    primary.backfill()
    assert primary.index() is None
    run_id = make_run(store, metrics={"acc": 0.5, "loss": 1.0})
    assert places(store)[run_id].startswith("M#acc#")


def test_a_backfill_that_is_interrupted_goes_on_where_it_was(store, primary, time, monkeypatch):
    """And the index is not searched before it has come to its end."""
    monkeypatch.setattr(backfill, "PAGE", 10)
    runs = [make_run(store, metrics={"acc": 0.5, "loss": n / 7}) for n in range(130)]
    store.policies.set(PRIMARY_METRIC, "loss")

    def killed(done):
        if done.entities > 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        PrimaryMetric(store.table, store.policies, sleep=time.sleep, progress=killed).backfill()
    assert items_of(store, POSITION)
    assert able(store) == "ByMetric"
    done = primary.backfill()
    assert done.entities < len(runs) / 2
    assert not items_of(store, POSITION)
    store.delete_run(runs[0])
    assert best(store)[:3] == best(store, path="ByTime")[:3]
    assert len(best(store)) == 100


def test_two_backfills_do_not_undo_each_other(store, time):
    """The one that was taken over stops, and says so."""
    for n in range(3):
        make_run(store, metrics={"acc": n, "loss": -n})
    store.policies.set(PRIMARY_METRIC, "loss")

    def taken_over(done):
        if done.waiting < 1:
            store.policies.set(PRIMARY_METRIC, "acc")
            PrimaryMetric(store.table, store.policies, sleep=time.sleep).backfill()

    first = PrimaryMetric(store.table, store.policies, sleep=time.sleep, progress=taken_over)
    with pytest.raises(ValueError, match="another backfill"):
        first.backfill()
    assert able(store, "acc") == "ByPrimaryMetric"
    assert all(place.startswith("M#acc#") for place in places(store).values())


def test_a_run_reopened_while_a_search_reads_is_not_missed(store, primary, monkeypatch):
    """It leaves the index for the list of live runs, which the search had read before."""
    runs = [make_run(store, metrics={"loss": float(n)}) for n in range(5)]
    store.policies.set(PRIMARY_METRIC, "loss")
    primary.backfill()
    original = store.table.query
    reopened = iter([runs[2]])

    def query(asked):
        if asked.index == "LSI5" and "M#loss" in str(asked.where.get_expression()["values"]):
            for run_id in reopened:
                store.set_tag(run_id, RunTag("late", "yes"))
        return original(asked)

    monkeypatch.setattr(store.table, "query", query)
    assert best(store) == runs
    assert next(reopened, None) is None


def own(store, run_id):
    (item,) = (item for item in everything_in(store.table) if item["SK"] == f"R#{run_id}")
    return item
