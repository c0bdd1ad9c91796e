"""Choosing which tags of experiments are copied to the experiments' own items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.shared.experiment_items import all_tags, retagged, same_tags
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.shared.policies import DENORMALIZED_TAGS, Policies
from mlflow_dynamodbstore.shared.workspaces import all_experiments
from mlflow_dynamodbstore.table.table import Table


@dataclass
class TagProgress:
    """How far a backfill is."""

    experiments: int = 0
    in_all: int = 0
    changed: int = 0


class TagIndex:
    """The tag patterns of one table."""

    def __init__(
        self,
        table: Table,
        policies: Policies | None = None,
        progress: Callable[[TagProgress], None] = lambda _: None,
    ):
        self._table = table
        self._policies = policies or Policies(table)
        self._progress = progress

    def patterns(self) -> list[str]:
        """The patterns, read from the table."""
        return [str(pattern) for pattern in self._policies.all()[DENORMALIZED_TAGS]]

    def add(self, pattern: str) -> None:
        """Repeat the tags that match a pattern, from now on."""
        if not pattern:
            raise ValueError("an empty pattern matches nothing; give one like mlflow.*")
        self._policies.set(DENORMALIZED_TAGS, sorted({*self.patterns(), pattern}))

    def remove(self, pattern: str) -> None:
        """Stop repeating the tags that no other pattern matches. Raises ``ValueError``."""
        patterns = self.patterns()
        if pattern not in patterns:
            raise ValueError(f"there is no pattern {pattern!r}; `tag list` shows the patterns")
        self._policies.set(DENORMALIZED_TAGS, [one for one in patterns if one != pattern])

    def backfill(self) -> TagProgress:
        """Make the items of all experiments match the patterns. It can be repeated."""
        found = all_experiments(self._table)
        done = TagProgress(in_all=len(found))
        for experiment_id in found:
            done.changed += self._rewrite(experiment_id)
            done.experiments += 1
            self._progress(done)
        return done

    def _rewrite(self, experiment_id: str) -> bool:
        """Rewrite one experiment; whether anything changed.

        A change of a tag also changes META. If META has not changed since it was read, the tags
        that were read after it are current.
        """
        key = experiment_keys.experiment_key(experiment_id)

        def attempt() -> bool:
            meta = self._table.get(key)
            if meta is None:
                return False
            change = retagged(meta, all_tags(self._table, meta), self._policies.denormalises)
            if change is None:
                return False
            self._table.update(key, change, condition=same_tags(meta))
            return True

        return optimistically(f"Experiment {experiment_id}", attempt)
