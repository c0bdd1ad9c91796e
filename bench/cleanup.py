"""Cleanup of a large table: exact, bounded in memory, and the same when it is interrupted.

``python -m bench.cleanup --items 1000000`` fills a file of the embedded engine with items of which
a tenth belong to nothing, cleans it up in several goes in a process of its own, and says what was
found, in what time and with how much memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import click

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.table.contract import Put, Scan
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup, Report

LONG_AGO = 1_700_000_000_000
STOPS = 3
BATCH = 5_000


def population() -> Iterator[Item]:
    """Runs of ten items each in a hundred experiments; of every tenth run its own item is gone."""
    for number in range(1, 101):
        key = experiment_keys.experiment_key(str(number))
        yield {"PK": key.pk, "SK": key.sk, "name": f"e{number}", "workspace": "default"}
        guard = access_keys.experiment_name_guard(f"e{number}")
        yield {"PK": guard.pk, "SK": guard.sk, "experiment_id": str(number)}
    count = 0
    while True:
        experiment_id = str(count % 100 + 1)
        run_id = ids.new_id(experiment_id, now_ms=LONG_AGO + count)
        yield from run_items(experiment_id, run_id, gone=count % 10 == 0)
        count += 1


def run_items(number: str, run_id: str, *, gone: bool) -> Iterator[Item]:
    """Ten items; those of a run that is gone are all orphans."""
    key = run_keys.run_key(number, run_id)
    own: Item = {"PK": key.pk, "SK": key.sk, "state": "live", "status": "RUNNING", "generation": 1}
    children = [run_keys.run_tag(run_id, f"tag{n}") for n in range(4)]
    children += [run_keys.run_param(run_id, f"param{n}") for n in range(4)]
    children += [run_keys.run_metric(run_id, "loss")]
    if not gone:
        yield own
    else:
        yield {"PK": key.pk, "SK": run_keys.run_metric(run_id, "accuracy"), "value": "0.5"}
    yield from ({"PK": key.pk, "SK": sk, "value": "some text"} for sk in children)


def fill(table: Table, count: int) -> int:
    """Write so many items; returns how many of them are orphans."""
    made = islice(population(), count)
    orphans = 0
    runs: set[Key] = set()
    while chunk := list(islice(made, BATCH)):
        runs |= {Key(i["PK"], i["SK"]) for i in chunk if "state" in i}
        below = [i for i in chunk if i["SK"].startswith("R#") and "state" not in i]
        orphans += sum(_run_of(item) not in runs for item in below)
        table.write([Put(item) for item in chunk])
    return orphans


def clean(uri: str) -> None:
    """Clean up until told to stop, in this process, and print what came of it as JSON."""
    table = Table(open_engine(uri))
    before, most = own_memory(), [0.0]
    begun = time.perf_counter()
    budget = float(sys.argv[3])

    def measured(_: Report) -> None:
        most[0] = max(most[0], own_memory())

    def spent() -> bool:
        return time.perf_counter() - begun > budget

    report = Cleanup(table, progress=measured, stop=spent).run()
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - begun,
                "grown_mb": most[0] - before,
                "read": report.read,
                "found": report.orphans,
                "removed": report.dated + report.removed,
                "finished": report.finished,
            }
        )
    )


def own_memory() -> float:
    """MB of this process, without the pages of the table's file that the system keeps mapped."""
    status = Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("RssAnon:")]
    return int(line.split()[1]) / 1024


def _run_of(item: Item) -> Key:
    return Key(str(item["PK"]), run_keys.run(str(run_keys.run_id_of(str(item["SK"])))))


@click.command()
@click.option("--items", default=100_000, show_default=True, help="Items to fill the table with.")
def main(items: int) -> None:
    """Fill, clean up in several goes, and compare with what is known."""
    with tempfile.TemporaryDirectory() as folder:
        uri = f"dynamodb:///{Path(folder) / 'large.ddb'}?synchronous=NORMAL"
        table = Table(open_engine(uri))
        begun = time.perf_counter()
        orphans = fill(table, items)
        print(
            f"{items:,} items, {orphans:,} orphans, written in {time.perf_counter() - begun:.0f} s"
        )
        budget, finished = items / 100_000, False
        for go in range(50):
            seconds = budget if go < STOPS else 1e9
            command = [sys.executable, "-m", "bench.cleanup", "clean", uri, str(seconds)]
            said = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
            print(f"go {go + 1}: {said}")
            if said["finished"]:
                finished = said["found"] == said["removed"] == orphans
                break
        left, page = 0, table.scan(Scan())
        while True:
            left += len(page.items)
            if page.cursor is None:
                break
            page = table.scan(Scan(cursor=page.cursor))
        exact = finished and left == items - orphans
        print(f"{left:,} items left: {'exactly those that belong' if exact else 'WRONG'}")
        sys.exit(not exact)


if __name__ == "__main__":
    if sys.argv[1:2] == ["clean"]:
        clean(sys.argv[2])
    else:
        main()
