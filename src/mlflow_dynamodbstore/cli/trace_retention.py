"""Changing how long traces are kept, for the commands that do it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.table_options import TableOptions

if TYPE_CHECKING:
    from mlflow_dynamodbstore.shared.policies import Policies
    from mlflow_dynamodbstore.traces.retention import Renewal


def change_trace_retention(
    options: TableOptions, policies: Policies, days: int, *, wait: bool, json: bool
) -> Renewal:
    """Change how long traces are kept, and prolong the existing traces of all workspaces.

    If ``wait``, a longer retention is applied to existing traces when every process knows it:
    before, processes still write traces with the old date.
    """
    from mlflow_dynamodbstore.shared.policies import DEFAULTS, TRACE_RETENTION
    from mlflow_dynamodbstore.shared.workspaces import all_experiments

    with output.spinner("loading MLflow"):
        from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore

    table, before = options.table(), policies.stored(TRACE_RETENTION)
    if before != days:
        policies.set(TRACE_RETENTION, days)
    with output.bar("prolonging traces", quiet=json) as shown:

        def waiting(left: float) -> None:
            output.note(shown, f"continues in {left:.0f} s, when every server knows the policy")

        def progress(done: Renewal) -> None:
            output.note(shown, f"{done.looked_at:,} traces, {done.prolonged:,} prolonged")

        if wait and not _is_less(days, DEFAULTS[TRACE_RETENTION] if before is None else before):
            policies.wait_until_known(TRACE_RETENTION, waiting)
        upkeep = DynamoDBTrackingStore.on(table).trace_retention
        return upkeep.renew(all_experiments(table), progress, days)


def _is_less(days: int, before: int) -> bool:
    """Whether a retention is shorter than another; 0 means forever."""
    return days > 0 and (before == 0 or days < before)


def say_renewed(renewed: Renewal) -> None:
    """Print how many traces were prolonged."""
    output.say(f"{renewed.looked_at:,} traces checked, [bold]{renewed.prolonged:,}[/] prolonged.")
