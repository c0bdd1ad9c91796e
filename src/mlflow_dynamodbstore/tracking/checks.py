"""MLflow's validation of what is logged, asked once for each name.

A training loop logs the same few names over and over, and MLflow takes longer to look at one than
the embedded engine to store it. What it said of a name is remembered here; whatever is out of the
ordinary in the least goes to MLflow each time, for its answer and its words.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException
from mlflow.utils.validation import _validate_metric, _validate_param

PLAIN_LENGTH = 250
"""A param's value of up to this length is within every limit that MLflow sets."""


def check_metric(metric: Metric, path: str = "") -> None:
    """Raise MLflow's error for a metric that it does not take."""
    ordinary = (
        type(metric.value) is float
        and type(metric.step) is int
        and type(metric.timestamp) is int
        and metric.timestamp >= 0
        and type(metric.key) is str
        and _is_metric_name(metric.key)
    )
    if not ordinary:
        _validate_metric(metric.key, metric.value, metric.timestamp, metric.step, path=path)


def check_metrics(metrics: Sequence[Metric]) -> None:
    """Raise MLflow's error for the first metric of a batch that it does not take."""
    for index, metric in enumerate(metrics):
        check_metric(metric, f"metrics[{index}]")


def checked_params(params: Sequence[Param]) -> list[Param]:
    """The params of a batch as MLflow wants them stored, or its error for the first it refuses."""
    return [
        param
        if type(param.value) is str
        and len(param.value) <= PLAIN_LENGTH
        and type(param.key) is str
        and _is_param_key(param.key)
        else _validate_param(param.key, param.value, path=f"params[{index}]")
        for index, param in enumerate(params)
    ]


@lru_cache(maxsize=16384)
def _is_metric_name(name: str) -> bool:
    try:
        _validate_metric(name, 0.0, 0, 0)
    except MlflowException:
        return False
    return True


@lru_cache(maxsize=16384)
def _is_param_key(key: str) -> bool:
    try:
        return bool(_validate_param(key, "").key == key)
    except MlflowException:
        return False
