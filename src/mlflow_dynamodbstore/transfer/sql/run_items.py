"""Runs in a table; ended runs are written sealed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain, groupby

from mlflow.entities import Dataset, LoggedModelOutput
from mlflow.entities.lifecycle_stage import LifecycleStage

from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.places import (
    RunPlace,
    experiment_id_of,
    kind_and_name,
    run_id_of,
    run_place_of,
)
from mlflow_dynamodbstore.shared.policies import METRIC_HISTORY_RETENTION, Rules
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import TTL, Item, Value
from mlflow_dynamodbstore.tracking import sealing, summaries
from mlflow_dynamodbstore.tracking.inputs import (
    DatasetUse,
    model_input,
    model_output,
    number,
    told_apart,
)
from mlflow_dynamodbstore.tracking.log_entries import read_log
from mlflow_dynamodbstore.tracking.points import DISORDERED, Point, history_item, span_of
from mlflow_dynamodbstore.tracking.records import (
    LIVE,
    SEALED,
    TERMINAL_STATUSES,
    RunContents,
    RunRecord,
)
from mlflow_dynamodbstore.tracking.runs import SCHEMA_VERSION
from mlflow_dynamodbstore.tracking.series import ordered
from mlflow_dynamodbstore.transfer.sql.column_values import from_columns, to_columns
from mlflow_dynamodbstore.transfer.sql.entities import Entity, EntitySource, HistoryChunk
from mlflow_dynamodbstore.transfer.sql.items import (
    VOLUME,
    StagedItemStore,
    too_large,
    volume_of,
)
from mlflow_dynamodbstore.transfer.sql.run_rows import POINTS_AT_ONCE

SOURCE = "source"
"""Attribute of a run: the source columns of very old runs, which name the program."""
NO_SOURCE = {
    "source_type": "UNKNOWN",
    "source_name": "",
    "entry_point_name": "",
    "source_version": "",
}
_ITEMS_AT_ONCE = 16


class RunItems(StagedItemStore):
    """Runs in a table, with their histories."""

    # --- reading --------------------------------------------------------------------------------

    def _in_stage(self, stage: str) -> Range:
        return index_keys.runs_by_lifecycle(stage)

    def _locator(self, own_id: str) -> str:
        return index_keys.run_locator(own_id)

    def _sort_key(self, own_id: str) -> str:
        return run_keys.run(own_id)

    def histories(self, runs: Sequence[Entity]) -> Iterator[HistoryChunk]:
        for run in runs:
            query = Query(_place(run).pk, where=run_keys.run_history(run.key[0]).on())
            # The log first: what is folded meanwhile is then found in both.
            unfolded = read_log(self.table, _place(run)).history(_place(run), 0)
            logged = sorted(unfolded, key=_sort_key)
            items = merge(logged, self.table.items(query), key=_sort_key)
            for name, some in groupby(items, key=lambda item: kind_and_name(item)[1]):
                for points in batched(_in_order(some), POINTS_AT_ONCE):
                    yield HistoryChunk(run.key[0], name, points)

    def _entities(self, items: Sequence[Item]) -> list[Entity]:
        records = self.table.map(lambda item: sealing.read(self.table, item), items)
        return [_entity(record) for record in records]

    # --- writing --------------------------------------------------------------------------------

    def refusal(self, entity: Entity) -> str | None:
        return too_large(_children(entity))

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        self.transfer_table.place(entities, lambda some: self._write(some, source))

    def _write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        # The runs last: nobody sees the rest until then, and a second try writes all of it again.
        disordered: dict[tuple[str, str], bool] = {}
        self.transfer_table.put(self._history_items(entities, source, disordered))
        deleted = self.transfer_table.deleted_experiments(str(e.experiment_id) for e in entities)
        rules = self.transfer_table.policies.sealing_rules()
        now, expiry = int(self.table.clock()), self.transfer_table.deletion_expiry()
        runs = [
            NewRun(
                entity,
                {name for run_id, name in disordered if run_id == entity.key[0]},
                # The runs of a deleted experiment expire with it.
                None if entity.experiment_id in deleted or not _is_deleted(entity) else expiry,
                now,
                rules,
            )
            for entity in entities
        ]
        below = chain.from_iterable(run.below() for run in runs)
        self.transfer_table.put({(item["PK"], item["SK"]): item for item in below}.values())
        self.transfer_table.put(run.own for run in runs)

    def _history_items(
        self,
        entities: Sequence[Entity],
        source: EntitySource,
        disordered: dict[tuple[str, str], bool],
    ) -> Iterator[Item]:
        """The items of histories; fills ``disordered`` with metrics whose times go back."""
        places = {entity.key[0]: _place(entity) for entity in entities}
        ttl = self.transfer_table.policies.expiry(METRIC_HISTORY_RETENTION)
        metric, latest = None, 0
        for run_id, name, points in source.histories(entities):
            if (run_id, name) != metric:
                metric, latest = (run_id, name), points[0].timestamp
            for point in points:
                if point.timestamp < latest:
                    disordered[run_id, name] = True
                latest = point.timestamp
            yield history_item(places[run_id], name, points, ttl)


class NewRun:
    """The items of a run to be written: its own, and those below it."""

    def __init__(
        self, entity: Entity, disordered: set[str], ttl: int | None, now: int, rules: Rules
    ):
        self.place = _place(entity)
        dated: Item = {} if ttl is None else {TTL: ttl}
        children = _children(entity, disordered)
        self._children = [{**child, **dated} for child in children]
        uses = _uses(entity)
        links = [use.link(with_digest=digest).item for use, digest in told_apart(uses)]
        self._links = [*(use.entry for use in uses), *({**link, **dated} for link in links)]
        self._further: list[Item] = []
        self.own = {**_own_item(entity, now), **dated}
        if entity.values["status"] in TERMINAL_STATUSES:
            self._seal(ttl, rules)

    def below(self) -> Iterable[Item]:
        """The items that are written before the run's own."""
        return [*self._links, *self._children, *self._further]

    def _seal(self, ttl: int | None, rules: Rules) -> None:
        by_key = sorted(self._children, key=lambda item: str(item["SK"]))
        contents = RunContents.from_children(by_key)
        pk, run_id = self.place.pk, self.place.run_id
        summary = large_values.store(
            self.place.key,
            summaries.SUMMARY,
            contents.to_summary(),
            ttl=ttl,
            inline=large_values.INLINE_IN_LSI1,
        )
        dated: Item = {} if ttl is None else {TTL: ttl}
        derived = summaries.derived_keys(pk, run_id, contents, rules)
        self._further = [
            *(put.item for put in summary.parts),
            *({**summaries.derived_item(key).item, **dated} for key in derived),
        ]
        del self.own["lsi5sk"]
        self.own.update(
            {
                **summary.attributes,
                **summaries.lsi5_entry(run_id, contents, rules.primary_metric),
                "state": SEALED,
                "generation": 2,
            }
        )


