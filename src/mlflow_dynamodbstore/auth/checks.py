"""Checks of arguments, and the errors that the parts of the auth store share."""

from __future__ import annotations

from typing import NoReturn

from mlflow_dynamodbstore.shared.refusals import invalid, not_found

MOST_BYTES = 100_000
"""A name or a description has at most so many bytes: three of them fit into an item of 400 KB."""


def is_text(value: object) -> bool:
    """Whether a value can be part of a key: a string that is not empty and encodes as UTF-8."""
    if not isinstance(value, str) or not value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_text(value: str, what: str) -> None:
    """Refuse a value that cannot be a name."""
    if not is_text(value):
        raise invalid(f"{what} must be a text that is not empty.")
    check_length(value, what)


def check_length(value: str, what: str) -> None:
    """Refuse a text that is too long to be stored with others in one item."""
    size = len(value.encode())
    if size > MOST_BYTES:
        raise invalid(f"{what} has {size} bytes, and {MOST_BYTES} is the most.")


def is_number(value: object) -> bool:
    """Whether a value can be the number of a user or a role."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**10


def refuse_missing(message: str) -> NoReturn:
    """Raise MLflow's error for something that does not exist."""
    raise not_found(message)


def no_such_user(username: str) -> NoReturn:
    """Raise MLflow's error for a user that does not exist."""
    refuse_missing(f"User with username={username} not found")


def no_such_role(role_id: int) -> NoReturn:
    """Raise MLflow's error for a role that does not exist."""
    refuse_missing(f"Role with id={role_id} not found")
