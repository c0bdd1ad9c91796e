"""A run as it is read from the table, and as MLflow's entities show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mlflow.entities import (
    Dataset,
    DatasetInput,
    InputTag,
    LoggedModelInput,
    LoggedModelOutput,
    Metric,
    Param,
    Run,
    RunData,
    RunInfo,
    RunInputs,
    RunOutputs,
    RunTag,
)
from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT

from mlflow_dynamodbstore.shared.places import experiment_id_of, kind_and_name, run_id_of
from mlflow_dynamodbstore.shared.plain_values import readable_number, readable_text
from mlflow_dynamodbstore.shared.search.filters import DATASET, METRIC, PARAM, TAG
from mlflow_dynamodbstore.table.values import Item, Value
from mlflow_dynamodbstore.tracking.points import Point, is_greater

_ATTRIBUTES = {
    "run_name": "name",
    "user_id": "user",
    "status": "status",
    "start_time": "start_time",
    "end_time": "end_time",
    "artifact_uri": "artifact_uri",
}
LIVE, LOGGING, SEALED = "live", "logging", "sealed"
SUMMARISING, SEALING = "summarising", "sealing"
"""The states of a run; see ``sealing``."""
ORDER = "order"
"""Attribute of an input or output of a run: a number that rises from one to the next."""
_USES = frozenset({"INPUT", "INPUT_LM", "OUTPUT"})
TERMINAL_STATUSES = frozenset({"FINISHED", "FAILED", "KILLED"})
BEGUN_WITH = "begun_with"
"""Attribute of a new run: the number of tags that are written together with it.

A run that has fewer was left by a process that died while it began it. The attribute goes when one
of these tags is deleted or the run is summarised.
"""


@dataclass
class RunContents:
    """All that was logged to a run, but for the history of its metrics.

    ``metrics`` maps a key to its latest ``(value, timestamp, step)``; ``datasets`` lists
    ``(dataset reference, name, digest, {tag: value})``. Inputs and outputs stand in the order in
    which they were logged.
    """

    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, tuple[float, int, int]] = field(default_factory=dict)
    datasets: list[tuple[str, str, str, dict[str, str]]] = field(default_factory=list)
    model_inputs: list[str] = field(default_factory=list)
    model_outputs: list[tuple[str, int]] = field(default_factory=list)

    def to_summary(self) -> Value:
        """The one value that a sealed run carries on its own item."""
        return {
            "p": self.params,
            "t": self.tags,
            "m": {key: list(point) for key, point in self.metrics.items()},
            "d": [list(dataset) for dataset in self.datasets],
            "i": self.model_inputs,
            "o": [list(output) for output in self.model_outputs],
        }

    @classmethod
    def from_summary(cls, summary: Value) -> RunContents:
        """The inverse of :meth:`to_summary`."""
        return cls(
            params=summary["p"],
            tags=summary["t"],
            metrics=summary["m"],
            datasets=summary["d"],
            model_inputs=summary["i"],
            model_outputs=summary["o"],
        )

    @classmethod
    def from_children(cls, children: Iterable[Item]) -> RunContents:
        """What a live run holds, gathered from its own items."""
        contents = cls()
        used: list[Item] = []
        for child in children:
            kind, name = kind_and_name(child)
            if kind == "METRIC":
                contents.metrics[name] = (child["value"], child["ts"], child["step"])
            elif kind == "PARAM":
                contents.params[name] = readable_text(child["value"])
            elif kind == "TAG":
                contents.tags[name] = readable_text(child["value"])
            elif kind in _USES:
                used.append(child)
        contents._add_uses(used)
        return contents

    def add_metrics(self, points: Iterable[tuple[str, Sequence[Any]]]) -> None:
        """Take latest metrics, ``(value, timestamp, step)``, where they are greater."""
        for key, (value, timestamp, step) in points:
            known = self.metrics.get(key)
            point = Point(step, timestamp, value)
            if known is None or is_greater(point, Point(known[2], known[1], known[0])):
                self.metrics[key] = (value, timestamp, step)

    def _add_uses(self, used: list[Item]) -> None:
        """Add inputs and outputs; those of before they were numbered come first, by their keys.

        A dataset of a run that an older release began may have two inputs: the first one counts.
        """
        datasets = set()
        for child in sorted(used, key=lambda item: item.get(ORDER, 0)):
            kind, name = kind_and_name(child)
            if kind == "INPUT":
                facts = (child["dataset"], child["name"], child["digest"], dict(child["tags"]))
                if facts[0] not in datasets:
                    self.datasets.append(facts)
                    datasets.add(facts[0])
            elif kind == "INPUT_LM":
                self.model_inputs.append(name)
            else:
                self.model_outputs.append((child["model_id"], child["step"]))


@dataclass
class RunRecord:
    """A run's own item together with its contents."""

    item: Item
    contents: RunContents

    @cached_property
    def run_id(self) -> str:
        return run_id_of(self.item)

    @property
    def is_live(self) -> bool:
        return bool(self.item["state"] != SEALED)

    def values(self, kind: str, name: str) -> Sequence[Any]:
        """What a search finds under a name: see ``search.filters.Searchable``."""
        contents = self.contents
        if kind == METRIC:
            point = contents.metrics.get(name)
            return () if point is None else point[:1]
        if kind == PARAM:
            return (contents.params[name],) if name in contents.params else ()
        if kind == TAG:
            return (contents.tags[name],) if name in contents.tags else ()
        if kind == DATASET:
            return self._dataset_values(name)
        value = self.run_id if name == "run_id" else self.item.get(_ATTRIBUTES[name])
        return () if value is None else (value,)

    def _dataset_values(self, name: str) -> list[str]:
        if name == "context":
            found = [tags.get(MLFLOW_DATASET_CONTEXT) for *_, tags in self.contents.datasets]
            return [value for value in found if value is not None]
        pairs = [(known_as, digest) for _, known_as, digest, _ in self.contents.datasets]
        return [known_as if name == "name" else digest for known_as, digest in pairs]

    def to_entity(self, datasets: Mapping[str, Dataset]) -> Run:
        """The run as MLflow shows it; ``datasets`` has those it refers to."""
        contents = self.contents
        return Run(
            run_info(self.item),
            RunData(
                [
                    Metric(key, value, timestamp, step)
                    for key, (value, timestamp, step) in contents.metrics.items()
                ],
                # Nearly all values are texts: a call less for each.
                [
                    Param(key, value if type(value) is str else readable_text(value))
                    for key, value in contents.params.items()
                ],
                [
                    RunTag(key, value if type(value) is str else readable_text(value))
                    for key, value in contents.tags.items()
                ],
            ),
            RunInputs(
                dataset_inputs=[
                    DatasetInput(datasets[ref], [InputTag(k, v) for k, v in tags.items()])
                    for ref, _, _, tags in contents.datasets
                    if ref in datasets
                ],
                model_inputs=[LoggedModelInput(model_id) for model_id in contents.model_inputs],
            ),
            RunOutputs(
                [LoggedModelOutput(model_id, step) for model_id, step in contents.model_outputs]
            ),
        )


def run_info(item: Item) -> RunInfo:
    """The run's own attributes as MLflow shows them."""
    return RunInfo(
        run_id=run_id_of(item),
        experiment_id=experiment_id_of(item),
        user_id=readable_text(item["user"]),
        status=item["status"],
        start_time=readable_number(item["start_time"]),
        end_time=readable_number(item.get("end_time")),
        lifecycle_stage=item["lifecycle"],
        artifact_uri=readable_text(item["artifact_uri"]),
        run_name=item["name"],
    )
