"""Budget policies: what gateway calls may cost in a period, and what happens beyond that."""

from __future__ import annotations

from enum import Enum

from boto3.dynamodb.conditions import Attr
from mlflow.entities.gateway_budget_policy import (
    BudgetAction,
    BudgetDuration,
    BudgetDurationUnit,
    BudgetTargetScope,
    BudgetUnit,
    GatewayBudgetPolicy,
)
from mlflow.store.entities.paged_list import PagedList
from mlflow.store.tracking import SEARCH_MAX_RESULTS_DEFAULT
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.gateway import endpoint_records
from mlflow_dynamodbstore.gateway.items import new_item, no_such
from mlflow_dynamodbstore.gateway.paging import page_of
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.table.contract import Check, Patch, Put, Write
from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

ENTITY = "BudgetPolicy"
OF_ENDPOINT = "ENDPOINT"
TARGETED = (OF_ENDPOINT, "USER")  # MLflow has budgets of users since 3.16


class Budgets:
    """The budget policies of a workspace."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.table = context.table

    def create_budget_policy(
        self,
        budget_unit: BudgetUnit,
        budget_amount: float,
        duration: BudgetDuration,
        target_scope: BudgetTargetScope,
        budget_action: BudgetAction,
        created_by: str | None = None,
        target_value: str | None = None,
    ) -> GatewayBudgetPolicy:
        policy_id = f"bp-{ids.new_id()}"
        key = self._key(policy_id)
        scope = _value(target_scope)
        item: Item = {
            **new_item(key, created_by),
            "policy_id": policy_id,
            "unit": _value(budget_unit),
            "amount": float(budget_amount),
            "duration_unit": duration.unit.value,
            "duration_value": duration.value,
            "scope": scope,
            "target": _target(scope, target_value),
            "action": _value(budget_action),
        }
        policy = _to_policy(item)  # first, so that what MLflow refuses is not written
        if scope == OF_ENDPOINT:
            self._write_if_target_exists(Put(item), item["target"])
        else:
            self.table.put(item)
        return policy

    def get_budget_policy(self, budget_policy_id: str) -> GatewayBudgetPolicy:
        return _to_policy(self._get_item(budget_policy_id))

    def update_budget_policy(
        self,
        budget_policy_id: str,
        budget_unit: BudgetUnit | None = None,
        budget_amount: float | None = None,
        duration: BudgetDuration | None = None,
        target_scope: BudgetTargetScope | None = None,
        budget_action: BudgetAction | None = None,
        updated_by: str | None = None,
        target_value: str | None = None,
    ) -> GatewayBudgetPolicy:
        given = {
            "unit": _value(budget_unit),
            "amount": None if budget_amount is None else float(budget_amount),
            "duration_unit": duration.unit.value if duration else None,
            "duration_value": duration.value if duration else None,
            "action": _value(budget_action),
            "updated_by": updated_by,
        }
        changes: Item = {name: value for name, value in given.items() if value is not None}
        scope = _value(target_scope)
        item = optimistically(
            f"Budget policy '{budget_policy_id}'",
            lambda: self._update(budget_policy_id, changes, scope, target_value),
        )
        return _to_policy(item)

    def delete_budget_policy(self, budget_policy_id: str) -> None:
        try:
            self.table.delete(self._key(budget_policy_id), condition=PRESENT)
        except ConditionFailed as refused:
            raise no_such(ENTITY, budget_policy_id=budget_policy_id) from refused

    def list_budget_policies(
        self, max_results: int = SEARCH_MAX_RESULTS_DEFAULT, page_token: str | None = None
    ) -> PagedList[GatewayBudgetPolicy]:
        partition = access_keys.workspace_pk(self.context.workspace())
        found, token = page_of(self.table, partition, gateway_keys.BUDGETS, max_results, page_token)
        return PagedList([_to_policy(item) for item in found], token)

    # --- helpers --------------------------------------------------------------------------------

    def _key(self, policy_id: str) -> Key:
        return gateway_keys.budget_key(policy_id, self.context.workspace())

    def _get_item(self, policy_id: str) -> Item:
        item = self.table.get(self._key(policy_id))
        if item is None:
            raise no_such(ENTITY, budget_policy_id=policy_id)
        return item

    def _update(
        self, policy_id: str, given: Item, new_scope: str | None, target: str | None
    ) -> Item:
        before = self._get_item(policy_id)
        scope = new_scope or before["scope"]
        # A target belongs to the scope that it was given for.
        kept = before["target"] if scope == before["scope"] else None
        update = Update(
            set={
                **given,
                "scope": scope,
                "target": _target(scope, kept if target is None else target),
                "updated_at": get_current_time_millis(),
            }
        )
        # The new scope and target depend on both old ones, so neither may have changed.
        same = Attr("scope").eq(before["scope"]) & Attr("target").eq(before["target"])
        key = self.table.schema.key_of(before)
        if scope == OF_ENDPOINT and target is not None:
            self._write_if_target_exists(Patch(key, update, condition=same), target)
        else:
            self.table.update(key, update, condition=same)
        return update.apply(before)

    def _write_if_target_exists(self, write: Write, endpoint_id: str) -> None:
        """Write the policy of an endpoint that must exist."""
        endpoint = gateway_keys.endpoint_key(endpoint_id, self.context.workspace())
        try:
            self.table.transact([Check(endpoint, PRESENT), write])
        except TransactionCancelled as cancelled:
            if not cancelled.refused(0):
                raise
            raise no_such(endpoint_records.ENTITY, endpoint_id=endpoint_id) from cancelled


def _to_policy(item: Item) -> GatewayBudgetPolicy:
    """A budget policy as MLflow shows it."""
    return GatewayBudgetPolicy(
        budget_policy_id=item["policy_id"],
        budget_unit=BudgetUnit(item["unit"]),
        budget_amount=item["amount"],
        duration=BudgetDuration(
            unit=BudgetDurationUnit(item["duration_unit"]), value=item["duration_value"]
        ),
        target_scope=BudgetTargetScope(item["scope"]),
        budget_action=BudgetAction(item["action"]),
        created_at=item["created_at"],
        last_updated_at=item["updated_at"],
        created_by=item["created_by"],
        last_updated_by=item["updated_by"],
        workspace=access_keys.workspace_of(item["PK"]),
        target_value=item["target"],
    )


def _target(scope: str | None, target: str | None) -> str | None:
    """The target of a policy: required in the scopes of one endpoint or user, else None."""
    if scope not in TARGETED:
        return None
    if not target:
        raise invalid(f"target_value is required when target_scope is {scope}.")
    return target


def _value(given: Enum | str | None) -> str | None:
    """The stored text of a value that may be a member of an enumeration or a plain text."""
    return str(given.value) if isinstance(given, Enum) else given
