"""Webhooks of a workspace; their secrets are encrypted as MLflow does it."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from boto3.dynamodb.conditions import Attr
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
from mlflow.protos.databricks_pb2 import (
    INVALID_PARAMETER_VALUE,
    INVALID_STATE,
    RESOURCE_DOES_NOT_EXIST,
)
from mlflow.store.entities.paged_list import PagedList
from mlflow.utils.time import get_current_time_millis
from mlflow.utils.validation import (
    _validate_webhook_events,
    _validate_webhook_name,
    _validate_webhook_url,
)

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.registry.base import RegistryBase
from mlflow_dynamodbstore.registry.search_terms import position_after
from mlflow_dynamodbstore.registry.webhook_key import WEBHOOK
from mlflow_dynamodbstore.shared.encryption_keys import remember_key
from mlflow_dynamodbstore.shared.search.filters import ATTRIBUTE
from mlflow_dynamodbstore.shared.search.ordering import Ordering, SortKey
from mlflow_dynamodbstore.shared.search.pages import page
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
    """A webhook as a listing sorts it."""

    def __init__(self, item: Item):
        self.item = item

    def values(self, _kind: str, name: str) -> tuple[Any, ...]:
        return (self.item[name],)


class Webhooks(RegistryBase):
    """The webhooks of a workspace."""

    def create_webhook(
        self,
        name: str,
        url: str,
        events: list[WebhookEvent],
        description: str | None = None,
        secret: str | None = None,
        status: WebhookStatus | None = None,
    ) -> Webhook:
        _validate_webhook_name(name)
        _validate_webhook_url(url)
        _validate_webhook_events(events)
        workspace = self._get_active_workspace()
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
        self._note_workspace(workspace)
        if secret is not None:
            remember_key(self.table, WEBHOOK)
        self.table.put(item, condition=Attr("PK").not_exists())
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
            _validate_webhook_name(name)
        if url is not None:
            _validate_webhook_url(url)
        if events is not None:
            _validate_webhook_events(events)
        if secret is not None:
            remember_key(self.table, WEBHOOK)
        # Later than the last change even when both fall into one millisecond.
        now = max(get_current_time_millis(), before["updated"] + 1)
        fields = _fields(name, url, events, description, secret, status)
        key = self._webhook_key(webhook_id)
        update = Update(set={**fields, "updated": now})
        try:
            item = self.table.update(key, update, condition=Attr("PK").exists(), returns="new")
        except ConditionFailed as refused:
            raise _webhook_not_found(webhook_id) from refused
        assert item is not None
        return self._webhook(item)

    def delete_webhook(self, webhook_id: str) -> None:
        try:
            self.table.delete(self._webhook_key(webhook_id), condition=Attr("PK").exists())
        except ConditionFailed as refused:
            raise _webhook_not_found(webhook_id) from refused

    def test_webhook(self, webhook_id: str, event: WebhookEvent | None = None) -> WebhookTestResult:
        """Send a made-up event to a webhook, as MLflow's server does when it is asked to."""
        from mlflow.webhooks.delivery import test_webhook  # noqa: PLC0415 - starts a thread pool

        return test_webhook(webhook=self.get_webhook(webhook_id), event=event)

    # --- reading --------------------------------------------------------------------------------

    def _webhook_key(self, webhook_id: str) -> Key:
        return access_keys.webhook_key(webhook_id, self._get_active_workspace())

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
            raise MlflowException(
                f"max_results must be between 1 and {LONGEST_PAGE}.", INVALID_PARAMETER_VALUE
            )
        after = position_after(NEWEST_FIRST, page_token)
        partition = access_keys.workspace_pk(self._get_active_workspace())
        items = filter(wanted, self.table.items(Query(partition, where=access_keys.WEBHOOKS.on())))
        rows: Iterator[Row] = iter(
            sorted(
                map(Row, items),
                key=lambda row: NEWEST_FIRST.comparable(NEWEST_FIRST.position(row)),
            )
        )
        found, token = page(rows, NEWEST_FIRST, after, size)
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
    """What a webhook says about itself; what is None stays as it is."""
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
    return f"{event.entity.value}.{event.action.value}"


def _decrypted(item: Item) -> str | None:
    secret = item.get("secret")
    if secret is None:
        return None
    try:
        text: str = _cipher().process_result_value(secret, None)
    except InvalidToken as error:
        raise MlflowException(
            f"The secret of webhook {item['webhook_id']} was encrypted with another key. Set "
            "MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY to one value for all processes: without it each "
            "makes up its own.",
            INVALID_STATE,
        ) from error
    return text


@functools.cache
def _cipher() -> Any:
    """The encryption of MLflow's own table of webhooks, with the key it has in this process."""
    from mlflow.store.model_registry.dbmodels.models import SqlWebhook  # noqa: PLC0415 - SQL only

    return SqlWebhook.__table__.c.secret.type


def _webhook_not_found(webhook_id: str) -> MlflowException:
    return MlflowException(f"Webhook with ID {webhook_id} not found.", RESOURCE_DOES_NOT_EXIST)
