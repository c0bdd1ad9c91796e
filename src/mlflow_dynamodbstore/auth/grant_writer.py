"""Adding, changing and removing the grants of a role."""

from __future__ import annotations

from boto3.dynamodb.conditions import Attr
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.auth.checks import no_such_role
from mlflow_dynamodbstore.auth.context import AuthContext
from mlflow_dynamodbstore.auth.items import (
    GRANTS_OF_A_ROLE,
    grant_item,
    grant_number,
    mirror_items,
    mirror_key,
)
from mlflow_dynamodbstore.auth.reader import AuthReader
from mlflow_dynamodbstore.auth.records import RoleRecord
from mlflow_dynamodbstore.keys import grants as grant_keys
from mlflow_dynamodbstore.shared.conditions import ABSENT, PRESENT
from mlflow_dynamodbstore.shared.optimistic import Outdated, optimistically
from mlflow_dynamodbstore.table.contract import Check, Delete, Put
from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item


class GrantExistsError(Exception):
    """A role has a grant for this resource already."""


class GrantWriter:
    """Writes the grants of roles."""

    def __init__(self, context: AuthContext, reader: AuthReader) -> None:
        self.table = context.table
        self.reader = reader

    def add_grant(
        self, role: RoleRecord, resource_type: str, pattern: str, permission: str
    ) -> Item:
        """Write a new grant. Raises ``GrantExistsError``; a number is drawn only if it must."""
        if self.reader.find_grant(role, resource_type, pattern) is not None:
            raise GrantExistsError
        return self._write_grant(role, resource_type, pattern, permission)

    def _write_grant(
        self, role: RoleRecord, resource_type: str, pattern: str, permission: str
    ) -> Item:
        number = self._next_grant_number(role)
        grant = grant_item(role, number, resource_type, pattern, permission)
        # A grant of another role at this key belonged to a deleted user of this name: replace it.
        absent = ABSENT | Attr("role_id").ne(role.id)
        try:
            self.table.transact(
                [
                    Put(grant, condition=absent),
                    Check(grant_keys.role_key(role.id), PRESENT),
                    *(Put(item) for item in mirror_items(grant)),
                ]
            )
        except TransactionCancelled as cancelled:
            if cancelled.refused(0):
                raise GrantExistsError from cancelled
            if cancelled.refused(1):
                no_such_role(role.id)
            raise
        return grant

    def set_permission(self, grant: Item, permission: str) -> Item | None:
        """Change what a grant allows; None if it was removed or replaced since it was read."""
        try:
            return self.table.update(
                self.table.key_of(grant),
                Update(set={"permission": permission}),
                condition=Attr("id").eq(grant["id"]),
                returns="new",
            )
        except ConditionFailed:
            return None

    def put_grant(
        self, role: RoleRecord, resource_type: str, pattern: str, permission: str
    ) -> None:
        """Add a grant, or change the one there is."""

        def attempt() -> None:
            known = self.reader.find_grant(role, resource_type, pattern)
            if known is None:
                try:
                    self._write_grant(role, resource_type, pattern, permission)
                except GrantExistsError as error:
                    raise Outdated from error
            elif self.set_permission(known, permission) is None:
                raise Outdated

        optimistically(f"Permission on resource_type={resource_type}, {pattern}", attempt)

    def remove_grant(self, grant: Item) -> bool:
        """Remove a grant; False if it was removed or replaced since it was read."""
        mirror = mirror_key(grant)
        try:
            self.table.transact(
                [
                    Delete(self.table.key_of(grant), condition=Attr("id").eq(grant["id"])),
                    *([] if mirror is None else [Delete(mirror)]),
                ]
            )
        except TransactionCancelled as cancelled:
            if cancelled.refused(0):
                return False
            raise
        return True

    def _next_grant_number(self, role: RoleRecord) -> int:
        try:
            counted = self.table.update(
                grant_keys.role_key(role.id),
                Update(add={"granted": 1}),
                condition=PRESENT,
                returns="new",
            )
        except ConditionFailed:
            no_such_role(role.id)
        assert counted is not None
        count = int(counted["granted"])
        if count >= GRANTS_OF_A_ROLE:
            raise MlflowException(f"Role {role.name!r} has used up the numbers of its grants.")
        return grant_number(role, count)
