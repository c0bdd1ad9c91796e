"""Taking away: grants, roles with all that hangs on them, and what a user holds.

A role without its own item counts for nothing, and numbers are not given twice. So the item goes
first, and what an interrupted removal leaves behind allows nobody anything.
"""

from __future__ import annotations

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.auth.base import AuthBase
from mlflow_dynamodbstore.auth.records import RoleRecord, UserRecord
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import grants as grant_keys
from mlflow_dynamodbstore.table.contract import Delete, Query
from mlflow_dynamodbstore.table.errors import TransactionCancelled
from mlflow_dynamodbstore.table.values import Item, Key


class Removal(AuthBase):
    """Removing grants and roles."""

    def _remove_grant(self, grant: Item) -> bool:
        """Remove a grant as it was read; False when it is gone or another by now."""
        removal = Delete(self.table.key_of(grant), condition=Attr("id").eq(grant["id"]))
        mirror = mirror_key(grant)
        try:
            self.table.transact([removal, *([] if mirror is None else [Delete(mirror)])])
        except TransactionCancelled as error:
            if error.reasons[0] is None or error.reasons[0].code != "ConditionFailed":
                raise
            return False
        return True

    def _remove_role(self, role: RoleRecord) -> None:
        guard = grant_keys.role_name_guard(role.name, role.workspace)
        self.table.transact([Delete(grant_keys.role_key(role.id)), Delete(guard)])
        self._remove_contents(role)

    def _remove_contents(self, role: RoleRecord) -> None:
        """Remove a role's grants, and the role from those who have it."""
        for grant in self._grants_of(role):
            self._remove_grant(grant)
        members = self.table.items(
            Query(grant_keys.role_pk(role.id), where=grant_keys.ROLE_MEMBERS.on())
        )
        for member in list(members):
            self.table.transact(
                [
                    Delete(
                        Key(
                            access_keys.user_pk(str(member["username"])),
                            grant_keys.user_role(role.id),
                        )
                    ),
                    Delete(self.table.key_of(member)),
                ]
            )

    def _remove_holdings(self, user: UserRecord) -> None:
        """Remove the roles of a user's own grants, and the user from all other roles."""
        for role in self._roles_of(user):
            if role.owner_id == user.id:
                self._remove_role(role)
        for grant in self._own_grants(user.username, None, None):
            self._remove_grant(grant)
        pk = access_keys.user_pk(user.username)
        for held in list(self.table.items(Query(pk, where=grant_keys.USER_ROLES.on()))):
            member = Key(grant_keys.role_pk(int(held["role_id"])), grant_keys.role_member(user.id))
            self.table.transact([Delete(self.table.key_of(held)), Delete(member)])


def mirror_key(grant: Item) -> Key | None:
    """The second item of a user's own grant, in the partition of what the grant is for."""
    username = grant.get("username")
    if username is None:
        return None
    return Key(
        grant_keys.resource_grants_pk(str(grant["resource_type"]), str(grant["resource_pattern"])),
        grant_keys.resource_grant(str(username), str(grant["workspace"])),
    )
