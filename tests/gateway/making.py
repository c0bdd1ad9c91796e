"""Entities of the gateway for tests, with defaults for what a test does not set."""

from __future__ import annotations

import json
from typing import Any

from mlflow.entities import GatewayEndpoint, GatewayEndpointModelConfig
from mlflow.entities.gateway_endpoint import GatewayModelLinkageType
from mlflow.entities.scorer import ScorerVersion

from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore

PRIMARY = GatewayModelLinkageType.PRIMARY
FALLBACK = GatewayModelLinkageType.FALLBACK


def a_secret(store: DynamoDBTrackingStore, name: str = "key", value: str = "sk-very-secret") -> str:
    """The id of a new secret."""
    return str(store.create_gateway_secret(name, {"api_key": value}, "openai").secret_id)


def a_definition(
    store: DynamoDBTrackingStore, name: str = "gpt", secret_id: str | None = None
) -> str:
    """The id of a new model definition, with its own secret unless one is given."""
    secret_id = secret_id or a_secret(store, f"key of {name}")
    made = store.create_gateway_model_definition(name, secret_id, "openai", "gpt-4o")
    return str(made.model_definition_id)


def config(
    definition_id: str, linkage: GatewayModelLinkageType = PRIMARY, **more: Any
) -> GatewayEndpointModelConfig:
    return GatewayEndpointModelConfig(definition_id, linkage, **more)


def an_endpoint(
    store: DynamoDBTrackingStore, name: str = "chat", *definitions: str, **more: Any
) -> GatewayEndpoint:
    """A new endpoint, with its own model definition unless some are given."""
    used = definitions or (a_definition(store, f"model of {name}"),)
    more.setdefault("usage_tracking", False)
    return store.create_gateway_endpoint(name, [config(one) for one in used], **more)


def a_scorer(store: DynamoDBTrackingStore, name: str = "safe") -> ScorerVersion:
    experiment_id = store.create_experiment(f"experiment of {name}")
    judge = {"instructions_judge_pydantic_data": {"model": "openai:/gpt-4o", "instructions": "?"}}
    return store.register_scorer(experiment_id, name, json.dumps(judge))
