"""The counters of all processes of a server, through a small file of each.

The workers of a server share no memory. Each writes its counters to a file every few seconds, and
readers add up the files: ``/metrics`` and the operator's page those of their server, ``stats`` and
``doctor`` those of all servers of this user on this machine.

The workers of one server have the same parent. Its process id names the folder of their files,
below the folder for temporary files. The file of a worker that has ended stays, since a sum must
not become smaller. The folder of a server that has ended is removed by the next one.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from stat import S_ISDIR
from typing import Any

from mlflow_dynamodbstore.table.counters import (
    COUNTERS,
    PERIOD_SECONDS,
    Counted,
    Counters,
    Counts,
    Period,
)
from mlflow_dynamodbstore.table.heat import (
    PARTITION_COUNTERS,
    PERIODS_KEPT,
    Heat,
    HeatPeriod,
    Partition,
    PartitionCounters,
)

SAVE_SECONDS = 5.0
_DAY = 24 * 3600
_FOLDER = "mlflow-dynamodbstore-counters-"
# The number changes with the form of the files: servers of other releases may run here, too.
_SUFFIX, _PAST = ".counters-2.json", ".past-2.json"


@dataclass
class ServerCounters:
    """What all processes of a server, or of several, have counted."""

    totals: Counts = field(default_factory=dict)
    periods: list[Period] = field(default_factory=list)
    heat: list[HeatPeriod] = field(default_factory=list)
    """By partition, in the last hour."""
    live_runs: int = 0
    processes: int = 0


class CounterFiles:
    """The files of one server's folder. ``counters`` and ``heat`` are those of this process."""

    def __init__(
        self,
        folder: Path,
        counters: Counters = COUNTERS,
        heat: PartitionCounters = PARTITION_COUNTERS,
    ) -> None:
        self.folder = folder
        self._counters = counters
        self._heat = heat
        self._saving = threading.Lock()
        self._tables: set[str] = set()
        self._last_past = -1.0
        """When the last of the past periods that are saved began."""

    def start(self) -> None:
        """Save the counters of this process every few seconds, until it ends."""
        threading.Thread(target=self._keep_saving, name="counters", daemon=True).start()

    def save(self) -> None:
        """Write the counters of this process to its files, each whole or not at all.

        A day has many periods, which are written again only when another one has ended.
        """
        with self._saving:  # two at once would write to the same new file
            self._save()

    def _save(self) -> None:
        *past, current = self._counters.periods()
        if past and past[-1].start != self._last_past:
            self._write(_PAST, [_period_line(one) for one in past])
            self._last_past = past[-1].start
        periods = self._heat.periods()
        self._tables.update(one.table for _, heats in periods for one in heats)
        heat = [
            [start, [[*partition, *heat] for partition, heat in heats.items()]]
            for start, heats in periods
        ]
        self._write(
            _SUFFIX,
            {
                "totals": _lines(self._counters.totals()),
                "period": _period_line(current),
                "heat": heat,
                "live_runs": self._counters.live_runs(),
                "tables": sorted(self._tables),
            },
        )

    def _write(self, suffix: str, value: Any) -> None:
        file = self.folder / f"{os.getpid()}{suffix}"
        new = file.with_suffix(".new")
        new.write_text(json.dumps(value), "utf-8")
        new.replace(file)

    def read(self) -> ServerCounters:
        """The sum of all processes of the server, this one as it is now."""
        self.save()
        return _sum_of(_saved_in(self.folder))

    def _keep_saving(self) -> None:
        while True:
            time.sleep(SAVE_SECONDS)
            self.save()


@cache
def files_of_this_server() -> CounterFiles:
    """The files of the server that this process belongs to; this process begins to save its own."""
    own = _own_folder()
    for folder in _folders():
        if folder != own and not _is_running(int(folder.name.rpartition("-")[2])):
            shutil.rmtree(folder, ignore_errors=True)  # another worker may be faster
    files = CounterFiles(own)
    files.start()
    return files


def counters_on_this_machine(table: str | None = None) -> ServerCounters:
    """The sum of all processes of all servers of this user on this machine, or of those that have
    asked a table for something.
    """
    files = (saved for folder in _folders() for saved in _saved_in(folder))
    found = _sum_of(one for one in files if table is None or table in one["tables"])
    since = time.time() - _DAY
    found.periods = [period for period in found.periods if period.start >= since]
    return found


# --- folders ------------------------------------------------------------------------------------


def _own_folder() -> Path:
    """A folder that only this user may read and write."""
    folder = _temporary() / f"{_FOLDER}{os.getuid()}-{os.getppid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if not _is_private(folder):
        return Path(tempfile.mkdtemp(prefix=_FOLDER))  # somebody else made it first
    return folder


def _folders() -> Iterator[Path]:
    """The folders of this user's servers, also of those that have ended."""
    for folder in sorted(_temporary().glob(f"{_FOLDER}{os.getuid()}-*")):
        if folder.name.rpartition("-")[2].isdigit() and _is_private(folder):
            yield folder


def _temporary() -> Path:
    return Path(tempfile.gettempdir())


def _is_private(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False  # a server that starts has removed it
    return S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is another user's
    return True


# --- files --------------------------------------------------------------------------------------


def _saved_in(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.glob(f"*{_SUFFIX}")):
        with suppress(FileNotFoundError):  # a server that starts has removed it
            saved = json.loads(file.read_text("utf-8"))
            past = file.with_name(file.name.removesuffix(_SUFFIX) + _PAST)
            ended = json.loads(past.read_text("utf-8")) if past.exists() else []
            # A period that has just ended may be in both; the past one is complete.
            periods = {line[0]: line for line in (saved["period"], *ended)}
            yield {**saved, "periods": list(periods.values())}


def _sum_of(files: Iterator[dict[str, Any]]) -> ServerCounters:
    server = ServerCounters()
    totals: Counts = defaultdict(float)
    periods: dict[float, Period] = {}
    heat: dict[float, dict[Partition, Heat]] = defaultdict(dict)
    live: set[str] = set()
    oldest = time.time() - (PERIODS_KEPT + 1) * PERIOD_SECONDS
    for saved in files:
        server.processes += 1
        _add(totals, saved["totals"])
        live.update(saved["live_runs"])
        for start, seconds, lines in saved["periods"]:
            known = periods.get(start, Period(start, seconds, defaultdict(float)))
            _add(known.counts, lines)
            periods[start] = known._replace(seconds=max(seconds, known.seconds))
        for start, lines in saved["heat"]:
            if start < oldest:
                continue  # of a process that has ended
            for table, pk, *amounts in lines:
                partition = Partition(table, pk)
                before = heat[start].get(partition, Heat())
                heat[start][partition] = before.plus(Heat(*amounts))
    server.totals, server.live_runs = dict(totals), len(live)
    # A process that has ended leaves its last day, which may be long ago.
    since = max(periods, default=0.0) - _DAY
    server.periods = [periods[start] for start in sorted(periods) if start >= since]
    server.heat = [(start, heat[start]) for start in sorted(heat)]
    return server


def _period_line(period: Period) -> list[Any]:
    return [period.start, period.seconds, _lines(period.counts)]


def _lines(counts: Counts) -> list[list[Any]]:
    return [[*key, amount] for key, amount in counts.items()]


def _add(counts: Counts, lines: list[list[Any]]) -> None:
    for *key, amount in lines:
        counts[Counted(*key)] += amount
