"""Remembering what MLflow said of a name changes nothing of what it says."""

from __future__ import annotations

import math
from typing import Any

import pytest
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.mlflow_compat.validation import validate_batch_log_data, validate_metric
from mlflow_dynamodbstore.tracking.checks import checked_params, checked_points

NAMES: list[Any] = [
    "loss",
    "a/b",
    "a//b",
    "..",
    "",
    "é",
    "a b",
    "a#b",
    "a" * 250,
    "a" * 251,
    None,
    5,
    True,
]
VALUES: list[Any] = [math.nan, 1, True, None, "1", [1]]
# MLflow takes fractions, which no store of integers can hold: see test_bad_arguments.py.
NUMBERS: list[Any] = [-1, None, "1", True]
METRICS = [
    *(Metric(name, 1.0, 1, 1) for name in NAMES),
    *(Metric("loss", value, 1, 1) for value in VALUES),
    *(Metric("loss", 1.0, time, 1) for time in NUMBERS),
    *(Metric("loss", 1.0, 1, step) for step in NUMBERS),
]
PARAMS = [
    *(Param(name, "v") for name in NAMES),
    *(Param("lr", value) for value in ["", "x" * 250, "x" * 6000, "x" * 6001]),
]


def said(check):
    """What a check answers, or its error as MLflow words it."""
    try:
        return check()
    except (MlflowException, TypeError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: f"{m.key!s:.9} {m.value}")
def test_metrics_are_judged_as_mlflow_does(metric):
    for _ in range(2):  # asked, and remembered
        ours = said(lambda: checked_points([Metric("ok", 1.0, 1, 1), metric]))
        theirs = said(lambda: validate_batch_log_data([Metric("ok", 1.0, 1, 1), metric], [], []))
        if isinstance(theirs[0], type):
            assert ours == theirs
        else:
            assert ours.keys() == {"ok", metric.key}


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: f"{m.key!s:.9} {m.value}")
def test_a_lone_metric_is_judged_as_mlflow_does(metric):
    theirs = said(lambda: validate_metric(metric.key, metric.value, metric.timestamp, metric.step))
    ours = said(lambda: checked_points([metric], alone=True))
    assert ours == theirs if theirs else list(ours) == [metric.key]


@pytest.mark.parametrize("param", PARAMS, ids=lambda p: f"{p.key!s:.9} {len(p.value)}")
def test_params_are_judged_as_mlflow_does(param):
    for _ in range(2):
        ours = said(lambda: checked_params([param]))
        theirs = said(lambda: {p.key: p.value for p in validate_batch_log_data([], [param], [])[1]})
        assert ours == theirs
