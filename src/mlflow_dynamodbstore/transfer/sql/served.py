"""Entities that a running MLflow server shows over REST, for those who cannot reach its database.

Read are experiments, runs with their histories and datasets, logged models, traces with their
spans, registered models and prompts. The rest, and what REST hides of these (deleted logged models,
links of traces to runs, numbers of deleted versions), needs the database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import requests
from mlflow import MlflowClient
from mlflow.entities import Metric, Run, ViewType
from mlflow.environment_variables import (
    MLFLOW_TRACKING_PASSWORD,
    MLFLOW_TRACKING_TOKEN,
    MLFLOW_TRACKING_USERNAME,
)
from mlflow.exceptions import MlflowException
from mlflow.prompt.constants import IS_PROMPT_TAG_KEY
from mlflow.tracing.constant import TraceMetadataKey, TraceTagKey

from mlflow_dynamodbstore.keys.base import DEFAULT_WORKSPACE
from mlflow_dynamodbstore.mlflow_compat.trace_analytics import (
    PROMOTED_TRACE_METADATA_KEYS,
    analytics_columns_from_metadata,
)
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Value
from mlflow_dynamodbstore.traces.assessment_records import record_of
from mlflow_dynamodbstore.traces.span_batches import batch_of
from mlflow_dynamodbstore.tracking.points import Point
from mlflow_dynamodbstore.transfer.sql.column_values import from_columns, to_columns
from mlflow_dynamodbstore.transfer.sql.datasets import DatasetItems
from mlflow_dynamodbstore.transfer.sql.entities import (
    Entity,
    EntityKey,
    EntitySource,
    HistoryChunk,
)
from mlflow_dynamodbstore.transfer.sql.experiments import ExperimentItems
from mlflow_dynamodbstore.transfer.sql.items import ItemStore, TransferTable
from mlflow_dynamodbstore.transfer.sql.logged_models import LoggedModelItems
from mlflow_dynamodbstore.transfer.sql.move import EXPERIMENTS, Kind
from mlflow_dynamodbstore.transfer.sql.registry import ModelItems
from mlflow_dynamodbstore.transfer.sql.run_items import NO_SOURCE, RunItems
from mlflow_dynamodbstore.transfer.sql.run_rows import POINTS_AT_ONCE
from mlflow_dynamodbstore.transfer.sql.trace_items import ASSESSED, TraceItems, span_values
from mlflow_dynamodbstore.transfer.sql.trace_rows import COUNTED, TEXTS, USAGE

ANSWER_SECONDS = 20.0
PAGE = 100
TRACES_A_PAGE = 20
_REFUSED = ("UNAUTHENTICATED", "PERMISSION_DENIED")
NOT_SHOWN = (
    "workspaces, webhooks, issues, scorers, evaluation datasets, reviews, the AI gateway, MCP "
    "servers, jobs, users"
)
"""What is not read over REST."""


class MlflowServer:
    """A running server, as the source of an import."""

    is_new = False
    has_tracking = True
    has_auth = False

    def __init__(self, address: str):
        self.address = address.rstrip("/")
        _require_answer(self.address)
        self.client = MlflowClient(self.address, self.address)
        self._require_access()

    def _require_access(self) -> None:
        """Raise ``ValueError`` unless the server lets this client read."""
        try:
            self.client.search_experiments(max_results=1)
        except MlflowException as error:
            if error.error_code in _REFUSED:
                raise ValueError(
                    f"{self.address} refuses to answer: set {MLFLOW_TRACKING_USERNAME.name} and "
                    f"{MLFLOW_TRACKING_PASSWORD.name}, or {MLFLOW_TRACKING_TOKEN.name}"
                ) from error
            raise ValueError(
                f"{self.address} does not answer as an MLflow server does: {error.message}"
            ) from error

    def close(self) -> None:
        """A client holds nothing open."""

    def kinds(self, table: Table) -> list[Kind]:
        """The kinds of entities that a server shows, in the order they are moved."""
        transfer_table = TransferTable(table)
        stores: list[tuple[str, type[ServedStore], type[ItemStore]]] = [
            (EXPERIMENTS, ServedExperiments, ExperimentItems),
            ("datasets", ServedDatasets, DatasetItems),
            ("runs", ServedRuns, RunItems),
            ("logged models", ServedLoggedModels, LoggedModelItems),
            ("traces", ServedTraces, TraceItems),
            ("registered models", ServedModels, ModelItems),
        ]
        return [Kind(name, read(self), write(transfer_table)) for name, read, write in stores]

    def experiment_ids(self) -> list[str]:
        """The ids of all experiments."""
        return [str(one.experiment_id) for page in self.experiments() for one in page]

    def experiments(self) -> Iterator[list[Any]]:
        return _pages(
            lambda token: self.client.search_experiments(
                ViewType.ALL, PAGE, order_by=["experiment_id ASC"], page_token=token
            )
        )

    def runs(self) -> Iterator[list[Run]]:
        """All runs, deleted ones included, a page at a time."""
        for experiment_id in self.experiment_ids():
            yield from _pages(partial(self._runs_of, experiment_id))

    def _runs_of(self, experiment_id: str, token: str | None) -> Any:
        search = self.client.search_runs
        return search([experiment_id], "", ViewType.ALL, PAGE, page_token=token)


def _require_answer(address: str) -> None:
    """Raise ``ValueError`` unless a server answers; MLflow's client would try for minutes."""
    try:
        requests.get(f"{address}/health", timeout=ANSWER_SECONDS)
    except requests.RequestException as error:
        raise ValueError(
            f"no server answers at {address}; name a running MLflow server, or the database behind "
            "it, its --backend-store-uri"
        ) from error


