"""The lifecycle page, sentence by sentence; each test's docstring is what the page promises.

That DynamoDB removes within two days, without write capacity, and tells streams who did it, is said
of AWS and cannot be shown here. That expiry is switched on is in ``tests/deploy``, that the doctor
notices when it is off in ``test_doctor.py``, and spans that outlive X-Ray's 30 days in
``tests/traces/test_xray.py``.
"""

from __future__ import annotations

import pytest
from mlflow.entities import Metric, RunStatus, TraceInfo, TraceLocation, TraceState, ViewType
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.shared.policies import ENVIRONMENT, Policies
from mlflow_dynamodbstore.shared.workspaces import all_experiments
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup
from tests.places import run_place
from tests.stores import everything_in
from tests.upkeep.helpers import items_of, make_run

DAY = 24 * 3600
SOFT, TRACE, HISTORY = (
    "soft_deleted_retention_days",
    "trace_retention_days",
    "metric_history_retention_days",
)


def run_item(store, run_id):
    return store.table.get(run_place(run_id).key)


def children(store, run_id):
    return [item for item in items_of(store, f"R#{run_id}#") if "#MHIST#" not in item["SK"]]


def history(store, run_id):
    return items_of(store, f"R#{run_id}#MHIST#")


def stages(store, run_id):
    found, _ = store._search_runs(["0"], None, ViewType.ALL, 100, [], None)
    return [run.info.lifecycle_stage for run in found if run.info.run_id == run_id]


# --- retention policies -------------------------------------------------------------------------


def test_there_are_three_policies_with_their_defaults(store):
    """Deleted things are kept 90 days, traces 30, the history of metrics 365."""
    assert {name: store.policies.get(name) for name in (SOFT, TRACE, HISTORY)} == {
        SOFT: 90,
        TRACE: 30,
        HISTORY: 365,
    }


def test_the_policies_are_independent(store, time):
    """Changing one policy leaves the others as they are."""
    store.policies.set(HISTORY, 7)
    assert store.policies.expiry(SOFT) == int(time.now) + 90 * DAY
    assert store.policies.expiry(TRACE) == int(time.now) + 30 * DAY
    assert store.policies.expiry(HISTORY) == int(time.now) + 7 * DAY


@pytest.mark.parametrize("policy", [SOFT, TRACE, HISTORY])
def test_a_policy_of_zero_switches_expiry_off(store, policy):
    """Days of 0 mean that nothing of this kind expires."""
    store.policies.set(policy, 0)
    assert store.policies.expiry(policy) is None


def test_a_policy_can_be_set_by_the_environment(store, monkeypatch, time):
    """A variable at the start of a process wins over the table in that process alone."""
    monkeypatch.setenv(ENVIRONMENT[SOFT], "5")
    here = Policies(store.table)
    assert here.get(SOFT) == 5
    assert here.all()[SOFT] == 5
    assert here.source(SOFT) == "environment"
    assert here.expiry(SOFT) == int(time.now) + 5 * DAY
    monkeypatch.delenv(ENVIRONMENT[SOFT])
    assert Policies(store.table).get(SOFT) == 90


@pytest.mark.parametrize("text", ["ten", "-1", "1.5", "99999999"])
def test_a_variable_that_is_no_number_of_days_is_refused(store, monkeypatch, text):
    monkeypatch.setenv(ENVIRONMENT[TRACE], text)
    with pytest.raises(ValueError, match=ENVIRONMENT[TRACE]):
        Policies(store.table)


# --- mechanics ----------------------------------------------------------------------------------


def test_expired_items_are_invisible_from_their_second_on(either_store, time):
    """The storage deletes late, up to two days; nobody sees an item once its second has come."""
    store = either_store
    run_id = make_run(store)
    store.delete_run(run_id)
    ttl = run_item(store, run_id)["ttl"]
    time.now = ttl - 1
    assert store.get_run(run_id).info.lifecycle_stage == "deleted"
    time.now = ttl
    with pytest.raises(MlflowException, match="not found"):
        store.get_run(run_id)
    assert stages(store, run_id) == []
    assert store.table.engine.get(run_place(run_id).key) is not None


def test_the_embedded_engine_removes_expired_items_itself(store, time):
    """A file has no service behind it: its own sweep takes away what has expired."""
    run_id = make_run(store)
    store.delete_run(run_id)
    time.sleep(90 * DAY)
    assert store.table.engine.sweep(time.now) > 0
    assert store.table.engine.get(run_place(run_id).key) is None


# --- soft delete --------------------------------------------------------------------------------


