"""No workspace can see, use or change the gateway's entities of another."""

from __future__ import annotations

import pytest
from mlflow.entities import GatewayEndpointTag
from mlflow.entities.gateway_budget_policy import (
    BudgetAction,
    BudgetDuration,
    BudgetDurationUnit,
    BudgetTargetScope,
    BudgetUnit,
)
from mlflow.entities.gateway_guardrail import GuardrailAction, GuardrailStage
from mlflow.entities.workspace import Workspace, WorkspaceDeletionMode
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.workspaces.store import DynamoDBWorkspaceStore
from tests.gateway.making import a_definition, a_scorer, a_secret, an_endpoint, config
from tests.stores import everything_in, refused

MISSING = "RESOURCE_DOES_NOT_EXIST"
ENDPOINT = BudgetTargetScope.ENDPOINT
MONTH = BudgetDuration(BudgetDurationUnit.MONTHS, 1)


@pytest.fixture(autouse=True)
def enabled(monkeypatch):
    monkeypatch.setenv("MLFLOW_ENABLE_WORKSPACES", "true")


class Made:
    """One of everything, under the same names in every workspace."""

    def __init__(self, store):
        self.secret = a_secret(store)
        self.definition = a_definition(store, "gpt", self.secret)
        self.endpoint = an_endpoint(store, "chat", self.definition).endpoint_id
        store.set_gateway_endpoint_tag(self.endpoint, GatewayEndpointTag("team", "a"))
        store.create_endpoint_binding(self.endpoint, "scorer", "5d1c")
        scorer = a_scorer(store)
        self.scorer = (scorer.scorer_id, scorer.scorer_version)
        self.guardrail = store.create_gateway_guardrail(
            "safe", *self.scorer, GuardrailStage.BEFORE, GuardrailAction.VALIDATION
        ).guardrail_id
        store.add_guardrail_to_endpoint(self.endpoint, self.guardrail)
        self.budget = store.create_budget_policy(
            BudgetUnit.USD, 5, MONTH, ENDPOINT, BudgetAction.REJECT, target_value=self.endpoint
        ).budget_policy_id


def listed(store):
    return [
        [one.secret_id for one in store.list_secret_infos()],
        [one.model_definition_id for one in store.list_gateway_model_definitions()],
        [one.endpoint_id for one in store.list_gateway_endpoints()],
        [one.endpoint_id for one in store.list_endpoint_bindings()],
        [one.guardrail_id for one in store.list_gateway_guardrails()],
        [one.budget_policy_id for one in store.list_budget_policies()],
    ]


def test_each_workspace_lists_and_resolves_its_own_under_the_same_names(store):
    for team in ("one", "two"):
        with WorkspaceContext(team):
            made = Made(store)
            assert listed(store) == [
                [made.secret],
                [made.definition],
                [made.endpoint],
                [made.endpoint],
                [made.guardrail],
                [made.budget],
            ]
            assert store.get_secret_info(secret_name="key").workspace == team
            config = store.gateway_endpoint_config("chat")
            assert [one.model_definition_id for one in config.models] == [made.definition]
    with WorkspaceContext("three"):
        assert listed(store) == [[]] * 6
        with refused(MISSING, "not found"):
            store.gateway_endpoint_config("chat")


