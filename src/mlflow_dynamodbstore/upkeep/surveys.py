"""What was last counted in a table, how that grew, and what ``doctor`` found: kept in the table.

Counting reads the whole table, so the operator's page shows what ``stats`` and ``ttl cleanup`` have
counted anyway. The notes are small: reading all of them takes one query.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.errors import Damaged
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Value
from mlflow_dynamodbstore.upkeep.table_stats import Amount, TableStats

_logger = logging.getLogger(__name__)

CONTENTS, GROWTH, HEALTH = "contents", "growth", "health"
"""The parts of a survey."""
PACKED = "packed"
MOST_EXPERIMENTS = 20
MOST_POINTS = 120
POINT_SECONDS = 600
"""A later count replaces those of so many seconds before."""
COMPARED_SECONDS = 12 * 3600
"""How long ago a survey was that growth is told from."""
MOST_DAYS = 400
"""Days ahead for which is counted what expires; the rest is one sum."""
MOST_FINDINGS = 50
LONGEST_TEXT = 500


@dataclass
class Survey:
    """What a table held at a time."""

    at: float
    by_kind: dict[str, Amount] = field(default_factory=dict)
    experiments: list[dict[str, Any]] = field(default_factory=list)
    """The largest experiments: id, name, bytes of each volume, and their sum the time before."""
    expiring: dict[int, list[int]] = field(default_factory=dict)
    """Items and bytes that expire, by day since 1970."""
    orphans: dict[str, int] | None = None
    """Orphans by kind; None where nobody looked for them."""
    before: float | None = None
    """When the survey before this one was."""

    @classmethod
    def of(cls, stats: TableStats, orphans: dict[str, int] | None = None) -> Survey:
        last = int(stats.now // 86_400) + MOST_DAYS
        expiring: dict[int, list[int]] = {}
        for day, amount in stats.by_expiry.items():
            counted = expiring.setdefault(min(day, last), [0, 0])
            counted[0] += amount.items
            counted[1] += amount.bytes + amount.index_bytes
        largest = list(stats.by_experiment().items())[:MOST_EXPERIMENTS]
        return cls(
            at=stats.now,
            by_kind=dict(stats.by_kind),
            experiments=[
                {"id": one, "name": stats.names.get(one, ""), "volumes": sizes, "before": None}
                for one, sizes in largest
            ],
            expiring=dict(sorted(expiring.items())),
            orphans=orphans,
        )

    def to_value(self) -> dict[str, Any]:
        """The survey as it is kept."""
        kinds = {
            kind: [a.items, a.bytes, a.index_bytes, a.expiring] for kind, a in self.by_kind.items()
        }
        days = [[day, *counted] for day, counted in self.expiring.items()]
        return {**asdict(self), "by_kind": kinds, "expiring": days}

    @classmethod
    def from_value(cls, value: dict[str, Any]) -> Survey:
        """The inverse of :meth:`to_value`."""
        kinds = {kind: Amount(*counted) for kind, counted in value["by_kind"].items()}
        days = {day: counted for day, *counted in value["expiring"]}
        return cls(**{**value, "by_kind": kinds, "expiring": days})

    @property
    def total(self) -> Amount:
        amount = Amount()
        for one in self.by_kind.values():
            amount.add(one)
        return amount


@dataclass
class Notes:
    """Everything that a table notes about itself."""

    survey: Survey | None = None
    growth: list[list[float]] = field(default_factory=list)
    """Time, items, bytes, and bytes in indexes of each survey, the oldest first."""
    health: dict[str, Any] | None = None
    """When ``doctor`` last looked, whether it read the whole table, and its findings."""


class Surveys:
    """Writes and reads the notes of a table."""

    def __init__(self, table: Table):
        self._table = table

    def read(self) -> Notes:
        """All notes, by one query that may be a moment late.

        One that cannot be read is left out, and replaced when it is next counted.
        """
        query = Query(access_keys.CONFIG_PK, where=access_keys.SURVEYS.on(), consistent=False)
        notes = Notes()
        for item in self._table.items(query):
            try:
                _add(notes, item)
            except (Damaged, *large_values.UNREADABLE) as error:
                _logger.warning("The note %s cannot be read (%s)", item["SK"], error)
        return notes

    def note(self, survey: Survey) -> None:
        """Keep a survey, and add it to the growth of the table."""
        notes = self.read()
        last = notes.survey
        if last is not None:
            # Growth since a moment ago says nothing: then that since the time before stays.
            is_new = last.before is None or survey.at - last.at >= COMPARED_SECONDS
            survey.before = last.at if is_new else last.before
            sizes = {
                one["id"]: sum(one["volumes"]) if is_new else one["before"]
                for one in last.experiments
            }
            for one in survey.experiments:
                one["before"] = sizes.get(one["id"])
        total = survey.total
        point = [survey.at, total.items, total.bytes, total.index_bytes]
        earlier = [one for one in notes.growth if survey.at - one[0] >= POINT_SECONDS]
        self._put(CONTENTS, survey.to_value())
        self._put(GROWTH, [*earlier, point][-MOST_POINTS:])

    def note_health(self, findings: Sequence[dict[str, str]], *, deep: bool) -> None:
        """Keep what ``doctor`` found."""
        kept = [
            {**one, "text": one["text"][:LONGEST_TEXT]} for one in list(findings)[:MOST_FINDINGS]
        ]
        self._put(HEALTH, {"at": self._table.clock(), "deep": deep, "findings": kept})

    def _put(self, part: str, value: Value) -> None:
        key = access_keys.survey_key(part)
        self._table.put({"PK": key.pk, "SK": key.sk, PACKED: large_values.pack(value)})


def _add(notes: Notes, item: Item) -> None:
    """Add what an item notes."""
    part = access_keys.survey_part_of(str(item["SK"]))
    value = large_values.unpack(item[PACKED], item, PACKED)
    if part == CONTENTS:
        notes.survey = Survey.from_value(value)
    elif part == GROWTH:
        notes.growth = value
    else:
        notes.health = value
