"""Searching logged models.

They are listed by creation time from LSI1, which carries whole items: a filter on attributes,
tags and params needs nothing else. A filter that names the source run begins with the entries of
that run instead. The items below a model are read for a filter or an order by metrics, and for the
models of the page that is returned.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any

from mlflow.entities import LoggedModel, LoggedModelStatus, Metric
from mlflow.entities.lifecycle_stage import LifecycleStage
from mlflow.store.entities.paged_list import PagedList
from mlflow.store.tracking import SEARCH_LOGGED_MODEL_MAX_RESULTS_DEFAULT
from mlflow.utils.search_utils import SearchLoggedModelsPaginationToken

from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.mlflow_compat.validation import parse_experiment_ids
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.shared.search.filters import (
    ATTRIBUTE,
    METRIC,
    PARAM,
    TAG,
    Comparison,
    all_hold,
)
from mlflow_dynamodbstore.shared.search.ordering import (
    Ordering,
    Position,
    SortKey,
    bad_token,
    number_in,
)
from mlflow_dynamodbstore.shared.search.pages import (
    in_order,
    merged,
    page,
    sort_groups,
)
from mlflow_dynamodbstore.shared.search.streams import side_by_side
from mlflow_dynamodbstore.shared.volume_states import Volume
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.tracking.model_records import (
    MEASURED,
    MORE,
    ModelRecord,
    read_children,
)
from mlflow_dynamodbstore.tracking.run_models import RunModels

LARGEST_BATCH = 1000
COLUMN = "column"
"""Kind of an attribute as it is sorted by; ``ATTRIBUTE`` is the same as filters see it."""

_COLUMNS = {
    "name": "name",
    "artifact_location": "artifact_location",
    "creation_timestamp_ms": "created",
    "last_updated_timestamp_ms": "updated",
    "status": "status",
    "lifecycle_stage": "lifecycle",
    "model_type": "model_type",
    "source_run_id": "source_run_id",
    "status_message": "status_message",
}
_ALIASES = {
    "creation_time": "creation_timestamp_ms",
    "creation_timestamp": "creation_timestamp_ms",
    "last_updated_timestamp": "last_updated_timestamp_ms",
}
CREATED = "creation_timestamp_ms"


DatasetFilter = Mapping[str, Any]
"""A dataset by ``dataset_name`` and ``dataset_digest``, as far as they are given."""


@dataclass
class Candidate:
    """A logged model as filters and sort keys see it."""

    record: ModelRecord
    datasets: Sequence[DatasetFilter] = ()
    has_children: bool = False

    def values(self, kind: str, name: str) -> Sequence[Any]:
        if kind == METRIC:
            return [m.value for m in self.measured(self.datasets) if m.key == name]
        if kind in (TAG, PARAM):
            text = self.record.text("TAG" if kind == TAG else "PARAM", name)
            return [] if text is None else [text]
        value = self._column(name)
        if value is None:
            return []
        if kind == ATTRIBUTE and name == "status":
            return [LoggedModelStatus.from_int(value).value]
        return [str(value) if kind == ATTRIBUTE and name == "experiment_id" else value]

    def measured(self, datasets: Sequence[DatasetFilter]) -> list[Metric]:
        """The metrics measured on one of these datasets; all when there are none."""
        metrics = self.record.metrics
        return [m for m in metrics if any(_is_on(m, d) for d in datasets)] if datasets else metrics

    def _column(self, name: str) -> Any:
        if name == "model_id":
            return self.record.place.model_id
        if name == "experiment_id":
            return int(self.record.place.experiment_id)
        return self.record.item.get(_COLUMNS[name])


@dataclass(frozen=True)
class MetricKey(SortKey):
    """A metric to sort by: its latest value, on one dataset where one is named."""

    dataset: DatasetFilter | None = None

    def of(self, entity: Any) -> tuple[int, Any]:
        datasets = [self.dataset] if self.dataset else []
        metrics = [m for m in entity.measured(datasets) if m.key == self.name]
        latest = min(metrics, key=lambda m: (-m.timestamp, -m.step, m.run_id), default=None)
        return SortKey(METRIC, self.name).of(_Values([] if latest is None else [latest.value]))


@dataclass(frozen=True)
class _Values:
    found: list[float]

    def values(self, kind: str, name: str) -> Sequence[Any]:
        del kind, name
        return self.found


@dataclass(frozen=True)
class ModelOrdering(Ordering):
    """An order whose page tokens also hold the search they belong to, as MLflow's do."""

    request: SearchLoggedModelsPaginationToken

    def token(self, position: Position) -> str:
        text = json.dumps({**asdict(self.request), "after": super().token(position)})
        return base64.b64encode(text.encode()).decode()

    def after(self, page_token: str | None) -> Position | None:
        if not page_token:
            return None
        try:
            request = SearchLoggedModelsPaginationToken.decode(page_token)
            place = json.loads(base64.b64decode(page_token))["after"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise bad_token("could not be decoded") from error
        mine = self.request
        request.validate(mine.experiment_ids, mine.filter_string, mine.order_by)
        return super().after(place)


@dataclass(frozen=True)
class ModelQuery:
    """A search, parsed."""

    comparisons: tuple[Comparison, ...]
    ordering: ModelOrdering
    datasets: tuple[DatasetFilter, ...]

    @property
    def by_time(self) -> bool:
        """Whether the order is that of LSI1, but for ties."""
        return self.ordering.keys[0].name == CREATED

    @property
    def ascending(self) -> bool:
        return self.by_time and self.ordering.keys[0].ascending

    @property
    def source_run_id(self) -> str | None:
        """The only run whose models can match, when the filter names it."""
        named = (c for c in self.comparisons if (c.kind, c.name) == (ATTRIBUTE, "source_run_id"))
        return next((str(c.value) for c in named if c.comparator == "="), None)

    def below(self) -> set[str]:
        """The marks of models that cannot be filtered and sorted by their own items."""
        kinds = {c.kind for c in self.comparisons} | {key.kind for key in self.ordering.keys}
        metrics = {MEASURED} if METRIC in kinds or self.datasets else set()
        return metrics | ({MORE} if kinds & {TAG, PARAM} else set())

    def matching(self) -> Callable[[Candidate], bool]:
        """A function that tells whether a model belongs to the answer."""
        holds, datasets = all_hold(self.comparisons), self.datasets
        if not datasets or any(c.kind == METRIC for c in self.comparisons):
            return holds
        return lambda candidate: bool(candidate.measured(datasets)) and holds(candidate)


class LoggedModelSearch:
    """Search over logged models."""

    def __init__(
        self, context: Context, experiment_lookup: ExperimentLookup, run_models: RunModels
    ) -> None:
        self.table = context.table
        self.experiment_lookup = experiment_lookup
        self.run_models = run_models

    def search_logged_models(
        self,
        experiment_ids: list[str],
        filter_string: str | None = None,
        datasets: list[dict[str, Any]] | None = None,
        max_results: int | None = None,
        order_by: list[dict[str, Any]] | None = None,
        page_token: str | None = None,
    ) -> PagedList[LoggedModel]:
        if datasets and not all(d.get("dataset_name") for d in datasets):
            raise invalid("`dataset_name` in the `datasets` clause must be specified.")
        request = SearchLoggedModelsPaginationToken(experiment_ids, filter_string, order_by)
        query = parse_model_query(request, datasets or ())
        after = query.ordering.after(page_token)
        size = max_results or SEARCH_LOGGED_MODEL_MAX_RESULTS_DEFAULT
        numbers = dict.fromkeys(parse_experiment_ids(list(experiment_ids)))
        own_ids = [str(n) for n in numbers if self.experiment_lookup.is_in_workspace(str(n))]
        run_id = query.source_run_id
        models = None if run_id is None else self.run_models.find_models(run_id)
        if models is None:
            volumes = self.experiment_lookup.volumes.of(own_ids)
            streams = [self._stream(one, query, after, size) for one in volumes]
            rows = merged(side_by_side(self.table, streams, size), query.ordering)
        else:
            rows = iter(self._of_run(models, own_ids, query))
        found, token = page(rows, query.ordering, after, size)
        self._read_children(found)
        return PagedList([candidate.record.to_entity() for candidate in found], token)

    def _of_run(
        self, models: Sequence[Item], experiment_ids: Sequence[str], query: ModelQuery
    ) -> list[Candidate]:
        """The matching ones among a run's models, in order."""
        active = [
            model
            for model in models
            if model["lifecycle"] == LifecycleStage.ACTIVE
            and experiment_id_of(model) in experiment_ids
        ]
        matches = query.matching()
        found = [one for one in self._candidates(active, query) if matches(one)]
        return in_order(found, query.ordering)

    def _stream(
        self, volume: Volume, query: ModelQuery, after: Position | None, size: int
    ) -> Iterator[list[Candidate]]:
        """The matching models of one volume in order, page by page."""
        matches = query.matching()
        found = (
            [candidate for candidate in self._candidates(items, query) if matches(candidate)]
            for items in self._pages(volume, query, after, size + 2)
        )
        if query.by_time:
            entries = ([(one.record.item["created"], one) for one in some] for some in found)
            yield from sort_groups(entries, query.ordering)
        else:
            yield in_order([*chain.from_iterable(found)], query.ordering)

    def _pages(
        self, volume: Volume, query: ModelQuery, after: Position | None, size: int
    ) -> Iterator[list[Item]]:
        """The active models of a volume by creation time, from where a page begins."""
        reached = int(number_in(after)) if after is not None and query.by_time else None
        since, until = (reached, None) if query.ascending else (None, reached)
        within = index_keys.logged_models_by_lifecycle(LifecycleStage.ACTIVE, since, until)
        request = Query(
            volume.pk,
            where=within.on("lsi1sk"),
            index="LSI1",
            descending=not query.ascending,
        )
        while True:
            size = min(size, LARGEST_BATCH)
            answer = self.table.query(replace(request, limit=size))
            yield answer.items
            if answer.cursor is None:
                return
            size *= 2
            request = replace(request, cursor=answer.cursor)

    def _candidates(self, items: Sequence[Item], query: ModelQuery) -> list[Candidate]:
        found = [Candidate(ModelRecord(item), query.datasets) for item in items]
        marks = query.below()
        self._read_children([c for c in found if not marks.isdisjoint(c.record.item)])
        return found

    def _read_children(self, candidates: Sequence[Candidate]) -> None:
        """Read the items below models that lack them, side by side."""
        bare = [candidate for candidate in candidates if not candidate.has_children]
        items = [candidate.record.item for candidate in bare]
        below = self.table.map(lambda item: read_children(self.table, item), items)
        for candidate, item, children in zip(bare, items, below, strict=True):
            candidate.record = ModelRecord(item, children)
            candidate.has_children = True


# --- parsing ------------------------------------------------------------------------------------


def parse_model_query(
    request: SearchLoggedModelsPaginationToken, datasets: Sequence[DatasetFilter]
) -> ModelQuery:
    """A search in MLflow's words, with MLflow's own parser and its errors."""
    # Imported here, since it brings SQLAlchemy: half a second that other calls need not wait.
    from mlflow.utils.search_logged_model_utils import parse_filter_string  # noqa: PLC0415

    return ModelQuery(
        comparisons=tuple(_comparison(term) for term in parse_filter_string(request.filter_string)),
        ordering=ModelOrdering(_sort_keys(request.order_by or ()), request),
        datasets=tuple(datasets),
    )


def _comparison(term: Any) -> Comparison:
    kinds = {"attributes": ATTRIBUTE, "metrics": METRIC, "params": PARAM, "tags": TAG}
    kind, name, value = kinds[term.entity.type.value], term.entity.key, term.value
    if kind == ATTRIBUTE:
        name = _ALIASES.get(name, name)
        if not _is_column(name):
            raise invalid(f"Invalid attribute of a logged model in a filter: {name!r}")
        if name == "status":
            value = _status(value) if isinstance(value, str) else tuple(map(_status, value))
    return Comparison(kind, name, term.op, value)


def _status(text: str) -> str:
    """A status by its name; MLflow's SQL store knows it by its number."""
    return LoggedModelStatus.from_int(int(text)).value if text.isdecimal() else text


def _sort_keys(order_by: Sequence[dict[str, Any]]) -> tuple[SortKey, ...]:
    sort_keys = [_sort_key(clause) for clause in order_by]
    columns = {key.name for key in sort_keys if key.kind == COLUMN}
    if CREATED not in columns:
        sort_keys.append(SortKey(COLUMN, CREATED, ascending=False))
    if "model_id" not in columns:
        sort_keys.append(SortKey(COLUMN, "model_id"))
    return tuple(sort_keys)


def _sort_key(clause: dict[str, Any]) -> SortKey:
    field_name, ascending = str(clause.get("field_name")), clause.get("ascending", True)
    if "." not in field_name:
        name = _ALIASES.get(field_name, field_name)
        if not _is_column(name):
            raise invalid(f"Invalid order by field name: {field_name}")
        return SortKey(COLUMN, name, ascending)
    entity, name = field_name.split(".", 1)
    if entity != "metrics":
        raise invalid(f"Invalid order by field name: {field_name}. Only metrics are supported.")
    named = ("dataset_name", "dataset_digest")
    dataset = {part: clause[part] for part in named if clause.get(part)}
    return MetricKey(METRIC, name, ascending, dataset or None)


def _is_column(name: str) -> bool:
    return name in _COLUMNS or name in ("model_id", "experiment_id")


def _is_on(metric: Metric, dataset: DatasetFilter) -> bool:
    """Whether a metric was measured on a dataset, as far as it is named."""
    name, digest = dataset.get("dataset_name"), dataset.get("dataset_digest")
    return (name is None or metric.dataset_name == name) and (
        digest is None or metric.dataset_digest == digest
    )