def test_deleting_sets_the_stage_and_the_expiry(either_store, time):
    """A deleted run says so, and expires after the policy's days, as Unix seconds."""
    store = either_store
    run_id = make_run(store)
    store.delete_run(run_id)
    item = run_item(store, run_id)
    assert item["lifecycle"] == "deleted"
    assert item["ttl"] == int(time.now) + 90 * DAY
    assert type(item["ttl"]) is int


def test_with_expiry_switched_off_a_deleted_item_stays_until_removed_by_hand(store, time):
    """Without a retention nothing is dated, and only `mlflow gc` removes it."""
    store.policies.set(SOFT, 0)
    run_id = make_run(store)
    experiment_id = store.create_experiment("nlp")
    store.delete_run(run_id)
    store.delete_experiment(experiment_id)
    dated = [i["SK"] for i in everything_in(store.table) if "ttl" in i]
    assert not [sk for sk in dated if "#MHIST#" not in sk and not sk.startswith("LIVE#")]
    time.sleep(10_000 * DAY)
    assert store.get_run(run_id).info.lifecycle_stage == "deleted"
    store._hard_delete_run(run_id)
    with pytest.raises(MlflowException, match="not found"):
        store.get_run(run_id)


def test_a_changed_policy_counts_for_what_is_deleted_afterwards(store, time):
    """An expiry that is set stays as it is; the next deletion takes the new number of days."""
    before, after = make_run(store), make_run(store)
    store.delete_run(before)
    store.policies.set(SOFT, 180)
    store.delete_run(after)
    assert run_item(store, before)["ttl"] == int(time.now) + 90 * DAY
    assert run_item(store, after)["ttl"] == int(time.now) + 180 * DAY


# --- experiments --------------------------------------------------------------------------------


def test_a_deleted_experiment_expires_by_its_own_item(either_store, time):
    """The experiment's META item gets the expiry."""
    store = either_store
    experiment_id = store.create_experiment("nlp")
    store.delete_experiment(experiment_id)
    meta = store.table.get(experiment_keys.experiment_key(experiment_id))
    assert meta["lifecycle"] == "deleted"
    assert meta["ttl"] == int(time.now) + 90 * DAY


def test_runs_of_a_deleted_experiment_keep_the_expiry_they_have(store, time):
    """A run deleted earlier keeps its date, one that was active gets none."""
    experiment_id = store.create_experiment("nlp")
    deleted, active = make_run(store, experiment_id), make_run(store, experiment_id)
    store.delete_run(deleted)
    own = run_item(store, deleted)["ttl"]
    time.sleep(10 * DAY)
    store.delete_experiment(experiment_id)
    assert run_item(store, deleted)["ttl"] == own
    assert "ttl" not in run_item(store, active)


def test_children_of_an_expired_experiment_are_orphans_until_cleanup_expires_them(store, time):
    """Only the item that carries the expiry goes; runs, tags, params and metrics are left."""
    experiment_id = store.create_experiment("nlp")
    run_id = make_run(store, experiment_id)
    store.delete_experiment(experiment_id)
    time.sleep(90 * DAY)
    assert store.table.get(experiment_keys.experiment_key(experiment_id)) is None
    kinds = {item["SK"].split("#")[2] for item in items_of(store, f"R#{run_id}#")}
    assert kinds == {"METRIC", "MHIST", "PARAM", "TAG"}
    Cleanup(store.table, store.policies, sleep=time.sleep).run()
    assert not items_of(store, run_id)


def test_the_name_of_an_expired_experiment_is_free(store, time):
    """The name goes at the same second as the experiment."""
    experiment_id = store.create_experiment("nlp")
    store.delete_experiment(experiment_id)
    with pytest.raises(MlflowException, match="already exists"):
        store.create_experiment("nlp")
    time.sleep(90 * DAY)
    assert store.create_experiment("nlp") != experiment_id


# --- runs ---------------------------------------------------------------------------------------


def test_a_deleted_run_and_all_its_children_share_one_expiry(either_store, time):
    """Tags, params and latest metrics get the same second as the run."""
    store = either_store
    run_id = make_run(store)
    store.delete_run(run_id)
    ttl = int(time.now) + 90 * DAY
    found = children(store, run_id)
    assert {item["SK"].split("#")[2] for item in found} == {"METRIC", "PARAM", "TAG"}
    assert {item["ttl"] for item in found} == {ttl}
    time.sleep(90 * DAY)
    assert not children(store, run_id)


def test_history_may_expire_before_its_deleted_run(store, time):
    """The history keeps the shorter expiry of its own policy."""
    store.policies.set(HISTORY, 7)
    run_id = make_run(store)
    written = int(time.now)
    time.sleep(DAY)
    store.delete_run(run_id)
    assert {item["ttl"] for item in history(store, run_id)} == {written + 7 * DAY}
    time.sleep(7 * DAY)
    assert not history(store, run_id)
    assert store.get_run(run_id).data.metrics == {"loss": 0.5}