def _pages(call: Callable[[str | None], Any]) -> Iterator[list[Any]]:
    token = None
    while True:
        page = call(token)
        yield list(page)
        token = page.token
        if not token:
            return


class ServedStore(EntitySource):
    """The entities of one kind on a server, which are only read."""

    def __init__(self, server: MlflowServer):
        self.server = server
        self.client = server.client
        self.not_moved = Counter()

    def count(self) -> int:
        return sum(len(page) for page in self.pages())


class ServedExperiments(ServedStore):
    """Experiments on a server."""

    def pages(self) -> Iterator[list[Entity]]:
        for page in self.server.experiments():
            yield [
                Entity(
                    (str(one.experiment_id),),
                    {
                        "name": one.name,
                        "workspace": DEFAULT_WORKSPACE,
                        "artifact_location": one.artifact_location,
                        "lifecycle_stage": one.lifecycle_stage,
                        "creation_time": one.creation_time,
                        "last_update_time": one.last_update_time,
                        "tags": dict(one.tags),
                    },
                )
                for one in page
            ]


class ServedDatasets(ServedStore):
    """Datasets on a server: those that runs name as their inputs."""

    def pages(self) -> Iterator[list[Entity]]:
        seen: set[EntityKey] = set()
        for runs in self.server.runs():
            found = {}
            for run in runs:
                for used in run.inputs.dataset_inputs if run.inputs else ():
                    experiment_id, dataset = str(run.info.experiment_id), used.dataset
                    found[experiment_id, dataset.name, dataset.digest] = {
                        "experiment_id": experiment_id,
                        "dataset_source_type": dataset.source_type,
                        "dataset_source": dataset.source,
                        "dataset_schema": dataset.schema,
                        "dataset_profile": dataset.profile,
                    }
            yield [Entity(key, values) for key, values in found.items() if key not in seen]
            seen |= found.keys()


class ServedRuns(ServedStore):
    """Runs on a server, with their histories."""

    def pages(self) -> Iterator[list[Entity]]:
        for page in self.server.runs():
            # A search leaves out the models that a run read. Its histories take more requests.
            yield [_run(self.client.get_run(run.info.run_id)) for run in page]

    def count(self) -> int:
        return sum(len(page) for page in self.server.runs())

    def histories(self, runs: Sequence[Entity]) -> Iterator[HistoryChunk]:
        for run in runs:
            for name in sorted(run.values["latest_metrics"]):
                found = self.client.get_metric_history(run.key[0], name)
                # The order of a database; one with a million points is held in memory.
                rows = sorted({(m.step, m.timestamp, *to_columns(m.value)) for m in found})
                points = [
                    Point(step, at, from_columns(value, nan)) for step, at, value, nan in rows
                ]
                for n in range(0, len(points), POINTS_AT_ONCE):
                    yield HistoryChunk(run.key[0], name, points[n : n + POINTS_AT_ONCE])


