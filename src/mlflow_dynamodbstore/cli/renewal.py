"""Letting traces that are there follow a changed policy, for the commands that change it."""

from __future__ import annotations

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.target import Place
from mlflow_dynamodbstore.shared.policies import DEFAULTS, TRACE_RETENTION, Policies
from mlflow_dynamodbstore.shared.workspaces import all_experiments
from mlflow_dynamodbstore.traces.retention import Renewal
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore


def change_trace_retention(
    place: Place, policies: Policies, days: int, *, wait: bool, json: bool
) -> Renewal:
    """Change how long traces are kept, and let those of all workspaces live as long.

    Not before every process knows, unless told not to ``wait``: what they write by the policy they
    knew would keep its date. There is nothing to wait for when traces are kept for less.
    """
    table, before = place.table(), policies.stored(TRACE_RETENTION)
    if before != days:
        policies.set(TRACE_RETENTION, days)
    with output.bar("prolonging traces", quiet=json) as shown:

        def waiting(left: float) -> None:
            output.note(shown, f"goes on in {left:.0f} s, once every server knows the policy")

        def progress(done: Renewal) -> None:
            output.note(shown, f"{done.looked_at:,} traces, {done.prolonged:,} prolonged")

        if wait and not _is_less(days, DEFAULTS[TRACE_RETENTION] if before is None else before):
            policies.wait_until_known(TRACE_RETENTION, waiting)
        upkeep = DynamoDBTrackingStore.on(table).trace_retention
        return upkeep.renew(all_experiments(table), progress, days)


def _is_less(days: int, before: int) -> bool:
    """Whether a retention is shorter than another; 0 is for good."""
    return days > 0 and (before == 0 or days < before)


def say_renewed(renewed: Renewal) -> None:
    """Tell a person what became of the traces."""
    output.say(
        f"{renewed.looked_at:,} traces looked at, [bold]{renewed.prolonged:,}[/] live longer."
    )
