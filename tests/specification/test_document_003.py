"""Document 003, expiry: a test for each sentence about runs, experiments and cleanup.

What it says of traces, of policies and of the command line is tested in ``tests/upkeep``; scheduled
cleanup, which its section "Automation" promises, in ``tests/deploy``.
"""

from __future__ import annotations

from mlflow.entities import Metric, Param, RunStatus

from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.tracking import sealing
from mlflow_dynamodbstore.tracking.log_entries import SETTLED
from mlflow_dynamodbstore.tracking.records import SEALING
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup, Report
from tests.places import partitions, run_place
from tests.specification.rows import Home
from tests.specification.test_document_000 import new_run, used

DAY = 24 * 3600
NOISE = "x" * 3_000


def whole_run(home: Home, experiment_id: str = "0", *, ended: bool = True) -> str:
    """A run that has one of everything that can belong to a run."""
    run_id = new_run(home, experiment_id, team="blue")
    metrics = [Metric("loss", 0.5, 1_000, 0), Metric("auc", 0.9, 1_000, 0)]
    home.store.log_batch(run_id, metrics, [Param("lr", "0.1"), Param("long", NOISE)], [])
    home.store.log_inputs(run_id, [used("mnist", "1"), used("mnist", "2")])
    home.store.create_logged_model(experiment_id, "iris", run_id)
    if ended:
        home.store.update_run_info(run_id, RunStatus.FINISHED, 2_000, None)
    return run_id


def belongings(home: Home, run_id: str) -> dict[str, Item]:
    """Every raw item of a run, by sort key: its own, those below it, and those that end with it."""
    own = {
        str(item["SK"]): item
        for item in home.everything()
        if run_id in str(item["SK"]).split("#") and not str(item["SK"]).startswith("LM#")
    }
    assert own
    return own


def rows_of(home: Home, experiment_id: str) -> dict[str, Item]:
    """Every raw item of an experiment, by sort key."""
    found = (home.rows(pk) for pk in partitions(home.table, experiment_id))
    return {sk: item for rows in found for sk, item in rows.items()}


def kinds(items: dict[str, Item]) -> set[str]:
    words = (sk.split("#") for sk in items)
    return {
        "#".join((one[0], one[2])) if one[0] == "R" and len(one) > 2 else one[0] for one in words
    }


def history_apart(items: dict[str, Item]) -> dict[str, Item]:
    """All but the history, and what of the log was folded into it and is kept for a moment."""
    return {sk: item for sk, item in items.items() if "#MHIST#" not in sk and SETTLED not in item}


def cleaned(home: Home) -> Report:
    return Cleanup(home.table, home.store.policies, sleep=home.time.sleep).run()


class TestRuns:
    def test_a_deleted_run_and_all_that_belongs_to_it_receive_the_same_ttl(self, home: Home):
        """Tags, params, latest metrics, inputs, models, links and ranks."""
        run_id = whole_run(home)
        home.store.delete_run(run_id)
        items = history_apart(belongings(home, run_id))
        assert kinds(items) == {
            "R", "R#INPUT", "R#LM", "R#METRIC", "R#PARAM", "R#TAG", "DLINK", "RANK",
        }  # fmt: skip
        assert {item.get("ttl") for item in items.values()} == {int(home.time.now) + 90 * DAY}

    def test_a_run_that_is_still_live_expires_with_all_that_belongs_to_it(self, home: Home):
        run_id = whole_run(home, ended=False)
        home.store.delete_run(run_id)
        items = history_apart(belongings(home, run_id))
        assert "RANK" not in kinds(items)
        assert {item.get("ttl") for item in items.values()} == {int(home.time.now) + 90 * DAY}
        home.time.sleep(DAY)
        home.store.search_runs(["0"], "", 2)  # deleted ones: nobody seals them any more
        items = history_apart(belongings(home, run_id))
        assert len({item.get("ttl") for item in items.values()}) == 1

    def test_metric_history_keeps_its_own_shorter_ttl(self, home: Home):
        home.store.policies.set("metric_history_retention_days", 7)
        run_id = whole_run(home)
        written = int(home.time.now)
        home.store.delete_run(run_id)
        dates = [i["ttl"] for sk, i in belongings(home, run_id).items() if "#MHIST#" in sk]
        assert set(dates) == {written + 7 * DAY}

    def test_nothing_of_an_expired_run_is_left_for_cleanup(self, home: Home):
        """The storage deletes every item of it, ranks and links included."""
        run_id = whole_run(home)
        home.store.delete_run(run_id)
        home.time.sleep(366 * DAY)
        assert all(item["ttl"] <= home.time.now for item in belongings(home, run_id).values())
        assert cleaned(home).orphans == 0


