"""What ``import`` and ``export`` print about entities that were not moved, or differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.output import escape

if TYPE_CHECKING:
    from mlflow_dynamodbstore.transfer.sql.move import Finding, Findings

SHOWN = 10
"""How many findings of a kind are printed; ``--json`` has more."""
HeldBack = Mapping[str, Mapping[str, int]]


def show_findings(findings: Findings, held_back: HeldBack | None = None) -> None:
    """Print the first findings of each kind."""
    by_kind: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in findings.first:
        by_kind[finding.kind].append(finding)
    for kind, some in by_kind.items():
        for finding in some[:SHOWN]:
            _show(finding, held_back or {})
        if findings.totals[kind] > SHOWN:
            output.say(f"… and {findings.totals[kind] - SHOWN:,} more {kind}")


def _show(finding: Finding, held_back: HeldBack) -> None:
    title = f" {finding.title!r}" if finding.title else ""
    output.say(
        f"[yellow]{finding.kind}[/] {escape(finding.name + title)} {escape(finding.sentence)}"
    )
    if finding.kind == "experiments" and (held := held_back.get(finding.name)):
        counted = ", ".join(f"{count:,} {kind}" for kind, count in held.items())
        output.say(f"  Held back with it: {counted}.")


def findings_as_json(findings: Findings) -> list[Mapping[str, object]]:
    """The findings that are kept, for programs."""
    return [asdict(finding) for finding in findings.first]