def _run(run: Run) -> Entity:
    info, data = run.info, run.data
    latest = [Metric.from_proto(one) for one in data.to_proto().metrics]
    inputs, outputs = run.inputs, run.outputs
    values: dict[str, Value] = {
        "name": info.run_name or "",
        **NO_SOURCE,
        "user_id": info.user_id,
        "status": info.status,
        "start_time": info.start_time,
        "end_time": info.end_time,
        "deleted_time": None,
        "lifecycle_stage": info.lifecycle_stage,
        "artifact_uri": info.artifact_uri,
        "experiment_id": str(info.experiment_id),
        "params": dict(data.params),
        "tags": dict(data.tags),
        "latest_metrics": {one.key: _latest(one) for one in latest},
        "inputs": {
            (used.dataset.name, used.dataset.digest): {tag.key: tag.value for tag in used.tags}
            for used in (inputs.dataset_inputs if inputs else ())
        },
        "model_inputs": {one.model_id: 0 for one in (inputs.model_inputs or () if inputs else ())},
        "model_outputs": {
            one.model_id: one.step for one in (outputs.model_outputs or () if outputs else ())
        },
    }
    return Entity((info.run_id,), values)


def _latest(metric: Metric) -> dict[str, Value]:
    value, is_nan = to_columns(metric.value)
    return {"value": value, "timestamp": metric.timestamp, "step": metric.step, "is_nan": is_nan}


class ServedLoggedModels(ServedStore):
    """Logged models on a server, without deleted ones."""

    def pages(self) -> Iterator[list[Entity]]:
        runs = {
            run.info.run_id: str(run.info.experiment_id)
            for page in self.server.runs()
            for run in page
        }
        for experiment_id in self.server.experiment_ids():
            models = [model for page in self._models(experiment_id) for model in page]
            firsts: dict[tuple[Any, str], Any] = {}
            for model in sorted(models, key=lambda one: (one.creation_timestamp, one.model_id)):
                firsts.setdefault((model.source_run_id, model.name), model)
            first = {model.model_id for model in firsts.values()}
            for n in range(0, len(models), PAGE):
                yield [_model(one, runs, first) for one in models[n : n + PAGE]]

    def count(self) -> int:
        ids = self.server.experiment_ids()
        return sum(len(page) for one in ids for page in self._models(one))

    def _models(self, experiment_id: str) -> Iterator[list[Any]]:
        return _pages(
            lambda token: self.client.search_logged_models(
                [experiment_id], max_results=PAGE // 2, page_token=token
            )
        )


def _model(model: Any, runs: dict[str, str], first: set[str]) -> Entity:
    values: dict[str, Value] = {
        "experiment_id": str(model.experiment_id),
        "name": model.name,
        "artifact_location": model.artifact_location,
        "creation_timestamp_ms": model.creation_timestamp,
        "last_updated_timestamp_ms": model.last_updated_timestamp,
        "status": model.status.to_int(),
        "lifecycle_stage": "active",
        "model_type": model.model_type or None,
        "source_run_id": model.source_run_id or None,
        "status_message": model.status_message or None,
        "tags": dict(model.tags),
        "params": dict(model.params),
        "metrics": {
            (one.key, one.timestamp, one.step, one.run_id): {
                "metric_value": _number(one.value),
                "dataset_name": one.dataset_name or None,
                "dataset_digest": one.dataset_digest or None,
            }
            for one in model.metrics or ()
        },
    }
    hints = {
        "run_experiment": runs.get(model.source_run_id),
        "first_of_name": model.model_id in first,
    }
    return Entity((model.model_id,), values, hints)


def _number(value: float) -> float | None:
    number, is_nan = to_columns(value)
    return None if is_nan else number


