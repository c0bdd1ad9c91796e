"""Writing grants: on a role, or on the role that holds a user's own in a workspace."""

from __future__ import annotations

from boto3.dynamodb.conditions import Attr
from mlflow.exceptions import MlflowException
from mlflow.server.auth.permissions import (
    RESOURCE_TYPE_EXPERIMENT,
    RESOURCE_TYPE_REGISTERED_MODEL,
)

from mlflow_dynamodbstore.auth.base import check_text, not_found
from mlflow_dynamodbstore.auth.records import RoleRecord, UserRecord, own_role_name
from mlflow_dynamodbstore.auth.removal import Removal, mirror_key
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import grants as grant_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.table.contract import Check, Put, Query, TransactWrite
from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

GRANTS_OF_A_ROLE = 1 << 24
"""The number of a grant is that of its role times this, and a count: one leads to the other."""


class GrantExistsError(Exception):
    """A role has a grant for this already."""


class Granting(Removal):
    """Adding and changing grants."""

    # --- one grant of a role --------------------------------------------------------------------

    def _find_grant(self, role: RoleRecord, resource_type: str, pattern: str) -> Item | None:
        check_text(pattern, "resource_pattern")
        grant = self.table.get(role.grant_key(resource_type, pattern))
        return grant if grant is not None and grant["role_id"] == role.id else None

    def _add_grant(
        self, role: RoleRecord, resource_type: str, pattern: str, permission: str
    ) -> Item:
        """Write a new grant. Raises ``GrantExistsError``."""
        check_text(pattern, "resource_pattern")
        grant = self._new_grant(role, resource_type, pattern, permission)
        # What the last bearer of this name left behind is of another role, and is replaced.
        absent = Attr("PK").not_exists() | Attr("role_id").ne(role.id)
        writes: list[TransactWrite] = [Put(grant, condition=absent)]
        writes.append(Check(grant_keys.role_key(role.id), Attr("PK").exists()))
        writes += [Put(item) for item in mirror_items(grant)]
        try:
            self.table.transact(writes)
        except TransactionCancelled as error:
            codes = [None if reason is None else reason.code for reason in error.reasons]
            if codes[0] == "ConditionFailed":
                raise GrantExistsError from error
            if codes[1] == "ConditionFailed":
                not_found(f"Role with id={role.id} not found")
            raise
        return grant

    def _set_permission(self, grant: Item, permission: str) -> Item | None:
        """Change what a grant allows; None when it is gone or another by now."""
        try:
            return self.table.update(
                self.table.key_of(grant),
                Update(set={"permission": permission}),
                condition=Attr("id").eq(grant["id"]),
                returns="new",
            )
        except ConditionFailed:
            return None

    def _put_grant(
        self, role: RoleRecord, resource_type: str, pattern: str, permission: str
    ) -> None:
        """Make a role's grant what it should be, whether there was one or not."""
        while True:
            known = self._find_grant(role, resource_type, pattern)
            if known is not None:
                if self._set_permission(known, permission) is not None:
                    return
                continue  # it was removed since we looked
            try:
                self._add_grant(role, resource_type, pattern, permission)
            except GrantExistsError:
                continue  # somebody else was faster
            return

    def _new_grant(
        self, role: RoleRecord, resource_type: str, pattern: str, permission: str
    ) -> Item:
        return grant_item(role, self._grant_number(role), resource_type, pattern, permission)

    def _grant_number(self, role: RoleRecord) -> int:
        try:
            counted = self.table.update(
                grant_keys.role_key(role.id),
                Update(add={"granted": 1}),
                condition=Attr("PK").exists(),
                returns="new",
            )
        except ConditionFailed:
            not_found(f"Role with id={role.id} not found")
        assert counted is not None
        count = int(counted["granted"])
        if count >= GRANTS_OF_A_ROLE:
            raise MlflowException(f"Role {role.name!r} has used up the numbers of its grants.")
        return grant_number(role, count)

    # --- the role of a user's own grants --------------------------------------------------------

    def _find_own_role(self, user: UserRecord, workspace: str) -> RoleRecord | None:
        return self._find_role_by_name(workspace, own_role_name(user.id))

    def _own_role(self, user: UserRecord, workspace: str) -> RoleRecord:
        """The role of a user's own grants in a workspace, made where there is none."""
        check_text(workspace, "Workspace")
        role = self._find_own_role(user, workspace)
        if role is None:
            return self._make_own_role(user, workspace)
        members = self.table.items(
            Query(grant_keys.role_pk(role.id), where=grant_keys.ROLE_MEMBERS.on())
        )
        ids = {int(member["user_id"]) for member in members}
        if others := ids - {user.id}:
            raise MlflowException.invalid_parameter_value(
                f"Role {role.name!r} in workspace {workspace!r} holds the grants of one user, but "
                f"is assigned to user_id={min(others)}, too. Unassign it before granting."
            )
        if user.id not in ids:
            self.table.transact(self._membership(user, role))
        return role

    def _make_own_role(self, user: UserRecord, workspace: str) -> RoleRecord:
        name = own_role_name(user.id)
        role = RoleRecord(
            self._draw("role"), name, workspace, owner=user.username, owner_id=user.id
        )
        self._note_workspace(workspace)
        try:
            self.table.transact([*self._naming(role), *self._membership(user, role)])
        except TransactionCancelled:
            known = self._find_own_role(user, workspace)
            if known is not None:
                return known  # somebody else was faster
            if self._find_user_by_id(user.id) is None:
                not_found(f"User with username={user.username} not found")
            raise
        return role

    @staticmethod
    def _naming(role: RoleRecord) -> list[TransactWrite]:
        """The writes that make a role, and keep its name from being taken twice."""
        guard = grant_keys.role_name_guard(role.name, role.workspace)
        return [
            Put(
                {"PK": guard.pk, "SK": guard.sk, "role_id": role.id},
                condition=Attr("PK").not_exists(),
            ),
            Put(role.to_item()),
        ]

    def _membership(self, user: UserRecord, role: RoleRecord) -> list[TransactWrite]:
        """The writes that give a role to a user. The first one fails when the user has it."""
        held, member = membership_items(role, user.id, user.username, self._draw("role_assignment"))
        absent = Attr("PK").not_exists() | Attr("user_id").ne(user.id)
        return [
            Put(held, condition=absent),
            Put(member),
            Check(access_keys.user_key(user.username), Attr("id").eq(user.id)),
        ]

    def _note_workspace(self, workspace: str) -> None:
        """Let the roles of a workspace be found when all are listed."""
        entry = access_keys.workspace_entry_key(workspace)
        self.table.put({"PK": entry.pk, "SK": entry.sk})