class TestRecovery:
    def test_a_restored_run_has_no_ttl_on_anything_but_its_history(self, home: Home):
        for ended in (True, False):
            run_id = whole_run(home, ended=ended)
            before = belongings(home, run_id)
            home.store.delete_run(run_id)
            home.time.sleep(80 * DAY)
            home.store.restore_run(run_id)
            after = belongings(home, run_id)
            assert not [sk for sk, item in history_apart(after).items() if "ttl" in item]
            assert {sk: i["ttl"] for sk, i in after.items() if "#MHIST#" in sk} == {
                sk: i["ttl"] for sk, i in before.items() if "#MHIST#" in sk
            }
            assert after.keys() == before.keys()

    def test_a_restored_run_is_found_by_its_ranks_when_they_would_have_expired(self, home: Home):
        home.store.policies.set("metric_history_retention_days", 0)
        run_id = whole_run(home)
        home.store.delete_run(run_id)
        home.store.restore_run(run_id)
        home.time.sleep(400 * DAY)
        found = home.store.search_runs(["0"], "metrics.auc > 0.8", 1, 10, ["metrics.auc DESC"])
        assert [run.info.run_id for run in found] == [run_id]

    def test_a_restored_experiment_has_no_ttl_on_anything_but_history(self, home: Home):
        """Runs that were deleted before it are restored with it, with all that belongs to them."""
        experiment_id = home.store.create_experiment("nlp")
        alone, together = (whole_run(home, experiment_id) for _ in range(2))
        home.store.delete_run(alone)
        home.store.delete_experiment(experiment_id)
        dated = home.item(f"EXP#{experiment_id}", "E#META")
        assert dated is not None
        assert "ttl" in dated
        home.time.sleep(80 * DAY)
        home.store.restore_experiment(experiment_id)
        rows = rows_of(home, experiment_id)
        assert not [sk for sk, item in history_apart(rows).items() if "ttl" in item]
        guard = home.item("WORKSPACE#default", "EXPNAME#nlp")
        assert guard is not None
        assert "ttl" not in guard
        stages = {home.store.get_run(one).info.lifecycle_stage for one in (alone, together)}
        assert stages == {"active"}

    def test_a_run_deleted_and_restored_again_and_again_has_no_ttl(self, home: Home):
        run_id = whole_run(home)
        for _ in range(3):
            home.store.delete_run(run_id)
            home.store.delete_run(run_id)
            home.store.restore_run(run_id)
        items = history_apart(belongings(home, run_id))
        assert not [sk for sk, item in items.items() if "ttl" in item]

    def test_a_run_restored_while_it_is_sealed_has_no_ttl(self, home: Home):
        """The sealer wrote the latest metrics with the date that the run had when it began."""
        run_id = whole_run(home, ended=False)
        home.store.delete_run(run_id)
        key = run_place(run_id).key
        mark = sealing.marking_update(SEALING)
        marked = home.table.update(key, mark, condition=PRESENT, returns="new")
        assert marked is not None
        assert "ttl" in marked
        home.store.restore_run(run_id)
        assert sealing.finish(home.table, marked, home.store.policies.sealing_rules())
        items = history_apart(belongings(home, run_id))
        assert "R#METRIC" in kinds(items)
        assert not [sk for sk, item in items.items() if "ttl" in item]


class TestBackgroundCleanup:
    def test_cleanup_says_what_it_dated_and_what_it_removed(self, home: Home):
        """Children of an expired experiment are dated; search entries and names are removed."""
        experiment_id = home.store.create_experiment("nlp")
        whole_run(home, experiment_id)
        home.store.delete_experiment(experiment_id)
        home.time.sleep(91 * DAY)
        before = {sk: i for sk, i in rows_of(home, experiment_id).items() if SETTLED not in i}
        report = cleaned(home)
        after = {sk: i for sk, i in rows_of(home, experiment_id).items() if SETTLED not in i}
        left, gone = after.keys() - {"E#META"}, before.keys() - after.keys() - {"E#META"}
        assert all(after[sk]["ttl"] <= home.time.now for sk in left)
        assert report.dated == len(left) > 0
        assert report.removed == len(gone) > 0
        assert {sk.split("#")[0] for sk in gone - {"E#NAME_REV"}} == {"RANK"}
        assert report.orphans == report.dated + report.removed
