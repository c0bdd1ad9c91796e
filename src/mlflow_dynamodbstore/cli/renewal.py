"""Letting traces that are there follow a changed policy, for the commands that change it."""

from __future__ import annotations

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.place import Place
from mlflow_dynamodbstore.lifecycle.places import all_experiments
from mlflow_dynamodbstore.traces.retention import Renewal, TraceRetention


def renew_traces(place: Place, days: int, *, json: bool) -> Renewal:
    """Let the traces of all workspaces live as long as a new policy says."""
    table = place.table()
    with output.bar("prolonging traces", quiet=json) as shown:

        def progress(done: Renewal) -> None:
            output.note(shown, f"{done.looked_at:,} traces, {done.prolonged:,} prolonged")

        upkeep = TraceRetention.on(table)
        return upkeep.renew_trace_expiry(all_experiments(table), progress, days)


def say_renewed(renewed: Renewal) -> None:
    """Tell a person what became of the traces."""
    output.say(
        f"{renewed.looked_at:,} traces looked at, [bold]{renewed.prolonged:,}[/] live longer."
    )
