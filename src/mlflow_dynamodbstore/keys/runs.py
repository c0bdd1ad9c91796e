"""Keys of runs and what belongs to them.

The items below a run sort as INPUT, INPUT_LM, LM, METRIC, MHIST, OUTPUT, PARAM, PART, TAG. The
history (MHIST) may be thousands of times larger than the rest, so a run is read in the two ranges
around it: :func:`run_head` and :func:`run_tail`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from mlflow_dynamodbstore.keys.base import (
    ID,
    KEY,
    NAME,
    WORD,
    Range,
    children,
    join,
    key_text,
    pieces_of,
)
from mlflow_dynamodbstore.keys.encoding import bounded, int_of, ordered_int
from mlflow_dynamodbstore.keys.experiments import volume_pk
from mlflow_dynamodbstore.table.values import Key

RUNS = children("R")
"""All runs of an experiment with everything below them."""


class RunItem(NamedTuple):
    """The parts of a sort key in a run's range."""

    run_id: str | None  # None when it was cut; the item holds it
    kind: str  # "" for the run itself, else METRIC, PARAM, ...
    name: str | None  # the key or name after the kind; None when it was cut
    rest: tuple[str, ...] = ()  # further pieces, not decoded


class MetricPoint(NamedTuple):
    """The parts of the key of a point in a metric's history."""

    step: int
    timestamp: int
    suffix: str | None


@lru_cache(maxsize=4096)
def run(run_id: str) -> str:
    """A run's own item."""
    return join("R", bounded(run_id, ID))


def run_key(experiment_id: str, run_id: str, volume: int = 0) -> Key:
    """The whole key of a run's own item."""
    return Key(volume_pk(experiment_id, volume), run(run_id))


@lru_cache(maxsize=16384)  # a training loop writes to the same few keys
def run_metric(run_id: str, key: str) -> str:
    """The latest value of a metric."""
    return f"{run(run_id)}#METRIC#{bounded(key, KEY)}"


def run_metric_point(
    run_id: str, key: str, step: int, timestamp: int, suffix: str | None = None
) -> str:
    """One point of a metric's history; the suffix tells points at one step and time apart."""
    point = f"{_points(run_id, key)}#{_step_and_time(step, timestamp)}"
    if suffix is None:
        return point
    # Our suffixes are hex digits and used once: not worth a place in the cache of `bounded`.
    plain = suffix.isalnum() and suffix.isascii() and len(suffix) <= WORD
    return f"{point}#{suffix if plain else bounded(suffix, WORD)}"


@lru_cache(maxsize=16384)
def _points(run_id: str, key: str) -> str:
    """The beginning that all points of one metric share."""
    return f"{run(run_id)}#MHIST#{bounded(key, KEY)}"


@lru_cache(maxsize=4096)
def _step_and_time(step: int, timestamp: int) -> str:
    """The end that most points of one call share."""
    return f"{ordered_int(step)}#{ordered_int(timestamp)}"


def run_param(run_id: str, key: str) -> str:
    """A param."""
    return f"{run(run_id)}#PARAM#{bounded(key, KEY)}"


def run_tag(run_id: str, key: str) -> str:
    """A tag of a run."""
    return f"{run(run_id)}#TAG#{bounded(key, KEY)}"


def run_input(run_id: str, name: str, digest: str | None = None) -> str:
    """A dataset that a run read; the digest tells two datasets of one name apart."""
    entry = join(run(run_id), "INPUT", bounded(name, NAME))
    return entry if digest is None else join(entry, bounded(digest, WORD))


def run_model_input(run_id: str, model_id: str) -> str:
    """A logged model that a run read."""
    return join(run(run_id), "INPUT_LM", bounded(model_id, ID))


def run_logged_model(run_id: str, model_name: str, model_id: str | None = None) -> str:
    """A model logged during a run; the id tells a second model of one name apart."""
    entry = join(run(run_id), "LM", bounded(model_name, NAME))
    return entry if model_id is None else join(entry, bounded(model_id, ID))


