"""Tokens by which a write recognises its own first try.

A request that timed out may have been applied. A write that must not be applied twice carries a
random token in the attribute ``_w``. When its retry is refused by an item with this token, the
first try has succeeded.
"""

from __future__ import annotations

import secrets
from dataclasses import replace

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, TransactWrite, Write
from mlflow_dynamodbstore.table.errors import Unavailable
from mlflow_dynamodbstore.table.values import Item

WRITE_TOKEN = "_w"  # noqa: S105 - the name of an attribute


def token_for(write: Write) -> str | None:
    """A token for a write that must not be applied twice, None for one that may be."""
    if isinstance(write, Delete):
        return None
    if write.condition is None and (isinstance(write, Put) or write.update.is_repeatable):
        return None
    return secrets.token_urlsafe(6)


def with_token(write: TransactWrite, token: str | None) -> Write:
    """The write that leaves its token in the item."""
    if token is None:
        return write  # type: ignore[return-value]  # a Check never comes here
    if isinstance(write, Put):
        return Put({**write.item, WRITE_TOKEN: token}, write.condition, write.returns)
    if isinstance(write, Patch):
        changed = {**write.update.set, WRITE_TOKEN: token}
        return replace(write, update=replace(write.update, set=changed))
    raise TypeError(type(write).__name__)


def repeated(write: Write, token: str | None) -> Write:
    """The same write, refused if its first try was applied."""
    if token is None or not isinstance(write, Patch):
        return write
    unseen = Attr(WRITE_TOKEN).ne(token)
    return replace(write, condition=unseen if write.condition is None else write.condition & unseen)


def image_of_first_try(write: Write, token: str | None, old: Item | None) -> Item | None:
    """What the first try of a write returned, when its retry was refused by the item ``old``.

    Raises ``Unavailable`` when the item does not show that the first try succeeded.
    """
    if isinstance(write, Delete) and old is None:
        return None
    if token is not None and old is not None and old.get(WRITE_TOKEN) == token:
        return dict(old) if write.returns == "new" else None
    raise Unavailable(
        "the answer to a write was lost and the item has changed since; read the item again",
        maybe_applied=True,
    )
