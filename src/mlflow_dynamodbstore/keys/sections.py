"""The sections of the keys whose modules describe themselves."""

from __future__ import annotations

from mlflow_dynamodbstore.keys import evaluation, gateway, jobs, mcp, reviews
from mlflow_dynamodbstore.keys.section_types import KeySection

SECTIONS: tuple[KeySection, ...] = (
    evaluation.SECTION,
    gateway.SECTION,
    jobs.SECTION,
    mcp.SECTION,
    reviews.SECTION,
)
