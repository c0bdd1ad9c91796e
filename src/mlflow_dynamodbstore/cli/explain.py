"""``explain``: the plan of a search for runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import MLFLOW, Command, WholeNumber
from mlflow_dynamodbstore.cli.output import escape
from mlflow_dynamodbstore.cli.table_options import TableOptions, pass_table_options

if TYPE_CHECKING:
    from mlflow_dynamodbstore.upkeep.explain import Explanation

VIEWS = {"active": "ACTIVE_ONLY", "deleted": "DELETED_ONLY", "all": "ALL"}
"""Views by the names of MLflow's ``ViewType``."""


@click.command(cls=Command, loads=MLFLOW)
@click.argument("filter_string", metavar="FILTER", default="")
@click.option("--experiment", default="0", show_default=True, help="Id of an experiment.")
@click.option("--order-by", multiple=True, help="As in search_runs; can be repeated.")
@click.option(
    "--view",
    type=click.Choice(list(VIEWS)),
    default="active",
    show_default=True,
    help="Which runs to search.",
)
@click.option(
    "--max-results",
    type=WholeNumber(1, 50_000),
    default=100,
    show_default=True,
    help="Runs on a page.",
)
@click.option("--path", help="Use this path, if it can answer.")
@pass_table_options
def explain(
    options: TableOptions,
    filter_string: str,
    experiment: str,
    order_by: tuple[str, ...],
    view: str,
    max_results: int,
    path: str | None,
    json: bool,
) -> None:
    """Show how a search of runs is answered, and what its first page costs.

    FILTER is what search_runs takes, such as "metrics.loss < 0.5 AND params.model = 'tree'".
    """
    from mlflow.entities import ViewType

    from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
    from mlflow_dynamodbstore.upkeep.explain import explain as explain_search

    DynamoDBTrackingStore.on(options.table()).get_experiment(experiment)  # it must exist
    table, engine = options.metered()
    chosen = getattr(ViewType, VIEWS[view])
    with output.spinner("searching"):
        plan = explain_search(
            table, engine, experiment, filter_string, order_by, chosen, max_results, path
        )
    if json:
        output.as_json(asdict(plan))
    else:
        _show(plan)


def _show(plan: Explanation) -> None:
    chosen = plan.chosen
    rows = [
        ("path", f"[bold]{escape(chosen.name)}[/]: {escape(chosen.description)}"),
        ("range", escape(_range(chosen.range))),
        ("checked on each run", escape(" AND ".join(plan.comparisons)) or "nothing"),
        ("order", f"{escape(', '.join(plan.order))} ({_by(chosen.in_order)})"),
        ("first page", f"{plan.runs} runs{', and more follow' if plan.more else ''}"),
        ("requests", f"{_requests(plan.requests)}, {_sum(plan.planning)} of them for planning"),
        ("read units", f"{plan.read_units:g}"),
    ]
    if plan.given_up:
        rows.insert(1, ("given up", f"{plan.given_up}, which would read more"))
    output.grid("Plan", ("", "value"), rows)
    ways = [
        (
            f"[bold]{way.name}[/]" if way.chosen else way.name,
            escape(way.description),
            _number(way.brings),
            _number(way.requests),
            _number(way.read_units),
        )
        for way in plan.ways
    ]
    heads = ("path", "reads", "runs", "requests expected", "units expected")
    output.grid("Paths that can answer", heads, ways)


def _requests(counted: dict[str, int]) -> str:
    named = ", ".join(f"{name} {n}" for name, n in counted.items())
    return f"{_sum(counted)} ({named})" if named else "0"


def _sum(counted: dict[str, int]) -> int:
    return sum(counted.values())


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,g}"


def _range(found: tuple[str, str] | None) -> str:
    if found is None:
        return "chosen by the path"
    low, high = found
    # The upper end of a prefix repeats the last character there is.
    return f"{low} .. {high.rstrip(chr(0x10FFFF))}{'…' if high.endswith(chr(0x10FFFF)) else ''}"


def _by(in_order: bool) -> str:
    return "in the order of the path" if in_order else "sorted after reading"
