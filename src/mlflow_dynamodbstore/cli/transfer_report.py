"""What ``copy``, ``dump``, ``load`` and ``compare`` print: costs, results and differences."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.exits import FINDINGS
from mlflow_dynamodbstore.cli.output import escape
from mlflow_dynamodbstore.table.location import parse
from mlflow_dynamodbstore.upkeep.prices import dollars, in_dollars

if TYPE_CHECKING:
    from mlflow_dynamodbstore.table.contract import Damage
    from mlflow_dynamodbstore.transfer.archive.comparison import Comparison, Difference
    from mlflow_dynamodbstore.transfer.archive.estimate import Estimate
    from mlflow_dynamodbstore.transfer.archive.file import Dumped
    from mlflow_dynamodbstore.upkeep.fill_state import FillProgress


@dataclass(frozen=True)
class End:
    """One end of a transfer: its name, and whether its requests are billed by units."""

    name: str
    is_paid: bool = False

    @classmethod
    def of(cls, uri: str) -> End:
        """The end that a table URI names."""
        location = parse(uri)
        return cls(str(location), location.kind != "file")


@dataclass(frozen=True)
class Report:
    """Prints the result of a transfer, for people or for programs."""

    source: End
    target: End
    json: bool

    def cost(self, estimate: Estimate, *, verify: bool, trouble: str | None = None) -> None:
        """What a transfer would cost, and why the target could not be checked, if so."""
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
        from mlflow_dynamodbstore.upkeep.table_stats import readable

        columns = ("step", "read units", "write units", "dollars")
        output.grid("Estimate", columns, rows, numbers=columns[1:])
        output.say(
            f"[bold]{amount.items:,}[/] items, {readable(amount.bytes)} and "
            f"{readable(amount.index_bytes)} in indexes; storing them costs {in_dollars(monthly)} "
            f"a month.{_left_out(estimate.expired)} Dry run: nothing was written."
        )
        if trouble:
            output.say(f"[yellow]The target could not be checked[/]: {escape(trouble)}")

    def filled(self, filled: FillProgress, compared: Comparison | None) -> None:
        """What a copy or a load did."""
        if self.json:
            self._say_json(**asdict(filled), **_verdict(compared))
        else:
            output.say(_what_was_done(filled, escape(self.target.name)))
            self._show(compared)
        _end(compared)

    def dumped(
        self, dumped: Dumped, compared: Comparison | None, left_out: Sequence[Damage]
    ) -> None:
        """What a dump wrote, and the damaged items that it left out."""
        if self.json:
            damaged = [_damage(one) for one in left_out]
            self._say_json(**asdict(dumped), damaged=damaged, **_verdict(compared))
        else:
            from mlflow_dynamodbstore.upkeep.table_stats import readable

            output.say(
                f"[bold]{dumped.items:,}[/] items in {escape(self.target.name)}, "
                f"{readable(dumped.bytes)}.{_left_out(dumped.expired)}"
            )
            self._show(compared)
            self._show_damage(left_out)
        _end(compared)
        if left_out:
            click.get_current_context().exit(FINDINGS)

    def compared(self, compared: Comparison) -> None:
        """The result of a comparison."""
        if self.json:
            self._say_json(**_verdict(compared))
        else:
            self._show(compared)
        _end(compared)

    def _show_damage(self, left_out: Sequence[Damage]) -> None:
        if left_out:
            output.say(f"[red]Left out: {len(left_out):,} damaged[/]. Take them from a backup:")
        for damage in left_out:
            output.say(f"  {escape(str(damage))}")

    def _steps(self, estimate: Estimate, *, verify: bool) -> list[tuple[str, float, float]]:
        """The steps of a transfer, with the units that each reads and writes."""
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
        output.say("[red]They differ[/]. The first keys that do:")
        for difference in compared.differences:
            output.say(f"  {escape(_key(difference))}: {_where(difference)}")


def _what_was_done(filled: FillProgress, target: str) -> str:
    if filled.resumed and not filled.moved:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(filled.ended))
        return f"{target} is complete since {when}, with {filled.items:,} items: nothing to do."
    again = ", some from before" if filled.resumed else ""
    return f"[bold]{filled.items:,}[/] items in {target}{again}.{_left_out(filled.expired)}"


def _left_out(expired: int) -> str:
    return f" Left out: {expired:,} expired." if expired else ""


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


def _damage(damage: Damage) -> dict[str, Any]:
    key = damage.key
    return {"PK": key and key.pk, "SK": key and key.sk, "why": damage.why}


def _key(difference: Difference) -> str:
    return f"{difference.key.sk} in {difference.key.pk}"


def _where(difference: Difference) -> str:
    found = {"first only": "only in the source", "second only": "only in the target"}
    return found.get(difference.where, "not the same in both")


def _end(compared: Comparison | None) -> None:
    if compared is not None and not compared.is_same:
        click.get_current_context().exit(FINDINGS)