class ServedTraces(ServedStore):
    """Traces on a server, with their spans."""

    def pages(self) -> Iterator[list[Entity]]:
        for page in self._traces(include_spans=True):
            yield [_trace(trace) for trace in page]

    def count(self) -> int:
        return sum(len(page) for page in self._traces(include_spans=False))

    def _traces(self, *, include_spans: bool) -> Iterator[list[Any]]:
        for experiment_id in self.server.experiment_ids():
            yield from _pages(partial(self._traces_of, experiment_id, include_spans))

    def _traces_of(self, experiment_id: str, include_spans: bool, token: str | None) -> Any:
        return self.client.search_traces(
            locations=[experiment_id],
            max_results=TRACES_A_PAGE if include_spans else PAGE,
            page_token=token,
            include_spans=include_spans,
        )


def _trace(trace: Any) -> Entity:
    info, batch = trace.info, batch_of(trace.data.spans)
    tags, metadata = dict(info.tags), dict(info.trace_metadata)
    session = metadata.pop(TraceMetadataKey.TRACE_SESSION, None)
    values: dict[str, Value] = {
        "experiment_id": str(info.experiment_id),
        "timestamp_ms": info.request_time,
        "execution_time_ms": info.execution_duration,
        "status": info.state.value,
        "trace_name": tags.pop(TraceTagKey.TRACE_NAME, None),
        "session_id": session,
        **{text: getattr(info, text) for text in TEXTS},
        **dict.fromkeys(USAGE),
        **analytics_columns_from_metadata(metadata),
        **dict.fromkeys(COUNTED, 0),
        "tags": tags,
        "metadata": {k: v for k, v in metadata.items() if k not in PROMOTED_TRACE_METADATA_KEYS},
        "assessments": dict(map(_assessment, info.assessments or ())),
        "spans": {
            span.span_id: span_values(span, batch.facts[span.span_id])
            for span in batch.spans.values()
        },
        "runs": {},
        "prompts": {},
    }
    return Entity((info.trace_id,), values)


def _assessment(assessment: Any) -> tuple[str, dict[str, Value]]:
    made = record_of(assessment)
    values = {theirs: getattr(made, ours) for ours, theirs in ASSESSED.items()}
    # A record is made for a new assessment; another one may have overridden this one.
    values["valid"] = assessment.valid is not False
    return made.assessment_id, values


class ServedModels(ServedStore):
    """Registered models and prompts on a server."""

    def pages(self) -> Iterator[list[Entity]]:
        for page in self._models():
            yield [self._entity(model) for model in page]

    def count(self) -> int:
        return sum(len(page) for page in self._models())

    def _models(self) -> Iterator[list[Any]]:
        # Without a filter a server leaves prompts out.
        for wanted in (None, f"tags.`{IS_PROMPT_TAG_KEY}` = 'true'"):
            yield from _pages(partial(self._models_with, wanted))

    def _models_with(self, wanted: str | None, token: str | None) -> Any:
        return self.client.search_registered_models(wanted, PAGE, page_token=token)

    def _entity(self, model: Any) -> Entity:
        quoted = "'" + model.name.replace("'", "\\'") + "'"
        versions = [
            version
            for page in _pages(
                lambda token: self.client.search_model_versions(
                    f"name = {quoted}", PAGE, page_token=token
                )
            )
            for version in page
        ]
        values: dict[str, Value] = {
            "creation_time": model.creation_timestamp,
            "last_updated_time": model.last_updated_timestamp,
            "description": model.description or None,
            "last_version": max((int(one.version) for one in versions), default=0),
            "tags": dict(model.tags),
            "versions": {int(one.version): self._version(one) for one in versions},
            "version_tags": {
                (int(one.version), key): text for one in versions for key, text in one.tags.items()
            },
            "aliases": {alias: int(version) for alias, version in model.aliases.items()},
        }
        return Entity((DEFAULT_WORKSPACE, model.name), values)

    def _version(self, version: Any) -> dict[str, Value]:
        """A version, with the place of its files, which only another request tells for a copy."""
        place = version.source
        if place and place.startswith("models:"):
            place = self.client.get_model_version_download_uri(version.name, version.version)
        return {
            "creation_time": version.creation_timestamp,
            "last_updated_time": version.last_updated_timestamp,
            "description": version.description or None,
            "user_id": version.user_id or None,
            "current_stage": version.current_stage,
            "source": version.source,
            "storage_location": place,
            "run_id": version.run_id or None,
            "run_link": version.run_link or None,
            "status": version.status,
            "status_message": version.status_message or None,
        }
