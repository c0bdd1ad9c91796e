"""Guardrails, and the order in which an endpoint applies them."""

from __future__ import annotations

import json

from mlflow.entities.gateway_guardrail import GuardrailAction, GuardrailStage

from tests.gateway.making import a_scorer, an_endpoint
from tests.releases import needs
from tests.stores import refused

MISSING = "RESOURCE_DOES_NOT_EXIST"
BEFORE, VALIDATION = GuardrailStage.BEFORE, GuardrailAction.VALIDATION


def a_guardrail(store, scorer=None, **more):
    scorer = scorer or a_scorer(store)
    return store.create_gateway_guardrail(
        "safe", scorer.scorer_id, scorer.scorer_version, BEFORE, VALIDATION, **more
    )


def test_a_guardrail_comes_back_as_it_was_made(store, other):
    endpoint = an_endpoint(store, "fixer")
    made = a_guardrail(store, action_endpoint_id=endpoint.endpoint_id, created_by="ada")
    found = other.get_gateway_guardrail(made.guardrail_id)
    assert vars(found.scorer) == vars(made.scorer)
    assert (found.action_endpoint_name, found.created_by) == ("fixer", "ada")
    store.update_gateway_endpoint(endpoint.endpoint_id, name="better fixer")
    assert other.list_gateway_guardrails()[0].action_endpoint_name == "better fixer"
    store.delete_gateway_endpoint(endpoint.endpoint_id)
    assert other.get_gateway_guardrail(made.guardrail_id).action_endpoint_name is None


def test_a_guardrail_judges_on_when_its_scorer_is_deleted(store, other):
    scorer = a_scorer(store)
    made = a_guardrail(store, scorer)
    store.delete_scorer(scorer.experiment_id, scorer.scorer_name)
    kept = other.get_gateway_guardrail(made.guardrail_id).scorer
    assert kept._serialized_scorer == made.scorer._serialized_scorer


@needs("refusal of code in guardrails")
def test_a_guardrail_takes_no_code(store):
    experiment_id = store.create_experiment("code")
    code = json.dumps({"name": "mine", "call_source": "return True", "original_func_name": "f"})
    scorer = store.register_scorer(experiment_id, "mine", code)
    with refused("INVALID_PARAMETER_VALUE", "do not support custom scorers"):
        a_guardrail(store, scorer)
    assert store.list_gateway_guardrails() == []


def test_a_guardrail_takes_no_endpoint_that_is_not_there(store):
    with refused(MISSING, r"GatewayEndpoint not found \(endpoint_id='e-none'\)"):
        a_guardrail(store, action_endpoint_id="e-none")
    assert store.list_gateway_guardrails() == []


def test_an_endpoint_applies_its_guardrails_in_order(store, other):
    endpoint_id, scorer = an_endpoint(store).endpoint_id, a_scorer(store)
    made = [a_guardrail(store, scorer).guardrail_id for _ in range(4)]
    for guardrail_id, order in zip(made, (None, 7, 3, 7), strict=True):
        store.add_guardrail_to_endpoint(endpoint_id, guardrail_id, order)
    configs = other.list_endpoint_guardrail_configs(endpoint_id)
    assert [one.guardrail_id for one in configs] == [made[2], made[1], made[3], made[0]]
    changed = store.update_endpoint_guardrail_config(endpoint_id, made[0], 1)
    assert (changed.execution_order, changed.guardrail.name) == (1, "safe")
    store.delete_gateway_guardrail(made[2])
    store.remove_guardrail_from_endpoint(endpoint_id, made[3])
    configs = other.list_endpoint_guardrail_configs(endpoint_id)
    assert [one.guardrail_id for one in configs] == [made[0], made[1]]


def test_what_an_endpoint_does_not_have_cannot_be_changed(store):
    endpoint_id, guardrail_id = an_endpoint(store).endpoint_id, a_guardrail(store).guardrail_id
    for change in (store.update_endpoint_guardrail_config, store.remove_guardrail_from_endpoint):
        for where in (endpoint_id, "e-none"):
            with refused(MISSING, "GuardrailConfig not found"):
                change(where, guardrail_id)
    with refused(MISSING, r"Endpoint not found \(endpoint_id='e-none'\)"):
        store.add_guardrail_to_endpoint("e-none", guardrail_id)
    with refused(MISSING, r"Guardrail not found \(guardrail_id='gr-none'\)"):
        store.add_guardrail_to_endpoint(endpoint_id, "gr-none")
    store.add_guardrail_to_endpoint(endpoint_id, guardrail_id)
    with refused("RESOURCE_ALREADY_EXISTS", "is already added to endpoint"):
        store.add_guardrail_to_endpoint(endpoint_id, guardrail_id)
    store.delete_gateway_guardrail(guardrail_id)
    with refused(MISSING, "GuardrailConfig not found"):
        store.update_endpoint_guardrail_config(endpoint_id, guardrail_id, 1)
