"""The parts of the system whose key modules describe their keys themselves."""

from __future__ import annotations

from mlflow_dynamodbstore.keys import jobs, mcp, reviews
from mlflow_dynamodbstore.keys.described import Area

AREAS: tuple[Area, ...] = (jobs.AREA, mcp.AREA, reviews.AREA)
