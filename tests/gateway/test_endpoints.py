"""Endpoints: their models, experiments, tags and bindings."""

from __future__ import annotations

import pytest
from mlflow.entities import FallbackConfig, GatewayEndpointTag, RoutingStrategy
from mlflow.entities.gateway_endpoint import FallbackStrategy

from tests.gateway.making import FALLBACK, PRIMARY, a_definition, a_secret, an_endpoint, config
from tests.stores import everything_in, refused

MISSING = "RESOURCE_DOES_NOT_EXIST"
TAKEN = "RESOURCE_ALREADY_EXISTS"
INVALID = "INVALID_PARAMETER_VALUE"


def test_an_endpoint_comes_back_as_it_was_made(store, other):
    models = [a_definition(store, name) for name in ("a", "b")]
    made = store.create_gateway_endpoint(
        "chat",
        [config(models[0], weight=0.25), config(models[1], FALLBACK, fallback_order=1)],
        created_by="ada",
        routing_strategy=RoutingStrategy.REQUEST_BASED_TRAFFIC_SPLIT,
        fallback_config=FallbackConfig(FallbackStrategy.SEQUENTIAL, 2),
    )
    for known in (store, other):
        assert known.get_gateway_endpoint(name="chat") == made
        assert known.get_gateway_endpoint(made.endpoint_id) == made
        assert known.list_gateway_endpoints() == [made]
    first, second = made.model_mappings
    assert (first.weight, first.linkage_type, first.model_definition.name) == (0.25, PRIMARY, "a")
    assert (second.linkage_type, second.fallback_order) == (FALLBACK, 1)
    assert store.get_experiment(made.experiment_id).name == "gateway/chat"


def test_a_refused_endpoint_leaves_no_experiment_behind(store):
    definition = a_definition(store)
    an_endpoint(store, "chat", definition)
    with refused(TAKEN, "Endpoint with name 'chat' already exists"):
        store.create_gateway_endpoint("chat", [config(definition)])
    with refused(MISSING, "Model definitions not found: d-none"):
        store.create_gateway_endpoint("more", [config("d-none")])
    with refused(MISSING, "No Experiment with id=77 exists"):
        store.create_gateway_endpoint("more", [config(definition)], experiment_id="77")
    with refused(TAKEN, "is already attached to endpoint"):
        store.create_gateway_endpoint("more", [config(definition), config(definition)])
    assert store.get_experiment_by_name("gateway/chat") is None
    assert store.get_experiment_by_name("gateway/more") is None


def test_more_models_than_a_transaction_holds_are_refused_in_words(store):
    secret_id = a_secret(store)
    models = [a_definition(store, f"m{n}", secret_id) for n in range(98)]
    with refused(INVALID, "at most 97 different model definitions"):
        store.create_gateway_endpoint("chat", [config(one) for one in models])
    made = an_endpoint(store, "chat", *models[:97])
    with refused(INVALID, "at most 97 different model definitions"):
        store.attach_model_to_endpoint(made.endpoint_id, config(models[97]))
    store.attach_model_to_endpoint(made.endpoint_id, config(models[0], FALLBACK))
    store.delete_gateway_endpoint(made.endpoint_id)
    store.delete_gateway_model_definition(models[0])


def test_updating_changes_what_is_given_and_nothing_else(store, other):
    made = an_endpoint(store)
    renamed = store.update_gateway_endpoint(made.endpoint_id, name="talk", updated_by="ada")
    assert (renamed.name, renamed.last_updated_by) == ("talk", "ada")
    assert renamed.model_mappings == made.model_mappings
    with refused(MISSING, r"GatewayEndpoint not found \(name='chat'\)"):
        other.get_gateway_endpoint(name="chat")
    an_endpoint(store, "chat", a_definition(store))
    with refused(TAKEN, "Endpoint with name 'chat' already exists"):
        store.update_gateway_endpoint(made.endpoint_id, name="chat")
    with refused(MISSING, r"GatewayModelDefinition not found \(model_definition_id='d-none'\)"):
        store.update_gateway_endpoint(made.endpoint_id, model_configs=[config("d-none")])
    tracked = store.update_gateway_endpoint(made.endpoint_id, usage_tracking=True)
    assert store.get_experiment(tracked.experiment_id).name == "gateway/talk"
    assert other.get_gateway_endpoint(made.endpoint_id) == tracked


def test_a_renamed_endpoint_is_not_found_by_what_was_remembered_of_its_name(store, other):
    made = an_endpoint(store)
    assert other.get_gateway_endpoint(name="chat").endpoint_id == made.endpoint_id
    store.update_gateway_endpoint(made.endpoint_id, name="talk")
    another = an_endpoint(store, "chat", a_definition(store))
    assert other.get_gateway_endpoint(name="chat").endpoint_id == another.endpoint_id


