"""Traces in a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mlflow.tracing.constant import TraceMetadataKey

from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.experiment_items import OLD_TRACES
from mlflow_dynamodbstore.shared.places import TracePlace, experiment_id_of
from mlflow_dynamodbstore.shared.policies import TRACE_RETENTION
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import Item, Key, Value
from mlflow_dynamodbstore.traces import assessment_records, facts, items
from mlflow_dynamodbstore.traces.assessment_records import AssessmentRecord
from mlflow_dynamodbstore.traces.overflow import own_item
from mlflow_dynamodbstore.traces.records import TraceRecord, records, with_spans
from mlflow_dynamodbstore.traces.span_batches import SpanBatch, StoredSpan
from mlflow_dynamodbstore.traces.time_indexes import OLD_TIME_INDEX, TIME_INDEX
from mlflow_dynamodbstore.transfer.sql.entities import Entity, EntitySource
from mlflow_dynamodbstore.transfer.sql.items import ListedItemStore, too_large, volume_of
from mlflow_dynamodbstore.transfer.sql.trace_rows import COUNTED, TEXTS, USAGE, fact_of

TRACES_AT_ONCE = 20
ASSESSED = {
    "name": "name",
    "type": "assessment_type",
    "value": "value",
    "error": "error",
    "created": "created_timestamp",
    "updated": "last_updated_timestamp",
    "source_type": "source_type",
    "source_id": "source_id",
    "run_id": "run_id",
    "span_id": "span_id",
    "rationale": "rationale",
    "overrides": "overrides",
    "valid": "valid",
    "metadata": "assessment_metadata",
}


class TraceItems(ListedItemStore):
    """Traces in a table, with their spans."""

    at_once = TRACES_AT_ONCE

    def count(self) -> int:
        return sum(1 for _ in self._own_items(keys_only=True))

    def _keys(self, entities: Sequence[Entity]) -> Iterable[Key]:
        # By locator: a trace of this id may lie in another experiment.
        locators = {trace_keys.trace_locator_key(entity.key[0]): entity for entity in entities}
        for key, item in self.table.get_many(locators).items():
            if not items.is_located(item):
                continue
            yield items.located_place(item, locators[key].key[0]).key

    def _own_items(self, *, keys_only: bool = False) -> Iterator[Item]:
        for metas in self.transfer_table.experiments():
            for meta in metas:
                index = OLD_TIME_INDEX if OLD_TRACES in meta else TIME_INDEX
                where = index_keys.traces_by_time().on(f"{index.lower()}sk")
                experiment_id = experiment_id_of(meta)
                for pk in self.transfer_table.volumes.partitions(experiment_id):
                    query = Query(pk, where=where, index=index, keys_only=keys_only)
                    yield from self.table.items(query)

    def _entities(self, found: Sequence[Item]) -> list[Entity]:
        traces = with_spans(self.table, records(self.table, found))
        own = [trace.item for trace in traces]
        known = large_values.load_many(self.table, own, facts.FACTS)
        return [
            _entity(trace, facts.unpacked(some)) for trace, some in zip(traces, known, strict=True)
        ]

    # --- writing --------------------------------------------------------------------------------

    def refusal(self, entity: Entity) -> str | None:
        values = entity.values
        empty = [k for kind in ("tags", "metadata") for k, v in values[kind].items() if v is None]
        if empty:
            return f"its tag or metadata {empty[0]!r} has no value"
        made = NewTrace(entity, 0, None)
        return too_large([made.own, *made.below])

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        del source
        self.transfer_table.place(entities, self._write)

    def _write(self, entities: Sequence[Entity]) -> None:
        ttl = self.transfer_table.policies.expiry(TRACE_RETENTION)
        now = int(self.table.clock())
        made = [NewTrace(entity, now, ttl) for entity in entities]
        # The traces last: a trace that exists is complete, and found by its id.
        self.transfer_table.put(item for trace in made for item in trace.below)
        self.transfer_table.put(self._gateway_notes(entities))
        self.transfer_table.put(trace.own for trace in made)

    def _gateway_notes(self, entities: Sequence[Entity]) -> list[Item]:
        """The notes that experiments hold traces of gateway calls, whose costs are summed."""
        traced = {
            str(entity.experiment_id)
            for entity in entities
            if TraceMetadataKey.GATEWAY_ENDPOINT_ID in entity.values["metadata"]
        }
        states = self.transfer_table.experiment_states(traced)
        keys = {
            one: gateway_keys.traced_experiment_key(one, str(state["workspace"]))
            for one, state in states.items()
        }
        return [{"PK": k.pk, "SK": k.sk, "experiment_id": one} for one, k in keys.items()]


class NewTrace:
    """The items of a trace to be written: its own, and those below it."""

    def __init__(self, entity: Entity, now: int, ttl: int | None):
        place, values = _place(entity), entity.values
        spans = values["spans"]
        own = items.new_trace(place, now, ttl)
        tagged = items.tag_writes(place, values["tags"], ttl)
        own.update(tagged.attributes)
        self.below: list[Item] = [*(put.item for put in tagged.items), items.locator(place, ttl)]
        if values["client_request_id"] is not None:
            self.below.append(items.client_request_item(place, values["client_request_id"], ttl))
        for assessment_id, row in values["assessments"].items():
            made = _assessment(assessment_id, row)
            written = assessment_records.writes(place, made, ttl)
            own.update(written.attributes)
            self.below += [put.item for put in written.items]
        if spans:
            known = {span_id: fact_of(span_id, row) for span_id, row in spans.items()}
            summed = facts.stored(place.key, known, ttl)
            own.update(summed.attributes)
            head, parts = _batch(spans).stored(place.spans, ttl)
            self.below += [put.item for put in (*summed.parts, *parts, head)]
        stored = own_item(items.indexed({**own, **_attributes(values)}))
        self.own = stored.item
        self.below += [put.item for put in stored.parts]


def _attributes(values: dict[str, Any]) -> Item:
    """The attributes of a trace, without its tags and assessments."""
    usage = {column: values[column] for column in USAGE if values[column] is not None}
    optional = {
        "duration": values["execution_time_ms"],
        "name": values["trace_name"],
        "session": values["session_id"],
        "usage": usage or None,
        **{text: values[text] for text in TEXTS},
        **{count: values[count] or None for count in COUNTED},
    }
    return {
        "request_time": values["timestamp_ms"],
        "state": values["status"],
        **{name: value for name, value in optional.items() if value is not None},
        **{items.METADATA + key: text for key, text in values["metadata"].items()},
        **{items.RUN_LINK + run_id: True for run_id in values["runs"]},
        **{items.PROMPT_LINK + prompt: True for prompt in values["prompts"]},
    }


def _assessment(assessment_id: str, row: dict[str, Value]) -> AssessmentRecord:
    given = {ours: row[theirs] for ours, theirs in ASSESSED.items()}
    return AssessmentRecord(assessment_id=assessment_id, **given)


def _batch(spans: dict[str, dict[str, Value]]) -> SpanBatch:
    return SpanBatch(
        spans={
            span_id: StoredSpan(
                span_id, row["parent_span_id"], row["start_time_unix_nano"], row["content"]
            )
            for span_id, row in spans.items()
        }
    )


def _place(entity: Entity) -> TracePlace:
    return TracePlace(str(entity.experiment_id), str(entity.key[0]), volume_of(entity))


def _entity(trace: TraceRecord, known: facts.Facts) -> Entity:
    item = trace.item
    named = items.by_kind(trace.whole)
    usage = item.get("usage") or {}
    values: dict[str, Any] = {
        "experiment_id": trace.place.experiment_id,
        "timestamp_ms": trace.request_time,
        "execution_time_ms": trace.duration,
        "status": item["state"],
        "trace_name": item.get("name"),
        "session_id": trace.session,
        **{text: item.get(text) for text in TEXTS},
        **{column: usage.get(column) for column in USAGE},
        **{count: item.get(count, 0) for count in COUNTED},
        "tags": trace.tags,
        "metadata": named[items.METADATA],
        "assessments": {
            made.assessment_id: {theirs: getattr(made, ours) for ours, theirs in ASSESSED.items()}
            for made in trace.assessments
        },
        "spans": {span.span_id: span_values(span, known[span.span_id]) for span in trace.spans},
        "runs": named[items.RUN_LINK],
        "prompts": named[items.PROMPT_LINK],
    }
    return Entity((trace.place.trace_id,), values)


def span_values(span: StoredSpan, fact: facts.SpanFact) -> dict[str, Value]:
    """The values of a span."""
    return {
        "parent_span_id": span.parent_id,
        "name": fact.name,
        "type": fact.type,
        "status": fact.status,
        "start_time_unix_nano": span.start_ns,
        "end_time_unix_nano": fact.end_ns,
        "content": span.content,
    }
