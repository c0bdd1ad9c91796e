"""Keys of logged models, which lie in their experiment's partition."""

from __future__ import annotations

from typing import NamedTuple

from mlflow_dynamodbstore.keys.base import (
    ID,
    KEY,
    SHORT_KEY,
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


class LoggedModelItem(NamedTuple):
    """The parts of a sort key in a logged model's range."""

    model_id: str | None  # None when it was cut; the item holds it
    kind: str  # "" for the logged model itself, else METRIC, PARAM or TAG
    name: str | None  # the key after the kind; None when it was cut
    rest: tuple[str, ...] = ()  # further pieces, not decoded


def logged_model(model_id: str) -> str:
    """A logged model's own item."""
    return join("LM", bounded(model_id, ID))


def logged_model_key(experiment_id: str, model_id: str, volume: int = 0) -> Key:
    """The whole key of a logged model's own item."""
    return Key(volume_pk(experiment_id, volume), logged_model(model_id))


def logged_model_tag(model_id: str, key: str) -> str:
    """A tag of a logged model."""
    return join(logged_model(model_id), "TAG", bounded(key, KEY))


def logged_model_param(model_id: str, key: str) -> str:
    """A param of a logged model."""
    return join(logged_model(model_id), "PARAM", bounded(key, KEY))


def logged_model_metric(
    model_id: str, key: str, step: int, timestamp: int, run_id: str, dataset: str | None = None
) -> str:
    """A value of a metric that a run measured on a logged model.

    The dataset tells apart the values that a run measured at one moment on several datasets.
    """
    metric, run = bounded(key, SHORT_KEY), bounded(run_id, ID)
    at = (ordered_int(step), ordered_int(timestamp))
    value = join(logged_model(model_id), "METRIC", metric, *at, run)
    return value if dataset is None else join(value, bounded(dataset, WORD))


def logged_model_children(model_id: str) -> Range:
    """Everything below a logged model, without its own item."""
    return children(logged_model(model_id))


def logged_model_and_children(model_id: str) -> Range:
    """A logged model's own item and everything below it."""
    return Range(logged_model(model_id), logged_model_children(model_id).high)


def logged_model_params(model_id: str) -> Range:
    """The params of a logged model."""
    return children(join(logged_model(model_id), "PARAM"))


def logged_model_id_of(sk: str) -> str | None:
    """The logged model that a sort key belongs to; None when its id was cut."""
    return key_text(pieces_of(sk, "LM")[0])


def logged_model_item_of(sk: str) -> LoggedModelItem:
    """The parts of a sort key in a logged model's range."""
    pieces = pieces_of(sk, "LM")
    model_id = key_text(pieces[0])
    if len(pieces) == 1:
        return LoggedModelItem(model_id, "", None)
    _, kind, name, *rest = pieces
    return LoggedModelItem(model_id, kind, key_text(name), tuple(rest))


def logged_model_step_of(item: LoggedModelItem) -> tuple[int, int]:
    """Step and timestamp of a value of a logged model's metric."""
    if item.kind != "METRIC" or len(item.rest) not in (3, 4):
        raise ValueError(f"not a value of a logged model's metric: {item!r}")
    return int_of(item.rest[0]), int_of(item.rest[1])
