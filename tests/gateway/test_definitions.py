"""Model definitions: their names, their secrets, and that a used one is not deleted."""

from __future__ import annotations

from tests.gateway.making import FALLBACK, a_definition, a_secret, an_endpoint, config
from tests.stores import refused

MISSING = "RESOURCE_DOES_NOT_EXIST"
TAKEN = "RESOURCE_ALREADY_EXISTS"
IN_USE = "INVALID_STATE"


def test_renaming_frees_the_old_name_and_takes_the_new_one(store):
    first, second = a_definition(store, "one"), a_definition(store, "two")
    with refused(TAKEN, "Model definition with name 'two' already exists"):
        store.update_gateway_model_definition(first, name="two")
    store.update_gateway_model_definition(first, name="three", updated_by="ada")
    with refused(MISSING, r"GatewayModelDefinition not found \(name='one'\)"):
        store.get_gateway_model_definition(name="one")
    assert store.get_gateway_model_definition(name="three").model_definition_id == first
    store.update_gateway_model_definition(second, name="one")
    assert store.get_gateway_model_definition(name="one").model_definition_id == second


def test_a_definition_takes_only_a_secret_that_exists(store):
    with refused(MISSING, "GatewaySecret not found"):
        store.create_gateway_model_definition("m", "s-none", "openai", "gpt-4o")
    definition = a_definition(store)
    with refused(MISSING, "GatewaySecret not found"):
        store.update_gateway_model_definition(definition, secret_id="s-none")
    another = a_secret(store, "another")
    changed = store.update_gateway_model_definition(definition, secret_id=another, provider="x")
    assert (changed.secret_name, changed.provider) == ("another", "x")
    assert store.get_gateway_model_definition(definition) == changed


def test_what_no_longer_refers_to_a_secret_is_not_touched_when_it_is_deleted(store):
    old, new = a_secret(store, "old"), a_secret(store, "new")
    definition = a_definition(store, "m", old)
    store.update_gateway_model_definition(definition, secret_id=new)
    store.delete_gateway_secret(old)
    assert store.get_gateway_model_definition(definition).secret_id == new


def test_a_definition_can_be_deleted_once_the_last_endpoint_has_let_go_of_it(store):
    used, spare = a_definition(store, "used"), a_definition(store, "spare")
    endpoint = an_endpoint(store, "chat", used)
    store.attach_model_to_endpoint(endpoint.endpoint_id, config(used, FALLBACK))
    another = an_endpoint(store, "other", used)
    lets_go = [
        lambda: store.detach_model_from_endpoint(endpoint.endpoint_id, used),
        lambda: store.update_gateway_endpoint(endpoint.endpoint_id, model_configs=[config(spare)]),
        lambda: store.delete_gateway_endpoint(another.endpoint_id),
    ]
    for let_go in lets_go:
        with refused(IN_USE, "currently in use by endpoints"):
            store.delete_gateway_model_definition(used)
        let_go()
    store.delete_gateway_model_definition(used)
    with refused(MISSING, "not found"):
        store.get_gateway_model_definition(used)
    with refused(IN_USE, "currently in use"):
        store.delete_gateway_model_definition(spare)
