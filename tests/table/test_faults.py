"""Under faults, writes end exact or say what became of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from boto3.dynamodb.conditions import Attr
from hypothesis import settings

from mlflow_dynamodbstore.table.contract import (
    Check,
    Delete,
    Engine,
    IncompleteWrite,
    Patch,
    Put,
    Query,
    Write,
)
from mlflow_dynamodbstore.table.errors import (
    ConditionFailed,
    Throttled,
    TransactionCancelled,
    Unavailable,
)
from mlflow_dynamodbstore.table.request_checks import key_of
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key
from tests.faults import (
    CrashingEngine,
    FaultyEngine,
    SimulatedCrash,
    When,
)
from tests.table.fakes import FakeTime, patient_retry
from tests.table.suite.samples import fill, item, token, walk

ABSENT = Attr("PK").not_exists()
# `make fuzz` tries more of them.
SEEDS = range(max(2, settings().max_examples // 100))

pytestmark = pytest.mark.hypothesis


def faulty(engine: Engine, seed: int, **rates: Any) -> FaultyEngine:
    """The engine with 20 % throttles, 20 % partial batches and 10 % answers lost after the deed."""
    return FaultyEngine(engine, rng=random.Random(seed), **rates)


def table_on(engine: Engine, *, deadline: float = 600.0) -> Table:
    time = FakeTime()
    return Table(engine, clock=time, retry=patient_retry(time, deadline=deadline))


def without_marks(found: list[Item]) -> list[Item]:
    return [{k: v for k, v in one.items() if k != "_w"} for one in found]


@pytest.mark.parametrize("seed", SEEDS)
def test_bulk_writes_end_exact(engine, seed):
    """Bulk puts, conditional puts, additions and deletes are each done exactly once."""
    fill(engine, [item("p", f"gone{n:02}") for n in range(30)])
    fill(engine, [item("p", f"taken{n:02}", own=1) for n in range(10)])
    bad = faulty(engine, seed, timeout_before=0.1)
    writes: list[Write] = [
        *(Put(item("p", f"plain{n:02}", n=n)) for n in range(40)),
        *(Put(item("p", f"fresh{n:02}", n=n), ABSENT) for n in range(30)),
        *(Patch(Key("p", f"count{n:02}"), Update(add={"n": 1})) for n in range(30)),
        *(Delete(Key("p", f"gone{n:02}")) for n in range(30)),
    ]
    random.Random(seed).shuffle(writes)
    table = table_on(bad)
    for start in range(0, len(writes), 10):
        outcomes = table.write(writes[start : start + 10])
        assert {outcome.status for outcome in outcomes} == {"applied"}
    assert without_marks(walk(engine, Query("p"))) == [
        *(item("p", f"count{n:02}", n=1) for n in range(30)),
        *(item("p", f"fresh{n:02}", n=n) for n in range(30)),
        *(item("p", f"plain{n:02}", n=n) for n in range(40)),
        *(item("p", f"taken{n:02}", own=1) for n in range(10)),
    ]
    assert all(bad.injected[kind] for kind in ("partial", "timeout_before", "timeout_after"))


@pytest.mark.parametrize("seed", SEEDS)
def test_refused_writes_are_refused_or_uncertain(engine, seed):
    """A put whose place is taken is refused, or reported uncertain when its answer was lost."""
    fill(engine, [item("p", f"{n:02}", owner="other") for n in range(20)])
    writes: list[Write] = [Put(item("p", f"{n:02}", owner="us"), ABSENT) for n in range(40)]
    try:
        bad = faulty(engine, seed, timeout_before=0.1)
        outcomes = table_on(bad).write(writes)
        written = [w for w, o in zip(writes, outcomes, strict=True) if o.status == "applied"]
    except IncompleteWrite as error:
        written = error.written
    assert written == writes[20:]
    owners = [one["owner"] for one in walk(engine, Query("p"))]
    assert owners == ["other"] * 20 + ["us"] * 20


@pytest.mark.requires("transaction_tokens")
@pytest.mark.parametrize("seed", SEEDS)
def test_transactions_end_exact(engine, seed):
    """Transactions are each done once, whatever was lost or in conflict on the way."""
    bad = faulty(engine, seed, conflict=0.2)
    table = table_on(bad)
    for n in range(25):
        table.transact(
            [
                Patch(Key("p", "counter"), Update(add={"n": 1})),
                Put(item("p", f"{n:02}"), ABSENT),
                Check(Key("p", "never"), ABSENT),
            ]
        )
        with pytest.raises(TransactionCancelled) as cancelled:
            table.transact(
                [
                    Patch(Key("p", "counter"), Update(add={"n": 100})),
                    Put(item("p", f"{n:02}"), ABSENT),
                ]
            )
        assert [r and r.code for r in cancelled.value.reasons] == [None, "ConditionFailed"]
    assert engine.get(Key("p", "counter"))["n"] == 25
    assert len(walk(engine, Query("p"))) == 26
    assert all(bad.injected[kind] for kind in ("throttle", "conflict", "timeout_after"))


@pytest.mark.parametrize("seed", SEEDS)
def test_single_writes_end_exact(engine, seed):
    """Additions count once, puts if absent recognise themselves, deletes stay done."""
    bad = faulty(engine, seed, timeout_before=0.1)
    table = table_on(bad)
    for n in range(40):
        new = table.update(Key("p", "counter"), Update(add={"n": 1}), returns="new")
        assert new == item("p", "counter", n=n + 1)
        table.put(item("p", f"{n:02}"), condition=ABSENT)
        assert table.get(Key("p", f"{n:02}")) == item("p", f"{n:02}")
        table.delete(Key("p", f"{n:02}"), condition=Attr("PK").exists())
    assert [one["n"] for one in walk(engine, Query("p"))] == [40]
    assert all(bad.injected[kind] for kind in ("throttle", "timeout_before", "timeout_after"))


@pytest.mark.parametrize("seed", SEEDS)
def test_reads_end_complete(engine, seed):
    """Batch reads and walks give everything, though answers come in part or not at all."""
    fill(engine, [item("p", f"{n:03}", n=n) for n in range(250)])
    bad = faulty(engine, seed)
    table = table_on(bad)
    keys = [Key("p", f"{n:03}") for n in range(260)]
    assert {k: one["n"] for k, one in table.get_many(keys).items()} == {
        key: int(key.sk) for key in keys[:250]
    }
    assert [one["n"] for one in table.items(Query("p", limit=20))] == list(range(250))
    assert bad.injected["throttle"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_bulk_write_that_gives_up_says_what_it_did(engine, seed):
    """When the table keeps refusing, the error lists what was written and what was not, truly."""
    writes: list[Write] = [
        *(Put(item("p", f"plain{n:02}")) for n in range(30)),
        *(Put(item("p", f"fresh{n:02}"), ABSENT) for n in range(30)),
    ]
    bad = faulty(engine, seed, throttle=0.6, partial=1.0, timeout_after=0.3)
    with pytest.raises(IncompleteWrite) as incomplete:
        table_on(bad, deadline=0.0).write(writes, then=[Put(item("p", "head"))])
    error = incomplete.value
    there = {(one["PK"], one["SK"]) for one in walk(engine, Query("p"))}
    assert all(key_of(MLFLOW_TABLE, write) in there for write in error.written)
    # A plain put may be sent again without harm, so its lost answer counts as not written.
    conditional = [write for write in error.unwritten if write.condition is not None]
    assert not any(key_of(MLFLOW_TABLE, write) in there for write in conditional)
    assert len(error.written) + len(error.unwritten) + len(error.uncertain) == len(writes)
    assert f"{len(error.unwritten)} were not" in str(error)
    assert ("p", "head") not in there
    outcomes = table_on(engine).write(error.unwritten)
    assert {outcome.status for outcome in outcomes} <= {"applied"}


REQUESTS: list[Callable[[Table], object]] = [
    lambda table: table.get(Key("p", "s")),
    lambda table: table.get_many([Key("p", "s")]),
    lambda table: table.query(Query("p")),
    lambda table: table.put(item("p", "s"), condition=ABSENT),
    lambda table: table.transact([Put(item("p", "s"))]),
]


@pytest.mark.parametrize("request_of", REQUESTS)
def test_endless_throttling_ends_in_an_error(engine, request_of):
    """A table that is throttled beyond its patience says so, and has written nothing."""
    bad = faulty(engine, 0, throttle=1.0)
    with pytest.raises(Throttled):
        request_of(table_on(bad, deadline=5.0))
    assert walk(engine, Query("p")) == []


@pytest.mark.parametrize("request_of", REQUESTS[3:])
def test_endless_timeouts_say_that_something_may_be_written(engine, request_of):
    """A write whose answers are all lost ends in an error that leaves it open."""
    bad = faulty(engine, 0, throttle=0.0, timeout_before=1.0)
    with pytest.raises(Unavailable) as lost:
        request_of(table_on(bad, deadline=5.0))
    assert lost.value.maybe_applied
    assert walk(engine, Query("p")) == []


def test_a_write_overtaken_after_a_lost_answer_is_not_guessed(engine):
    """When another write came after a lost answer, the caller is told rather than misled."""

    class LosesOneAnswer(FaultyEngine):
        def _after_write(self) -> None:
            if not self.injected["lost"]:
                self.injected["lost"] += 1
                engine.apply(Put(item("p", "s", owner="another")))
                raise Unavailable("lost", maybe_applied=True)

    bad = LosesOneAnswer(engine, throttle=0, partial=0, timeout_after=0)
    with pytest.raises(Unavailable) as lost:
        table_on(bad).put(item("p", "s", owner="us"), condition=ABSENT)
    assert lost.value.maybe_applied


def test_rates_of_zero_change_nothing(engine):
    """Without faults the wrapper is transparent."""
    calm = faulty(engine, 0, throttle=0, partial=0, timeout_after=0)
    calm.apply(Put(item("p", "s")))
    with pytest.raises(ConditionFailed):
        calm.apply(Put(item("p", "s"), ABSENT))
    assert calm.get(Key("p", "s")) == item("p", "s")
    assert calm.injected.total() == 0


# --- crashes ------------------------------------------------------------------------------------


def three_writes(engine: Engine) -> None:
    engine.apply(Put(item("p", "1")))
    engine.apply_many([Put(item("p", "2")), Put(item("p", "3"))])
    engine.transact([Put(item("p", "4"))], token())


@pytest.mark.parametrize(
    ("at", "when", "left"),
    [
        (1, "before", ""),
        (1, "after", "1"),
        (2, "before", "1"),
        (2, "during", "12"),
        (2, "after", "123"),
        (3, "before", "123"),
        (3, "during", "123"),
        (3, "after", "1234"),
    ],
)
def test_a_crash_leaves_what_was_written_before_it(engine, at: int, when: When, left: str):
    """A crash point is before, during or after a write request, and leaves what came before."""
    dying = CrashingEngine(engine, at=at, when=when)
    with pytest.raises(SimulatedCrash):
        three_writes(dying)
    assert "".join(str(one["SK"]) for one in walk(engine, Query("p"))) == left
    with pytest.raises(SimulatedCrash):
        dying.get(Key("p", "1"))


def test_crash_points_can_be_counted(engine):
    """A run without a crash tells how many points there are."""
    counting = CrashingEngine(engine)
    three_writes(counting)
    assert counting.writes == 3
    with pytest.raises(SimulatedCrash):
        three_writes(FaultyEngine(engine, throttle=0, partial=0, timeout_after=0, crash_after=2))
