"""Giving traces that are there the expiry that the policy in force would give them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore import keys
from mlflow_dynamodbstore.policies import TRACE_RETENTION
from mlflow_dynamodbstore.table.contract import Patch, Query
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import TTL, Item, Key
from mlflow_dynamodbstore.traces.filters import TraceFilter
from mlflow_dynamodbstore.traces.items import place_of, ttl_of
from mlflow_dynamodbstore.traces.search import TraceSearch

_EXISTS = Attr("PK").exists()


class TraceRetention(TraceSearch):
    """When traces expire."""

    def renew_trace_expiry(
        self,
        experiment_ids: Iterable[str] | None = None,
        progress: Callable[[int, int], None] = lambda _looked_at, _changed: None,
    ) -> int:
        """Let all traces expire as if they had been written under the policy of now.

        Gives how many were changed. It can be interrupted and run again.
        """
        changed = 0
        places = self._searched_experiments(experiment_ids)
        found = self._matching_traces(places, TraceFilter())
        for looked_at, trace in enumerate(found, start=1):
            ttl = self.policies.expiry(TRACE_RETENTION, now=trace.item["created"])
            if ttl != ttl_of(trace.item):
                self._redate(trace.item, ttl)
                changed += 1
            progress(looked_at, changed)
        return changed

    def _redate(self, item: Item, ttl: int | None) -> None:
        """Change the expiry of a trace; what belongs to it first, so that it never goes before."""
        place = place_of(item)
        query = Query(place.pk, where=keys.trace_children(place.trace_id).on(), keys_only=True)
        below = [self.table.schema.key_of(child) for child in self.table.items(query)]
        belongings = [*below, keys.trace_locator_key(place.trace_id)]
        if self.table.get(place.session_note) is not None:
            belongings.append(place.session_note)
        self.table.write(_dated(belongings, ttl), then=_dated([place.key], ttl))
        self._forget_trace(place.trace_id)


def _dated(some: Sequence[Key], ttl: int | None) -> list[Patch]:
    update = Update(remove=(TTL,)) if ttl is None else Update(set={TTL: ttl})
    return [Patch(key, update, condition=_EXISTS) for key in some]