def test_an_endpoint_forgets_an_experiment_that_is_gone(store, other):
    experiment_id = store.create_experiment("traced")
    made = an_endpoint(store, experiment_id=experiment_id, usage_tracking=True)
    store.delete_experiment(experiment_id)
    assert other.get_gateway_endpoint(made.endpoint_id).experiment_id == experiment_id
    store._hard_delete_experiment(experiment_id)
    assert other.get_gateway_endpoint(made.endpoint_id).experiment_id is None
    assert other.gateway_endpoint_config("chat").usage_tracking is False


def test_endpoints_are_found_by_provider_and_secret_and_without_models_not_at_all(store):
    secret_id = a_secret(store, "shared")
    first = an_endpoint(store, "one", a_definition(store, "a", secret_id))
    second = an_endpoint(store, "two", a_definition(store, "b"))
    assert [one.name for one in store.list_gateway_endpoints("openai")] == ["one", "two"]
    assert [one.name for one in store.list_gateway_endpoints(secret_id=secret_id)] == ["one"]
    assert store.list_gateway_endpoints("cohere") == []
    used = second.model_mappings[0].model_definition_id
    store.detach_model_from_endpoint(second.endpoint_id, used, "PRIMARY")
    assert [one.endpoint_id for one in store.list_gateway_endpoints()] == [first.endpoint_id]
    assert store.get_gateway_endpoint(name="two").model_mappings == []
    with refused(MISSING, "is not attached to endpoint .* with linkage type 'PRIMARY'"):
        store.detach_model_from_endpoint(second.endpoint_id, used, "PRIMARY")


@pytest.mark.parametrize("key", ["team", "a.b.c", "", "#", "t:x", "é" * 250])
def test_a_tag_of_any_name_can_be_set_changed_and_deleted(store, key):
    endpoint_id = an_endpoint(store).endpoint_id
    store.set_gateway_endpoint_tag(endpoint_id, GatewayEndpointTag("kept", "1"))
    for value in ("old", "new"):
        store.set_gateway_endpoint_tag(endpoint_id, GatewayEndpointTag(key, value))
    tags = {tag.key: tag.value for tag in store.get_gateway_endpoint(endpoint_id).tags}
    assert tags == {"kept": "1", key: "new"}
    store.delete_gateway_endpoint_tag(endpoint_id, key)
    store.delete_gateway_endpoint_tag(endpoint_id, key)
    assert [tag.key for tag in store.get_gateway_endpoint(endpoint_id).tags] == ["kept"]


def test_a_resource_is_bound_once_to_an_endpoint_that_exists(store):
    endpoint_id = an_endpoint(store).endpoint_id
    store.create_endpoint_binding(endpoint_id, "scorer", "one", "ada")
    with refused(TAKEN, "is already bound to scorer 'one'"):
        store.create_endpoint_binding(endpoint_id, "scorer", "one")
    with refused(MISSING, "GatewayEndpoint not found"):
        store.create_endpoint_binding("e-none", "scorer", "one")
    with refused(INVALID, "Invalid resource type 'car'"):
        store.create_endpoint_binding(endpoint_id, "car", "one")
    with refused(MISSING, "GatewayEndpointBinding not found"):
        store.delete_endpoint_binding(endpoint_id, "scorer", "two")
    assert [one.created_by for one in store.list_endpoint_bindings(endpoint_id)] == ["ada"]
    assert store.list_endpoint_bindings(resource_type="scorer", resource_id="two") == []


def test_a_scorer_is_bound_to_one_endpoint_at_a_time_under_its_name(store):
    first, second = an_endpoint(store, "one").endpoint_id, an_endpoint(store, "two").endpoint_id
    assert store.gateway_bindings.rebind_resource(first, "scorer", "5d1c", "fluency")
    assert store.gateway_bindings.rebind_resource(second, "scorer", "5d1c", "fluency")
    (bound,) = store.list_endpoint_bindings(resource_type="scorer", resource_id="5d1c")
    assert (bound.endpoint_id, bound.display_name) == (second, "fluency")
    assert not store.gateway_bindings.rebind_resource("e-none", "scorer", "5d1c", "fluency")
    store.gateway_bindings.unbind_resource("scorer", "5d1c")
    assert store.list_endpoint_bindings() == []


@pytest.mark.parametrize("bindings", [3, 120])
def test_a_deleted_endpoint_takes_its_bindings_and_tags_with_it(store, bindings):
    definition = a_definition(store)
    before = {(item["PK"], item["SK"]) for item in everything_in(store.table)}
    made = an_endpoint(store, "chat", definition)
    store.set_gateway_endpoint_tag(made.endpoint_id, GatewayEndpointTag("team", "a"))
    for n in range(bindings):
        store.create_endpoint_binding(made.endpoint_id, "scorer", f"s{n}")
    store.delete_gateway_endpoint(made.endpoint_id)
    assert {(item["PK"], item["SK"]) for item in everything_in(store.table)} == before
    with refused(MISSING, "GatewayEndpoint not found"):
        store.delete_gateway_endpoint(made.endpoint_id)
