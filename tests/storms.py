"""Many threads on a table that throttles, loses answers and has conflicts: what comes of it."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.table.retry import Retry
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from tests.faults import FaultyEngine

THREADS = 12
T = TypeVar("T")


@contextmanager
def stormy_table(folder: Path, seed: int = 0) -> Iterator[Table]:
    """A table with a fifth of its requests throttled, one answer in fifty lost, and conflicts.

    At the end some must have been throttled, and some answers lost.
    """
    engine = FaultyEngine(
        open_engine(f"dynamodb:///{folder}/storm.ddb?synchronous=NORMAL"),
        throttle=0.2,
        partial=0.2,
        timeout_after=0.02,
        timeout_before=0.02,
        conflict=0.3,
        rng=random.Random(seed),
    )
    table = Table(engine, retry=Retry(first_pause=0.001, longest_pause=0.02, deadline=120))
    yield table
    table.close()
    assert engine.injected["throttle"], engine.injected
    assert engine.injected["timeout_after"] + engine.injected["timeout_before"], engine.injected


def in_threads(work: Callable[[int], T], threads: int = THREADS) -> list[T]:
    """The results of so many threads that begin at once, in order; the first error is raised."""
    results: dict[int, T] = {}
    errors: list[BaseException] = []
    together = threading.Barrier(threads)

    def run(number: int) -> None:
        try:
            together.wait(60)
            results[number] = work(number)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    started = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if errors:
        raise errors[0]
    return [results[number] for number in range(threads)]


def outcome(call: Callable[[], object]) -> str:
    """``made``, or the code of MLflow's error."""
    try:
        call()
    except MlflowException as error:
        return str(error.error_code)
    return "made"


def assert_one_made(outcomes: Sequence[str]) -> None:
    """That of several who made the same thing one did, and the others were told so.

    Whose answer was lost, and who then finds the thing made by somebody else or changed, is told to
    try again: it may have been the one.
    """
    counted = Counter(outcomes)
    uncertain = counted.pop("TEMPORARILY_UNAVAILABLE", 0)
    assert uncertain <= len(outcomes) // 3, outcomes
    assert counted.pop("made", 0) == 1 or uncertain, outcomes
    assert set(counted) <= {"RESOURCE_ALREADY_EXISTS"}, outcomes
