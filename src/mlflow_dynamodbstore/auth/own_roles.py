"""The role that holds a user's own grants in a workspace. MLflow calls it synthetic."""

from __future__ import annotations

from mlflow_dynamodbstore.auth.checks import check_text, no_such_user
from mlflow_dynamodbstore.auth.context import AuthContext
from mlflow_dynamodbstore.auth.reader import AuthReader
from mlflow_dynamodbstore.auth.records import RoleRecord, UserRecord, own_role_name
from mlflow_dynamodbstore.auth.role_assignments import RoleAssignments
from mlflow_dynamodbstore.auth.roles import Roles
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.table.errors import TransactionCancelled


class OwnRoles:
    """Makes the roles of users' own grants."""

    def __init__(
        self,
        context: AuthContext,
        reader: AuthReader,
        roles: Roles,
        assignments: RoleAssignments,
    ) -> None:
        self.context = context
        self.reader = reader
        self.roles = roles
        self.assignments = assignments

    def own_role(self, user: UserRecord, workspace: str) -> RoleRecord:
        """The role of a user's own grants in a workspace, made if there is none."""
        check_text(workspace, "Workspace")
        role = self.reader.find_own_role(user, workspace)
        if role is None:
            return self._make_own_role(user, workspace)
        ids = {int(member["user_id"]) for member in self.reader.members_of(role.id)}
        if others := ids - {user.id}:
            raise invalid(
                f"Role {role.name!r} in workspace {workspace!r} holds the grants of one user, but "
                f"is assigned to user_id={min(others)}, too. Unassign it before granting."
            )
        if user.id not in ids:
            self.context.table.transact(self.assignments.assignment_writes(user, role))
        return role

    def _make_own_role(self, user: UserRecord, workspace: str) -> RoleRecord:
        role = RoleRecord(
            self.context.next_number("role"),
            own_role_name(user.id),
            workspace,
            owner=user.username,
            owner_id=user.id,
        )
        try:
            self.roles.write_new_role(role, self.assignments.assignment_writes(user, role))
        except TransactionCancelled:
            known = self.reader.find_own_role(user, workspace)
            if known is not None:
                return known  # another call made it first
            if self.reader.find_user_by_id(user.id) is None:
                no_such_user(user.username)
            raise
        return role
