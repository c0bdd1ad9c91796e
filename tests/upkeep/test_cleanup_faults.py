"""Cleanup under faults and crashes ends where an undisturbed one ends."""

from __future__ import annotations

import random

import pytest

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import ranks as rank_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.keys.base import value_part
from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup
from tests.faults import CrashingEngine, FaultyEngine, SimulatedCrash
from tests.places import run_place
from tests.stores import everything_in
from tests.table.fakes import patient_retry
from tests.upkeep.helpers import make_run


@pytest.fixture
def expected(store):
    """A table with orphans of every treatment; what must be left of it."""
    run_id = make_run(store)
    left = {(item["PK"], item["SK"]) for item in everything_in(store.table)}
    gone = ids.new_id("0", now_ms=1_700_000_000_000)
    orphans = [
        ("EXP#0", run_keys.run_tag(gone, "team")),
        ("EXP#0", run_keys.run_param(gone, "lr")),
        ("EXP#0", rank_keys.metric_rank("loss", 1.0, gone)),
        (run_place(run_id).pk, rank_keys.metric_rank("loss", 7.0, run_id)),
        (run_place(run_id).pk, rank_keys.param_rank("lr", "9", run_id)),
        ("EXP#0", trace_keys.trace_spans("tr-gone")),
        ("EXP#0", value_part(experiment_keys.dataset("gone"), "a1b2c3d4e5f6", 0)),
        ("EXP#12", experiment_keys.experiment_tag("team")),
    ]
    store.table.write([Put({"PK": pk, "SK": sk, "value": "x"}) for pk, sk in orphans])
    guard = access_keys.experiment_name_guard("lost")
    store.table.put({"PK": guard.pk, "SK": guard.sk, "experiment_id": "77"})
    return left


def left_of(store):
    return {(item["PK"], item["SK"]) for item in everything_in(store.table)}


@pytest.mark.parametrize("seed", range(20))
def test_throttling_partial_batches_and_lost_answers_change_nothing(store, time, expected, seed):
    engine = FaultyEngine(
        store.table.engine, timeout_before=0.1, conflict=0.1, rng=random.Random(seed)
    )
    table = Table(engine, clock=time, retry=patient_retry(time))
    report = Cleanup(table, sleep=time.sleep).run()
    assert engine.injected.total() > 0
    assert report.orphans == 9
    assert left_of(store) == expected


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_dying_at_each_write_in_turn_it_still_comes_to_its_end(store, time, expected, when):
    deaths = 0
    while True:
        engine = CrashingEngine(store.table.engine, at=deaths + 1, when=when)
        try:
            Cleanup(Table(engine, clock=time), sleep=time.sleep).run()
        except SimulatedCrash:
            deaths += 1
            assert deaths < 100
        else:
            break
    assert deaths > 1
    assert left_of(store) == expected