def run_output(run_id: str, model_id: str) -> str:
    """A logged model that a run produced."""
    return join(run(run_id), "OUTPUT", bounded(model_id, ID))


def run_children(run_id: str) -> Range:
    """Everything below a run, without its own item."""
    return children(run(run_id))


def run_and_children(run_id: str) -> Range:
    """A run's own item and everything below it."""
    return Range(run(run_id), children(run(run_id)).high)


def run_head(run_id: str) -> Range:
    """A run's own item, its inputs, logged models and latest metrics."""
    return Range(run(run_id), run_metrics(run_id).high)


def run_until_logged_models(run_id: str) -> Range:
    """A run's own item, its inputs and the entries of its logged models."""
    return Range(run(run_id), run_logged_models(run_id).high)


def run_tail(run_id: str) -> Range:
    """A run's outputs, params, parts of large values, and tags."""
    return Range(run_outputs(run_id).low, run_tags(run_id).high)


def run_children_without_history(run_id: str) -> tuple[Range, ...]:
    """Everything below a run except its history."""
    return Range(run_children(run_id).low, run_head(run_id).high), run_tail(run_id)


def run_metrics(run_id: str) -> Range:
    """The latest metrics of a run."""
    return children(join(run(run_id), "METRIC"))


def run_history(run_id: str) -> Range:
    """The history of all metrics of a run."""
    return children(join(run(run_id), "MHIST"))


def run_params(run_id: str) -> Range:
    """The params of a run."""
    return children(join(run(run_id), "PARAM"))


def run_tags(run_id: str) -> Range:
    """The tags of a run."""
    return children(join(run(run_id), "TAG"))


def run_logged_models(run_id: str) -> Range:
    """The models logged during a run."""
    return children(join(run(run_id), "LM"))


def run_outputs(run_id: str) -> Range:
    """The logged models that a run produced."""
    return children(join(run(run_id), "OUTPUT"))


def metric_history(
    run_id: str, key: str, first_step: int | None = None, last_step: int | None = None
) -> Range:
    """The history of one metric, from one step to another, both included."""
    metric = join(run(run_id), "MHIST", bounded(key, KEY))
    low, high = children(metric)
    if first_step is not None:
        low = children(join(metric, ordered_int(first_step))).low
    if last_step is not None:
        high = children(join(metric, ordered_int(last_step))).high
    return Range(low, high)


def run_id_of(sk: str) -> str | None:
    """The run that a sort key belongs to; None when its id was cut."""
    return key_text(pieces_of(sk, "R")[0])


def run_item_of(sk: str) -> RunItem:
    """The parts of a sort key in a run's range."""
    pieces = pieces_of(sk, "R")
    run_id = key_text(pieces[0])
    if len(pieces) == 1:
        return RunItem(run_id, "", None)
    _, kind, name, *rest = pieces
    return RunItem(run_id, kind, key_text(name), tuple(rest))


def run_child_of(sk: str) -> tuple[str, str | None]:
    """The kind of an item below a run, and its name; None when that was cut."""
    # Sealing calls this for every item of a run, so the run's id is not decoded.
    pieces = sk.split("#", 4)
    if len(pieces) < 4 or pieces[0] != "R":
        raise ValueError(f"not a key below a run: {sk!r}")
    return pieces[2], key_text(pieces[3])


def metric_point_of(sk: str) -> MetricPoint:
    """Step, timestamp and suffix of a point of a metric's history."""
    # Called for every point of a history, so only its last pieces are decoded.
    pieces = pieces_of(sk, "R")
    if len(pieces) not in (5, 6) or pieces[1] != "MHIST":
        raise ValueError(f"not a point of a metric's history: {sk!r}")
    suffix = key_text(pieces[5]) if len(pieces) == 6 else None
    return MetricPoint(int_of(pieces[3]), int_of(pieces[4]), suffix)
