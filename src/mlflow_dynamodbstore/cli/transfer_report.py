"""What the commands that move tables print: costs, results and differences."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import click
from rich.markup import escape

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.exits import FINDINGS
from mlflow_dynamodbstore.table.location import parse
from mlflow_dynamodbstore.transfer.archive.comparing import Comparison, Difference
from mlflow_dynamodbstore.transfer.archive.estimate import Estimate
from mlflow_dynamodbstore.transfer.archive.file import Dumped
from mlflow_dynamodbstore.transfer.archive.notes import Filled
from mlflow_dynamodbstore.upkeep.prices import dollars, in_dollars
from mlflow_dynamodbstore.upkeep.survey import readable


@dataclass(frozen=True)
class Side:
    """One end of a transfer: its name, and whether requests to it are paid for by units."""

    name: str
    is_paid: bool = False

    @classmethod
    def of(cls, uri: str) -> Side:
        """The end that a table URI names."""
        location = parse(uri)
        return cls(str(location), location.kind != "file")


@dataclass(frozen=True)
class Report:
    """Tells what became of a transfer between two sides, to people or to programs."""

    source: Side
    target: Side
    json: bool

    def cost(self, estimate: Estimate, *, verify: bool, trouble: str | None = None) -> None:
        """What it would take; and why the target could not be looked at, if so."""
        steps = self._steps(estimate, verify=verify)
        reads, writes = sum(step[1] for step in steps), sum(step[2] for step in steps)
        amount = estimate.amount
        monthly = amount.monthly() if self.target.is_paid else 0.0
        if self.json:
            self._say_json(
                dry_run=True,
                items=amount.items,
                expired=estimate.expired,
                bytes=amount.bytes,
                index_bytes=amount.index_bytes,
                read_units=reads,
                write_units=writes,
                dollars=dollars(reads, writes),
                monthly_dollars=monthly,
                trouble=trouble,
            )
            return
        rows = [
            (step, round(read), round(write), in_dollars(dollars(read, write)))
            for step, read, write in [*steps, ("total", reads, writes)]
        ]
        columns = ("step", "read units", "write units", "dollars")
        output.grid("What it takes", columns, rows, numbers=columns[1:])
        output.say(
            f"[bold]{amount.items:,}[/] items, {readable(amount.bytes)} and "
            f"{readable(amount.index_bytes)} in indexes; a month of keeping them costs "
            f"{in_dollars(monthly)}.{_left_out(estimate.expired)} Dry run: nothing was written."
        )
        if trouble:
            output.say(f"[yellow]The target was not looked at[/]: {escape(trouble)}")

    def filled(self, filled: Filled, compared: Comparison | None) -> None:
        """What a copy or a load has done."""
        if self.json:
            self._say_json(**asdict(filled), **_verdict(compared))
        else:
            output.say(_what_was_done(filled, escape(self.target.name)))
            self._show(compared)
        _end(compared)

    def dumped(self, dumped: Dumped, compared: Comparison | None) -> None:
        """What was written into a file."""
        if self.json:
            self._say_json(**asdict(dumped), **_verdict(compared))
        else:
            output.say(
                f"[bold]{dumped.items:,}[/] items in {escape(self.target.name)}, "
                f"{readable(dumped.bytes)}.{_left_out(dumped.expired)}"
            )
            self._show(compared)
        _end(compared)

    def compared(self, compared: Comparison) -> None:
        """How two sides compare."""
        if self.json:
            self._say_json(**_verdict(compared))
        else:
            self._show(compared)
        _end(compared)

    def _steps(self, estimate: Estimate, *, verify: bool) -> list[tuple[str, float, float]]:
        """Each step with the units that it reads and writes."""
        reading = estimate.read_units if self.source.is_paid else 0.0
        writing = float(estimate.write_units) if self.target.is_paid else 0.0
        again = estimate.read_units if self.target.is_paid else 0.0
        steps = [(f"read {self.source.name}", reading, 0.0)]
        steps.append((f"write {self.target.name}", 0.0, writing))
        return [*steps, ("read both again", reading + again, 0.0)] if verify else steps

    def _say_json(self, **said: Any) -> None:
        output.as_json({"source": self.source.name, "target": self.target.name, **said})

    def _show(self, compared: Comparison | None) -> None:
        if compared is None:
            return
        rows = [
            (family, first, second, "yes" if same else "[red]no[/]")
            for family, first, second, same in compared.families
        ]
        columns = ("family", "source", "target", "same")
        output.grid("Comparison", columns, rows, numbers=columns[1:3])
        if compared.is_same:
            output.say(f"Both hold the same [bold]{compared.first.total:,}[/] items.")
            return
        output.say("[red]They differ[/], first in these keys:")
        for difference in compared.differences:
            output.say(f"  {escape(_key(difference))}: {_where(difference)}")


def _what_was_done(filled: Filled, target: str) -> str:
    if filled.resumed and not filled.moved:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(filled.ended))
        return f"{target} is complete since {when}, with {filled.items:,} items: nothing to do."
    again = ", of which some were there from before" if filled.resumed else ""
    return f"[bold]{filled.items:,}[/] items in {target}{again}.{_left_out(filled.expired)}"


def _left_out(expired: int) -> str:
    return f" Left out: {expired:,} that have expired." if expired else ""


def _verdict(compared: Comparison | None) -> dict[str, Any]:
    if compared is None:
        return {}
    return {
        "same": compared.is_same,
        "digests": [compared.first.digest, compared.second.digest],
        "families": {
            family: {"source": first, "target": second, "same": same}
            for family, first, second, same in compared.families
        },
        "differences": [
            {"PK": difference.key.pk, "SK": difference.key.sk, "where": _where(difference)}
            for difference in compared.differences
        ],
    }


def _key(difference: Difference) -> str:
    return f"{difference.key.sk} in {difference.key.pk}"


def _where(difference: Difference) -> str:
    found = {"first only": "only in the source", "second only": "only in the target"}
    return found.get(difference.where, "not the same in both")


def _end(compared: Comparison | None) -> None:
    if compared is not None and not compared.is_same:
        click.get_current_context().exit(FINDINGS)
