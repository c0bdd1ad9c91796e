"""Random runs in two stores at once: MLflow's SqlAlchemyStore and ours, under the same ids."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

from mlflow.entities import (
    Dataset,
    DatasetInput,
    InputTag,
    Metric,
    Param,
    RunStatus,
    RunTag,
    ViewType,
)
from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT

from tests.releases import has

METRICS = ("acc", "loss", "a b/c", "é")
# Up to 3.16 MLflow's store compares NaN as if it were zero.
NAN = (math.nan,) if has("comparison of NaN") else ()
METRIC_VALUES = (0.0, -0.0, 1.0, 1.0, 2.5, -3.0, 1e300, 5e-324, *NAN, math.inf, -math.inf)
PARAMS = ("p1", "p 2", "p:3")
TAGS = ("t1", "weird key", "mlflow.note.content")
TEXTS = (
    "",
    "a",
    "A",
    "ab",
    "a%b",
    "a_b",
    "a#b",
    "50%",
    "it's",
    'say "hi"',
    "żółć",
    "🙂",
    "Ärger",
    "ärger",
    "x" * 500,
    "x" * 500 + "y",
    "é" * 300,
)
NAMES = ("alpha", "alpha", "Alpha", "beta", "beta 2", "γ", "a" * 200)
STATUSES = (RunStatus.RUNNING, RunStatus.FINISHED, RunStatus.FAILED, RunStatus.KILLED)


@dataclass
class TwoStores:
    """The store under test and the one that is right."""

    ours: Any
    theirs: Any
    rng: random.Random
    experiments: list[str] = field(default_factory=list)
    run_ids: list[str] = field(default_factory=list)

    def experiment(self, name: str) -> None:
        mine, other = self.ours.create_experiment(name), self.theirs.create_experiment(name)
        assert mine == other
        self.experiments.append(mine)

    def both(self, method: str, *args: Any) -> None:
        getattr(self.ours, method)(*args)
        getattr(self.theirs, method)(*args)

    def run(self) -> str:
        """One random run, in some stage of its life."""
        rng = self.rng
        experiment = rng.choice(self.experiments)
        start, name = rng.choice((1000, 1000, 2000, 3000, rng.randrange(5000))), rng.choice(NAMES)
        tags = [RunTag(key, rng.choice(TEXTS)) for key in TAGS if rng.random() < 0.6]
        run_id: str = self.ours.create_run(experiment, "user", start, list(tags), name).info.run_id
        # MLflow breaks ties by run id, so both stores must know a run by the same one.
        same_id = mock.Mock(return_value=SimpleNamespace(hex=run_id))
        with mock.patch("mlflow.store.tracking.sqlalchemy_store.uuid.uuid4", same_id):
            self.theirs.create_run(experiment, "user", start, list(tags), name)
        self.run_ids.append(run_id)
        self.both("log_batch", run_id, *self.batch())
        if rng.random() < 0.3:
            self.both("log_inputs", run_id, self.datasets())
        status = rng.choice(STATUSES)
        if status != RunStatus.RUNNING:
            self.both("update_run_info", run_id, status, rng.choice((None, 4000, 5000)), None)
            if rng.random() < 0.2:
                self.both("log_metric", run_id, Metric("acc", rng.choice((0.5, 7.0)), 9, 9))
        if rng.random() < 0.15:
            self.both("delete_run", run_id)
        return run_id

    def datasets(self) -> list[DatasetInput]:
        rng = self.rng
        return [
            DatasetInput(
                Dataset(name, rng.choice(("d1", "d2")), "local", "source"),
                [InputTag(MLFLOW_DATASET_CONTEXT, rng.choice(("train", "eval")))],
            )
            for name in rng.sample(("data", "Data", "it's"), rng.choice((1, 2)))
        ]

    def batch(self) -> tuple[list[Metric], list[Param], list[RunTag]]:
        rng = self.rng
        metrics = [
            Metric(k, rng.choice(METRIC_VALUES), 1, 1) for k in METRICS if rng.random() < 0.6
        ]
        params = [Param(k, rng.choice(TEXTS[1:])) for k in PARAMS if rng.random() < 0.6]
        return metrics, params, []


def random_filter(rng: random.Random, run_ids: Sequence[str]) -> str:
    """A filter that MLflow's parsers accept, at times one that names some runs."""
    terms = [rng.choice(TERMS)(rng) for _ in range(rng.choice((0, 1, 1, 1, 2, 3)))]
    if rng.random() < 0.1:
        terms.append(_id_term(rng, run_ids))
    return " AND ".join(terms)