def grant_number(role: RoleRecord, count: int) -> int:
    """The number of the grant that a role was given as its so-manieth."""
    return role.id * GRANTS_OF_A_ROLE + count


def grant_item(
    role: RoleRecord, number: int, resource_type: str, pattern: str, permission: str
) -> Item:
    """A grant of a role."""
    key = role.grant_key(resource_type, pattern)
    grant: Item = {
        "PK": key.pk,
        "SK": key.sk,
        "id": number,
        "role_id": role.id,
        "workspace": role.workspace,
        "resource_type": resource_type,
        "resource_pattern": pattern,
        "permission": permission,
    }
    if role.owner is not None:
        grant |= {"username": role.owner, "user_id": role.owner_id}
        grant |= _index(role.owner, role.workspace, resource_type, pattern)
    return grant


def mirror_items(grant: Item) -> list[Item]:
    """The second item of a grant, if it is a user's own."""
    key = mirror_key(grant)
    if key is None:
        return []
    named = ("role_id", "workspace", "username", "user_id", "resource_type", "resource_pattern")
    return [{"PK": key.pk, "SK": key.sk, **{name: grant[name] for name in named}}]


def membership_items(
    role: RoleRecord, user_id: int, username: str, number: int
) -> tuple[Item, Item]:
    """The items by which a user has a role: with the user, and with the role."""
    assignment: Item = {
        "id": number,
        "role_id": role.id,
        "workspace": role.workspace,
        "username": username,
        "user_id": user_id,
    }
    held = Key(access_keys.user_pk(username), grant_keys.user_role(role.id))
    member = Key(grant_keys.role_pk(role.id), grant_keys.role_member(user_id))
    return (
        {"PK": held.pk, "SK": held.sk, **assignment},
        {"PK": member.pk, "SK": member.sk, **assignment},
    )


def _index(
    username: str, workspace: str, resource_type: str, pattern: str
) -> index_keys.Attributes:
    if resource_type == RESOURCE_TYPE_EXPERIMENT:
        return index_keys.gsi4_experiment_permission(pattern, username)
    if resource_type == RESOURCE_TYPE_REGISTERED_MODEL:
        return index_keys.gsi4_model_permission(pattern, username, workspace)
    return {}
