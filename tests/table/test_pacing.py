"""Pace by partition: throttled partitions are asked less, others are not, and it soon ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlflow_dynamodbstore.table import pacing
from mlflow_dynamodbstore.table.contract import Engine, Outcome, Put, Query
from mlflow_dynamodbstore.table.errors import (
    Refusal,
    RefusalCode,
    Throttled,
    TransactionCancelled,
)
from mlflow_dynamodbstore.table.pacing import FIRST_PACE, LONGEST_PACE, Pacing
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine
from tests.table.fakes import FakeTime, patient_retry
from tests.throttling import (
    LATENCY,
    RANDOM_IDEAL,
    THREADS,
    CrowdedEngine,
    call_for,
    far_table,
    random_throttling,
)
from tests.virtual_time import VirtualTime

OWN = [f"p{n}" for n in range(THREADS)]


# --- the pace of a partition --------------------------------------------------------------------


def test_only_the_throttled_partition_waits() -> None:
    """A request to several partitions waits for the slowest of them."""
    paces = Pacing(FakeTime())
    paces.throttled(["hot"])
    assert paces.pace(["hot"]) == paces.pace(["cold", "hot"]) == FIRST_PACE
    assert paces.pace(["cold"]) == paces.pace([]) == 0.0


def test_a_pace_grows_to_an_end_and_shrinks_to_nothing() -> None:
    """Good answers shorten it; a partition at full speed is forgotten."""
    paces = Pacing(FakeTime())
    for _ in range(1000):
        paces.throttled(["hot"])
    assert paces.pace(["hot"]) == LONGEST_PACE
    for _ in range(1000):
        paces.succeeded(["hot", "cold"])
    assert paces.pace(["hot"]) == 0.0
    assert not paces._paces


def test_stray_throttling_slows_nobody_down() -> None:
    """A fifth of throttled answers leaves the pace near its beginning; a half makes it long."""
    for throttled, low, high in ((1, 0.0, 5 * FIRST_PACE), (3, 0.1, LONGEST_PACE)):
        paces = Pacing(FakeTime())
        for _ in range(1000):
            for _ in range(throttled):
                paces.throttled(["p"])
            for _ in range(4 if throttled == 1 else 3):
                paces.succeeded(["p"])
        assert low <= paces.pace(["p"]) <= high


def test_a_pace_halves_by_itself() -> None:
    """When nothing is throttled any more, full speed is back within three seconds."""
    time = FakeTime()
    paces = Pacing(time)
    for _ in range(1000):
        paces.throttled(["hot"])
    time.sleep(pacing.HALF_LIFE)
    assert paces.pace(["hot"]) == pytest.approx(LONGEST_PACE / 2)
    time.sleep(2.75)
    assert paces.pace(["hot"]) == 0.0


def test_the_memory_of_paces_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions at full speed are forgotten first."""
    monkeypatch.setattr(pacing, "MOST_PARTITIONS", 10)
    time = FakeTime()
    paces = Pacing(time)
    paces.throttled([f"old{n}" for n in range(10)])
    time.sleep(10)
    paces.throttled(["new"])
    assert list(paces._paces) == ["new"]
    for n in range(100):
        paces.throttled([f"{n}"])
        assert len(paces._paces) <= 10


# --- which partition a request is paced by ------------------------------------------------------


class Refusing(WrappedEngine):
    """Throttles every first request."""

    def __init__(self, inner: Engine) -> None:
        super().__init__(inner)
        self.refusals = 1

    def _refuse(self) -> bool:
        self.refusals -= 1
        return self.refusals >= 0

    def query(self, query):
        if self._refuse():
            raise Throttled("slower")
        return self.inner.query(query)

    def apply_many(self, writes):
        if self._refuse():
            outcomes = self.inner.apply_many(writes[:1])
            return [*outcomes, *[Outcome("unprocessed")] * (len(writes) - 1)]
        return self.inner.apply_many(writes)

    def get_many(self, keys, *, consistent=True):
        got = self.inner.get_many(keys[:1] if self._refuse() else keys, consistent=consistent)
        got.unprocessed += [key for key in keys[1:] if key not in got.items]
        return got

    def transact(self, writes, token):
        if self._refuse():
            refusals = (RefusalCode.CONFLICT, RefusalCode.THROTTLED)
            raise TransactionCancelled([Refusal(code) for code in refusals])
        self.inner.transact(writes, token)


@pytest.fixture
def paced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    time = FakeTime()
    engine = open_engine(f"dynamodb:///{tmp_path}/t.ddb?synchronous=NORMAL")
    table = Table(Refusing(engine), clock=time, retry=patient_retry(time))
    monkeypatch.setattr(table.retry.pacing, "succeeded", lambda _: None)
    yield table
    table.close()


def slow(table: Table) -> set[str]:
    return set(table.retry.pacing._paces)


def test_a_global_index_has_a_pace_of_its_own(paced):
    """A local one shares that of its partition."""
    paced.query(Query("p", index="GSI1"))
    assert slow(paced) == {"GSI1:p"}


def test_a_local_index_shares_the_pace_of_its_partition(paced):
    paced.query(Query("p", index="LSI1"))
    assert slow(paced) == {"p"}


def test_a_bulk_write_slows_down_where_writes_are_left(paced):
    paced.write([Put({"PK": pk, "SK": "s"}) for pk in "abc"])
    assert slow(paced) == {"b", "c"}


def test_a_batch_read_slows_down_where_keys_are_left(paced):
    paced.put({"PK": "b", "SK": "s"})
    assert len(paced.get_many([Key("a", "s"), Key("b", "s")])) == 1
    assert slow(paced) == {"b"}


def test_a_transaction_slows_down_where_it_was_throttled(paced):
    """A conflict is with another transaction, not with the capacity."""
    paced.transact([Put({"PK": pk, "SK": "s"}) for pk in "ab"])
    assert slow(paced) == {"b"}


# --- how much gets through ----------------------------------------------------------------------


def test_more_than_half_of_the_ideal_gets_through(tmp_path: Path) -> None:
    """A fifth of the requests throttled, one in fifty answers lost, 32 threads; it was 4 %."""
    with far_table(tmp_path, random_throttling) as far:
        found = call_for(2.0, RANDOM_IDEAL, OWN, *far)
    assert found.share > 0.5
    assert found.requests / found.calls < 1.35


def test_a_hot_partition_is_used_up_and_no_other_suffers(tmp_path: Path) -> None:
    """What a partition can take it takes; the threads in other partitions run at full speed."""

    def crowd(engine: Engine, time: VirtualTime) -> Engine:
        return CrowdedEngine(engine, time, lambda one: 200.0 if one == "hot" else None)

    half = THREADS // 2
    with far_table(tmp_path, crowd) as far:
        found = call_for(4.0, 200 + half / LATENCY, [*["hot"] * half, *OWN[half:]], *far)
    hot = found.by_partition.pop("hot")
    assert hot > 0.9 * 200 * 4
    assert found.by_partition.total() > 0.95 * 4 * half / LATENCY


def test_full_speed_is_back_soon(tmp_path: Path) -> None:
    """Two seconds after the pressure ends, at the latest."""

    def crowd(engine: Engine, time: VirtualTime) -> Engine:
        return CrowdedEngine(engine, time, lambda _: 1.0 if time() < 2 else None)

    with far_table(tmp_path, crowd) as far:
        found = call_for(5.0, THREADS / LATENCY, OWN, *far)
    assert found.by_second[4] > 0.95 * THREADS / LATENCY
