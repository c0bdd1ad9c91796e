"""How many requests the gateway makes, above all for each call of an endpoint."""

from __future__ import annotations

import pytest

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.gateway.making import FALLBACK, a_definition, a_scorer, an_endpoint, config
from tests.gateway.test_guardrails import a_guardrail


class Measured:
    """A store whose requests are counted, and new stores with empty caches."""

    def __init__(self, uri: str):
        self._uri, self._engine = uri, MeteredEngine(open_engine(uri))
        self.store = self.fresh()

    def fresh(self) -> DynamoDBTrackingStore:
        return DynamoDBTrackingStore(self._uri, "/tmp", table=Table(self._engine))

    def requests(self, call) -> int:
        with self._engine.meter.measure() as used:
            call()
        return used.total_requests


@pytest.fixture
def measured(tmp_path):
    found = Measured(f"dynamodb:///{tmp_path / 'm.ddb'}?synchronous=NORMAL")
    yield found
    found.store.table.close()


@pytest.fixture
def endpoint(measured):
    """The id of an endpoint with an experiment and three models, each with its own secret."""
    models = [a_definition(measured.store, name) for name in "abc"]
    made = measured.store.create_gateway_endpoint(
        "chat", [config(models[0]), *(config(one, FALLBACK) for one in models[1:])]
    )
    return made.endpoint_id


def test_a_call_finds_its_configuration_in_one_request_and_in_none_for_a_minute(measured, endpoint):
    store = measured.fresh()
    resolve = lambda: store.gateway_endpoint_config("chat")  # noqa: E731
    assert measured.requests(resolve) == 4  # name, endpoint, models, secrets
    assert measured.requests(resolve) == 0
    store.endpoint_config_cache.invalidate()
    assert measured.requests(resolve) == 1
    assert len(resolve().models) == 3
    assert resolve().experiment_id is not None


def test_what_has_changed_meanwhile_is_seen_by_the_one_request(measured, endpoint):
    store = measured.fresh()
    store.gateway_endpoint_config("chat")
    store.endpoint_config_cache.invalidate()
    definition_id = store.get_gateway_endpoint(endpoint).model_mappings[0].model_definition_id
    secret_id = measured.store.get_gateway_model_definition(definition_id).secret_id
    measured.store.update_gateway_secret(secret_id, {"api_key": "sk-new"})
    measured.store.update_gateway_model_definition(definition_id, model_name="newer")
    assert measured.requests(lambda: store.gateway_endpoint_config("chat")) == 1
    model = store.gateway_endpoint_config("chat").models[0]
    assert (model.model_name, model.secret_value) == ("newer", {"api_key": "sk-new"})
    added = a_definition(measured.store, "added")
    measured.store.attach_model_to_endpoint(endpoint, config(added))
    store.endpoint_config_cache.invalidate()
    assert measured.requests(lambda: store.gateway_endpoint_config("chat")) == 3
    assert len(store.gateway_endpoint_config("chat").models) == 4


def test_a_call_finds_its_guardrails_in_one_request(measured, endpoint):
    store = measured.fresh()
    guardrails = lambda: store.list_endpoint_guardrail_configs(endpoint)  # noqa: E731
    assert measured.requests(guardrails) == 1
    scorer = a_scorer(measured.store)
    for _ in range(5):
        made = a_guardrail(measured.store, scorer, action_endpoint_id=endpoint)
        measured.store.add_guardrail_to_endpoint(endpoint, made.guardrail_id)
    assert measured.requests(guardrails) == 2
    assert measured.requests(guardrails) == 1
    assert len(guardrails()) == 5


def test_other_operations_take_few_requests_however_much_there_is(measured, endpoint):
    store = measured.store
    for n in range(10):
        an_endpoint(store, f"e{n}")
    mine = an_endpoint(store, "mine").endpoint_id
    definition = a_definition(store)
    binding = (mine, "scorer", "5d1c")
    for most, call in (
        (2, lambda: store.get_gateway_endpoint(endpoint)),
        (2, store.list_gateway_endpoints),
        (1, store.list_gateway_model_definitions),
        (1, store.list_secret_infos),
        (2, lambda: store.create_gateway_secret("new", {"api_key": "x"})),
        (2, lambda: store.attach_model_to_endpoint(mine, config(definition))),
        (2, lambda: store.detach_model_from_endpoint(mine, definition)),
        (1, lambda: store.create_endpoint_binding(*binding)),
        (1, lambda: store.list_endpoint_bindings(resource_type="scorer", resource_id="5d1c")),
        (1, lambda: store.delete_endpoint_binding(*binding)),
        (4, lambda: store.update_gateway_endpoint(mine, name="yours")),
        (3, lambda: store.delete_gateway_endpoint(mine)),
        (2, lambda: store.delete_gateway_model_definition(definition)),
    ):
        assert measured.requests(call) <= most
