"""``ttl cleanup``: find the orphans of a whole table, and date or remove them.

The table is read in segments, page by page. After each step CONFIG notes the position, so that a
cleanup that was stopped can be resumed. Suspects (see
:mod:`~mlflow_dynamodbstore.upkeep.orphans`) are held in memory until a second check, and the
position is noted only while there are none.
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
from mlflow_dynamodbstore.shared.volumes import Volumes
from mlflow_dynamodbstore.shared.workspaces import all_experiments
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Value
from mlflow_dynamodbstore.upkeep.orphan_removal import OrphanRemover
from mlflow_dynamodbstore.upkeep.orphans import OrphanFinder, PossibleOrphan, Verdict
from mlflow_dynamodbstore.upkeep.segmented_scan import SegmentedScan
from mlflow_dynamodbstore.upkeep.surveys import Survey, Surveys
from mlflow_dynamodbstore.upkeep.table_stats import TableStats

POSITION = "state.cleanup"
"""The setting that holds the position of a cleanup that was stopped."""
POSITION_SECONDS = 7 * 24 * 3600
GRACE_SECONDS = 120.0
"""The time between the two checks of a suspect; longer than any writer keeps trying."""
MOST_SUSPECTS = 20_000
ABANDONED_CLAIM = "Abandoned claim"
CLAIMABLE: Mapping[str, Callable[[str, str], NamedPartition]] = {
    "RM": RegisteredModelPlace,
    "MCP": ServerPlace,
}
"""What can be claimed, by the first word of its partition key."""


@dataclass
class Report:
    """What a cleanup has read, found, dated and removed so far.

    ``dated`` orphans got an expiry of now: nobody sees them, and the storage deletes them.
    """

    read: int = 0
    found: Counter[str] = field(default_factory=Counter)
    dated: int = 0
    removed: int = 0
    resumed: bool = False
    finished: bool = False
    waiting: float = 0.0
    """Seconds until the second check of suspects; 0 while the table is read."""

    @property
    def orphans(self) -> int:
        return sum(self.found.values())


Progress = Callable[[Report], None]


class Cleanup:
    """One cleanup of a table; ``run`` may be called again after an interruption.

    ``stop`` is asked after each step; before the cleanup ends, it checks the suspects it has, so
    that the next one resumes here. A dry run writes nothing, does not wait for a second check,
    and counts suspects as orphans.
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
        self._finder = OrphanFinder(table)
        self._remover = OrphanRemover(table)
        self._suspects: list[PossibleOrphan] = []
        self._suspected_at = 0.0
        self.report = Report()

    def run(self, *, restart: bool = False) -> Report:
        """Clean up from where the last cleanup was stopped, or from the beginning."""
        scan = self._start_scan(restart)
        stats = TableStats(self._table.schema, self._table.clock())
        while not scan.is_done:
            items = scan.next_items()
            self.report.read += len(items)
            stats.add(items)
            self._check(items)
            if scan.is_done or len(self._suspects) >= MOST_SUSPECTS:
                self._check_suspects_again()
            self._note_position(scan)
            self._progress(self.report)
            if not scan.is_done and self._stop():
                self._check_suspects_again()
                self._note_position(scan)
                return self.report
        self.report.finished = True
        if not self._dry_run:
            self._tidy_volumes()
            if not self.report.resumed:  # otherwise an earlier call has counted a part
                Surveys(self._table).note(Survey.of(stats, dict(self.report.found)))
            self._table.delete(access_keys.setting_key(POSITION))
        return self.report

    # --- checking and removing ------------------------------------------------------------------

    def _check(self, items: list[Item]) -> None:
        text_fields, rules = self._rules()
        found = self._finder.find(items, rules)
        self._remove([one for one in found if one.verdict == Verdict.ORPHAN], text_fields)
        suspects = [one for one in found if one.verdict == Verdict.SUSPECT]
        if self._dry_run:
            self._count(suspects)
        elif suspects:
            self._suspects += suspects
            self._suspected_at = self._table.clock()
        self._settle_claims(items)

    def _check_suspects_again(self) -> None:
        """Wait until every writer must have finished, then check the suspects again."""
        if not self._suspects:
            return
        self._wait()
        found = self._table.get_many(suspect.key for suspect in self._suspects)
        text_fields, rules = self._rules()
        self._remove(self._finder.find(found.values(), rules), text_fields)
        self._suspects = []

    def _wait(self) -> None:
        until = self._suspected_at + self._grace
        while (left := until - self._table.clock()) > 0:
            self.report.waiting = left
            self._progress(self.report)
            self._sleep(min(left, 1.0))
        self.report.waiting = 0.0

    def _rules(self) -> tuple[Value, Rules]:
        """Which texts are indexed now; to be read after the items that are checked."""
        text_fields = self._policies.all()[TEXT_FIELDS]
        return text_fields, self._policies.sealing_rules()

    def _remove(self, orphans: list[PossibleOrphan], text_fields: Value) -> None:
        self._count(orphans)
        if orphans and not self._dry_run:
            done = self._remover.remove(orphans, text_fields)
            self.report.dated += done.dated
            self.report.removed += done.removed

    def _count(self, orphans: list[PossibleOrphan]) -> None:
        self.report.found.update(orphan.description.kind for orphan in orphans)

    def _settle_claims(self, items: list[Item]) -> None:
        """Finish the renames and removals of models and MCP servers that were left half done."""
        now = self._table.clock()
        for item in items:
            if CLAIM in item and item[UNTIL] <= now:
                self.report.found[ABANDONED_CLAIM] += 1
                if not self._dry_run:
                    claimed = CLAIMABLE[item["PK"].partition("#")[0]]
                    place = claimed(item["name"], item["workspace"])
                    empty_if_abandoned(self._table, place, item)
                    self.report.removed += 1

    def _tidy_volumes(self) -> None:
        """Note from when to when closed volumes are, and forget those that hold nothing."""
        volumes = Volumes(self._table)
        for experiment_id in all_experiments(self._table):
            if len(volumes.of([experiment_id])) > 1:
                volumes.measure(experiment_id)
                self.report.removed += volumes.drop_empty(experiment_id)

    # --- the position ---------------------------------------------------------------------------

    def _start_scan(self, restart: bool) -> SegmentedScan:
        """The scan that was stopped less than a week ago, or a new one."""
        fresh = restart or self._dry_run
        stored = None if fresh else self._table.get(access_keys.setting_key(POSITION))
        position = {} if stored is None else stored["value"]
        if position and self._table.clock() - position["noted"] < POSITION_SECONDS:
            self.report = Report(
                read=position["read"],
                found=Counter(position["found"]),
                dated=position.get("dated", 0),  # older releases counted these as removed
                removed=position["removed"],
                resumed=True,
            )
            return SegmentedScan(self._table, position["cursors"])
        return SegmentedScan.start(self._table, self._segments)

    def _note_position(self, scan: SegmentedScan) -> None:
        if self._dry_run or self._suspects or scan.is_done:
            return
        position: Item = {
            "noted": int(self._table.clock()),
            "cursors": scan.cursors,
            "read": self.report.read,
            "found": dict(self.report.found),
            "dated": self.report.dated,
            "removed": self.report.removed,
        }
        self._policies.set(POSITION, position)
