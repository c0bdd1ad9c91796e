"""Cleanup finds every kind of orphan, and nothing else."""

from __future__ import annotations

import secrets

import pytest
from mlflow.entities import Metric, RunStatus
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import ranks as rank_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.policies import TEXT_FIELDS
from mlflow_dynamodbstore.table.contract import Delete, Put
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.upkeep.cleanup import POSITION, Cleanup, Report
from tests.places import partitions, run_place
from tests.stores import everything_in
from tests.upkeep.helpers import items_of, make_run

DAY = 24 * 3600


def cleaned(store, time, **options):
    return Cleanup(store.table, store.policies, sleep=time.sleep, **options).run()


def snapshot(store):
    return {(item["PK"], item["SK"]): item for item in everything_in(store.table)}


# --- nothing that is in order -------------------------------------------------------------------


def test_a_table_in_order_has_no_orphans(store, time):
    experiment_id = store.create_experiment("nlp")
    make_run(store, experiment_id)
    make_run(store, experiment_id, ended=False)
    store.delete_run(make_run(store, experiment_id))
    before = snapshot(store)
    report = cleaned(store, time)
    assert report.finished
    assert report.read == len(before)
    assert not report.found
    assert snapshot(store) == before


def test_names_that_look_like_parts_are_not_taken_for_parts(store, time):
    run_id = make_run(store, metrics={"PART": 1.0}, params={"PART": "0001"})
    before = snapshot(store)
    assert not cleaned(store, time).found
    assert snapshot(store) == before
    assert store.get_run(run_id).data.metrics == {"PART": 1.0}


def test_what_cleanup_does_not_know_it_leaves_alone(store, time):
    strange = {"PK": "EXP#999", "SK": "ZZ#1", "value": 1}
    store.table.put(strange)
    assert not cleaned(store, time).found
    assert store.table.get(Key("EXP#999", "ZZ#1")) == strange


# --- children -----------------------------------------------------------------------------------


def test_children_of_an_expired_experiment_are_found(store, time):
    experiment_id = store.create_experiment("nlp")
    make_run(store, experiment_id)
    kept = make_run(store, "0")
    store.delete_experiment(experiment_id)
    time.sleep(91 * DAY)
    pks = partitions(store.table, experiment_id)
    orphans = [key for key in snapshot(store) if key[0] in pks]
    assert orphans
    report = cleaned(store, time)
    assert report.orphans == report.dated + report.removed == len(orphans)
    assert not [key for key in snapshot(store) if key[0] in pks]
    assert store.get_run(kept).data.params == {"lr": "0.1"}


def test_history_that_outlives_its_run_is_found(store, time):
    store.policies.set("metric_history_retention_days", 0)
    run_id = make_run(store)
    store.delete_run(run_id)
    time.sleep(91 * DAY)
    assert [i["SK"] for i in items_of(store, run_id) if "#MHIST#" in i["SK"]]
    found = cleaned(store, time).found
    assert found["Metric history"] == 1
    assert not items_of(store, run_id)


def test_orphans_expire_and_are_not_simply_deleted(store, time):
    """The document: cleanup sets an expiry on orphans, the storage removes them."""
    store.policies.set("metric_history_retention_days", 0)
    run_id = make_run(store)
    store.delete_run(run_id)
    time.sleep(91 * DAY)
    (orphan,) = [item for item in items_of(store, run_id) if "#MHIST#" in item["SK"]]
    cleaned(store, time)
    left = store.table.engine.get(store.table.schema.key_of(orphan))
    assert left["ttl"] == int(time.now)