def test_what_belongs_to_another_workspace_does_not_exist(store):
    with WorkspaceContext("one"):
        theirs = Made(store)
    before = everything_in(store.table)
    with WorkspaceContext("two"):
        for call in (
            lambda: store.get_secret_info(secret_id=theirs.secret),
            lambda: store.update_gateway_secret(theirs.secret, {"api_key": "x"}),
            lambda: store.delete_gateway_secret(theirs.secret),
            lambda: store._get_decrypted_secret(theirs.secret),
            lambda: store.create_gateway_model_definition("m", theirs.secret, "openai", "gpt"),
            lambda: store.get_gateway_model_definition(theirs.definition),
            lambda: store.update_gateway_model_definition(theirs.definition, name="mine"),
            lambda: store.delete_gateway_model_definition(theirs.definition),
            lambda: store.create_gateway_endpoint("e", [config(theirs.definition)]),
            lambda: store.get_gateway_endpoint(theirs.endpoint),
            lambda: store.update_gateway_endpoint(theirs.endpoint, name="mine"),
            lambda: store.delete_gateway_endpoint(theirs.endpoint),
            lambda: store.attach_model_to_endpoint(theirs.endpoint, config(theirs.definition)),
            lambda: store.detach_model_from_endpoint(theirs.endpoint, theirs.definition),
            lambda: store.set_gateway_endpoint_tag(theirs.endpoint, GatewayEndpointTag("a", "b")),
            lambda: store.delete_gateway_endpoint_tag(theirs.endpoint, "team"),
            lambda: store.create_endpoint_binding(theirs.endpoint, "scorer", "x"),
            lambda: store.delete_endpoint_binding(theirs.endpoint, "scorer", "5d1c"),
            lambda: store.get_budget_policy(theirs.budget),
            lambda: store.update_budget_policy(theirs.budget, budget_amount=1),
            lambda: store.delete_budget_policy(theirs.budget),
            lambda: store.create_budget_policy(
                BudgetUnit.USD, 5, MONTH, ENDPOINT, BudgetAction.ALERT, None, theirs.endpoint
            ),
            lambda: store.create_gateway_guardrail(
                "g", *theirs.scorer, GuardrailStage.BEFORE, GuardrailAction.VALIDATION
            ),
            lambda: store.get_gateway_guardrail(theirs.guardrail),
            lambda: store.delete_gateway_guardrail(theirs.guardrail),
            lambda: store.add_guardrail_to_endpoint(theirs.endpoint, theirs.guardrail),
            lambda: store.remove_guardrail_from_endpoint(theirs.endpoint, theirs.guardrail),
            lambda: store.list_endpoint_guardrail_configs(theirs.endpoint),
        ):
            with refused(MISSING, "not found"):
                call()
    assert everything_in(store.table) == before


@pytest.fixture
def team(store):
    """A workspace with one of everything, and the store of workspaces."""
    workspaces = DynamoDBWorkspaceStore("", table=store.table)
    workspaces.create_workspace(Workspace("team"))
    with WorkspaceContext("team"):
        made = Made(store)
        experiment_id = store.create_experiment("calls")
        store.gateway_costs.note_trace_metadata(
            experiment_id, {"mlflow.gateway.endpointId": made.endpoint}
        )
    return workspaces, made, experiment_id


def test_a_workspace_with_things_of_the_gateway_is_not_empty(store, team):
    workspaces, made, _ = team
    with WorkspaceContext("team"):
        for experiment in store.search_experiments():
            store.delete_experiment(experiment.experiment_id)
            store._hard_delete_experiment(experiment.experiment_id)
    with refused("INVALID_STATE", "table 'secrets' still contains 1 resource"):
        workspaces.delete_workspace("team")
    with WorkspaceContext("team"):
        store.delete_gateway_secret(made.secret)
    with refused("INVALID_STATE", "table 'endpoints' still contains 1 resource"):
        workspaces.delete_workspace("team")


def test_a_deleted_workspace_takes_everything_with_it(store, team):
    workspaces, _, _ = team
    workspaces.delete_workspace("team", WorkspaceDeletionMode.CASCADE)
    here = access_keys.workspace_pk("team")
    left = [item["SK"] for item in everything_in(store.table) if item["PK"] == here]
    assert [sk for sk in left if not sk.startswith("GWTRACED#")] == []


def test_things_moved_to_the_default_workspace_work_as_before(store, team):
    workspaces, made, experiment_id = team
    workspaces.delete_workspace("team", WorkspaceDeletionMode.SET_DEFAULT)
    with WorkspaceContext("default"):
        assert listed(store) == [
            [made.secret],
            [made.definition],
            [made.endpoint],
            [made.endpoint],
            [made.guardrail],
            [made.budget],
        ]
        (model,) = store.gateway_endpoint_config("chat").models
        assert model.secret_value == {"api_key": "sk-very-secret"}
        (guard,) = store.list_endpoint_guardrail_configs(made.endpoint)
        assert guard.guardrail_id == made.guardrail
        assert store.gateway_costs._traced_experiments("default") == [experiment_id]
        store.delete_gateway_endpoint(made.endpoint)
        store.delete_gateway_model_definition(made.definition)
        store.delete_gateway_secret(made.secret)
        assert listed(store)[:4] == [[]] * 4


def test_a_name_taken_in_the_default_workspace_is_told_before_anything_moves(store, team):
    workspaces, made, _ = team
    with WorkspaceContext("default"):
        a_secret(store)
        an_endpoint(store, "chat")
    with refused("INVALID_STATE", "- secrets: 'key'\n  - endpoints: 'chat'"):
        workspaces.delete_workspace("team", WorkspaceDeletionMode.SET_DEFAULT)
    with WorkspaceContext("team"):
        assert store.get_gateway_endpoint(name="chat").endpoint_id == made.endpoint
