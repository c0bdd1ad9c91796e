"""Cleanup keeps the gateway's entities, and removes items whose owner is gone."""

from __future__ import annotations

import pytest

from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.keys.item_kinds import UNKNOWN, describe_item
from mlflow_dynamodbstore.table.contract import Delete
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup
from tests.gateway.test_workspaces import Made
from tests.stores import everything_in


@pytest.fixture
def made(store):
    things = Made(store)
    experiment_id = store.create_experiment("calls")
    store.gateway_costs.note_trace_metadata(
        experiment_id, {"mlflow.gateway.endpointId": things.endpoint}
    )
    return things


def keys_in(store):
    return {(item["PK"], item["SK"]) for item in everything_in(store.table)}


def test_everything_is_known_and_nothing_is_taken_away(store, time, made):
    before = keys_in(store)
    assert not [i for i in everything_in(store.table) if describe_item(i).kind == UNKNOWN]
    assert Cleanup(store.table, sleep=time.sleep).run().orphans == 0
    assert keys_in(store) == before


def test_guards_and_bindings_of_what_is_gone_go_too(store, time, made):
    gone = [
        gateway_keys.secret_key(made.secret),
        gateway_keys.model_definition_key(made.definition),
        gateway_keys.endpoint_key(made.endpoint),
    ]
    before = keys_in(store)
    store.table.write([Delete(key) for key in gone])
    assert Cleanup(store.table, sleep=time.sleep).run().orphans == 4
    assert before - keys_in(store) - {tuple(key) for key in gone} == {
        tuple(key)
        for key in (
            gateway_keys.secret_name_guard("key"),
            gateway_keys.model_definition_name_guard("gpt"),
            gateway_keys.endpoint_name_guard("chat"),
            gateway_keys.binding_key("scorer", "5d1c", made.endpoint),
        )
    }
