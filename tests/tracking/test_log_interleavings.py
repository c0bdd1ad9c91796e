"""Appending, folding, sealing, reopening, deleting, restoring, removing and expiring, in pairs.

Each interrupts the other before each of its requests. The run ends as if one had come after the
other, no point is lost or doubled, and what is left of a run that is gone, cleanup finds.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from mlflow.entities import Metric
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.keys import metric_log as log_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.shared.policies import DAY, Policies
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import TTL, Item
from mlflow_dynamodbstore.tracking import metric_log, sealing
from mlflow_dynamodbstore.tracking.log_entries import SETTLED, read_log
from mlflow_dynamodbstore.tracking.points import DISORDERED
from mlflow_dynamodbstore.upkeep.orphans import OrphanFinder
from tests.interleaving import Operation, Two, interleaved, two_stores
from tests.places import run_place
from tests.tracking.test_interleavings import OPERATIONS, Subject, begin, state_of


def fold(store: Any, of: Subject) -> None:
    """What a reader does with a log that has grown long."""
    place = run_place(of.run_id)
    log = read_log(store.table, place)
    sealing.fold_log(store.table, place, log, Policies(store.table).sealing_rules())


def expire(store: Any, of: Subject) -> None:
    """The time passes after which a deleted run is gone."""
    del of
    store.table.clock.now += 91 * DAY


def many_metrics(store: Any, of: Subject) -> None:
    """One call that fills several segments, so that they are folded at its end."""
    points = [Metric("m", float(step), 40 + step, step) for step in range(4, 10)]
    store.log_batch(of.run_id, points, [], [])


LOG_OPERATIONS: dict[str, Operation] = {
    **{name: OPERATIONS[name] for name in ("metric", "finish", "rest", "go on")},
    "metrics": many_metrics,
    "fold": fold,
    "delete": OPERATIONS["delete"],
    "restore": OPERATIONS["restore"],
    "gc": lambda store, of: store._hard_delete_run(of.run_id),
    "expire": expire,
}
STARTS = ("live", "ended", "live and deleted", "ended and deleted")


def cases() -> list[tuple[str, str, str]]:
    """Each pair on a run to which both can do something."""
    found: list[tuple[str, str, str]] = []
    for one, other in permutations(LOG_OPERATIONS, 2):
        of_deleted = {one, other} & {"restore", "expire", "gc"}
        of_active = not {one, other} & {"restore", "expire"} or {one, other} == {"delete", "expire"}
        found += [
            (one, other, start)
            for start in STARTS
            if (of_deleted if "deleted" in start else of_active)
        ]
    return found


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_log, "SEGMENT_BYTES", 60)
    monkeypatch.setattr(metric_log, "SEGMENTS_BEFORE_FOLDING", 2)
    monkeypatch.setattr(metric_log, "LARGEST_ENTRY", 20)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Two:
    return two_stores(tmp_path_factory.mktemp("runs"))


def begun(store: Any, start: str) -> Subject:
    of = begin(store, ended=start.startswith("ended"))
    if "deleted" in start:
        store.delete_run(of.run_id)
    return of


def belongings(store: Any, of: Subject) -> list[Item]:
    """All items of a run but its own."""
    pk = run_place(of.run_id).pk
    ranges = (run_keys.run_children(of.run_id), log_keys.run_log(of.run_id))
    return [item for some in ranges for item in store.table.items(Query(pk, some.on()))]


def state(store: Any, of: Subject) -> object:
    store.run_lookup.forget(of.run_id)
    now = int(store.table.clock())
    items = belongings(store, of)
    try:
        store.get_run(of.run_id)
    except MlflowException:
        rules = Policies(store.table).sealing_rules()
        known = {found.key for found in OrphanFinder(store.table).find(items, rules)}
        assert known == {store.table.schema.key_of(item) for item in items}
        return "gone"
    log = [item for item in items if item["SK"] in log_keys.run_log(of.run_id)]
    for item in log:
        if SETTLED in item:
            assert item[TTL] <= now + sealing.READER_SECONDS
    assert not any(DISORDERED in item for item in items)
    shown: Any = state_of(store, of)
    dates = {item.get(TTL) for item in log if SETTLED not in item} | shown["expiries"]
    return {**shown, "expiries": {None if ttl is None else ttl - now for ttl in dates}}


@pytest.mark.parametrize(("one", "other", "start"), cases())
def test_it_is_as_if_in_some_order(two: Two, one: str, other: str, start: str) -> None:
    for at, end, serial in interleaved(
        two,
        lambda: begun(two.second, start),
        LOG_OPERATIONS[one],
        LOG_OPERATIONS[other],
        lambda of: state(two.second, of),
    ):
        assert end in serial, at
