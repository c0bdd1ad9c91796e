"""Guardrail configurations: which guardrails an endpoint has, and in which order they judge.

They are a list in the endpoint's own item, because every call of the endpoint reads them. An entry
of a deleted guardrail is ignored, and the next change of the list drops it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from mlflow.entities.gateway_guardrail import GatewayGuardrailConfig
from mlflow.exceptions import MlflowException
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.gateway import guardrails
from mlflow_dynamodbstore.gateway.endpoint_items import EndpointItems
from mlflow_dynamodbstore.gateway.endpoint_records import GUARDRAILS
from mlflow_dynamodbstore.gateway.guardrails import Guardrails, action_endpoint, to_guardrail
from mlflow_dynamodbstore.gateway.items import GatewayItems, is_at, no_such
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.shared.refusals import already_exists
from mlflow_dynamodbstore.table.contract import Check, TransactWrite
from mlflow_dynamodbstore.table.values import Item, Key

ENDPOINT = "Endpoint"  # in MLflow's messages about guardrails


class GuardrailConfigs:
    """The guardrail configurations of endpoints."""

    def __init__(
        self,
        context: Context,
        gateway_items: GatewayItems,
        endpoint_items: EndpointItems,
        guardrails: Guardrails,
    ) -> None:
        self.table = context.table
        self.gateway_items = gateway_items
        self.endpoint_items = endpoint_items
        self.guardrails = guardrails

    def add_guardrail_to_endpoint(
        self,
        endpoint_id: str,
        guardrail_id: str,
        execution_order: int | None = None,
        created_by: str | None = None,
    ) -> GatewayGuardrailConfig:
        entry: Item = {
            "guardrail_id": guardrail_id,
            "order": execution_order,
            "created_at": get_current_time_millis(),
            "created_by": created_by,
        }

        def added(found: dict[Key, Item], entries: list[Item]) -> list[Item]:
            if self.guardrails.key(guardrail_id) not in found:
                raise no_such(guardrails.ENTITY, guardrail_id=guardrail_id)
            if _has(entries, guardrail_id):
                raise already_exists(
                    f"Guardrail '{guardrail_id}' is already added to endpoint '{endpoint_id}'"
                )
            return [*entries, entry]

        missing = no_such(ENDPOINT, endpoint_id=endpoint_id)
        return self._change(endpoint_id, guardrail_id, added, missing)

    def update_endpoint_guardrail_config(
        self, endpoint_id: str, guardrail_id: str, execution_order: int | None = None
    ) -> GatewayGuardrailConfig:
        missing = _config_not_found(endpoint_id, guardrail_id)

        def reordered(_found: dict[Key, Item], entries: list[Item]) -> list[Item]:
            if not _has(entries, guardrail_id):
                raise missing
            return [
                {**one, "order": execution_order} if one["guardrail_id"] == guardrail_id else one
                for one in entries
            ]

        return self._change(endpoint_id, guardrail_id, reordered, missing)

    def remove_guardrail_from_endpoint(self, endpoint_id: str, guardrail_id: str) -> None:
        missing = _config_not_found(endpoint_id, guardrail_id)

        def without(_found: dict[Key, Item], entries: list[Item]) -> list[Item]:
            if not _has(entries, guardrail_id):
                raise missing
            return [one for one in entries if one["guardrail_id"] != guardrail_id]

        self._change(endpoint_id, guardrail_id, without, missing)

    def list_endpoint_guardrail_configs(self, endpoint_id: str) -> list[GatewayGuardrailConfig]:
        found = self._read_endpoint(endpoint_id)
        endpoint = found.get(self.endpoint_items.key(endpoint_id))
        if endpoint is None:
            raise no_such(ENDPOINT, endpoint_id=endpoint_id)
        entries = sorted(self._existing(found, endpoint[GUARDRAILS]), key=_execution_order)
        return [self._to_config(endpoint, entry, found) for entry in entries]

    # --- helpers --------------------------------------------------------------------------------

    def _read_endpoint(self, endpoint_id: str) -> dict[Key, Item]:
        """An endpoint, its guardrails, and the endpoints that the guardrails call."""
        start = self.endpoint_items.key(endpoint_id)

        def references(item: Item) -> Iterable[Key]:
            if is_at(start, item):
                return [self.guardrails.key(one["guardrail_id"]) for one in item[GUARDRAILS]]
            return action_endpoint(item) if "guardrail_id" in item else []

        return self.gateway_items.follow(start, references)

    def _change(
        self,
        endpoint_id: str,
        guardrail_id: str,
        changed: Callable[[dict[Key, Item], list[Item]], list[Item]],
        missing: MlflowException,
    ) -> GatewayGuardrailConfig:
        """Change the list of an endpoint, and return the new entry, or the removed one."""
        key = self.endpoint_items.key(endpoint_id)
        guardrail_key = self.guardrails.key(guardrail_id)

        def attempt() -> GatewayGuardrailConfig:
            found = {**self._read_endpoint(endpoint_id), **self.table.get_many([guardrail_key])}
            before = found.get(key)
            if before is None:
                raise missing
            entries = changed(found, self._existing(found, before[GUARDRAILS]))
            exists: list[TransactWrite] = [Check(guardrail_key, PRESENT)]
            after = self.endpoint_items.change(before, {GUARDRAILS: entries}, exists)
            known = {one["guardrail_id"]: one for one in [*before[GUARDRAILS], *entries]}
            return self._to_config(after, known[guardrail_id], found)

        return optimistically(f"Endpoint '{endpoint_id}'", attempt)

    def _existing(self, found: dict[Key, Item], entries: Iterable[Item]) -> list[Item]:
        """The entries whose guardrails exist."""
        return [one for one in entries if self.guardrails.key(one["guardrail_id"]) in found]

    def _to_config(
        self, endpoint: Item, entry: Item, found: dict[Key, Item]
    ) -> GatewayGuardrailConfig:
        guardrail = found[self.guardrails.key(entry["guardrail_id"])]
        return GatewayGuardrailConfig(
            endpoint_id=endpoint["endpoint_id"],
            guardrail_id=entry["guardrail_id"],
            execution_order=entry["order"],
            created_at=entry["created_at"],
            guardrail=to_guardrail(guardrail, found),
            created_by=entry["created_by"],
            workspace=access_keys.workspace_of(endpoint["PK"]),
        )


def _has(entries: Iterable[Item], guardrail_id: str) -> bool:
    return any(one["guardrail_id"] == guardrail_id for one in entries)


def _execution_order(entry: Item) -> tuple[float, str]:
    """The sort key of an entry: entries with an order come first, ties are sorted by id."""
    order = entry["order"]
    return math.inf if order is None else order, str(entry["guardrail_id"])


def _config_not_found(endpoint_id: str, guardrail_id: str) -> MlflowException:
    return no_such("GuardrailConfig", endpoint_id=endpoint_id, guardrail_id=guardrail_id)
