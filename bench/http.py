"""Measure servers with ``wrk``, side by side: ``python -m bench.http``, or ``make bench-http``.

All servers run at once and are asked in turns, so that a busy moment of the machine hits all alike.
A server that answers slowly is asked for longer, so that its p99 is one of a hundred answers or
more. The whole takes less than twenty minutes on a machine that does nothing else.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from bench import http_page, pull_request_17038, report
from bench.contract import TMPFS
from bench.http_calls import CALLS, Call, Measured, has_wrk, measure, seconds_for
from bench.servers import all_servers


@click.command()
@click.option("--seconds", default=4, show_default=True, help="Shortest time of a measurement.")
@click.option("--longest", default=30, show_default=True, help="Longest one, for slow answers.")
@click.option("--connections", default="1,4,16,64", show_default=True)
@click.option("--workers", default="1,4", show_default=True)
@click.option("--only", default="", help="Calls whose titles begin so.")
@click.option("--postgres/--no-postgres", default=True, show_default=True)
@click.option("--load/--no-load", default=True, help="The load of MLflow's pull request 17038 too.")
@click.option("--keep", is_flag=True, help="Keep what an earlier run measured beside it.")
@click.option("--folder", type=click.Path(path_type=Path), help="For files; tmpfs unless given.")
@click.option("--disk", type=click.Path(path_type=Path), help="A folder on a disk to measure too.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("bench-out"))
@click.option("--docs", type=click.Path(path_type=Path), help="Folder for the page and its plot.")
def main(
    seconds: int,
    longest: int,
    connections: str,
    workers: str,
    only: str,
    postgres: bool,
    load: bool,
    keep: bool,
    folder: Path | None,
    disk: Path | None,
    out: Path,
    docs: Path | None,
) -> None:
    """Measure MLflow's server on SQLite, on PostgreSQL and on ours."""
    if not has_wrk():
        raise click.ClickException("wrk is not installed; on Debian and Ubuntu: apt install wrk")
    say = Console(width=140).print
    calls = [call for call in CALLS if call.title.startswith(only)]
    results = http_page.Results(os.getloadavg()[0], seconds, folder is None)
    times = seconds, longest
    for count in map(int, workers.split(",")):
        with tempfile.TemporaryDirectory(dir=folder or TMPFS) as made:
            found = run(Path(made), calls, count, connections, times, say, postgres=postgres)
            results.measured += found
    if load:
        with tempfile.TemporaryDirectory(dir=folder or TMPFS) as made:
            results.loads = pull_request_17038.run(Path(made), say, postgres=postgres)
    if disk:
        disk.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=disk) as made:
            results.disk_syncs = syncs(Path(made))
            results.disk = run(Path(made), CALLS[:1], 1, "16", times, say, postgres=False)
    out.mkdir(parents=True, exist_ok=True)
    as_json = out / "http.json"
    if keep and as_json.exists():
        results = http_page.added(http_page.read(as_json), results)
    as_json.write_text(json.dumps({"machine": report.machine(), **asdict(results)}, indent=2))
    for path in [as_json, *http_page.write(docs or out, results)]:
        say(f"written: {path}")


def syncs(folder: Path) -> float:
    """How often a disk makes sure in a second that something is written."""
    count, began = 0, time.perf_counter()
    with (folder / "synced").open("wb") as file:
        while time.perf_counter() - began < 2:
            file.write(b"x" * 4096)
            file.flush()
            os.fdatasync(file.fileno())
            count += 1
    return count / (time.perf_counter() - began)


def run(
    folder: Path,
    calls: Sequence[Call],
    workers: int,
    connections: str,
    times: tuple[int, int],
    say: Callable[[object], None],
    *,
    postgres: bool,
) -> list[Measured]:
    """All calls on all servers with so many workers; ``times`` are the shortest and longest."""
    found = []
    with all_servers(folder, workers, say, postgres=postgres) as servers:
        for call in calls:
            scripts, rates = [], []
            for server in servers:
                files = folder / f"{server.port}-{len(found)}"
                files.mkdir()
                scripts.append(call.script(server, files))
                # Asked first, a server warms up, and shows how long it must be asked.
                rates.append(measure(call, scripts[-1], server, workers, 1, 2).per_second)
            for count in map(int, connections.split(",")):
                for n, server in enumerate(servers):
                    seconds = seconds_for(rates[n], count, *times)
                    one = measure(call, scripts[n], server, workers, count, seconds)
                    rates[n] = one.per_second
                    found.append(one)
                    say(one)
    return found


if __name__ == "__main__":
    main()
