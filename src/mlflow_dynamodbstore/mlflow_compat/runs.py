"""Names of runs, and the datasets they used."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mlflow.entities import RunTag
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME

from mlflow_dynamodbstore.mlflow_compat.names import private, unavailable

if TYPE_CHECKING:
    from mlflow.entities import _DatasetSummary as DatasetSummary
else:
    DatasetSummary = private(
        "mlflow.entities", "_DatasetSummary", unavailable("The list of used datasets")
    )

__all__ = ["DatasetSummary", "generate_random_name", "get_run_name_from_tags"]


def _name() -> str:
    """A name without the words that MLflow chooses from."""
    return f"run-{secrets.token_hex(4)}"


def _name_in(tags: Iterable[RunTag]) -> str | None:
    return next((tag.value for tag in tags if tag.key == MLFLOW_RUN_NAME), None)


generate_random_name = private("mlflow.utils.name_utils", "_generate_random_name", _name)
get_run_name_from_tags = private("mlflow.utils.mlflow_tags", "_get_run_name_from_tags", _name_in)
