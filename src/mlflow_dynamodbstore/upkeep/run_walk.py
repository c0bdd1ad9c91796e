"""Going through every run of a table, for upkeep that can be stopped and goes on where it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.shared.policies import REFRESH_SECONDS, Policies
from mlflow_dynamodbstore.shared.workspaces import all_experiments
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item

POSITION = "state.backfill."
"""Settings that hold the place where a backfill goes on begin so."""
SETTLING_SECONDS = REFRESH_SECONDS + 30.0
"""Until the last process has seen a new setting, and whatever it was sealing is sealed."""
PAGE = 100


@dataclass
class Done:
    """How far a backfill or a removal has come."""

    places: int = 0
    places_in_all: int = 0
    entities: int = 0
    entries: int = 0
    waiting: float = 0.0


Progress = Callable[[Done], None]


def settle(table: Table, since: float, sleep: Callable[[float], None], progress: Progress) -> None:
    """Wait until no process can be working by a setting that was changed at a time."""
    until = since + SETTLING_SECONDS
    while (left := until - table.clock()) > 0:
        progress(Done(waiting=left))
        sleep(min(left, 1.0))


class RunWalk:
    """All runs, whatever their stage, experiment by experiment in the order of start times.

    A start time never changes, so a run that is deleted or restored meanwhile is not missed.
    """

    def __init__(self, table: Table, policies: Policies, name: str):
        self._table = table
        self._policies = policies
        self._setting = POSITION + name

    def pages(self, done: Done, progress: Progress) -> Iterator[list[Item]]:
        """Pages of runs' own items; one counts as done when the next is asked for."""
        first, cursor = self._stored()
        experiments = sorted(all_experiments(self._table), key=_by_number)
        left = [number for number in experiments if _by_number(number) >= _by_number(first)]
        done.places, done.places_in_all = len(experiments) - len(left), len(experiments)
        for experiment_id in left:
            yield from self._of(experiment_id, cursor if experiment_id == first else None)
            done.places += 1
            progress(done)

    def forget(self) -> None:
        """The walk has come to its end, or is to begin anew."""
        self._table.delete(access_keys.setting_key(self._setting))

    def _of(self, experiment_id: str, cursor: str | None) -> Iterator[list[Item]]:
        query = Query(
            experiment_keys.experiment_pk(experiment_id),
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
            place = {"experiment": experiment_id, "cursor": page.cursor}
            self._policies.set(self._setting, place)
            query = replace(query, cursor=page.cursor)

    def _stored(self) -> tuple[str, str | None]:
        item = self._table.get(access_keys.setting_key(self._setting))
        place = {} if item is None else item["value"]
        return str(place.get("experiment", "")), place.get("cursor")


def _by_number(experiment_id: str) -> tuple[int, str]:
    return len(experiment_id), experiment_id
