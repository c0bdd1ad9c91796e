"""``mlflow server --expose-prometheus FOLDER``, with or without the library that it needs.

MLflow passes the folder by an environment variable, and its server fails to import where the
library is not installed. Then we take the variable away before, and expose our own counters alone,
which need no folder.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

FOLDER = "prometheus_multiproc_dir"
WITHOUT_LIBRARY = "_MLFLOW_DYNAMODBSTORE_METRICS"
LIBRARY = "prometheus_flask_exporter"


def take_over_without_library() -> None:
    """Let MLflow's server start where its library for metrics is not installed."""
    folder = os.environ.get(FOLDER)
    if folder and find_spec(LIBRARY) is None:
        os.environ[WITHOUT_LIBRARY] = folder
        del os.environ[FOLDER]


def metrics_are_exposed() -> bool:
    """Whether the server was asked for metrics."""
    return bool(os.environ.get(FOLDER) or os.environ.get(WITHOUT_LIBRARY))
