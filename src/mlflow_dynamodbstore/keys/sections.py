"""The parts of the system whose key modules describe their keys themselves."""

from __future__ import annotations

from mlflow_dynamodbstore.keys import evaluation, gateway, jobs, mcp, reviews
from mlflow_dynamodbstore.keys.pattern_types import Area

AREAS: tuple[Area, ...] = (evaluation.AREA, gateway.AREA, jobs.AREA, mcp.AREA, reviews.AREA)
