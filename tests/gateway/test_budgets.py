"""Budget policies, and the costs that they are compared with."""

from __future__ import annotations

import itertools

import pytest
from mlflow.entities import TraceInfo
from mlflow.entities.gateway_budget_policy import (
    BudgetAction,
    BudgetDuration,
    BudgetDurationUnit,
    BudgetTargetScope,
    BudgetUnit,
)
from mlflow.entities.trace_location import TraceLocation
from mlflow.entities.trace_state import TraceState
from mlflow.utils.workspace_context import WorkspaceContext

from tests.gateway.making import an_endpoint
from tests.releases import needs
from tests.stores import refused

INVALID = "INVALID_PARAMETER_VALUE"
MISSING = "RESOURCE_DOES_NOT_EXIST"
DAY = BudgetDuration(BudgetDurationUnit.DAYS, 1)
SCOPE = BudgetTargetScope


def a_policy(store, scope=SCOPE.GLOBAL, target=None, amount=10):
    return store.create_budget_policy(
        BudgetUnit.USD, amount, DAY, scope, BudgetAction.REJECT, "ada", target
    )


def test_a_policy_comes_back_as_it_was_made(store, other):
    made = a_policy(store, amount=0.1 + 0.2)
    assert made.budget_amount == 0.1 + 0.2
    assert other.get_budget_policy(made.budget_policy_id) == made
    assert list(other.list_budget_policies()) == [made]


@needs("budgets of users")
def test_a_scope_with_a_target_needs_one_that_exists(store):
    for scope in (SCOPE.ENDPOINT, SCOPE.USER):
        with refused(INVALID, f"target_value is required when target_scope is {scope.value}"):
            a_policy(store, scope)
    with refused(MISSING, r"GatewayEndpoint not found \(endpoint_id='e-none'\)"):
        a_policy(store, SCOPE.ENDPOINT, "e-none")
    assert a_policy(store, SCOPE.USER, "bob").target_value == "bob"
    assert a_policy(store, SCOPE.WORKSPACE, "stray").target_value is None


@needs("budgets of users")
def test_a_new_scope_never_adopts_the_old_target(store):
    endpoint_id = an_endpoint(store).endpoint_id
    policy_id = a_policy(store, SCOPE.ENDPOINT, endpoint_id).budget_policy_id
    with refused(INVALID, "target_value is required when target_scope is USER"):
        store.update_budget_policy(policy_id, target_scope=SCOPE.USER)
    changed = store.update_budget_policy(policy_id, target_scope="USER", target_value="bob")
    assert (changed.target_scope, changed.target_value) == (SCOPE.USER, "bob")
    assert store.update_budget_policy(policy_id, budget_amount=3).target_value == "bob"
    assert store.update_budget_policy(policy_id, target_scope=SCOPE.GLOBAL).target_value is None
    assert store.get_budget_policy(policy_id).budget_amount == 3.0


def test_pages_follow_the_ids_and_stay_right_while_policies_come_and_go(store):
    made = [a_policy(store).budget_policy_id for _ in range(5)]
    first = store.list_budget_policies(max_results=2)
    assert [one.budget_policy_id for one in first] == made[:2]
    store.delete_budget_policy(made[0])
    store.delete_budget_policy(made[2])
    made.append(a_policy(store).budget_policy_id)
    second = store.list_budget_policies(max_results=2, page_token=first.token)
    third = store.list_budget_policies(max_results=2, page_token=second.token)
    assert [one.budget_policy_id for one in [*second, *third]] == made[3:]
    assert third.token is None
    with refused(INVALID, "page token"):
        store.list_budget_policies(page_token="nonsense")
    with refused(INVALID, "belongs to another|wrong type|Invalid page token"):
        store.list_budget_policies(page_token=first.token[:-8])


# --- costs --------------------------------------------------------------------------------------

ids = itertools.count()


def a_call(store, experiment_id, time, cost, endpoint="e-1", user=None):
    """A trace of a gateway call."""
    metadata = {"mlflow.trace.cost": f'{{"total_cost": {cost}}}'}
    if endpoint is not None:
        metadata["mlflow.gateway.endpointId"] = endpoint
    if user is not None:
        metadata["mlflow.auth.username"] = user
    store.start_trace(
        TraceInfo(
            trace_id=f"tr-{next(ids)}",
            trace_location=TraceLocation.from_experiment_id(experiment_id),
            request_time=time,
            state=TraceState.OK,
            trace_metadata=metadata,
            execution_duration=1,
        )
    )


def test_costs_are_summed_by_time_endpoint_and_user(store, other):
    first, second = store.create_experiment("one"), store.create_experiment("two")
    a_call(store, first, 1000, 1.0, "e-1", "ada")
    a_call(store, first, 1999, 2.0, "e-2", "bob")
    a_call(store, second, 1500, 4.0, "e-1", "bob")
    a_call(store, second, 2000, 8.0, "e-1", "ada")
    a_call(store, second, 1500, 16.0, endpoint=None, user="ada")
    spent = other.sum_gateway_trace_cost
    assert spent(1000, 2000) == 7.0
    assert spent(1000, 2001) == 15.0
    assert spent(1000, 2000, endpoint_id="e-1") == 5.0
    assert spent(1000, 2000, username="bob") == 6.0
    assert spent(1000, 2001, endpoint_id="e-1", username="ada") == 9.0
    assert spent(1000, 2000, username="nobody") == 0.0
    assert spent(0, 1000) == 0.0


def test_costs_follow_the_spans_that_arrive_later_and_the_traces_that_go(store):
    experiment_id = store.create_experiment("one")
    a_call(store, experiment_id, 1000, 1.5)
    a_call(store, experiment_id, 1001, 2.0)
    assert store.sum_gateway_trace_cost(0, 5000) == 3.5
    store.delete_traces(experiment_id, max_timestamp_millis=1000)
    assert store.sum_gateway_trace_cost(0, 5000) == 2.0


@pytest.mark.parametrize("workspace", ["one", "two", None])
def test_a_sum_is_of_one_workspace_or_of_all(store, monkeypatch, workspace):
    monkeypatch.setenv("MLFLOW_ENABLE_WORKSPACES", "true")
    costs = {"one": 1.0, "two": 2.0, "default": 4.0}
    for name, cost in costs.items():
        with WorkspaceContext(name):
            a_call(store, store.create_experiment("calls"), 1000, cost)
    with WorkspaceContext("one"):
        found = store.sum_gateway_trace_cost(0, 5000, workspace=workspace)
    assert found == (sum(costs.values()) if workspace is None else costs[workspace])
