"""The counters of all processes of a server, through a small file of each.

The workers of a server share no memory. Each writes its counters to a file of a folder that they
all know, every few seconds, and whoever shows the counters adds the files up. The file of a worker
that has ended stays, since a sum must not become smaller, until another server uses the folder. The
workers of one server have the same parent.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlflow_dynamodbstore.table.counters import COUNTERS, Counted, Counters, Counts, Period

SAVE_SECONDS = 5.0
_SUFFIX = ".counters.json"


@dataclass
class ServerCounters:
    """What all processes of a server have counted."""

    totals: Counts = field(default_factory=dict)
    periods: list[Period] = field(default_factory=list)
    live_runs: int = 0
    processes: int = 0


class CounterFiles:
    """The files of one folder. ``counters`` are those of this process."""

    def __init__(self, folder: Path, counters: Counters = COUNTERS) -> None:
        self.folder = folder
        self._counters = counters
        self._stop = threading.Event()

    def start(self) -> None:
        """Save the counters of this process every few seconds, until it ends."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for file in self.folder.glob(f"*{_SUFFIX}"):
            if not _is_alive(int(file.name.partition("-")[0])):
                file.unlink(missing_ok=True)  # of a server that has ended
        thread = threading.Thread(target=self._keep_saving, name="counters", daemon=True)
        thread.start()

    def stop(self) -> None:
        """Save for the last time."""
        self._stop.set()
        self.save()

    def save(self) -> None:
        """Write the counters of this process to its file, whole or not at all."""
        found = {
            "totals": _lines(self._counters.totals()),
            "periods": [[p.start, p.seconds, _lines(p.counts)] for p in self._counters.periods()],
            "live_runs": self._counters.live_runs(),
        }
        file = self.folder / f"{os.getppid()}-{os.getpid()}{_SUFFIX}"
        new = file.with_suffix(".new")
        new.write_text(json.dumps(found), "utf-8")
        new.replace(file)

    def read(self) -> ServerCounters:
        """The sum of all processes, this one as it is now."""
        self.save()
        server = ServerCounters()
        totals: Counts = defaultdict(float)
        periods: dict[float, Period] = {}
        live: set[str] = set()
        for saved in self._files():
            server.processes += 1
            _add(totals, saved["totals"])
            live.update(saved["live_runs"])
            for start, seconds, lines in saved["periods"]:
                known = periods.get(start, Period(start, seconds, defaultdict(float)))
                _add(known.counts, lines)
                periods[start] = known._replace(seconds=max(seconds, known.seconds))
        server.totals, server.live_runs = dict(totals), len(live)
        server.periods = [periods[start] for start in sorted(periods)]
        return server

    def _files(self) -> Iterator[dict[str, Any]]:
        for file in sorted(self.folder.glob(f"{os.getppid()}-*{_SUFFIX}")):
            yield json.loads(file.read_text("utf-8"))

    def _keep_saving(self) -> None:
        while not self._stop.wait(SAVE_SECONDS):
            self.save()


def server_folder() -> Path:
    """Where the workers of this process's server keep their counters, if nothing else is said."""
    return Path(tempfile.gettempdir()) / f"mlflow-dynamodbstore-counters-{os.getppid()}"


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is another user's
    return True


def _lines(counts: Counts) -> list[list[Any]]:
    return [[*key, amount] for key, amount in counts.items()]


def _add(counts: Counts, lines: list[list[Any]]) -> None:
    for *key, amount in lines:
        counts[Counted(*key)] += amount
