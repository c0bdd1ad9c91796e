"""The kinds of the AI gateway: how their fields are called in a table and in MLflow's database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.transfer.sql.database import TABLES

AUTHORS = {
    "created_by": "created_by",
    "created_at": "created_at",
    "updated_by": "last_updated_by",
    "updated_at": "last_updated_at",
}
"""Who made something and when."""


@dataclass(frozen=True)
class GatewayKind:
    """A kind of entities, each with one row and one item.

    ``fields`` are our attributes and MLflow's columns. ``item_key`` takes an id and a workspace,
    ``guard`` a name and a workspace: entities of a kind without it may have the same name.
    """

    table: str
    id_column: str
    id_attribute: str
    within: Range
    item_key: Callable[[str, str], Key]
    fields: Mapping[str, str]
    guard: Callable[[str, str], Key] | None = None

    @property
    def key(self) -> tuple[str, ...]:
        return (self.id_column,)

    @property
    def columns(self) -> tuple[str, ...]:
        return ("workspace", *self.fields.values())


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


SECRET = GatewayKind(
    "secrets",
    "secret_id",
    "secret_id",
    gateway_keys.SECRETS,
    gateway_keys.secret_key,
    {
        "name": "secret_name",
        **_same("encrypted_value", "wrapped_dek", "kek_version", "masked_value"),
        **_same("provider", "auth_config", "description"),
        **AUTHORS,
    },
    gateway_keys.secret_name_guard,
)
MODEL_DEFINITION = GatewayKind(
    "model_definitions",
    "model_definition_id",
    "definition_id",
    gateway_keys.MODEL_DEFINITIONS,
    gateway_keys.model_definition_key,
    {**_same("name", "secret_id", "provider", "model_name"), **AUTHORS},
    gateway_keys.model_definition_name_guard,
)
ENDPOINT = GatewayKind(
    "endpoints",
    "endpoint_id",
    "endpoint_id",
    gateway_keys.ENDPOINTS,
    gateway_keys.endpoint_key,
    {
        "name": "name",
        "routing": "routing_strategy",
        "fallback": "fallback_config_json",
        **_same("experiment_id", "usage_tracking"),
        **AUTHORS,
    },
    gateway_keys.endpoint_name_guard,
)
BUDGET = GatewayKind(
    "budget_policies",
    "budget_policy_id",
    "policy_id",
    gateway_keys.BUDGETS,
    gateway_keys.budget_key,
    {
        "unit": "budget_unit",
        "amount": "budget_amount",
        **_same("duration_unit", "duration_value"),
        "scope": "target_scope",
        "action": "budget_action",
        # Earlier releases of MLflow have no such column.
        **({"target": "target_value"} if "target_value" in TABLES["budget_policies"].c else {}),
        **AUTHORS,
    },
)
GUARDRAIL = GatewayKind(
    "guardrails",
    "guardrail_id",
    "guardrail_id",
    gateway_keys.GUARDRAILS,
    gateway_keys.guardrail_key,
    {
        **_same("name", "scorer_id", "scorer_version", "stage", "action", "action_endpoint_id"),
        **AUTHORS,
    },
)
