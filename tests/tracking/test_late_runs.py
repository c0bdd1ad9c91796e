"""Experiments that are deleted and restored while others begin runs in them, or do the opposite."""

from __future__ import annotations

import pytest
from mlflow.entities import RunTag, ViewType
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.shared.places import run_id_of
from tests.interleaving import at_every_moment, two_stores
from tests.places import items_in


def runs_in(store, experiment_id, view=ViewType.ACTIVE_ONLY):
    found, _ = store._search_runs([experiment_id], None, view, 100, [], None)
    return {run.info.run_id for run in found}


def begun_in(store, experiment_id):
    """The id of a new run, or None when it is refused."""
    tags = [RunTag("a", "1"), RunTag("b", "2")]
    try:
        return store.create_run(experiment_id, "ada", 0, tags, "late").info.run_id
    except MlflowException as error:
        if "must be in the 'active' state" in error.message:
            return None
        raise


def run_items(store, experiment_id):
    """The runs that an experiment has any items of."""
    return {run_id_of(item) for item in items_in(store.table, experiment_id, run_keys.RUNS)}


def stage(store, experiment_id):
    return store.get_experiment(experiment_id).lifecycle_stage


def check_runs_follow(store, experiment_id, runs):
    """All runs have the stage of their experiment, and there are no others."""
    runs = {run_id for run_id in runs if run_id is not None}
    assert runs_in(store, experiment_id, ViewType.ALL) == runs
    active = runs if stage(store, experiment_id) == "active" else set()
    assert runs_in(store, experiment_id) == active


def test_a_run_begun_while_its_experiment_is_deleted_is_refused_or_deleted(tmp_path):
    """Whichever of its requests another process deletes the experiment at."""
    two = two_stores(tmp_path)
    names = iter(range(100))
    place: list[str] = []

    for _ in at_every_moment(two, lambda: two.second.delete_experiment(place[0])):
        place[:] = [two.second.create_experiment(f"e{next(names)}")]
        early = begun_in(two.second, place[0])
        late = begun_in(two.first, place[0])
        check_runs_follow(two.second, place[0], [early, late])
        if late is None:
            assert run_items(two.second, place[0]) == {early}
    assert next(names) > 5


def test_a_process_that_knew_an_experiment_begins_no_run_in_it_once_it_is_deleted(tmp_path):
    """What it remembers is asked after the run was written, and the run is taken back."""
    two = two_stores(tmp_path)
    place = two.first.create_experiment("remembered")
    two.second.delete_experiment(place)
    with pytest.raises(MlflowException, match="must be in the 'active' state"):
        two.first.create_run(place, "ada", 0, [RunTag("a", "1")], "late")
    assert run_items(two.second, place) == set()


@pytest.mark.parametrize("meanwhile", ["create_run", "restore_experiment"])
def test_at_any_moment_of_a_deletion(tmp_path, meanwhile):
    """A run is begun or the experiment restored: its runs and itself agree in the end."""
    two = two_stores(tmp_path)
    names = iter(range(100))
    place: list[str] = []
    late: list[str | None] = []

    def other():
        if meanwhile == "create_run":
            late.append(begun_in(two.second, place[0]))
        elif stage(two.second, place[0]) == "deleted":
            two.second.restore_experiment(place[0])

    for _ in at_every_moment(two, other):
        place[:], late[:] = [two.second.create_experiment(f"e{next(names)}")], []
        early = [begun_in(two.second, place[0]) for _ in range(3)]
        two.first.delete_experiment(place[0])
        check_runs_follow(two.second, place[0], [*early, *late])
    assert next(names) > 5


@pytest.mark.parametrize("meanwhile", ["create_run", "delete_experiment"])
def test_at_any_moment_of_a_restoration(tmp_path, meanwhile):
    """The same the other way round."""
    two = two_stores(tmp_path)
    names = iter(range(100))
    place: list[str] = []
    late: list[str | None] = []

    def other():
        if meanwhile == "create_run":
            late.append(begun_in(two.second, place[0]))
        elif stage(two.second, place[0]) == "active":
            two.second.delete_experiment(place[0])

    for _ in at_every_moment(two, other):
        place[:], late[:] = [two.second.create_experiment(f"e{next(names)}")], []
        early = [begun_in(two.second, place[0]) for _ in range(3)]
        two.second.delete_experiment(place[0])
        two.first.restore_experiment(place[0])
        check_runs_follow(two.second, place[0], [*early, *late])
    assert next(names) > 5
