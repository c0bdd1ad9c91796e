"""All that the tracking store offers about the AI gateway, gathered."""

from __future__ import annotations

from mlflow_dynamodbstore.gateway.budgets import Budgets
from mlflow_dynamodbstore.gateway.costs import Costs
from mlflow_dynamodbstore.gateway.guardrail_configs import GuardrailConfigs
from mlflow_dynamodbstore.gateway.mappings import Mappings
from mlflow_dynamodbstore.gateway.resolving import Resolving
from mlflow_dynamodbstore.gateway.secrets import Secrets


class Gateway(Secrets, Mappings, Resolving, GuardrailConfigs, Budgets, Costs):
    """The AI gateway's storage."""
