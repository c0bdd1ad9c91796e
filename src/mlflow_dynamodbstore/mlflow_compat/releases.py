"""The releases of MLflow that we have been tested with."""

from __future__ import annotations

import logging

from mlflow.version import VERSION

_logger = logging.getLogger(__name__)

OLDEST = (3, 15)
NEWEST = (3, 17)


def tested() -> str:
    """The tested releases, in words."""
    return f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"


def warn_of_newer_release() -> None:
    """Warn, once a process, of a release that is newer than those we have been tested with."""
    major, minor, *_ = VERSION.split(".")
    if (int(major), int(minor)) > NEWEST:
        _logger.warning(
            "mlflow-dynamodbstore is tested with MLflow %s; this is MLflow %s.", tested(), VERSION
        )