# --- metric history -----------------------------------------------------------------------------


def test_history_gets_its_expiry_when_it_is_written(either_store, time):
    """Each value expires so many days after it was logged, whatever becomes of the run."""
    store = either_store
    run_id = make_run(store, ended=False)
    first = int(time.now)
    time.sleep(DAY)
    store.log_metric(run_id, Metric("loss", 0.4, 2_000, 1))
    store.update_run_info(run_id, RunStatus.FINISHED, 3_000, None)
    ttls = sorted(item["ttl"] for item in history(store, run_id))
    assert ttls == [first + 365 * DAY, first + 366 * DAY]


@pytest.mark.parametrize("ended", [True, False])
def test_the_latest_value_outlives_the_history(store, time, ended):
    """Only the step-by-step history is pruned: the final values stay, sealed or live."""
    run_id = make_run(store, ended=False)
    for step in range(1, 5):
        store.log_metric(run_id, Metric("loss", 1 / (step + 1), 2_000 + step, step))
    if ended:
        store.update_run_info(run_id, RunStatus.FINISHED, 3_000, None)
    assert len(store.get_metric_history(run_id, "loss")) == 5
    time.sleep(365 * DAY)
    store.search_runs(["0"], "", ViewType.ALL)  # folds the log of a run that nobody ended
    assert len(store.get_metric_history(run_id, "loss")) == 0
    assert store.get_run(run_id).data.metrics == {"loss": 0.2}
    assert not [i for i in items_of(store, f"R#{run_id}#METRIC#") if "ttl" in i]


def test_history_without_retention_stays(store, time):
    """A policy of 0 days keeps the history for good."""
    store.policies.set(HISTORY, 0)
    run_id = make_run(store)
    assert not [item for item in history(store, run_id) if "ttl" in item]
    time.sleep(10_000 * DAY)
    assert len(store.get_metric_history(run_id, "loss")) == 1


# --- recovery -----------------------------------------------------------------------------------


def test_a_run_can_be_restored_within_the_window(either_store, time):
    """Restoring makes the run active and takes every expiry away again."""
    store = either_store
    run_id = make_run(store)
    before = store.get_run(run_id)
    store.delete_run(run_id)
    time.sleep(89 * DAY)
    store.restore_run(run_id)
    assert run_item(store, run_id)["lifecycle"] == "active"
    assert not [i for i in [run_item(store, run_id), *children(store, run_id)] if "ttl" in i]
    time.sleep(100 * DAY)
    assert store.get_run(run_id).to_dictionary() == before.to_dictionary()


def test_an_experiment_can_be_restored_within_the_window(either_store, time):
    """Restoring makes the experiment and its runs active and takes the expiry away."""
    store = either_store
    experiment_id = store.create_experiment("nlp")
    run_id = make_run(store, experiment_id)
    store.delete_experiment(experiment_id)
    time.sleep(89 * DAY)
    store.restore_experiment(experiment_id)
    meta = store.table.get(experiment_keys.experiment_key(experiment_id))
    assert meta["lifecycle"] == "active"
    assert "ttl" not in meta
    time.sleep(100 * DAY)
    assert store.get_experiment_by_name("nlp").experiment_id == experiment_id
    assert store.get_run(run_id).info.lifecycle_stage == "active"


def test_what_has_expired_cannot_be_restored(either_store, time):
    """After its second a run or experiment is gone, whether or not the storage deleted it yet."""
    store = either_store
    experiment_id = store.create_experiment("nlp")
    run_id = make_run(store)
    store.delete_run(run_id)
    store.delete_experiment(experiment_id)
    time.sleep(90 * DAY)
    with pytest.raises(MlflowException, match="not found"):
        store.restore_run(run_id)
    with pytest.raises(MlflowException, match="No Experiment"):
        store.restore_experiment(experiment_id)


# --- cleanup ------------------------------------------------------------------------------------


def test_cleanup_can_be_previewed(store, time):
    """A dry run counts the orphans and leaves them."""
    experiment_id = store.create_experiment("nlp")
    run_id = make_run(store, experiment_id)
    store.delete_experiment(experiment_id)
    time.sleep(90 * DAY)
    report = Cleanup(store.table, store.policies, dry_run=True).run()
    assert report.orphans > 0
    assert report.removed == 0
    assert items_of(store, run_id)


def test_cleanup_sets_an_expiry_on_orphans(store, time):
    """Orphans are left to the storage's own expiry, which costs nothing."""
    experiment_id = store.create_experiment("nlp")
    run_id = make_run(store, experiment_id)
    store.delete_experiment(experiment_id)
    time.sleep(90 * DAY)
    Cleanup(store.table, store.policies, sleep=time.sleep).run()
    left = store.table.engine.get(run_place(run_id).key)
    assert left["ttl"] <= time.now
    assert store.table.engine.sweep(time.now) > 0
    assert store.table.engine.get(run_place(run_id).key) is None


