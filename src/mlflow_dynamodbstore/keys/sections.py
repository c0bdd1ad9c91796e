"""The sections of the keys whose modules describe themselves."""

from __future__ import annotations

from mlflow_dynamodbstore.keys import (
    evaluation_datasets,
    gateway,
    issues,
    jobs,
    mcp,
    reviews,
    scorers,
)
from mlflow_dynamodbstore.keys.section_types import KeySection

SECTIONS: tuple[KeySection, ...] = (
    evaluation_datasets.SECTION,
    scorers.SECTION,
    issues.SECTION,
    gateway.SECTION,
    jobs.SECTION,
    mcp.SECTION,
    reviews.SECTION,
)
