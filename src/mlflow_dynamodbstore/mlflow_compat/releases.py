"""The releases of MLflow that we have been tested with."""

from __future__ import annotations

import logging

from mlflow.version import VERSION

_logger = logging.getLogger(__name__)

OLDEST, NEWEST = (3, 15), (3, 17)


def warn_of_newer_release() -> None:
    """Warn of a release that is newer than those we have been tested with."""
    major, minor, *_ = VERSION.split(".")
    if (int(major), int(minor)) > NEWEST:
        _logger.warning(
            "mlflow-dynamodbstore is tested with MLflow %s to %s; this is MLflow %s.",
            *(".".join(map(str, release)) for release in (OLDEST, NEWEST)),
            VERSION,
        )
