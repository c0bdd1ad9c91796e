"""The results as a page of the documentation, with its plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import plots, report
from bench.auth import ADDED_GOAL_MS, Checked
from bench.contract import Figure
from bench.delay import MILLISECONDS
from bench.numbers import shown
from bench.populations import MOST_COPIED_WHOLE
from bench.stores import DYNAMODB, EMBEDDED, SQLITE
from bench.targets import TARGETS, Target, Units, dollars
from bench.tracking import Cost

Measured = Mapping[str, Mapping[str, Cost]]
TOP_BY_METRIC = "search_runs, top 50 by a metric"


@dataclass
class Results:
    """Everything one run of the benchmarks measured."""

    command: str
    load: float
    contract: Sequence[Figure] = ()
    operations: Measured = field(default_factory=dict)
    growth: Mapping[int, Measured] = field(default_factory=dict)
    checked: Sequence[Checked] = ()


def write(folder: Path, results: Results) -> list[Path]:
    """The page and its pictures under a folder of documentation; gives the files."""
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    files = {folder / "benchmarks.md": page(results)}
    files |= {images / f"bench-{name}.svg": text for name, text in pictures(results).items()}
    for path, text in files.items():
        path.write_text(text)
    return list(files)


def page(results: Results) -> str:
    parts = [
        "# Benchmarks",
        _how(results),
        *_operations(results.operations),
        *_growth(results.growth),
        *_checked(results.checked),
        THROUGH_HTTP,
        "## The table's own operations",
        report.markdown(results.contract).strip(),
    ]
    return "\n\n".join(parts) + "\n"


THROUGH_HTTP = (
    "## Through HTTP\n\nThe same through a server, with `wrk`, is on "
    "[a page of its own](benchmarks-http.md)."
)


def _how(results: Results) -> str:
    return (
        f"Made by `{results.command}`; do not edit. Measured on {report.machine()}, with a load of "
        f"{results.load:.1f} on the machine when it began. Times are medians in milliseconds "
        "through the stores' Python API, taken in turns so that a busy moment hits all stores "
        "alike. All files are on tmpfs, ours with `synchronous=FULL`."
    )


def pictures(results: Results) -> dict[str, str]:
    """The plots by name, those that the results suffice for."""
    found = {"time": _time_plot(results.operations)}
    if any(DYNAMODB in costs for costs in results.operations.values()):
        found["cost"] = _cost_plot(results.operations)
    if results.growth:
        found["growth"] = _growth_plot(results.growth)
    return found


def _operations(measured: Measured) -> Iterator[str]:
    names = list(next(iter(measured.values())))
    yield "## Against MLflow's SQL store"
    yield (
        "*Faster* is MLflow on SQLite divided by ours on a file, beside it what the project asks "
        "of itself: the first target and the goal."
    )
    yield "![Times faster than MLflow on SQLite](images/bench-time.svg)"
    head = ["one operation", *names, "faster", "first", "goal"]
    yield _table(head, [_time_row(title, costs) for title, costs in measured.items()])
    if DYNAMODB not in names:
        return
    yield "## On DynamoDB"
    yield (
        "Requests, read units and write units of one operation, as the server (dynoxide) reports "
        "them, and dollars for a million operations on demand: $0.125 per million read units, "
        "$0.625 per million write units. *Chain* is the longest chain of requests that wait for "
        f"each other, *far* the time in milliseconds with {MILLISECONDS:g} ms added to each "
        "request, about as far as AWS is."
    )
    yield "![Dollars for a million operations](images/bench-cost.svg)"
    head = ["one operation", "requests", "chain", "far", "RCU", "WCU", "dollars", "first", "goal"]
    yield _table(head, [_unit_row(title, costs[DYNAMODB]) for title, costs in measured.items()])


def _time_row(title: str, costs: Mapping[str, Cost]) -> list[str]:
    target = TARGETS.get(title)
    demands = [f"{target.faster_first:g}x", f"{target.faster_goal:g}x"] if target else ["", ""]
    times = [shown(cost.milliseconds) for cost in costs.values()]
    return [title, *times, f"{faster(costs):.1f}x", *demands]


def _unit_row(title: str, cost: Cost) -> list[str]:
    units = (cost.requests, cost.read_units, cost.write_units)
    target = TARGETS.get(title)
    demands = [_units(target.first), _units(target.goal)] if target else ["", ""]
    requests, *used = (f"{each:,g}" for each in units)
    distance = [str(cost.chain), f"{cost.far_milliseconds:.3g}"]
    return [title, requests, *distance, *used, f"{_price(units):,.2f}", *demands]


def _growth(growth: Mapping[int, Measured]) -> Iterator[str]:
    if not growth:
        return
    yield "## As an experiment grows"
    yield "Milliseconds, and on DynamoDB requests / read units, with so many runs in it."
    if max(growth) > MOST_COPIED_WHOLE:
        yield (
            f"Beyond {MOST_COPIED_WHOLE:,} runs dynoxide holds only the items that searches read, "
            "without the params, tags and history of each run: it takes too long to fill."
        )
    yield "![Search by a metric while an experiment grows](images/bench-growth.svg)"
    sizes = list(growth)
    rows = []
    for title, costs in growth[sizes[0]].items():
        for name in costs:
            found = [growth[size][title][name] for size in sizes]
            rows.append([title, name, *(shown(cost.milliseconds) for cost in found)])
            if name == DYNAMODB:
                units = [f"{cost.requests:g} / {cost.read_units:g}" for cost in found]
                rows.append([title, "requests / read units", *units])
    yield _table(["search", "store", *(f"{size:,} runs" for size in sizes)], rows)


def _checked(checked: Sequence[Checked]) -> Iterator[str]:
    if not checked:
        return
    yield "## With users and permissions"
    yield (
        "A request to MLflow's app inside one process, on a file, without and with the app "
        "`dynamodb-auth`. The answers of the permission check are remembered for two seconds; "
        f"it is to add at most {ADDED_GOAL_MS:g} ms, and no request of DynamoDB."
    )
    rows = [
        [
            one.title,
            f"{one.plain_ms:.2f}",
            f"{one.checked_ms:.2f}",
            f"{one.added_ms:.2f}",
            str(one.requests),
        ]
        for one in checked
    ]
    yield _table(["request", "without, ms", "with, ms", "added, ms", "added requests"], rows)


def _time_plot(measured: Measured) -> str:
    rows = []
    for title, costs in measured.items():
        target = TARGETS.get(title)
        demands = (target.faster_first, target.faster_goal) if target else (None, None)
        rows.append(plots.Bar(title, faster(costs), *demands))
    explained = "Embedded engine; further right is better. Grey: first target, black: goal."
    return plots.bars("Times faster than MLflow on SQLite", explained, rows, "x")


def _cost_plot(measured: Measured) -> str:
    rows = []
    for title, costs in measured.items():
        cost, target = costs[DYNAMODB], TARGETS.get(title)
        units = (cost.requests, cost.read_units, cost.write_units)
        rows.append(plots.Bar(title, _price(units), *_prices(target)))
    explained = "DynamoDB, on demand; further left is better. Grey: first target, black: goal."
    return plots.bars("Dollars for a million operations", explained, rows, "")


def _growth_plot(growth: Mapping[int, Measured]) -> str:
    title = next(title for title in next(iter(growth.values())) if TOP_BY_METRIC in title)
    names = next(iter(growth.values()))[title]
    lines = [
        plots.Line(name, [(size, each[title][name].milliseconds) for size, each in growth.items()])
        for name in names
    ]
    return plots.growth("The best 50 runs by a metric", "Median time", lines, "runs")


def faster(costs: Mapping[str, Cost]) -> float:
    return costs[SQLITE].milliseconds / costs[EMBEDDED].milliseconds


def _price(units: Units) -> float:
    return dollars(units[1], units[2])


def _prices(target: Target | None) -> tuple[float | None, float | None]:
    return (_price(target.first), _price(target.goal)) if target else (None, None)


def _units(units: Units) -> str:
    return " / ".join(f"{each:,g}" for each in units)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *(["---:"] * (len(head) - 1))], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