def test_tags_of_a_run_that_was_never_created_are_found_after_an_hour(store, time):
    old, young = ids.new_id("0"), ids.new_id("0", now_ms=int(time.now * 1000) - 60_000)
    for run_id in (old, young):
        store.table.put({"PK": "EXP#0", "SK": run_keys.run_tag(run_id, "team"), "value": "blue"})
    assert dict(cleaned(store, time).found) == {"Run tag": 1}
    assert [item["SK"] for item in items_of(store, young)] == [run_keys.run_tag(young, "team")]
    assert not items_of(store, old)


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        ({"PK": "EXP#0", "SK": "T#tr-1#SPANS", "spans": b"x"}, "Spans"),
        ({"PK": "EXP#0", "SK": "T#tr-1#TAG#team", "value": "x"}, "Trace tag"),
        ({"PK": "EXP#0", "SK": "TSA#tr-1"}, "Session assessed"),
        ({"PK": "TRACE#tr-1", "SK": "T#LOC", "experiment_id": "0"}, "Trace locator"),
        ({"PK": "RUNASSESS#r1", "SK": "A#tr-1#a1"}, "Assessment of a run"),
        ({"PK": "EXP#0", "SK": "LM#m-1#TAG#team", "value": "x"}, "Logged model tag"),
        ({"PK": "EXP#0", "SK": "DCTX#9f2c", "name": "mnist"}, "Use of a dataset"),
        ({"PK": "EXP#0", "SK": "DLINK#r1#mnist"}, "Dataset link"),
        ({"PK": "EXP#12", "SK": "E#TAG#team", "value": "x"}, "Experiment tag"),
        ({"PK": "RM#iris", "SK": "M#V#0000000001", "stage": "None"}, "Model version"),
        ({"PK": "RM#iris", "SK": "M#ALIAS#champion", "version": 1}, "Model alias"),
        ({"PK": "RMRUN#r1", "SK": "RM#iris#0000000001"}, "Run's version"),
        ({"PK": "USER#ada", "SK": "U#PERM#7", "permission": "READ"}, "Experiment permission"),
        ({"PK": "EXP#0", "SK": "D#9f2c#PART#a1b2c3d4e5f6#0000", "data": b"x"},
         "Part of a large value"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_has_lost_its_owner_is_found(store, time, item, kind):
    store.table.put(dict(item))
    assert dict(cleaned(store, time, dry_run=True).found) == {kind: 1}
    report = cleaned(store, time)
    assert dict(report.found) == {kind: 1}
    assert report.dated + report.removed == 1
    assert store.table.get(Key(item["PK"], item["SK"])) is None


def test_what_gets_its_owner_before_the_second_look_is_kept(store, time):
    """Tags of an experiment are written before it; so may the spans of a trace be."""
    store.table.put({"PK": "EXP#12", "SK": "E#TAG#team", "value": "x"})

    def create_meanwhile(seconds):
        store.table.put({"PK": "EXP#12", "SK": "E#META", "name": "late", "workspace": "default"})
        time.sleep(seconds)

    report = Cleanup(store.table, store.policies, sleep=create_meanwhile).run()
    assert not report.found
    assert store.table.get(Key("EXP#12", "E#TAG#team")) is not None


# --- large values -------------------------------------------------------------------------------


def big_run(store):
    return make_run(store, params={f"p{n}": secrets.token_hex(3000) for n in range(100)})


def test_parts_that_a_run_names_are_kept(store, time):
    run_id = big_run(store)
    assert items_of(store, "#PART#")
    before = snapshot(store)
    assert not cleaned(store, time).found
    assert snapshot(store) == before
    assert len(store.get_run(run_id).data.params) == 100


def test_parts_of_a_generation_that_nobody_names_are_found(store, time):
    run_id = big_run(store)
    head = run_place(run_id).key
    torn = large_values.store(head, "summary", ids.new_id() * 10, inline=0).parts
    store.table.write(torn)
    report = cleaned(store, time)
    assert dict(report.found) == {"Part of a large value": len(torn)}
    assert len(store.get_run(run_id).data.params) == 100


def test_parts_of_a_run_that_is_being_sealed_are_kept(store, time):
    run_id = big_run(store)
    head = run_place(run_id).key
    store.table.put({**store.table.get(head), "state": "sealing"})
    store.table.write(large_values.store(head, "summary", "x" * 50, inline=0).parts)
    assert not cleaned(store, time).found


# --- search entries -----------------------------------------------------------------------------


def test_ranks_of_a_run_that_is_gone_are_deleted(store, time):
    key = rank_keys.metric_rank("loss", 0.5, ids.new_id("0"))
    store.table.put({"PK": "EXP#0", "SK": key})
    assert dict(cleaned(store, time).found) == {"Metric rank": 1}
    assert store.table.engine.get(Key("EXP#0", key)) is None


def test_ranks_that_a_sealed_run_does_not_say_of_itself_are_deleted(store, time):
    """A sealer that was overtaken by a writer leaves such ranks behind."""
    run_id = make_run(store, metrics={"loss": 0.5})
    stale = Key(run_place(run_id).pk, rank_keys.metric_rank("loss", 0.75, run_id))
    store.table.put({"PK": stale.pk, "SK": stale.sk})
    assert dict(cleaned(store, time).found) == {"Metric rank": 1}
    assert store.table.get(stale) is None
    assert store.table.get(Key(stale.pk, rank_keys.metric_rank("loss", 0.5, run_id))) is not None


def test_ranks_of_a_live_run_are_left_to_its_next_sealing(store, time):
    run_id = make_run(store, ended=False)
    stale = Key(run_place(run_id).pk, rank_keys.metric_rank("loss", 0.75, run_id))
    store.table.put({"PK": stale.pk, "SK": stale.sk})
    assert not cleaned(store, time).found


def test_a_rank_that_becomes_true_before_it_is_deleted_is_kept(store, time, monkeypatch):
    """Between judging and deleting, the run is written to and sealed with that very value."""
    run_id = make_run(store, metrics={"loss": 0.5})
    place = Key(run_place(run_id).pk, rank_keys.metric_rank("loss", 0.75, run_id))
    store.table.put({"PK": place.pk, "SK": place.sk})
    job = Cleanup(store.table, store.policies, sleep=time.sleep)
    judge = job._finder.find

    def judge_then_write(items, rules):
        judged = judge(items, rules)
        store.log_metric(run_id, Metric("loss", 0.75, 1_000, 1))
        store.update_run_info(run_id, RunStatus.FINISHED, 3_000, None)
        return judged

    monkeypatch.setattr(job._finder, "find", judge_then_write)
    job.run()
    assert store.table.get(place) is not None
    runs, _ = store._search_runs(["0"], "metrics.loss > 0.7", 1, 10, ["metrics.loss DESC"], None)
    assert [run.info.run_id for run in runs] == [run_id]


def test_full_text_entries_of_a_field_that_is_no_longer_indexed_are_deleted(store, time):
    store.policies.set(TEXT_FIELDS, {"run.name": {"levels": ["word"], "complete": True}})
    run_id = make_run(store, name="night owl")
    entries = [i for i in items_of(store, run_id) if i["SK"].startswith("FTS")]
    assert len(entries) == 4
    assert not cleaned(store, time).found
    store.policies.set(TEXT_FIELDS, {})
    found = cleaned(store, time).found
    assert dict(found) == {"Full-text entry": 2, "Full-text entry, reversed": 2}


# --- names --------------------------------------------------------------------------------------


def test_the_guard_of_a_name_without_an_experiment_is_deleted(store, time):
    guard = access_keys.experiment_name_guard("lost")
    store.table.put({"PK": guard.pk, "SK": guard.sk, "experiment_id": "77", "lifecycle": "active"})
    assert dict(cleaned(store, time).found) == {"Experiment name": 1}
    assert store.table.get(guard) is None
    store.create_experiment("lost")


def test_the_guard_of_a_name_that_an_experiment_no_longer_has_is_deleted(store, time):
    experiment_id = store.create_experiment("now")
    guard = access_keys.experiment_name_guard("before")
    store.table.put({"PK": guard.pk, "SK": guard.sk, "experiment_id": experiment_id})
    assert dict(cleaned(store, time).found) == {"Experiment name": 1}
    assert store.get_experiment_by_name("now").experiment_id == experiment_id


def test_the_guard_of_a_model_name_without_a_model_is_deleted(store, time):
    guard = access_keys.model_name_guard("lost")
    store.table.put({"PK": guard.pk, "SK": guard.sk})
    assert dict(cleaned(store, time).found) == {"Model name": 1}
    assert store.table.get(guard) is None


# --- stopping and going on ----------------------------------------------------------------------


def orphans_and_others(store, count):
    """A tenth of the items are tags of runs that do not exist."""
    made = []
    for n in range(count):
        if n % 10:
            made.append(
                Put({"PK": "EXP#0", "SK": experiment_keys.dataset(f"d{n}"), "name": "x" * 2000})
            )
        else:
            sk = run_keys.run_tag(ids.new_id("0"), "team")
            made.append(Put({"PK": "EXP#0", "SK": sk, "value": "x" * 2000}))
    store.table.write(made)


def test_a_dry_run_counts_by_kind_and_changes_nothing(store, time):
    orphans_and_others(store, 50)
    before = snapshot(store)
    report = cleaned(store, time, dry_run=True)
    assert dict(report.found) == {"Run tag": 5}
    assert report.removed == 0
    assert snapshot(store) == before


def test_stopped_and_started_again_it_ends_the_same(store, time):
    orphans_and_others(store, 3000)
    in_all = len(everything_in(store.table))
    stops = iter([False, True, True, True])
    reports: list[Report] = []
    while not reports or not reports[-1].finished:
        job = Cleanup(
            store.table, store.policies, sleep=time.sleep, stop=lambda: next(stops, False)
        )
        reports.append(job.run())
    assert len(reports) == 4
    assert [report.resumed for report in reports] == [False, True, True, True]
    assert dict(reports[-1].found) == {"Run tag": 300}
    # The note of the place is itself an item that later pages may come upon.
    assert in_all <= reports[-1].read <= in_all + 3
    assert len(everything_in(store.table)) == in_all - 300
    assert store.table.get(access_keys.setting_key(POSITION)) is None


def test_killed_between_two_notes_it_ends_the_same(store, time):
    orphans_and_others(store, 3000)
    in_all = len(everything_in(store.table))
    job = Cleanup(store.table, store.policies, sleep=time.sleep)

    def killed(report):
        if report.read > 1000:
            raise KeyboardInterrupt

    job._progress = killed
    with pytest.raises(KeyboardInterrupt):
        job.run()
    cleaned(store, time)
    assert len(everything_in(store.table)) == in_all - 300
    assert not cleaned(store, time).found


def test_begun_anew_it_forgets_the_place(store, time):
    orphans_and_others(store, 3000)
    Cleanup(store.table, store.policies, sleep=time.sleep, stop=lambda: True).run()
    report = Cleanup(store.table, store.policies, sleep=time.sleep).run(restart=True)
    assert not report.resumed
    assert report.finished


def test_segments_together_find_the_same(store, time):
    orphans_and_others(store, 3000)
    assert dict(cleaned(store, time, segments=5).found) == {"Run tag": 300}


def test_a_run_that_is_created_meanwhile_loses_nothing(store, time):
    """Cleanup beside live traffic: each page is judged while a run is made, written and ended."""
    orphans_and_others(store, 2000)
    made: list[str] = []

    def traffic(report):
        made.append(make_run(store, metrics={"loss": float(len(made))}))

    Cleanup(store.table, store.policies, sleep=time.sleep, progress=traffic).run()
    assert len(made) > 3
    for n, run_id in enumerate(made):
        data = store.get_run(run_id).data
        assert (data.metrics, data.params) == ({"loss": float(n)}, {"lr": "0.1"})
    with pytest.raises(MlflowException):
        store.get_run("0" * 32)
    assert not cleaned(store, time).found


def test_both_engines_find_the_same(either_store, time):
    store = either_store
    make_run(store)
    experiment_id = store.create_experiment("gone")
    gone = make_run(store, experiment_id)
    store.table.write([Delete(experiment_keys.experiment_key(experiment_id))])
    run_id = make_run(store)
    wrong = Key(run_place(run_id).pk, rank_keys.metric_rank("loss", 9.0, run_id))
    store.table.put({"PK": wrong.pk, "SK": wrong.sk})
    report = cleaned(store, time, segments=3)
    assert report.found["Run"] == 1
    assert report.found["Experiment name"] == 1
    assert report.found["Metric rank"] == 2
    assert report.orphans == report.dated + report.removed
    assert not items_of(store, gone)
    assert not cleaned(store, time).found
