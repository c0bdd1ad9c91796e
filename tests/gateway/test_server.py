"""MLflow's server serves gateway calls from our store, and other stores as before."""

from __future__ import annotations

import asyncio
import json
import sys
from types import ModuleType
from typing import Any

import pytest
from fastapi import FastAPI, HTTPException
from mlflow.exceptions import MlflowException
from mlflow.gateway.schemas import chat
from mlflow.server import gateway_api, handlers
from mlflow.store.tracking.gateway import config_resolver

from mlflow_dynamodbstore.mlflow_compat.gateway_routes import (
    RESOLVER,
    ROUTES,
    serve_gateway_calls,
)
from mlflow_dynamodbstore.plugin import tracking_store
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.gateway.making import an_endpoint

routes: Any = gateway_api
resolver: Any = config_resolver
REPLACED = {
    gateway_api: ("_validate_store", "get_endpoint_config"),
    config_resolver: ("get_endpoint_config", "get_resource_endpoint_configs"),
}


@pytest.fixture
def ours(tmp_path, monkeypatch):
    """The store as the server gets it; afterwards the server has its own functions again."""
    for module, names in REPLACED.items():
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name))
    made = tracking_store(f"dynamodb:///{tmp_path / 'm.ddb'}?synchronous=NORMAL")
    yield made
    made.table.close()


async def posted(path, body):
    """The status and body with which MLflow's gateway routes answer a request."""
    app, sent = FastAPI(), []
    app.include_router(gateway_api.gateway_router)

    async def receive():
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""}
    await app({**scope, "scheme": "http", "server": ("test", 80)}, receive, send)
    text = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], json.loads(text)


def test_the_routes_take_our_store_and_find_its_endpoints(ours, monkeypatch):
    """A chat call goes through MLflow's own route to a provider with the decrypted secret."""
    an_endpoint(ours, "chat")
    seen = []

    class Provider:
        async def chat(self, payload):
            message = {"role": "assistant", "content": "hello"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            return chat.ResponsePayload.model_validate(
                {"id": "1", "created": 1, "model": "gpt", "choices": [choice], "usage": usage}
            )

    def provider(config, *_args, **_kwargs):
        seen.append(config)
        return Provider()

    monkeypatch.setattr(gateway_api, "_get_store", lambda: ours)
    monkeypatch.setattr(handlers, "_get_model_registry_store", lambda: None)  # for webhooks
    monkeypatch.setattr(gateway_api, "_create_provider", provider)
    message = {"messages": [{"role": "user", "content": "hi"}]}
    status, answer = asyncio.run(posted("/gateway/chat/mlflow/invocations", message))
    assert status == 200, answer
    assert answer["choices"][0]["message"]["content"] == "hello"
    assert seen[0].models[0].secret_value == {"api_key": "sk-very-secret"}
    status, _ = asyncio.run(posted("/gateway/none/mlflow/invocations", message))
    assert status == 404


def test_mlflows_resolver_knows_our_store(ours):
    endpoint = an_endpoint(ours, "chat")
    ours.create_endpoint_binding(endpoint.endpoint_id, "scorer", "5d1c")
    for module in (resolver, routes):
        found = module.get_endpoint_config(endpoint_name="chat", store=ours)
        assert found.endpoint_id == endpoint.endpoint_id
    (found,) = resolver.get_resource_endpoint_configs("scorer", "5d1c", store=ours)
    assert found.models[0].secret_value == {"api_key": "sk-very-secret"}
    assert resolver.get_resource_endpoint_configs("scorer", "none", store=ours) == []


def test_a_changed_secret_is_not_served_from_memory(ours):
    endpoint = an_endpoint(ours, "chat")
    resolve = lambda: routes.get_endpoint_config("chat", ours).models[0]  # noqa: E731
    resolve()
    secret_id = ours.list_secret_infos()[0].secret_id
    ours.update_gateway_secret(secret_id, {"api_key": "sk-new"})
    assert resolve().secret_value == {"api_key": "sk-new"}
    ours.delete_gateway_endpoint(endpoint.endpoint_id)
    with pytest.raises(MlflowException, match="not found"):
        resolve()


def test_other_stores_are_refused_as_before(ours):
    with pytest.raises(HTTPException, match="only available with SqlAlchemyStore"):
        routes._validate_store(object())
    for call in (
        lambda: routes.get_endpoint_config("chat", object()),
        lambda: resolver.get_resource_endpoint_configs("scorer", "1", object()),
    ):
        with pytest.raises(MlflowException, match="only supported with SqlAlchemyStore"):
            call()


def test_functions_are_replaced_once_and_a_server_without_them_is_told(ours, monkeypatch, caplog):
    before = routes.get_endpoint_config
    serve_gateway_calls(DynamoDBTrackingStore)
    assert routes.get_endpoint_config is before
    assert not caplog.records
    monkeypatch.setitem(sys.modules, ROUTES, ModuleType(ROUTES))
    monkeypatch.delitem(sys.modules, RESOLVER)
    serve_gateway_calls(DynamoDBTrackingStore)
    assert "has no mlflow.server.gateway_api._validate_store()" in caplog.text
    assert len(caplog.records) == 1


def test_a_program_that_serves_nothing_is_left_alone(monkeypatch):
    monkeypatch.delitem(sys.modules, ROUTES)
    monkeypatch.delitem(sys.modules, RESOLVER)
    before = [getattr(module, name) for module, names in REPLACED.items() for name in names]
    serve_gateway_calls(DynamoDBTrackingStore)
    assert not {ROUTES, RESOLVER} & set(sys.modules)
    assert before == [getattr(module, name) for module, names in REPLACED.items() for name in names]
