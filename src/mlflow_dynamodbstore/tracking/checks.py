"""MLflow's validation of what is logged, asked once for each name.

A training loop logs the same few names over and over, and MLflow takes longer to validate one than
the embedded engine to store it. Its answer for a name is remembered here. Anything unusual goes to
MLflow each time, for its answer and its message.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.mlflow_compat.validation import validate_metric, validate_param
from mlflow_dynamodbstore.shared.plain_values import LARGEST, SMALLEST, text, whole_number
from mlflow_dynamodbstore.tracking.points import Point

_new_point = tuple.__new__  # several times faster than calling Point
PLAIN_LENGTH = 250
"""A param's value of up to this length is within every limit that MLflow sets."""


def checked_points(metrics: Sequence[Metric], *, alone: bool = False) -> dict[str, list[Point]]:
    """The points of each key, or MLflow's error for the first metric it refuses.

    For a metric that came ``alone``, the error does not name its position in a batch.
    """
    points: dict[str, list[Point]] = {}
    for index, metric in enumerate(metrics):
        # Each of these calls a property of MLflow's, so none is read twice.
        key, value, timestamp, step = metric.key, metric.value, metric.timestamp, metric.step
        if not (
            type(value) is float
            and type(step) is int
            and SMALLEST <= step <= LARGEST
            and type(timestamp) is int
            and 0 <= timestamp <= LARGEST
            and type(key) is str
            and _is_metric_name(key)
        ):
            path = "" if alone else f"metrics[{index}]"
            validate_metric(key, value, timestamp, step, path=path)
            step = whole_number(step, "the step of a metric")
            timestamp = whole_number(timestamp, "the time of a metric")
        point = _new_point(Point, (step, timestamp, float(value)))
        if key in points:
            points[key].append(point)
        else:
            points[key] = [point]
    return points


def checked_params(params: Sequence[Param]) -> dict[str, str]:
    """The params of a batch as MLflow wants them stored, or its error for the first it refuses."""
    values: dict[str, str] = {}
    for index, param in enumerate(params):
        key, value = param.key, param.value
        if not (
            type(value) is str
            and len(value) <= PLAIN_LENGTH
            and value.isascii()
            and type(key) is str
            and _is_param_key(key)
        ):
            checked = validate_param(key, text(value, "a param"), path=f"params[{index}]")
            key, value = checked.key, checked.value
        values[key] = value
    return values


@lru_cache(maxsize=16384)
def _is_metric_name(name: str) -> bool:
    try:
        validate_metric(name, 0.0, 0, 0)
    except MlflowException:
        return False
    return True


@lru_cache(maxsize=16384)
def _is_param_key(key: str) -> bool:
    try:
        return bool(validate_param(key, "").key == key)
    except MlflowException:
        return False
