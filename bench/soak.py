"""A server for long at half of its highest load: ``python -m bench.soak --minutes 60``.

It measures the highest rate first, then ``wrk`` asks at half of it. Each minute new runs begin and
those of the last minute end. Memory, errors and the 99th percentile are printed every minute; the
end, or Ctrl-C, says whether they stayed flat. ``--rate 100`` asks at that rate instead, and so
leaves the machine to other work; p99 then says little, but memory and errors do.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from bench.contract import TMPFS
from bench.http_calls import CALLS, finished_run, measure, new_experiment, new_run, written
from bench.numbers import shown
from bench.servers import Server, serving
from bench.stores import EMBEDDED

LATENCY = 0.002
"""Seconds that a call takes at half load, about; they are left out of the pause after it."""


class Load:
    """A server's runs, and the program that logs to them at a rate."""

    def __init__(self, server: Server, folder: Path, per_second: float, connections: int) -> None:
        self.server, self.folder, self.connections = server, folder, connections
        self.pause = max(0, round(1000 * (connections / per_second - LATENCY)))
        self.experiment = new_experiment(server, "soak")
        ended = [finished_run(server, self.experiment) for _ in range(8)]
        self.ended = written(folder, "ended", "\n".join(ended))
        self.runs: list[str] = []

    def program(self) -> Sequence[str]:
        """The program for another minute, on new runs."""
        for run in self.runs:
            body = {"run_id": run, "status": "FINISHED", "end_time": 9}
            self.server.post("runs/update", body)
        self.runs = [new_run(self.server, self.experiment) for _ in range(self.connections)]
        runs = written(self.folder, "runs", "\n".join(self.runs))
        return "soak.lua", runs, self.ended, str(self.pause)


@click.command()
@click.option("--minutes", default=60, show_default=True)
@click.option("--workers", default=1, show_default=True)
@click.option("--connections", default=16, show_default=True)
@click.option("--rate", type=float, help="Calls a second; half of the highest unless given.")
@click.option("--folder", type=click.Path(path_type=Path), help="For files; tmpfs unless given.")
def main(
    minutes: int, workers: int, connections: int, rate: float | None, folder: Path | None
) -> None:
    """Ask a server at half of its highest load, and look whether it stays as it is."""
    with (
        tempfile.TemporaryDirectory(dir=folder or TMPFS) as made,
        serving(EMBEDDED, f"dynamodb:///{made}/ours.ddb", Path(made), workers) as server,
    ):
        if rate is None:
            script = CALLS[0].script(server, Path(made))
            highest = measure(CALLS[0], script, server, workers, connections, 10).per_second
            print(f"the highest rate is {highest:,.0f} calls a second; asking for half of it")
            rate = highest / 2
        load = Load(server, Path(made), rate, connections)
        seen: list[tuple[float, float, int]] = []
        try:
            for minute in range(minutes):
                found = measure(CALLS[0], load.program(), server, workers, connections, 60)
                seen.append((server.megabytes(), found.p99_ms, found.failed))
                print(
                    f"minute {minute + 1}: {found.per_second:,.0f} calls/s, "
                    f"p50 {shown(found.p50_ms)}, p99 {shown(found.p99_ms)} ms, "
                    f"{seen[-1][0]:,.0f} MB, {found.failed} errors",
                    flush=True,
                )
        except KeyboardInterrupt:
            print("interrupted")
        if seen:
            summarize(seen)


def summarize(seen: Sequence[tuple[float, float, int]]) -> None:
    """Say how memory and the 99th percentile began and ended, and how many calls failed."""
    quarter = max(1, len(seen) // 4)
    for n, what in enumerate(("megabytes", "p99, ms")):
        first = statistics.median(one[n] for one in seen[:quarter])
        last = statistics.median(one[n] for one in seen[-quarter:])
        print(f"{what}: {shown(first)} in the first quarter, {shown(last)} in the last")
    print(f"errors: {sum(one[2] for one in seen)}")


if __name__ == "__main__":
    main()
