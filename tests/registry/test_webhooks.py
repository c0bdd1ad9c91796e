"""Webhooks: kept, listed by event, their secrets unreadable in the table."""

from __future__ import annotations

import socket
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from cryptography.fernet import Fernet
from mlflow.entities.webhook import WebhookAction, WebhookEntity, WebhookEvent, WebhookStatus
from mlflow.store.model_registry.dbmodels.models import SqlWebhook

from tests.registry.helpers import items_at, left_behind
from tests.stores import refused

CREATED = WebhookEvent(WebhookEntity.MODEL_VERSION, WebhookAction.CREATED)
TAGGED = WebhookEvent(WebhookEntity.MODEL_VERSION_TAG, WebhookAction.SET)
URL = "https://example.com/hook"


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """MLflow resolves a webhook's host before it is kept; answer for it here."""
    real = socket.getaddrinfo

    def getaddrinfo(host, port, *args, **kwargs):
        return real("93.184.215.14" if host == "example.com" else host, port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def test_a_webhook_comes_back_as_it_was_made(store, other):
    made = store.create_webhook("hook", URL, [CREATED, TAGGED], "text", "secret")
    found = other.get_webhook(made.webhook_id)
    assert vars(found) == vars(made)
    assert (found.name, found.url, found.secret) == ("hook", URL, "secret")
    assert found.events == [CREATED, TAGGED]
    assert found.status == WebhookStatus.ACTIVE


def test_secrets_are_not_readable_in_the_table(store):
    made = store.create_webhook("hook", URL, [CREATED], secret="my secret")
    store.update_webhook(made.webhook_id, secret="another secret")
    (item,) = items_at(store, "WORKSPACE#default").values()
    assert "secret" not in str(item["secret"])
    assert store.get_webhook(made.webhook_id).secret == "another secret"


def test_secrets_are_encrypted_with_the_key_that_mlflow_uses(store):
    made = store.create_webhook("hook", URL, [CREATED], secret="my secret")
    (item,) = items_at(store, "WORKSPACE#default").values()
    cipher: Fernet = SqlWebhook.__table__.c.secret.type.cipher
    assert cipher.decrypt(item["secret"].encode()) == b"my secret"
    assert made.secret == "my secret"


def test_a_secret_of_another_key_is_explained(store, monkeypatch):
    made = store.create_webhook("hook", URL, [CREATED], secret="my secret")
    other_key = Fernet(Fernet.generate_key())
    monkeypatch.setattr(SqlWebhook.__table__.c.secret.type, "cipher", other_key)
    with refused("INVALID_STATE", "MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY"):
        store.get_webhook(made.webhook_id)


def test_webhooks_are_listed_by_event_the_newest_first(store):
    first = store.create_webhook("first", URL, [CREATED])
    second = store.create_webhook("second", URL, [TAGGED, CREATED])
    third = store.create_webhook("third", URL, [TAGGED])
    listed = [hook.name for hook in store.list_webhooks()]
    assert listed == [third.name, second.name, first.name]
    assert [hook.name for hook in store.list_webhooks_by_event(CREATED)] == ["second", "first"]
    page = store.list_webhooks_by_event(TAGGED, max_results=1)
    assert [hook.name for hook in page] == ["third"]
    rest = store.list_webhooks_by_event(TAGGED, max_results=1, page_token=page.token)
    assert [hook.name for hook in rest] == ["second"]
    assert rest.token is None


def test_an_update_changes_what_is_given_and_nothing_else(store):
    made = store.create_webhook("hook", URL, [CREATED], "text", "secret")
    changed = store.update_webhook(made.webhook_id, events=[TAGGED], status=WebhookStatus.DISABLED)
    assert (changed.name, changed.description, changed.secret) == ("hook", "text", "secret")
    assert (changed.events, changed.status) == ([TAGGED], WebhookStatus.DISABLED)
    assert changed.last_updated_timestamp > made.last_updated_timestamp
    assert changed.creation_timestamp == made.creation_timestamp


def test_a_deleted_webhook_leaves_nothing_behind(store):
    made = store.create_webhook("hook", URL, [CREATED], secret="secret")
    store.delete_webhook(made.webhook_id)
    assert left_behind(store) == []
    for call in (store.get_webhook, store.delete_webhook, store.update_webhook):
        with refused("RESOURCE_DOES_NOT_EXIST", f"Webhook with ID {made.webhook_id} not found"):
            call(made.webhook_id)


def test_a_webhook_can_be_tried_out(store, monkeypatch):
    """A signed example of one of its events arrives at its address."""
    received = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((dict(self.headers), body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            """Say nothing."""

    monkeypatch.setenv("MLFLOW_WEBHOOK_ALLOWED_SCHEMES", "http")
    monkeypatch.setenv("MLFLOW_WEBHOOK_ALLOW_PRIVATE_IPS", "true")
    with HTTPServer(("127.0.0.1", 0), Receiver) as receiver:
        Thread(target=receiver.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{receiver.server_port}/hook"
        made = store.create_webhook("hook", url, [CREATED, TAGGED], secret="secret")
        result = store.test_webhook(made.webhook_id, TAGGED)
        receiver.shutdown()
    assert (result.success, result.response_status) == (True, 204), result.error_message
    ((headers, body),) = received
    assert any("signature" in name.lower() for name in headers)
    assert b"model_version_tag" in body
