"""How much gets through a table that throttles: ``python -m bench.storm``.

32 threads read, add and transact through our retries, 6 ms from their table, on a clock of their
own: a result does not depend on the machine. The ideal is what would come through if every request
were repeated at the best moment.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlflow_dynamodbstore.table.contract import Engine
from mlflow_dynamodbstore.table.table import Table
from tests.throttling import (
    LATENCY,
    RANDOM_IDEAL,
    THREADS,
    Crowd,
    CrowdedEngine,
    FarEngine,
    Goodput,
    call_for,
    far_table,
    random_throttling,
)
from tests.virtual_time import VirtualTime

SECONDS = 20
OWN = [f"p{n}" for n in range(THREADS)]
"""A partition for each thread."""
HOT = 200.0
PAUSE = range(5, 10)


@contextmanager
def table_behind(crowd: Crowd) -> Iterator[tuple[Table, FarEngine, VirtualTime]]:
    """A new table far away, behind an engine that throttles."""
    with tempfile.TemporaryDirectory() as folder, far_table(Path(folder), crowd) as found:
        yield found


def throttled_at_random() -> Goodput:
    """A fifth of the requests throttled, one in fifty answers lost, each thread in a partition."""
    with table_behind(random_throttling) as far:
        return call_for(SECONDS, RANDOM_IDEAL, OWN, *far)


def one_hot_partition() -> Goodput:
    """All threads in one partition that takes 200 requests a second."""

    def crowd(engine: Engine, time: VirtualTime) -> Engine:
        return CrowdedEngine(engine, time, lambda _: HOT)

    with table_behind(crowd) as far:
        return call_for(SECONDS, HOT, ["hot"] * THREADS, *far)


def beside_a_hot_partition() -> Goodput:
    """Half of the threads in the hot partition, half in others, all through one process."""

    def crowd(engine: Engine, time: VirtualTime) -> Engine:
        return CrowdedEngine(engine, time, lambda one: HOT if one == "hot" else None)

    half = THREADS // 2
    with table_behind(crowd) as far:
        return call_for(SECONDS, HOT + half / LATENCY, [*["hot"] * half, *OWN[half:]], *far)


def after_a_pause() -> tuple[Goodput, int]:
    """Five seconds in which nothing comes through; and the seconds until 90 % do again."""

    def crowd(engine: Engine, time: VirtualTime) -> Engine:
        return CrowdedEngine(engine, time, lambda _: 1.0 if int(time()) in PAUSE else None)

    full = THREADS / LATENCY
    ideal = full * (SECONDS - len(PAUSE)) / SECONDS
    with table_behind(crowd) as far:
        found = call_for(SECONDS, ideal, OWN, *far)
    back = (n for n in range(PAUSE.stop, SECONDS) if found.by_second[n] > 0.9 * full)
    return found, next(back, SECONDS) + 1 - PAUSE.stop


def main() -> None:
    """Print all of it."""
    print("throttled at random:", throttled_at_random())
    print("one hot partition:", one_hot_partition())
    print("beside a hot partition:", beside_a_hot_partition())
    paused, seconds = after_a_pause()
    print(f"after a pause: {paused}; back to 90 % in the {seconds}. second")


if __name__ == "__main__":
    main()
