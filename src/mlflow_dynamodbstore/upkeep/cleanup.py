"""``ttl cleanup``: find what belongs to nothing, in the whole table, and take it away.

The table is read in segments, page by page. After each round of pages the place is noted in
CONFIG, so that a cleanup that was stopped is taken up where it was. Suspects (see
:mod:`~mlflow_dynamodbstore.upkeep.judging`) are kept until a second look; the place is noted
only while there are none.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.mcp.places import ServerPlace
from mlflow_dynamodbstore.registry.items import RegisteredModelPlace
from mlflow_dynamodbstore.shared.names.claims import (
    CLAIM,
    UNTIL,
    NamedPartition,
    empty_if_abandoned,
)
from mlflow_dynamodbstore.shared.policies import TEXT_FIELDS, Policies, Rules
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Value
from mlflow_dynamodbstore.upkeep.judging import Judge, Judged, Verdict
from mlflow_dynamodbstore.upkeep.removal import Remover
from mlflow_dynamodbstore.upkeep.walk import Walk

POSITION = "state.cleanup"
"""The setting that holds the place where a stopped cleanup goes on."""
POSITION_SECONDS = 7 * 24 * 3600
GRACE_SECONDS = 120.0
"""Between the two looks at a suspect; longer than any writer tries before it gives up."""
MOST_SUSPECTS = 20_000
ABANDONED_CLAIM = "Abandoned claim"
CLAIMABLE: Mapping[str, Callable[[str, str], NamedPartition]] = {
    "RM": RegisteredModelPlace,
    "MCP": ServerPlace,
}
"""What can be claimed, by the first word of its partition key."""


@dataclass
class Report:
    """What a cleanup has read, found and done so far."""

    read: int = 0
    found: Counter[str] = field(default_factory=Counter)
    removed: int = 0
    resumed: bool = False
    finished: bool = False
    waiting: float = 0.0
    """Seconds until the second look at suspects; 0 while it reads."""

    @property
    def orphans(self) -> int:
        return sum(self.found.values())


Progress = Callable[[Report], None]


class Cleanup:
    """One pass over a table; ``run`` may be called again after it was interrupted.

    ``stop`` is asked between rounds of pages. A dry run writes nothing, does not wait for a
    second look, and counts suspects as orphans.
    """

    def __init__(
        self,
        table: Table,
        policies: Policies | None = None,
        *,
        dry_run: bool = False,
        segments: int = 4,
        grace: float = GRACE_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
        progress: Progress = lambda _: None,
        stop: Callable[[], bool] = lambda: False,
    ):
        self._table = table
        self._policies = policies or Policies(table)
        self._dry_run = dry_run
        self._segments = segments
        self._grace = grace
        self._sleep = sleep
        self._progress = progress
        self._stop = stop
        self._judge = Judge(table)
        self._remover = Remover(table)
        self._suspects: list[Judged] = []
        self._suspected_at = 0.0
        self.report = Report()

    def run(self, *, anew: bool = False) -> Report:
        """Clean up from where the last pass was stopped, or from the beginning."""
        walk = self._walk(anew)
        while not walk.is_done:
            items = walk.step()
            self.report.read += len(items)
            self._look(items)
            if walk.is_done or len(self._suspects) >= MOST_SUSPECTS:
                self._look_again()
            self._note(walk)
            self._progress(self.report)
            if not walk.is_done and self._stop():
                return self.report
        self.report.finished = True
        if not self._dry_run:
            self._table.delete(access_keys.setting_key(POSITION))
        return self.report

    # --- looking --------------------------------------------------------------------------------

    def _look(self, items: list[Item]) -> None:
        fields, rules = self._rules()
        judged = self._judge.judge(items, rules)
        self._take([j for j in judged if j.verdict == Verdict.ORPHAN], fields)
        suspects = [j for j in judged if j.verdict == Verdict.SUSPECT]
        if self._dry_run:
            self._count(suspects)
        elif suspects:
            self._suspects += suspects
            self._suspected_at = self._table.clock()
        self._settle_claims(items)

    def _look_again(self) -> None:
        """Wait until nobody can be half way through writing, and judge the suspects once more."""
        if not self._suspects:
            return
        self._wait()
        found = self._table.get_many(suspect.key for suspect in self._suspects)
        fields, rules = self._rules()
        self._take(self._judge.judge(found.values(), rules), fields)
        self._suspects = []

    def _wait(self) -> None:
        until = self._suspected_at + self._grace
        while (left := until - self._table.clock()) > 0:
            self.report.waiting = left
            self._progress(self.report)
            self._sleep(min(left, 1.0))
        self.report.waiting = 0.0

    def _rules(self) -> tuple[Value, Rules]:
        """What is indexed now: read after the items that are judged by it."""
        fields = self._policies.all()[TEXT_FIELDS]
        return fields, self._policies.sealing_rules()

    def _take(self, orphans: list[Judged], text_fields: Value) -> None:
        self._count(orphans)
        if orphans and not self._dry_run:
            self.report.removed += self._remover.remove(orphans, text_fields)

    def _count(self, orphans: list[Judged]) -> None:
        self.report.found.update(orphan.what.entity for orphan in orphans)

    def _settle_claims(self, items: list[Item]) -> None:
        """Finish what was left half done in the registry (renamed or removed models)."""
        now = self._table.clock()
        for item in items:
            if CLAIM in item and item[UNTIL] <= now:
                self.report.found[ABANDONED_CLAIM] += 1
                if not self._dry_run:
                    claimed = CLAIMABLE[item["PK"].partition("#")[0]]
                    place = claimed(item["name"], item["workspace"])
                    empty_if_abandoned(self._table, place, item)
                    self.report.removed += 1

    # --- the place ------------------------------------------------------------------------------

    def _walk(self, anew: bool) -> Walk:
        stored = (
            None if anew or self._dry_run else self._table.get(access_keys.setting_key(POSITION))
        )
        if stored is not None:
            place = stored["value"]
            if self._table.clock() - place["noted"] < POSITION_SECONDS:
                self.report = Report(
                    place["read"], Counter(place["found"]), place["removed"], resumed=True
                )
                return Walk(self._table, place["cursors"])
        return Walk.of_segments(self._table, self._segments)

    def _note(self, walk: Walk) -> None:
        if self._dry_run or self._suspects or walk.is_done:
            return
        place: Item = {
            "noted": int(self._table.clock()),
            "cursors": walk.cursors,
            "read": self.report.read,
            "found": dict(self.report.found),
            "removed": self.report.removed,
        }
        self._policies.set(POSITION, place)
