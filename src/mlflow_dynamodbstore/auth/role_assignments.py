"""Which user has which role."""

from __future__ import annotations

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.auth.checks import is_number, no_such_role, refuse_missing
from mlflow_dynamodbstore.auth.context import AuthContext
from mlflow_dynamodbstore.auth.items import assignment_items, assignment_keys
from mlflow_dynamodbstore.auth.reader import AuthReader, by_number
from mlflow_dynamodbstore.auth.records import RoleRecord, UserRecord
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import grants as grant_keys
from mlflow_dynamodbstore.mlflow_compat.auth import Role, UserRoleAssignment
from mlflow_dynamodbstore.shared.conditions import ABSENT, PRESENT
from mlflow_dynamodbstore.shared.refusals import already_exists
from mlflow_dynamodbstore.table.contract import Check, Delete, Put, TransactWrite
from mlflow_dynamodbstore.table.errors import TransactionCancelled


class RoleAssignments:
    """Assigning roles to users, and listing who has which."""

    def __init__(self, context: AuthContext, reader: AuthReader) -> None:
        self.context = context
        self.table = context.table
        self.reader = reader

    def assign_role_to_user(self, user_id: int, role_id: int) -> UserRoleAssignment:
        no_such_user = f"User with id={user_id} not found"
        user = self.reader.find_user_by_id(user_id) or refuse_missing(no_such_user)
        role = self.reader.existing_role(role_id)
        exists = f"User role assignment (user_id={user_id}, role_id={role_id}) already exists"
        held = self.table.get(assignment_keys(role.id, user.id, user.username)[0])
        if held is not None and held["user_id"] == user.id:
            raise already_exists(exists)
        try:
            self.table.transact(
                [*self.assignment_writes(user, role), Check(grant_keys.role_key(role.id), PRESENT)]
            )
        except TransactionCancelled as cancelled:
            if cancelled.refused(0):
                raise already_exists(exists) from cancelled
            if cancelled.refused(2):
                refuse_missing(no_such_user)
            if cancelled.refused(3):
                no_such_role(role_id)
            raise
        (assigned,) = [a for a in self.list_role_users(role_id) if a.user_id == user_id]
        return assigned

    def unassign_role_from_user(self, user_id: int, role_id: int) -> None:
        missing = f"User role assignment (user_id={user_id}, role_id={role_id}) not found"
        user = self.reader.find_user_by_id(user_id) or refuse_missing(missing)
        if not is_number(role_id):
            refuse_missing(missing)
        held, member = assignment_keys(role_id, user_id, user.username)
        try:
            self.table.transact(
                [Delete(held, condition=Attr("user_id").eq(user_id)), Delete(member)]
            )
        except TransactionCancelled as cancelled:
            if cancelled.refused(0):
                refuse_missing(missing)
            raise

    def list_user_roles(self, user_id: int) -> list[Role]:
        return [self.reader.role_entity(role) for role in self.reader.cached_roles_of(user_id)]

    def list_user_roles_for_workspace(self, user_id: int, workspace: str) -> list[Role]:
        roles = self.reader.cached_roles_of(user_id, workspace)
        return [self.reader.role_entity(role) for role in roles]

    def user_has_any_role_in_workspace(self, user_id: int, workspace: str) -> bool:
        return bool(self.reader.cached_roles_of(user_id, workspace))

    def list_user_present_workspaces(self, user_id: int) -> set[str]:
        return {role.workspace for role in self.reader.cached_roles_of(user_id)}

    def list_role_users(self, role_id: int) -> list[UserRoleAssignment]:
        role = self.reader.existing_role(role_id)
        members = by_number(self.reader.members_of(role.id))
        return [UserRoleAssignment(m["id"], m["user_id"], m["role_id"]) for m in members]

    def assignment_writes(self, user: UserRecord, role: RoleRecord) -> list[TransactWrite]:
        """The writes that give a role to a user.

        The first is refused if the user has the role, the third if the user does not exist.
        """
        number = self.context.next_number("role_assignment")
        held, member = assignment_items(role, user.id, user.username, number)
        return [
            Put(held, condition=ABSENT | Attr("user_id").ne(user.id)),
            Put(member),
            Check(access_keys.user_key(user.username), Attr("id").eq(user.id)),
        ]
