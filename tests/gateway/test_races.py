"""References stay valid when another process is faster, or when the process dies."""

from __future__ import annotations

import pytest
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.faults import CrashingEngine, SimulatedCrash
from tests.gateway.making import a_definition, a_secret, an_endpoint, config
from tests.stores import refused

MISSING = "RESOURCE_DOES_NOT_EXIST"


def first(store: DynamoDBTrackingStore, meanwhile) -> None:
    """Let something happen between what the store reads and its next transaction."""

    def disturbed(writes):
        del vars(store.table)["transact"]
        meanwhile()
        store.table.transact(writes)

    vars(store.table)["transact"] = disturbed


def test_a_secret_that_is_being_deleted_is_not_taken_by_a_new_definition(store, other):
    secret_id = a_secret(store)
    first(store, lambda: a_definition(other, "late", secret_id))
    store.delete_gateway_secret(secret_id)
    assert store.get_gateway_model_definition(name="late").secret_id is None
    another = a_secret(store, "another")
    first(other, lambda: store.delete_gateway_secret(another))
    with refused(MISSING, "GatewaySecret not found"):
        a_definition(other, "later", another)
    with refused(MISSING, "not found"):
        store.get_gateway_model_definition(name="later")


def test_a_definition_that_is_being_deleted_is_not_taken_by_an_endpoint(store, other):
    definition = a_definition(store)
    first(store, lambda: an_endpoint(other, "chat", definition))
    with refused("INVALID_STATE", "currently in use"):
        store.delete_gateway_model_definition(definition)
    unused = a_definition(store, "unused")
    endpoint_id = other.get_gateway_endpoint(name="chat").endpoint_id
    first(other, lambda: store.delete_gateway_model_definition(unused))
    with refused(MISSING, "GatewayModelDefinition not found"):
        other.attach_model_to_endpoint(endpoint_id, config(unused))


def test_a_deleted_endpoint_leaves_no_binding_that_was_made_meanwhile(store, other):
    endpoint_id = an_endpoint(store).endpoint_id
    first(store, lambda: other.create_endpoint_binding(endpoint_id, "scorer", "late"))
    store.delete_gateway_endpoint(endpoint_id)
    assert store.list_endpoint_bindings() == []


def test_two_who_attach_at_once_both_succeed(store, other):
    models = [a_definition(store, name) for name in "abc"]
    endpoint_id = an_endpoint(store, "chat", models[0]).endpoint_id
    first(store, lambda: other.attach_model_to_endpoint(endpoint_id, config(models[1])))
    store.attach_model_to_endpoint(endpoint_id, config(models[2]))
    attached = store.get_gateway_endpoint(endpoint_id).model_mappings
    assert [one.model_definition_id for one in attached] == models
    with refused("RESOURCE_ALREADY_EXISTS", "is already attached"):
        first(store, lambda: None)
        store.attach_model_to_endpoint(endpoint_id, config(models[1]))


def test_one_of_two_gets_a_name(store, other):
    endpoint_id = an_endpoint(store, "mine").endpoint_id
    first(store, lambda: an_endpoint(other, "wanted"))
    with refused("RESOURCE_ALREADY_EXISTS", "'wanted' already exists"):
        store.update_gateway_endpoint(endpoint_id, name="wanted")
    assert store.get_gateway_endpoint(name="mine").endpoint_id == endpoint_id


@pytest.mark.parametrize("when", ["before", "during", "after"])
@pytest.mark.parametrize("what", ["secret", "endpoint"])
def test_a_deletion_that_died_anywhere_can_be_finished(store, time, when, what):
    """No item refers to a deleted one, wherever the process dies."""
    secret_id = a_secret(store)
    definitions = [a_definition(store, f"m{n}", secret_id) for n in range(110)]
    endpoint_id = an_endpoint(store, "chat", definitions[0]).endpoint_id
    for n in range(110):
        store.create_endpoint_binding(endpoint_id, "scorer", f"s{n}")
    deaths, done = 0, False
    while not done:
        engine = CrashingEngine(store.table.engine, at=deaths + 1, when=when)
        dying = DynamoDBTrackingStore.on(Table(engine, clock=time))
        try:
            if what == "secret":
                dying.delete_gateway_secret(secret_id)
            else:
                dying.delete_gateway_endpoint(endpoint_id)
            done = True
        except SimulatedCrash:
            deaths += 1
        except MlflowException as gone:  # it had died after the last write
            done = gone.error_code == MISSING
        check_references(store)
    assert deaths
    if what == "secret":
        assert store.list_secret_infos() == []
    else:
        assert store.list_gateway_endpoints() == []
        assert store.list_endpoint_bindings() == []
        store.delete_gateway_model_definition(definitions[0])


def check_references(store: DynamoDBTrackingStore) -> None:
    secrets = {one.secret_id for one in store.list_secret_infos()}
    definitions = {one.model_definition_id: one for one in store.list_gateway_model_definitions()}
    endpoints = {one.endpoint_id: one for one in store.list_gateway_endpoints()}
    assert {one.secret_id for one in definitions.values()} - {None} <= secrets
    assert {one.endpoint_id for one in store.list_endpoint_bindings()} <= set(endpoints)
    for endpoint in endpoints.values():
        assert {one.model_definition_id for one in endpoint.model_mappings} <= set(definitions)
