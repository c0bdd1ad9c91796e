"""Runs that are begun while their experiment is being deleted."""

from __future__ import annotations

from mlflow.entities import ViewType

from tests.stores import open_tracking_store
from tests.table.fakes import FakeTime


def active_runs(store, experiment_id):
    found, _ = store._search_runs([experiment_id], None, ViewType.ACTIVE_ONLY, 100, [], None)
    return [run.info.run_id for run in found]


def begin_while_runs_are_changed(store, other, monkeypatch, experiment_id, then=lambda: None):
    """Let another process, which saw the experiment active, begin a run behind the walk."""
    seen = store._active_experiment(experiment_id)
    change = store._change_runs
    late: list[str] = []

    def slowly(runs, stage):
        change(runs, stage)
        if not late:
            monkeypatch.setattr(other, "_active_experiment", lambda _: seen)
            late.append(other.create_run(experiment_id, "ada", 0, [], "late").info.run_id)
            then()

    monkeypatch.setattr(store, "_change_runs", slowly)
    return late


def test_a_run_begun_behind_the_walk_is_deleted_with_its_experiment(tmp_path, monkeypatch):
    store, other = (open_tracking_store(tmp_path, FakeTime()) for _ in range(2))
    experiment_id = store.create_experiment("ending")
    store.create_run(experiment_id, "ada", 0, [], "early")
    late = begin_while_runs_are_changed(store, other, monkeypatch, experiment_id)
    store.delete_experiment(experiment_id)
    assert store.get_run(late[0]).info.lifecycle_stage == "deleted"
    assert active_runs(store, experiment_id) == []
    other.restore_experiment(experiment_id)
    assert len(active_runs(store, experiment_id)) == 2


def test_an_experiment_restored_meanwhile_keeps_its_runs(tmp_path, monkeypatch):
    """The second look ends when the experiment is no longer on its way to be deleted."""
    store, other = (open_tracking_store(tmp_path, FakeTime()) for _ in range(2))
    experiment_id = store.create_experiment("wavering")
    store.create_run(experiment_id, "ada", 0, [], "early")

    def restore():
        other.restore_experiment(experiment_id)

    begin_while_runs_are_changed(store, other, monkeypatch, experiment_id, restore)
    store.delete_experiment(experiment_id)
    assert store.get_experiment(experiment_id).lifecycle_stage == "active"
    assert len(active_runs(other, experiment_id)) == 2
