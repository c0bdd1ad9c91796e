"""Which tags of experiments are repeated on the experiments' own items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.shared.experiment_items import all_tags, retagged, same_tags
from mlflow_dynamodbstore.shared.policies import DENORMALIZED_TAGS, Policies
from mlflow_dynamodbstore.shared.workspaces import all_experiments
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Key


@dataclass
class Done:
    """How far a backfill has come."""

    experiments: int = 0
    in_all: int = 0
    changed: int = 0


class TagIndex:
    """The patterns of one table."""

    def __init__(
        self,
        table: Table,
        policies: Policies | None = None,
        progress: Callable[[Done], None] = lambda _: None,
    ):
        self._table = table
        self._policies = policies or Policies(table)
        self._progress = progress

    def patterns(self) -> list[str]:
        """The patterns, read anew."""
        return [str(pattern) for pattern in self._policies.all()[DENORMALIZED_TAGS]]

    def add(self, pattern: str) -> None:
        """Repeat the tags that match a pattern, from now on."""
        if not pattern:
            raise ValueError("an empty pattern matches nothing; write such as mlflow.*")
        self._policies.set(DENORMALIZED_TAGS, sorted({*self.patterns(), pattern}))

    def remove(self, pattern: str) -> None:
        """Repeat them no longer, unless another pattern matches. Raises ``ValueError``."""
        patterns = self.patterns()
        if pattern not in patterns:
            raise ValueError(f"{pattern!r} is no pattern; `tag list` shows those there are")
        self._policies.set(DENORMALIZED_TAGS, [one for one in patterns if one != pattern])

    def backfill(self) -> Done:
        """Bring the items of all experiments in line with the patterns. It can be repeated."""
        found = all_experiments(self._table)
        done = Done(in_all=len(found))
        for experiment_id in found:
            done.changed += self._rewrite(experiment_keys.experiment_key(experiment_id))
            done.experiments += 1
            self._progress(done)
        return done

    def _rewrite(self, key: Key) -> bool:
        """Rewrite one experiment; whether there was something to change.

        A tag is changed together with META. When META has not changed since it was read, the
        tags that were read after it are those that are there.
        """
        while (meta := self._table.get(key)) is not None:
            tags = all_tags(self._table, meta)
            change = retagged(meta, tags, self._policies.denormalises)
            if change is None:
                return False
            try:
                self._table.update(key, change, condition=same_tags(meta))
            except ConditionFailed:
                continue
            return True
        return False