def _sort_key(item: Item) -> str:
    return str(item["SK"])


def _own_item(entity: Entity, now: int) -> Item:
    """The item of a live run."""
    place, values = _place(entity), entity.values
    source = {name: values[name] for name in NO_SOURCE}
    optional = {
        "end_time": values["end_time"],
        "deleted_time": values["deleted_time"],
        SOURCE: None if source == NO_SOURCE else source,
    }
    return {
        "PK": place.pk,
        "SK": place.key.sk,
        "v": SCHEMA_VERSION,
        "name": values["name"],
        "status": values["status"],
        "start_time": values["start_time"],
        "user": values["user_id"],
        "artifact_uri": values["artifact_uri"],
        "lifecycle": values["lifecycle_stage"],
        "state": LIVE,
        "opened": now,
        "generation": 1,
        **{name: value for name, value in optional.items() if value is not None},
        **index_keys.run_index(
            run_id=place.run_id,
            experiment_id=place.experiment_id,
            lifecycle=values["lifecycle_stage"],
            start_time=values["start_time"],
            status=values["status"],
            name=values["name"],
            live=True,
        ),
    }


def _children(entity: Entity, disordered: Collection[str] = ()) -> list[Item]:
    """The items of a run's params, tags, latest metrics, inputs and outputs."""
    run, values = _place(entity), entity.values
    latest = values["latest_metrics"]
    used = [
        *(use.input(0, with_digest=digest).item for use, digest in told_apart(_uses(entity))),
        *(model_input(run, model_id) for model_id in values["model_inputs"]),
        *(
            model_output(run, LoggedModelOutput(model_id, step))
            for model_id, step in values["model_outputs"].items()
        ),
    ]
    number(used, 1)
    return [
        *(run.param(name, text) for name, text in values["params"].items()),
        *(run.tag(name, text) for name, text in values["tags"].items()),
        *(_latest(run, name, row, name in disordered) for name, row in latest.items()),
        *used,
    ]


def _latest(run: RunPlace, name: str, row: Item, disordered: bool) -> Item:
    value = from_columns(row["value"], row["is_nan"])
    attributes: Item = {"step": row["step"], "ts": row["timestamp"], "value": value}
    if disordered:
        attributes[DISORDERED] = True
    return run.child(run_keys.run_metric(run.run_id, name), name, attributes)


def _uses(entity: Entity) -> list[DatasetUse]:
    run = _place(entity)
    return [
        # The contents are moved with the dataset itself.
        DatasetUse(run, Dataset(name=name, digest=digest, source_type="", source=""), dict(tags))
        for (name, digest), tags in entity.values["inputs"].items()
    ]


def _place(entity: Entity) -> RunPlace:
    return RunPlace(str(entity.experiment_id), str(entity.key[0]), volume_of(entity))


def _is_deleted(entity: Entity) -> bool:
    return bool(entity.values["lifecycle_stage"] == LifecycleStage.DELETED)


def _in_order(items: Iterable[Item]) -> Iterator[Point]:
    """The points of the items of one metric, in order and each once."""
    pages = batched(((span_of(str(item["SK"])), item) for item in items), _ITEMS_AT_ONCE)
    return chain.from_iterable(chunk.points for chunk in ordered(pages))


def _entity(record: RunRecord) -> Entity:
    item, contents = record.item, record.contents
    values: dict[str, Value] = {
        "experiment_id": experiment_id_of(item),
        "name": item["name"],
        "user_id": item["user"],
        "status": item["status"],
        "start_time": item["start_time"],
        "end_time": item.get("end_time"),
        "deleted_time": item.get("deleted_time"),
        "lifecycle_stage": item["lifecycle"],
        "artifact_uri": item["artifact_uri"],
        **(item.get(SOURCE) or NO_SOURCE),
        "params": contents.params,
        "tags": contents.tags,
        "latest_metrics": {name: _metric(*point) for name, point in contents.metrics.items()},
        "inputs": {(name, digest): tags for _, name, digest, tags in contents.datasets},
        "model_inputs": dict.fromkeys(contents.model_inputs, 0),
        "model_outputs": dict(contents.model_outputs),
    }
    return Entity((run_id_of(item),), values, {VOLUME: run_place_of(item).volume})


def _metric(value: float, timestamp: int, step: int) -> Item:
    number, is_nan = to_columns(value)
    return {"value": number, "timestamp": timestamp, "step": step, "is_nan": is_nan}
