"""A server for long at half of its highest load: ``python -m bench.soak --minutes 60``.

It measures the highest rate first, then ``wrk`` asks at half of it. Each minute new runs begin and
those of the last minute end. Memory, errors and the 99th percentile are printed every minute; the
end says whether they stayed flat.
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

CONNECTIONS = 16
LATENCY = 0.002
"""Seconds that a call takes at half load, about; they are left out of the pause after it."""


class Load:
    """A server's runs, and the program that logs to them at a rate."""

    def __init__(self, server: Server, folder: Path, per_second: float) -> None:
        self.server, self.folder = server, folder
        self.pause = max(0, round(1000 * (CONNECTIONS / per_second - LATENCY)))
        self.experiment = new_experiment(server, "soak")
        ended = [finished_run(server, self.experiment) for _ in range(8)]
        self.ended = written(folder, "ended", "\n".join(ended))
        self.runs: list[str] = []

    def program(self) -> Sequence[str]:
        """The program for another minute, on new runs."""
        for run in self.runs:
            body = {"run_id": run, "status": "FINISHED", "end_time": 9}
            self.server.post("runs/update", body)
        self.runs = [new_run(self.server, self.experiment) for _ in range(CONNECTIONS)]
        runs = written(self.folder, "runs", "\n".join(self.runs))
        return "soak.lua", runs, self.ended, str(self.pause)


@click.command()
@click.option("--minutes", default=60, show_default=True)
@click.option("--workers", default=1, show_default=True)
def main(minutes: int, workers: int) -> None:
    """Ask a server at half of its highest load, and look whether it stays as it is."""
    with (
        tempfile.TemporaryDirectory(dir=TMPFS) as made,
        serving(EMBEDDED, f"dynamodb:///{made}/ours.ddb", Path(made), workers) as server,
    ):
        script = CALLS[0].script(server, Path(made))
        highest = measure(CALLS[0], script, server, workers, CONNECTIONS, 10).per_second
        print(f"the highest rate is {highest:,.0f} calls a second; asking for half of it")
        load = Load(server, Path(made), highest / 2)
        seen = []
        for minute in range(minutes):
            found = measure(CALLS[0], load.program(), server, workers, CONNECTIONS, 60)
            seen.append((server.megabytes(), found.p99_ms, found.failed))
            print(
                f"minute {minute + 1}: {found.per_second:,.0f} calls/s, p50 {shown(found.p50_ms)}, "
                f"p99 {shown(found.p99_ms)} ms, {seen[-1][0]:,.0f} MB, {found.failed} errors",
                flush=True,
            )
        quarter = max(1, minutes // 4)
        for n, what in enumerate(("megabytes", "p99, ms")):
            first = statistics.median(one[n] for one in seen[:quarter])
            last = statistics.median(one[n] for one in seen[-quarter:])
            print(f"{what}: {shown(first)} in the first quarter, {shown(last)} in the last")
        print(f"errors: {sum(one[2] for one in seen)}")


if __name__ == "__main__":
    main()
