"""How long a call waits for a DynamoDB that is as far away as AWS.

``python -m bench.chains`` prints, for each operation, its requests, the longest chain of them, and
its time with 6 ms added to each request. ``make bench`` measures the same.
"""

from __future__ import annotations

import click
from rich.console import Console
from rich.table import Table

from bench import registry, traces, tracking
from bench.delay import MILLISECONDS
from bench.stores import far_bench, our_bench
from tests.engines import dynoxide_server


@click.command()
@click.option("--runs", default=500, show_default=True, help="Runs in the experiment to search.")
def main(runs: int) -> None:
    """Print the chains of every operation."""
    table = Table("one operation", "requests", "chain", f"ms, {MILLISECONDS:g} ms away", "steps")
    operations = (
        *tracking.OPERATIONS,
        *tracking.search_operations(runs),
        *registry.OPERATIONS,
        *traces.OPERATIONS,
    )
    with dynoxide_server() as host:
        near = our_bench("near", f"dynamodb://{host}/bench")
        with far_bench(near, host) as far:
            for one in operations:
                cost = tracking.Cost(0.0)
                one.do(near, one.given(near))  # warm
                tracking.add_distance(cost, near, far, one)
                figures = f"{cost.requests:g}", str(cost.chain), f"{cost.far_milliseconds:.1f}"
                table.add_row(one.title, *figures, cost.steps)
    Console(width=180).print(table)


if __name__ == "__main__":
    main()
