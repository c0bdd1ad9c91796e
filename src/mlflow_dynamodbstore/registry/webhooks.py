"""Webhooks of a workspace; MLflow's own code encrypts their secrets."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable
from typing import Any

from cryptography.fernet import InvalidToken
from mlflow.entities.webhook import (
    Webhook,
    WebhookAction,
    WebhookEntity,
    WebhookEvent,
    WebhookStatus,
    WebhookTestResult,
)
from mlflow.exceptions import MlflowException
from mlflow.store.entities.paged_list import PagedList
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.mlflow_compat.validation import (
    validate_webhook_events,
    validate_webhook_name,
    validate_webhook_url,
)
from mlflow_dynamodbstore.registry.webhook_key import WEBHOOK
from mlflow_dynamodbstore.shared.conditions import ABSENT, PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.encryption_keys import remember_key
from mlflow_dynamodbstore.shared.plain_values import shown
from mlflow_dynamodbstore.shared.refusals import invalid, invalid_state, not_found
from mlflow_dynamodbstore.shared.search.filters import ATTRIBUTE
from mlflow_dynamodbstore.shared.search.ordering import Ordering, SortKey, position_after
from mlflow_dynamodbstore.shared.search.pages import in_order, page
from mlflow_dynamodbstore.shared.workspaces import WorkspacesInUse
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

DEFAULT_PAGE = 100
LONGEST_PAGE = 1000

NEWEST_FIRST = Ordering(
    (SortKey(ATTRIBUTE, "created", ascending=False), SortKey(ATTRIBUTE, "webhook_id", False))
)


class Row:
    """A webhook in a listing: see ``search.filters.Searchable``."""

    def __init__(self, item: Item):
        self.item = item

    def values(self, _kind: str, name: str) -> tuple[Any, ...]:
        return (self.item[name],)


class Webhooks:
    """The webhooks of a workspace."""

    def __init__(self, context: Context, workspaces: WorkspacesInUse) -> None:
        self.context = context
        self.table = context.table
        self.workspaces = workspaces

    def create_webhook(
        self,
        name: str,
        url: str,
        events: list[WebhookEvent],
        description: str | None = None,
        secret: str | None = None,
        status: WebhookStatus | None = None,
    ) -> Webhook:
        validate_webhook_name(name)
        validate_webhook_url(url)
        validate_webhook_events(events)
        workspace = self.context.workspace()
        webhook_id = str(uuid.UUID(ids.new_id()))
        key = access_keys.webhook_key(webhook_id, workspace)
        now = get_current_time_millis()
        item: Item = {
            "PK": key.pk,
            "SK": key.sk,
            "webhook_id": webhook_id,
            "created": now,
            "updated": now,
            **_fields(name, url, events, description, secret, status or WebhookStatus.ACTIVE),
        }
        self.workspaces.note(workspace)
        if secret is not None:
            remember_key(self.table, WEBHOOK)
        self.table.put(item, condition=ABSENT)
        return self._webhook(item)

    def get_webhook(self, webhook_id: str) -> Webhook:
        return self._webhook(self._webhook_item(webhook_id))

    def list_webhooks(
        self, max_results: int | None = None, page_token: str | None = None
    ) -> PagedList[Webhook]:
        return self._webhook_page(lambda _: True, max_results, page_token)

    def list_webhooks_by_event(
        self, event: WebhookEvent, max_results: int | None = None, page_token: str | None = None
    ) -> PagedList[Webhook]:
        wanted = _stored_event(event)
        return self._webhook_page(lambda item: wanted in item["events"], max_results, page_token)

    def update_webhook(
        self,
        webhook_id: str,
        name: str | None = None,
        description: str | None = None,
        url: str | None = None,
        events: list[WebhookEvent] | None = None,
        secret: str | None = None,
        status: WebhookStatus | None = None,
    ) -> Webhook:
        before = self._webhook_item(webhook_id)
        if name is not None:
            validate_webhook_name(name)
        if url is not None:
            validate_webhook_url(url)
        if events is not None:
            validate_webhook_events(events)
        if secret is not None:
            remember_key(self.table, WEBHOOK)
        # Later than the last change even in the same millisecond.
        now = max(get_current_time_millis(), before["updated"] + 1)
        fields = _fields(name, url, events, description, secret, status)
        key = self._webhook_key(webhook_id)
        update = Update(set={**fields, "updated": now})
        try:
            item = self.table.update(key, update, condition=PRESENT, returns="new")
        except ConditionFailed as refused:
            raise _webhook_not_found(webhook_id) from refused
        assert item is not None
        return self._webhook(item)

    def delete_webhook(self, webhook_id: str) -> None:
        try:
            self.table.delete(self._webhook_key(webhook_id), condition=PRESENT)
        except ConditionFailed as refused:
            raise _webhook_not_found(webhook_id) from refused

    def test_webhook(self, webhook_id: str, event: WebhookEvent | None = None) -> WebhookTestResult:
        """Send an example event to a webhook, as MLflow's server does."""
        from mlflow.webhooks.delivery import test_webhook  # noqa: PLC0415 - starts a thread pool

        return test_webhook(webhook=self.get_webhook(webhook_id), event=event)

    # --- reading --------------------------------------------------------------------------------

    def _webhook_key(self, webhook_id: str) -> Key:
        return access_keys.webhook_key(webhook_id, self.context.workspace())

    def _webhook_item(self, webhook_id: str) -> Item:
        item = self.table.get(self._webhook_key(webhook_id))
        if item is None:
            raise _webhook_not_found(webhook_id)
        return item

    def _webhook_page(
        self, wanted: Callable[[Item], bool], max_results: int | None, page_token: str | None
    ) -> PagedList[Webhook]:
        size = max_results or DEFAULT_PAGE
        if not 1 <= size <= LONGEST_PAGE:
            raise invalid(f"max_results must be between 1 and {LONGEST_PAGE}.")
        after = position_after(NEWEST_FIRST, page_token)
        partition = access_keys.workspace_pk(self.context.workspace())
        items = filter(wanted, self.table.items(Query(partition, where=access_keys.WEBHOOKS.on())))
        rows = in_order([Row(item) for item in items], NEWEST_FIRST)
        found, token = page(iter(rows), NEWEST_FIRST, after, size)
        return PagedList([self._webhook(row.item) for row in found], token)

    def _webhook(self, item: Item) -> Webhook:
        events = [
            WebhookEvent(WebhookEntity(entity), WebhookAction(action))
            for entity, action in (event.split(".") for event in item["events"])
        ]
        return Webhook(
            webhook_id=item["webhook_id"],
            name=item["name"],
            url=item["url"],
            events=events,
            creation_timestamp=item["created"],
            last_updated_timestamp=item["updated"],
            workspace=access_keys.workspace_of(item["PK"]),
            description=item.get("description"),
            status=WebhookStatus(item["status"]),
            secret=_decrypted(item),
        )


