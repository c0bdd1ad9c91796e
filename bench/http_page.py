"""The measurements through HTTP as a page of the documentation, with its plot."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import plots, report
from bench.http_calls import CALLS, FEWEST_ANSWERS, Measured
from bench.numbers import shown
from bench.pull_request_17038 import CLIENTS, METRICS, TRACES, Load
from bench.stores import EMBEDDED, SQLITE

CONNECTIONS = 16  # that the goals are for


@dataclass
class Results:
    """Everything one run measured."""

    load: float
    seconds: int
    on_tmpfs: bool
    measured: list[Measured] = field(default_factory=list)
    loads: Sequence[Load] = ()
    disk: Sequence[Measured] = ()  # one call, with files on a disk
    disk_syncs: float = 0.0


def read(path: Path) -> Results:
    """What an earlier run measured."""
    found = json.loads(path.read_text())
    return Results(
        found["load"],
        found["seconds"],
        found["on_tmpfs"],
        [Measured(**one) for one in found["measured"]],
        [Load(**one) for one in found["loads"]],
        [Measured(**one) for one in found.get("disk", ())],
        found.get("disk_syncs", 0.0),
    )


def added(earlier: Results, results: Results) -> Results:
    """Both, the later ones where both have measured the same."""

    def what(one: Measured) -> tuple[str, str, int, int]:
        return one.call, one.server, one.workers, one.connections

    merged = {what(one): one for one in (*earlier.measured, *results.measured)}
    order = [call.title for call in CALLS]
    measured = sorted(
        merged.values(), key=lambda one: (one.workers, order.index(one.call), one.connections)
    )
    return Results(
        results.load,
        min(earlier.seconds, results.seconds),
        results.on_tmpfs,
        measured,
        results.loads or earlier.loads,
        results.disk or earlier.disk,
        results.disk_syncs or earlier.disk_syncs,
    )


def write(folder: Path, results: Results) -> list[Path]:
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    files = {folder / "benchmarks-http.md": page(results), images / "bench-http.svg": plot(results)}
    for path, text in files.items():
        path.write_text(text)
    return list(files)


def page(results: Results) -> str:
    parts = [
        "# Benchmarks through HTTP",
        _how(results),
        "![Calls a second, times those of MLflow on SQLite](images/bench-http.svg)",
        *_stated(results),
        *_loads(results),
        *_all(results),
        *_disk(results),
    ]
    return "\n\n".join(parts) + "\n"


def _how(results: Results) -> str:
    files = (
        "All files, those of PostgreSQL too, are on tmpfs, where `fsync` costs nothing; on a "
        "disk, writes [wait for it](#on-a-disk)."
        if results.on_tmpfs
        else "The files are on a disk."
    )
    return (
        f"Made by `make bench-http`; do not edit. Measured on {report.machine()}, with a load of "
        f"{results.load:.1f} on the machine when it began: look at the ratios. All servers run at "
        f"once, and `wrk` asks one after the other: each for {results.seconds} seconds, and for "
        f"longer if it needs that for {FEWEST_ANSWERS} answers. Servers and `wrk` share the "
        f"cores. {files}"
    )


def _disk(results: Results) -> Iterator[str]:
    yield "## On a disk"
    yield (
        "On tmpfs the figures compare software. On a disk, MLflow's SQLite and our file make sure "
        "that each call that writes survives a power cut before they answer it. So a server "
        "cannot answer more writes a second than the disk makes `fdatasync` calls. Reads do not "
        "wait. `python -m bench.http --disk FOLDER` measures on the disk of a folder. With "
        "`?synchronous=NORMAL` in its URI a table does not wait either; then a power cut may lose "
        "the last seconds."
    )
    if results.disk:
        rate = f", which makes {shown(results.disk_syncs)} `fdatasync` calls a second"
        yield f"On the disk of the same machine{rate if results.disk_syncs else ''}:"
        yield _figures(results.disk)


def ratio(results: Results, call: str, server: str, of: str, workers: int = 1) -> float:
    """How a server compares with SQLite, at the load that the goals are for."""
    found = {
        one.server: one
        for one in results.measured
        if one.call == call and (one.workers, one.connections) == (workers, CONNECTIONS)
    }
    if server not in found or not found[server].per_second:
        return 0.0  # it has not answered a single call in time
    if not found[SQLITE].per_second:
        return math.inf
    if of == "p99":
        return found[SQLITE].p99_ms / found[server].p99_ms
    return found[server].per_second / found[SQLITE].per_second


def _stated(results: Results) -> Iterator[str]:
    for workers in sorted({one.workers for one in results.measured}):
        yield from _compared(results, workers)


def _compared(results: Results, workers: int) -> Iterator[str]:
    many = "One worker" if workers == 1 else f"{workers} workers"
    yield f"## {many}, {CONNECTIONS} connections"
    yield (
        "Compared with MLflow on SQLite: how many times as many calls a second, and how many "
        "times shorter the p99 is."
    )
    servers = [name for name in _servers(results) if name != SQLITE]
    rows = [
        [
            call.title,
            *(
                cell
                for name in servers
                for cell in (
                    _times(ratio(results, call.title, name, "calls", workers)),
                    _times(ratio(results, call.title, name, "p99", workers)),
                )
            ),
            f"{call.goal:g}x" + (f", p99 {call.p99_goal:g}x" if call.p99_goal else ""),
        ]
        for call in CALLS
        if any(one.call == call.title and one.workers == workers for one in results.measured)
    ]
    head = [cell for name in servers for cell in (f"{name}, calls", f"{name}, p99")]
    yield _table(["call", *head, "goal"], rows)


def _times(found: float) -> str:
    if not found:
        return "no answer in time"
    return f"{found:.1f}x" if math.isfinite(found) else "SQLite: no answer in time"


def _loads(results: Results) -> Iterator[str]:
    if not results.loads:
        return
    yield "## The load of MLflow's pull request 17038"
    yield (
        f"{CLIENTS} clients log {METRICS} metrics each in one call, and then {TRACES:,} traces, to "
        "a server with four workers. Seconds."
    )
    rows = [
        [one.server, shown(one.metrics_seconds), shown(one.traces_seconds), str(one.failed)]
        for one in results.loads
    ]
    yield _table(["server", "metrics", "traces", "failed calls"], rows)


def _all(results: Results) -> Iterator[str]:
    yield "## All figures"
    yield (
        "*CPU* is the server's processor time for one call. *Failed* counts answers that are "
        "errors and connections that broke."
    )
    for call in CALLS:
        measured = [one for one in results.measured if one.call == call.title]
        if measured:
            yield f"### {call.title}"
            yield _figures(measured)


def _figures(measured: Sequence[Measured]) -> str:
    rows = [
        [str(one.workers), str(one.connections), one.server, *_speed(one), str(one.failed)]
        for one in measured
    ]
    head = ["workers", "connections", "server", "calls/s", "p50, ms", "p99, ms", "CPU, ms"]
    return _table([*head, "failed"], rows)


def _speed(one: Measured) -> list[str]:
    if not one.per_second:
        return [f"no answer in {one.seconds:g} seconds", "", "", ""]
    return [shown(value) for value in (one.per_second, one.p50_ms, one.p99_ms, one.cpu_ms)]


def plot(results: Results) -> str:
    bars = [
        plots.Bar(call.title, times, None, call.goal)
        for call in CALLS
        if 0 < (times := ratio(results, call.title, EMBEDDED, "calls")) < math.inf
    ]
    explained = f"Embedded engine, one worker, {CONNECTIONS} connections. Black: goal."
    return plots.bars("Through HTTP: times the calls of MLflow on SQLite", explained, bars, "x")


def _servers(results: Results) -> list[str]:
    return list(dict.fromkeys(one.server for one in results.measured))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *(["---:"] * (len(head) - 1))], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