# --- traces -------------------------------------------------------------------------------------


def start_trace(store, trace_id="tr-" + "a" * 32):
    info = TraceInfo(
        trace_id=trace_id,
        trace_location=TraceLocation.from_experiment_id("0"),
        request_time=1_000,
        execution_duration=5,
        state=TraceState.OK,
        tags={"team": "blue", "long": "x" * 2_000},
    )
    return store.start_trace(info).trace_id


def test_a_trace_gets_its_expiry_when_it_is_created(either_store, time):
    """Every item of a trace expires so many days after its creation, without being deleted."""
    store = either_store
    trace_id = start_trace(store)
    own = [i for i in everything_in(store.table) if trace_id in i["PK"] + i["SK"]]
    assert len(own) > 1
    assert {item["ttl"] for item in own} == {int(time.now) + 30 * DAY}
    time.sleep(30 * DAY - 1)
    assert store.get_trace_info(trace_id).tags["team"] == "blue"
    time.sleep(1)
    with pytest.raises(MlflowException, match="not found"):
        store.get_trace_info(trace_id)
    assert not [i for i in everything_in(store.table) if trace_id in i["PK"] + i["SK"]]


def test_what_is_added_to_a_trace_later_expires_with_it(store, time):
    """There is no second date: a tag set in the last days goes when the trace goes."""
    trace_id = start_trace(store)
    time.sleep(20 * DAY)
    store.set_trace_tag(trace_id, "late", "y" * 2_000)
    ttls = {i.get("ttl") for i in everything_in(store.table) if trace_id in i["PK"] + i["SK"]}
    assert ttls == {int(time.now) + 10 * DAY}


def test_a_changed_policy_counts_for_traces_created_afterwards(store, time):
    """Sixty days, say, for what comes from now on."""
    before = start_trace(store, "tr-" + "b" * 32)
    store.policies.set(TRACE, 60)
    after = start_trace(store, "tr-" + "c" * 32)
    time.sleep(31 * DAY)
    with pytest.raises(MlflowException, match="not found"):
        store.get_trace_info(before)
    assert store.get_trace_info(after).trace_id == after


def test_traces_without_retention_stay(store, time):
    """A policy of 0 days keeps traces for good."""
    store.policies.set(TRACE, 0)
    trace_id = start_trace(store)
    time.sleep(10_000 * DAY)
    assert store.get_trace_info(trace_id).trace_id == trace_id


def test_cleanup_leaves_traces_in_order_alone(store, time):
    trace_id = start_trace(store)
    assert not Cleanup(store.table, store.policies, sleep=time.sleep).run().found
    assert store.get_trace_info(trace_id).tags["long"] == "x" * 2_000


def test_a_trace_has_no_deleted_state(store, time):
    """Unlike a run it cannot be restored: deleting one removes it with all that belongs to it."""
    start_trace(store, "tr-1")
    store.set_trace_tag("tr-1", "team", "red")
    assert store.delete_traces("0", trace_ids=["tr-1"]) == 1
    assert not [item for item in everything_in(store.table) if "tr-1" in str(item)]


@pytest.mark.parametrize("days", [60, 0])
def test_traces_that_are_there_follow_a_longer_policy(either_store, time, days):
    """Where an operator prolongs the retention, all items of a trace live longer, or for good."""
    store, created = either_store, int(time.now)
    start_trace(store, "tr-1")
    store.set_trace_tag("tr-1", "team", "red")
    time.sleep(29 * DAY)
    assert store.trace_retention.renew(all_experiments(store.table), days=days).prolonged == 1
    expected = created + days * DAY if days else None
    own = [item for item in everything_in(store.table) if "tr-1" in str(item)]
    assert (len(own), {item.get("ttl") for item in own}) == (4, {expected})
    time.sleep(30 * DAY)
    assert store.get_trace_info("tr-1").trace_id == "tr-1"
    time.sleep(2 * DAY)
    assert len(store.search_traces(["0"])[0]) == (0 if days else 1)


def test_other_policies_leave_the_dates_that_are_set(store, time):
    """What was deleted or written keeps the expiry of its day."""
    run_id = make_run(store)
    store.delete_run(run_id)
    dates = [i.get("ttl") for i in (run_item(store, run_id), *history(store, run_id))]
    store.policies.set(SOFT, 180)
    store.policies.set(HISTORY, 730)
    store.trace_retention.renew(all_experiments(store.table))
    assert [i.get("ttl") for i in (run_item(store, run_id), *history(store, run_id))] == dates
