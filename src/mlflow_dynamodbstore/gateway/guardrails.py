"""Guardrails: scorers that judge gateway calls before or after the model.

A guardrail keeps a copy of the scorer version it was created with. Versions never change, so the
guardrail is read without its scorer and outlives it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mlflow.entities.gateway_guardrail import (
    GatewayGuardrail,
    GuardrailAction,
    GuardrailStage,
)
from mlflow.entities.scorer import ScorerVersion
from mlflow.store.entities.paged_list import PagedList
from mlflow.store.tracking import SEARCH_MAX_RESULTS_DEFAULT

from mlflow_dynamodbstore.gateway import endpoint_records
from mlflow_dynamodbstore.gateway.items import new_item, no_such
from mlflow_dynamodbstore.gateway.paging import page_of
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.mlflow_compat.scorers import (
    serialized_scorer,
    serialized_scorer_is_custom_code,
)
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.table.contract import Check, Put, TransactWrite
from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.values import Item, Key

ENTITY = "Guardrail"


class Guardrails:
    """The guardrails of a workspace."""

    def __init__(
        self, context: Context, scorer_version_by_id: Callable[[str, int | None], ScorerVersion]
    ) -> None:
        self.context = context
        self.table = context.table
        self.scorer_version_by_id = scorer_version_by_id

    def create_gateway_guardrail(
        self,
        name: str,
        scorer_id: str,
        scorer_version: int,
        stage: GuardrailStage,
        action: GuardrailAction,
        action_endpoint_id: str | None = None,
        created_by: str | None = None,
    ) -> GatewayGuardrail:
        scorer = self.scorer_version_by_id(scorer_id, scorer_version)
        _check_is_not_code(scorer)
        workspace = self.context.workspace()
        guardrail_id = f"gr-{ids.new_id()}"
        key = gateway_keys.guardrail_key(guardrail_id, workspace)
        item: Item = {
            **new_item(key, created_by),
            "guardrail_id": guardrail_id,
            "name": name,
            **_copied(scorer),
            "stage": GuardrailStage(stage).value,
            "action": GuardrailAction(action).value,
            "action_endpoint_id": action_endpoint_id,
        }
        writes: list[TransactWrite] = [Put(item)]
        if action_endpoint_id is not None:
            endpoint = gateway_keys.endpoint_key(action_endpoint_id, workspace)
            writes.append(Check(endpoint, PRESENT))
        try:
            self.table.transact(writes)
        except TransactionCancelled as cancelled:
            if not cancelled.any_refused:
                raise
            raise no_such(endpoint_records.ENTITY, endpoint_id=action_endpoint_id) from cancelled
        return self._to_guardrails([item])[0]

    def get_gateway_guardrail(self, guardrail_id: str) -> GatewayGuardrail:
        item = self.table.get(self.key(guardrail_id))
        if item is None:
            raise no_such(ENTITY, guardrail_id=guardrail_id)
        return self._to_guardrails([item])[0]

    def delete_gateway_guardrail(self, guardrail_id: str) -> None:
        """Delete a guardrail; endpoints ignore their entries of it."""
        try:
            self.table.delete(self.key(guardrail_id), condition=PRESENT)
        except ConditionFailed as refused:
            raise no_such(ENTITY, guardrail_id=guardrail_id) from refused

    def list_gateway_guardrails(
        self, max_results: int = SEARCH_MAX_RESULTS_DEFAULT, page_token: str | None = None
    ) -> PagedList[GatewayGuardrail]:
        partition = access_keys.workspace_pk(self.context.workspace())
        found, token = page_of(
            self.table, partition, gateway_keys.GUARDRAILS, max_results, page_token
        )
        return PagedList(self._to_guardrails(found), token)

    # --- helpers --------------------------------------------------------------------------------

    def key(self, guardrail_id: str) -> Key:
        return gateway_keys.guardrail_key(guardrail_id, self.context.workspace())

    def _to_guardrails(self, found: list[Item]) -> list[GatewayGuardrail]:
        """Guardrails as MLflow shows them; one request reads the endpoints of all of them."""
        endpoints = self.table.get_many(key for item in found for key in action_endpoint(item))
        return [to_guardrail(item, endpoints) for item in found]


def action_endpoint(item: Item) -> list[Key]:
    """The key of the endpoint that a guardrail calls, if it calls one."""
    if item["action_endpoint_id"] is None:
        return []
    return [Key(item["PK"], gateway_keys.endpoint_key(item["action_endpoint_id"]).sk)]


def to_guardrail(item: Item, endpoints: Mapping[Key, Item]) -> GatewayGuardrail:
    """A guardrail as MLflow shows it, with the name of the endpoint that it calls."""
    called = [endpoints[key] for key in action_endpoint(item) if key in endpoints]
    return GatewayGuardrail(
        guardrail_id=item["guardrail_id"],
        name=item["name"],
        scorer=_scorer_of(item),
        stage=GuardrailStage(item["stage"]),
        action=GuardrailAction(item["action"]),
        created_at=item["created_at"],
        last_updated_at=item["updated_at"],
        action_endpoint_name=called[0]["name"] if called else None,
        created_by=item["created_by"],
        last_updated_by=item["updated_by"],
        workspace=access_keys.workspace_of(item["PK"]),
    )


def _copied(scorer: ScorerVersion) -> Item:
    """The attributes of a guardrail that copy its scorer version."""
    return {
        "scorer_id": scorer.scorer_id,
        "scorer_version": scorer.scorer_version,
        "scorer_name": scorer.scorer_name,
        "scorer_experiment_id": str(scorer.experiment_id),
        "scorer_created": scorer.creation_time,
        "scorer": large_values.pack(serialized_scorer(scorer)),
    }


def _scorer_of(item: Item) -> ScorerVersion:
    return ScorerVersion(
        experiment_id=item["scorer_experiment_id"],
        scorer_name=item["scorer_name"],
        scorer_version=item["scorer_version"],
        serialized_scorer=str(large_values.unpack(item["scorer"], item, "scorer")),
        creation_time=item["scorer_created"],
        scorer_id=item["scorer_id"],
    )


def _check_is_not_code(scorer: ScorerVersion) -> None:
    """Refuse a scorer with source code for the server to run, as MLflow does since 3.16."""
    if serialized_scorer_is_custom_code(serialized_scorer(scorer)):
        raise invalid(
            "Gateway guardrails do not support custom scorers defined with the @scorer "
            "decorator. Use a built-in scorer or a judge created with make_judge."
        )