def _fields(
    name: str | None,
    url: str | None,
    events: list[WebhookEvent] | None,
    description: str | None,
    secret: str | None,
    status: WebhookStatus | None,
) -> Item:
    """The attributes of a webhook that are given."""
    given = {
        "name": name,
        "url": url,
        "events": None if events is None else list(dict.fromkeys(map(_stored_event, events))),
        "description": description,
        "secret": None if secret is None else _cipher().process_bind_param(secret, None),
        "status": None if status is None else status.value,
    }
    return {attribute: value for attribute, value in given.items() if value is not None}


def _stored_event(event: WebhookEvent) -> str:
    if not (isinstance(event.entity, WebhookEntity) and isinstance(event.action, WebhookAction)):
        raise MlflowException.invalid_parameter_value(
            f"Invalid event {shown(event)}: it must name an entity and an action."
        )
    return f"{event.entity.value}.{event.action.value}"


def _decrypted(item: Item) -> str | None:
    secret = item.get("secret")
    if secret is None:
        return None
    try:
        text: str = _cipher().process_result_value(secret, None)
    except InvalidToken as error:
        raise invalid_state(
            f"The secret of webhook {item['webhook_id']} was encrypted with another key. Set "
            "MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY to the same key in all processes: without it "
            "each process makes up its own."
        ) from error
    return text


@functools.cache
def _cipher() -> Any:
    """The encryption of MLflow's own table of webhooks, with the key of this process."""
    from mlflow.store.model_registry.dbmodels.models import SqlWebhook  # noqa: PLC0415 - SQL only

    return SqlWebhook.__table__.c.secret.type


def _webhook_not_found(webhook_id: str) -> MlflowException:
    return not_found(f"Webhook with ID {webhook_id} not found.")
