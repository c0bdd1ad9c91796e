"""All that the tracking store offers about the AI gateway, gathered."""

from __future__ import annotations

from mlflow_dynamodbstore.gateway.endpoints import Endpoints
from mlflow_dynamodbstore.gateway.secrets import Secrets


class Gateway(Secrets, Endpoints):
    """The AI gateway's storage."""
