"""Who has which role."""

from __future__ import annotations

from boto3.dynamodb.conditions import Attr
from mlflow.server.auth.entities import Role, UserRoleAssignment

from mlflow_dynamodbstore.auth.base import already_exists, is_number, not_found
from mlflow_dynamodbstore.auth.granting import Granting
from mlflow_dynamodbstore.auth.records import RoleRecord
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import grants as grant_keys
from mlflow_dynamodbstore.table.contract import Check, Delete, Query
from mlflow_dynamodbstore.table.errors import TransactionCancelled
from mlflow_dynamodbstore.table.values import Key


class Assignments(Granting):
    """Roles of users."""

    def assign_role_to_user(self, user_id: int, role_id: int) -> UserRoleAssignment:
        user = self._find_user_by_id(user_id) or not_found(f"User with id={user_id} not found")
        role = self._role(role_id)
        membership = self._membership(user, role)
        try:
            self.table.transact(
                [*membership, Check(grant_keys.role_key(role.id), Attr("PK").exists())]
            )
        except TransactionCancelled as error:
            refused = [r is not None and r.code == "ConditionFailed" for r in error.reasons]
            if refused[0]:
                raise already_exists(
                    f"User role assignment (user_id={user_id}, role_id={role_id}) already exists"
                ) from error
            if refused[2]:
                not_found(f"User with id={user_id} not found")
            if refused[3]:
                not_found(f"Role with id={role_id} not found")
            raise
        (assigned,) = [a for a in self.list_role_users(role_id) if a.user_id == user_id]
        return assigned

    def unassign_role_from_user(self, user_id: int, role_id: int) -> None:
        missing = f"User role assignment (user_id={user_id}, role_id={role_id}) not found"
        user = self._find_user_by_id(user_id) or not_found(missing)
        if not is_number(role_id):
            not_found(missing)
        held = Key(access_keys.user_pk(user.username), grant_keys.user_role(role_id))
        member = Key(grant_keys.role_pk(role_id), grant_keys.role_member(user_id))
        try:
            self.table.transact(
                [Delete(held, condition=Attr("user_id").eq(user_id)), Delete(member)]
            )
        except TransactionCancelled as error:
            if error.reasons[0] is None or error.reasons[0].code != "ConditionFailed":
                raise
            not_found(missing)

    def list_user_roles(self, user_id: int) -> list[Role]:
        return [role.to_entity(self._grants_of(role)) for role in self._roles_held(user_id)]

    def list_user_roles_for_workspace(self, user_id: int, workspace: str) -> list[Role]:
        held = self._roles_held(user_id, workspace)
        return [role.to_entity(self._grants_of(role)) for role in held]

    def user_has_any_role_in_workspace(self, user_id: int, workspace: str) -> bool:
        return bool(self._roles_held(user_id, workspace))

    def list_user_present_workspaces(self, user_id: int) -> set[str]:
        return {role.workspace for role in self._roles_held(user_id)}

    def list_role_users(self, role_id: int) -> list[UserRoleAssignment]:
        role = self._role(role_id)
        members = self.table.items(
            Query(grant_keys.role_pk(role.id), where=grant_keys.ROLE_MEMBERS.on())
        )
        found = sorted(members, key=lambda member: int(member["id"]))
        return [UserRoleAssignment(m["id"], m["user_id"], m["role_id"]) for m in found]

    def _roles_held(self, user_id: int, workspace: str | None = None) -> list[RoleRecord]:
        """The roles of a user, as they were a moment ago; none for nobody."""

        def read() -> list[RoleRecord]:
            user = self._find_user_by_id(user_id)
            return [] if user is None else self._roles_of(user, workspace)

        return self.recent.answer(("roles", user_id, workspace), read)
