"""What backfills share: waiting for a new setting, and all runs page by page, resumable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.shared.policies import REFRESH_SECONDS, Policies
from mlflow_dynamodbstore.shared.volume_states import Volume
from mlflow_dynamodbstore.shared.volumes import Volumes
from mlflow_dynamodbstore.shared.workspaces import all_experiments
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item

POSITION = "state.backfill."
"""The settings that hold the position of a backfill begin with this."""
SETTLING_SECONDS = REFRESH_SECONDS + 30.0
"""How long until every process has read a new setting and has sealed the runs it was sealing."""
PAGE = 100


@dataclass
class BackfillProgress:
    """How far a backfill or a removal is. ``places`` are the partitions it works through."""

    places: int = 0
    places_in_all: int = 0
    entities: int = 0
    entries: int = 0
    waiting: float = 0.0


Progress = Callable[[BackfillProgress], None]


def wait_until_known(
    table: Table, since: float, sleep: Callable[[float], None], progress: Progress
) -> None:
    """Wait until every process works by a setting that was changed at a time."""
    until = since + SETTLING_SECONDS
    while (left := until - table.clock()) > 0:
        progress(BackfillProgress(waiting=left))
        sleep(min(left, 1.0))


class ResumableRuns:
    """All runs of all lifecycle stages, volume by volume, by start time.

    A start time never changes, so a run that is deleted or restored meanwhile is not missed.
    """

    def __init__(self, table: Table, policies: Policies, name: str):
        self._table = table
        self._policies = policies
        self._setting = POSITION + name

    def pages(self, done: BackfillProgress, progress: Progress) -> Iterator[list[Item]]:
        """Pages of runs' own items; a page counts as done when the next one is asked for."""
        first, cursor = self._position()
        experiments = sorted(all_experiments(self._table), key=_by_number)
        volumes = Volumes(self._table).of(experiments)
        left = [volume for volume in volumes if _by_age(volume) >= _by_age(first)]
        done.places, done.places_in_all = len(volumes) - len(left), len(volumes)
        for volume in left:
            yield from self._of(volume, cursor if volume == first else None)
            done.places += 1
            progress(done)

    def forget_position(self) -> None:
        """Begin with the first run the next time."""
        self._table.delete(access_keys.setting_key(self._setting))

    def _of(self, volume: Volume, cursor: str | None) -> Iterator[list[Item]]:
        query = Query(
            volume.pk,
            where=index_keys.runs_by_time().on("lsi2sk"),
            index="LSI2",
            limit=PAGE,
            cursor=cursor,
        )
        while True:
            page = self._table.query(query)
            yield page.items
            if page.cursor is None:
                return
            position = {
                "experiment": volume.experiment_id,
                "volume": volume.number,
                "cursor": page.cursor,
            }
            self._policies.set(self._setting, position)
            query = replace(query, cursor=page.cursor)

    def _position(self) -> tuple[Volume, str | None]:
        item = self._table.get(access_keys.setting_key(self._setting))
        position = {} if item is None else item["value"]
        volume = Volume(str(position.get("experiment", "")), position.get("volume", 0))
        return volume, position.get("cursor")


def _by_number(experiment_id: str) -> tuple[int, str]:
    return len(experiment_id), experiment_id


def _by_age(volume: Volume) -> tuple[int, str, int]:
    return *_by_number(volume.experiment_id), volume.number
