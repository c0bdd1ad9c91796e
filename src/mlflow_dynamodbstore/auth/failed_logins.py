"""Counts of wrong passwords in the table, so that the limit holds over all processes.

A count lies in the partition of the name, whether a user has that name or not, and expires. It is
written when a password is wrong, and read in the same request as the user.
"""

from __future__ import annotations

from mlflow_dynamodbstore.auth.passwords import WINDOW_SECONDS
from mlflow_dynamodbstore.auth.records import UserRecord
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import TTL


class FailedLogins:
    """The counts of one table.

    Writing them does not clear the cache of permission checks: a wrong password changes no
    permission, and must not slow down other users.
    """

    def __init__(self, table: Table):
        self._table = table

    def read(self, username: str) -> tuple[UserRecord | None, int]:
        """The user of a name, and the current count of wrong passwords for it."""
        user, count = access_keys.user_key(username), access_keys.user_failures_key(username)
        found = self._table.get_many([user, count])
        record = UserRecord.read(found[user]) if user in found else None
        return record, int(found[count]["count"]) if count in found else 0

    def add(self, username: str) -> None:
        """Count a wrong password. The first one sets the time at which the count expires."""
        end = int(self._table.clock() + WINDOW_SECONDS)
        update = Update(add={"count": 1}, if_absent={TTL: end})
        self._table.update(access_keys.user_failures_key(username), update)

    def forget(self, username: str) -> None:
        """End the count for a name."""
        self._table.delete(access_keys.user_failures_key(username))
