"""Which volumes of experiments are busy, by what servers have counted in the last hour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.shared.counter_files import ServerCounters
from mlflow_dynamodbstore.shared.volume_states import Volume
from mlflow_dynamodbstore.table.counters import PERIOD_SECONDS
from mlflow_dynamodbstore.table.heat import Heat, Partition, table_name
from mlflow_dynamodbstore.table.table import Table

NOTHING_COUNTED = "no server on this machine has counted requests to this table in the last hour"
LEAST_SECONDS = 60
"""What was asked in a shorter time says little about a rate."""


@dataclass
class HotVolume:
    """What was asked of a volume in the last hour."""

    volume: Volume
    heat: Heat = field(default_factory=Heat)
    share: float = 0.0
    """The units of its busiest period, as a share of what one partition takes."""

    def __str__(self) -> str:
        heat = self.heat
        units = f"{heat.write_units:,.0f} write and {heat.read_units:,.0f} read units, "
        throttled = f", {heat.throttles:,.0f} throttled" if heat.throttles else ""
        counted = f"{units if self.share else ''}{heat.requests:,.0f} requests{throttled}"
        return f"{self.volume} ({counted})"

    def to_value(self, names: Mapping[str, str]) -> dict[str, object]:
        """The volume for programs; ``names`` are those of experiments."""
        return {
            "experiment_id": self.volume.experiment_id,
            "name": names.get(self.volume.experiment_id),
            "volume": self.volume.number,
            **{name: round(amount, 1) for name, amount in self.heat._asdict().items()},
            "busiest_share": round(self.share, 4),
        }


def hot_volumes(servers: ServerCounters, table: Table) -> list[HotVolume]:
    """The volumes of a table that were asked for anything, the busiest first."""
    found: dict[str, HotVolume] = {}
    for start, heats in servers.heat:
        seconds = max(LEAST_SECONDS, min(PERIOD_SECONDS, table.clock() - start))
        for partition, heat in heats.items():
            if _is_volume_of(table, partition):
                one = found.setdefault(partition.pk, HotVolume(_volume(partition.pk)))
                one.heat = one.heat.plus(heat)
                one.share = max(one.share, heat.seconds_of_capacity / seconds)
    return sorted(found.values(), key=lambda one: one.heat.rank, reverse=True)


def _is_volume_of(table: Table, partition: Partition) -> bool:
    return partition.table == table_name(table.engine.uri) and partition.pk.startswith("EXP#")


def _volume(pk: str) -> Volume:
    return Volume(str(experiment_keys.experiment_id_of(pk)), experiment_keys.volume_of(pk))
