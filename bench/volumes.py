"""What volumes give: calls a second of one experiment, and what a search over them costs.

``python -m bench.volumes`` prints the tables of the decision record on volumes, and draws the plot.
DynamoDB gives a partition so many write units a second and throttles the rest; here a wrapper does,
with a hundredth of the units, so that this machine is not what limits.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
from mlflow.entities import Metric, RunStatus, RunTag, ViewType
from rich.console import Console
from rich.table import Table as Grid

from bench import plots
from bench.contract import TMPFS
from mlflow_dynamodbstore.shared import volumes as volumes_module
from mlflow_dynamodbstore.table.contract import (
    Delete,
    Engine,
    Outcome,
    Patch,
    Put,
    TransactWrite,
    Write,
)
from mlflow_dynamodbstore.table.errors import Throttled
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine
from mlflow_dynamodbstore.table.wrappers.costs import write_units
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore

UNITS_A_SECOND = 100.0
SECONDS = 10.0
CLIENTS_A_VOLUME = 16
WIDTHS = (1, 2, 4, 8)
HOME = "0"


class Partitions(WrappedEngine):
    """Gives each partition some write units a second, and throttles what goes beyond."""

    def __init__(self, inner: Engine, units: float) -> None:
        super().__init__(inner)
        self._units = units
        self._left: dict[str, float] = defaultdict(lambda: units)
        self._at: dict[str, float] = defaultdict(time.monotonic)
        self._lock = threading.Lock()

    def apply(self, write: Write) -> Item | None:
        if not self._take(write):
            raise Throttled("this partition has used its units")
        return self.inner.apply(write)

    def apply_many(self, writes: Sequence[Write]) -> list[Outcome]:
        taken = [self._take(write) for write in writes]
        done = iter(self.inner.apply_many([w for w, yes in zip(writes, taken, strict=True) if yes]))
        throttled = Throttled("this partition has used its units")
        return [next(done) if yes else Outcome("unprocessed", error=throttled) for yes in taken]

    def transact(self, writes: Sequence[TransactWrite], token: str) -> None:
        if not all(self._take(write) for write in writes):
            raise Throttled("a partition has used its units")
        self.inner.transact(writes, token)

    def _take(self, write: TransactWrite) -> bool:
        key = self.schema.key_of(write.item) if isinstance(write, Put) else write.key
        new = write.item if isinstance(write, Put) else {"PK": key.pk, "SK": key.sk}
        cost = write_units(self.schema, None, new) if not isinstance(write, Delete) else 1
        if not isinstance(write, Put | Patch | Delete):
            return True
        with self._lock:
            now = time.monotonic()
            refilled = self._left[key.pk] + (now - self._at[key.pk]) * self._units
            self._left[key.pk], self._at[key.pk] = min(self._units, refilled), now
            if self._left[key.pk] < cost:
                return False
            self._left[key.pk] -= cost
            return True


def calls_a_second(width: int) -> float:
    """Short runs, begun and logged to by many clients, in an experiment of some width."""
    with tempfile.TemporaryDirectory(dir=TMPFS if TMPFS.is_dir() else None) as folder:
        uri = f"dynamodb:///{folder}/volumes.ddb?synchronous=NORMAL"
        table = Table(Partitions(open_engine(uri), UNITS_A_SECOND))
        store = DynamoDBTrackingStore(uri, "/a", table=table)
        volumes_module.ANNOUNCED_SECONDS = 0
        store.experiment_lookup.volumes.spread(HOME, width)
        store.experiment_lookup.get(HOME)
        end = time.monotonic() + SECONDS

        def work(number: int) -> int:
            calls = 0
            while time.monotonic() < end:
                run = store.create_run(HOME, "u", number, [RunTag("t", "v")], "n").info.run_id
                store.log_batch(run, [Metric("m", 1.0, 1, 1)], [], [])
                calls += 2
            return calls

        clients = width * CLIENTS_A_VOLUME
        with ThreadPoolExecutor(clients) as pool:
            return sum(pool.map(work, range(clients))) / SECONDS


def search_requests(width: int) -> tuple[int, float]:
    """Requests and read units of a page of 100 out of 400 runs."""
    with tempfile.TemporaryDirectory() as folder:
        uri = f"dynamodb:///{Path(folder) / 'search.ddb'}?synchronous=NORMAL&spread={width}"
        engine = MeteredEngine(open_engine(uri))
        store = DynamoDBTrackingStore(uri, "/a", table=Table(engine))
        for number in range(400):
            run = store.create_run(HOME, "u", number, [RunTag("t", "v")], "n").info.run_id
            store.log_batch(run, [Metric("m", float(number), 1, 1)], [], [])
            store.update_run_info(run, RunStatus.FINISHED, number + 1, None)
        store.search_runs([HOME], "", ViewType.ACTIVE_ONLY, 100)
        engine.meter.reset()
        assert len(store.search_runs([HOME], "", ViewType.ACTIVE_ONLY, 100)) == 100
        usage = engine.meter.total()
        return sum(usage.requests.values()), usage.read_units


@click.command()
@click.option("--images", type=click.Path(path_type=Path), help="Draw the plot into this folder.")
def main(images: Path | None) -> None:
    """Measure one, two, four and eight volumes."""
    grid = Grid(
        "volumes", "calls a second", "times one volume", "a page of 100 runs: requests", "units"
    )
    rates = {width: calls_a_second(width) for width in WIDTHS}
    for width in WIDTHS:
        requests, units = search_requests(width)
        times = rates[width] / rates[1]
        grid.add_row(str(width), f"{rates[width]:.0f}", f"{times:.2f}", str(requests), f"{units:g}")
    Console(width=140).print(grid)
    if images is not None:
        lines = [
            plots.Line("measured", [(width, rates[width]) for width in WIDTHS]),
            plots.Line("linear", [(width, rates[1] * width) for width in WIDTHS]),
        ]
        explained = f"calls a second; each partition takes {UNITS_A_SECOND:g} write units a second"
        drawn = plots.growth("Volumes of one experiment", explained, lines, "volumes", unit="")
        (images / "volumes.svg").write_text(drawn)


if __name__ == "__main__":
    main()