def random_order(rng: random.Random) -> list[str]:
    fields = [f"metrics.`{k}`" for k in METRICS] + [f"params.`{k}`" for k in PARAMS]
    fields += [f"tags.`{k}`" for k in TAGS]
    fields += [
        f"attributes.{a}" for a in ("start_time", "end_time", "status", "run_name", "run_id")
    ]
    chosen = rng.sample(fields, rng.choice((0, 1, 1, 2)))
    return [f"{name} {rng.choice(('ASC', 'DESC'))}" for name in chosen]


def random_view(rng: random.Random) -> int:
    return rng.choice(
        (ViewType.ACTIVE_ONLY, ViewType.ACTIVE_ONLY, ViewType.DELETED_ONLY, ViewType.ALL)
    )


def quoted(text: str) -> str:
    return f'"{text}"' if "'" in text else f"'{text}'"


def _pattern(rng: random.Random) -> str:
    text = rng.choice([t for t in TEXTS if '"' not in t])
    start, end = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
    return rng.choice(("%", "", "_")) + text[start:end] + rng.choice(("%", "", "_", "%b%"))


def _text_term(rng: random.Random, name: str, *, null: bool = True) -> str:
    kind = rng.choice(("=", "!=", "LIKE", "ILIKE", *(("IS NULL", "IS NOT NULL") if null else ())))
    if kind.startswith("IS"):
        return f"{name} {kind}"
    if kind in ("LIKE", "ILIKE"):
        return f"{name} {kind} {quoted(_pattern(rng))}"
    plain = [text for text in TEXTS if text and '"' not in text]
    return f"{name} {kind} {quoted(rng.choice(plain))}"


def _metric_term(rng: random.Random) -> str:
    value = rng.choice(("0", "0.5", "1", "1.0", "2.5", "-3", "1e300", "1E+3", "7"))
    return (
        f"metrics.`{rng.choice(METRICS)}` {rng.choice(('=', '!=', '<', '<=', '>', '>='))} {value}"
    )


def _time_term(rng: random.Random) -> str:
    name, value = rng.choice(("start_time", "end_time")), rng.choice((1000, 2500, 4000))
    return f"attributes.{name} {rng.choice(('=', '!=', '<', '<=', '>', '>='))} {value}"


def _name_term(rng: random.Random) -> str:
    comparator, value = rng.choice(
        (
            ("=", "alpha"),
            ("!=", "alpha"),
            ("LIKE", "al%"),
            ("ILIKE", "AL%"),
            ("LIKE", "%2"),
            ("=", "γ"),
        )
    )
    return f"attributes.run_name {comparator} {quoted(value)}"


def _id_term(rng: random.Random, run_ids: Sequence[str]) -> str:
    some = ", ".join(quoted(run_id) for run_id in rng.sample(run_ids, rng.choice((1, 5, 30))))
    return rng.choice(
        (
            f"attributes.run_id IN ({some})",
            f"attributes.run_id NOT IN ({some})",
            f"attributes.run_id = '{rng.choice(run_ids)}'",
            f"attributes.run_id != '{rng.choice(run_ids)}'",
        )
    )


def _dataset_term(rng: random.Random) -> str:
    name, values = rng.choice(
        (("name", ("data", "Data")), ("digest", ("d1", "d3")), ("context", ("train", "eval")))
    )
    comparator = rng.choice(("=", "!=", "LIKE", "ILIKE", "IN", "NOT IN"))
    if comparator in ("IN", "NOT IN"):
        return f"dataset.{name} {comparator} ({', '.join(map(quoted, values))})"
    return f"dataset.{name} {comparator} '{rng.choice(values)}'"


TERMS = (
    _metric_term,
    _metric_term,
    lambda rng: _text_term(rng, f"params.`{rng.choice(PARAMS)}`"),
    lambda rng: _text_term(rng, f"tags.`{rng.choice(TAGS)}`"),
    _time_term,
    _name_term,
    _dataset_term,
    lambda rng: (
        f"attributes.status {rng.choice(('=', '!='))} '{rng.choice(('FINISHED', 'RUNNING'))}'"
    ),
)
