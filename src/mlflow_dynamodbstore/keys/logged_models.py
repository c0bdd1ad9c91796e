"""Keys of logged models, which lie in their experiment's partition."""

from __future__ import annotations

from mlflow_dynamodbstore.encoding import bounded, ordered_int
from mlflow_dynamodbstore.keys.base import ID, KEY, Range, children, join, key_text, pieces_of
from mlflow_dynamodbstore.keys.experiments import experiment_pk
from mlflow_dynamodbstore.table.values import Key

LOGGED_MODELS = children("LM")
"""All logged models of an experiment with everything below them."""


def logged_model(model_id: str) -> str:
    """A logged model's own item."""
    return join("LM", bounded(model_id, ID))


def logged_model_key(experiment_id: str, model_id: str) -> Key:
    """The whole key of a logged model's own item."""
    return Key(experiment_pk(experiment_id), logged_model(model_id))


def logged_model_tag(model_id: str, key: str) -> str:
    """A tag of a logged model."""
    return join(logged_model(model_id), "TAG", bounded(key, KEY))


def logged_model_param(model_id: str, key: str) -> str:
    """A param of a logged model."""
    return join(logged_model(model_id), "PARAM", bounded(key, KEY))


def logged_model_metric(model_id: str, key: str, step: int, timestamp: int, run_id: str) -> str:
    """A value of a metric that some run measured on a logged model."""
    place = (bounded(key, KEY), ordered_int(step), ordered_int(timestamp), bounded(run_id, ID))
    return join(logged_model(model_id), "METRIC", *place)


def logged_model_children(model_id: str) -> Range:
    """Everything below a logged model, its own item not included."""
    return children(logged_model(model_id))


def logged_model_and_children(model_id: str) -> Range:
    """A logged model's own item and everything below it."""
    return Range(logged_model(model_id), logged_model_children(model_id).high)


def logged_model_tags(model_id: str) -> Range:
    """The tags of a logged model."""
    return children(join(logged_model(model_id), "TAG"))


def logged_model_params(model_id: str) -> Range:
    """The params of a logged model."""
    return children(join(logged_model(model_id), "PARAM"))


def logged_model_metrics(model_id: str, key: str | None = None) -> Range:
    """The metrics of a logged model, or all values of one of them."""
    metrics = join(logged_model(model_id), "METRIC")
    return children(metrics if key is None else join(metrics, bounded(key, KEY)))


def logged_model_id_of(sk: str) -> str | None:
    """The logged model that a sort key belongs to, or None when its id was cut."""
    return key_text(pieces_of(sk, "LM")[0])
