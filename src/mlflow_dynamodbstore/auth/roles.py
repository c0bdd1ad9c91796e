"""Roles: named sets of grants in a workspace."""

from __future__ import annotations

from collections.abc import Iterable

from boto3.dynamodb.conditions import Attr
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.auth.checks import check_length, check_text, refuse_missing
from mlflow_dynamodbstore.auth.context import AuthContext
from mlflow_dynamodbstore.auth.grant_writer import GrantWriter
from mlflow_dynamodbstore.auth.items import assignment_keys
from mlflow_dynamodbstore.auth.reader import AuthReader
from mlflow_dynamodbstore.auth.records import OWN_ROLE_PREFIX, RoleRecord
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import grants as grant_keys
from mlflow_dynamodbstore.mlflow_compat.auth import Role
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.refusals import already_exists, invalid
from mlflow_dynamodbstore.shared.workspaces import WorkspacesInUse, all_workspaces
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, Query, TransactWrite
from mlflow_dynamodbstore.table.errors import TransactionCancelled
from mlflow_dynamodbstore.table.update import Update


class Roles:
    """Creating, finding, changing and deleting roles."""

    def __init__(self, context: AuthContext, reader: AuthReader, grants: GrantWriter) -> None:
        self.context = context
        self.table = context.table
        self.reader = reader
        self.grants = grants
        self.workspaces_in_use = WorkspacesInUse(context.plain_table)

    def create_role(self, name: str, workspace: str, description: str | None = None) -> Role:
        _check_name(name)
        check_text(workspace, "Workspace")
        _check_description(description)
        if self.table.get(grant_keys.role_name_guard(name, workspace)) is not None:
            raise _exists(name, workspace)
        role = RoleRecord(self.context.next_number("role"), name, workspace, description)
        try:
            self.write_new_role(role)
        except TransactionCancelled as cancelled:
            if not cancelled.refused(0):
                raise
            raise _exists(name, workspace) from cancelled
        return role.to_entity([])

    def get_role(self, role_id: int) -> Role:
        return self.reader.role_entity(self.reader.existing_role(role_id))

    def get_role_by_name(self, workspace: str, name: str) -> Role:
        role = self.reader.find_role_by_name(workspace, name)
        if role is None:
            refuse_missing(f"Role with name={name} in workspace={workspace} not found")
        return self.reader.role_entity(role)

    def list_roles(self, workspaces: Iterable[str] | None = None) -> list[Role]:
        if workspaces is None:
            workspaces = all_workspaces(self.context.plain_table)
        roles = [role for workspace in set(workspaces) for role in self._roles_in(workspace)]
        return [self.reader.role_entity(role) for role in sorted(roles, key=lambda role: role.id)]

    def update_role(
        self, role_id: int, name: str | None = None, description: str | None = None
    ) -> Role:
        if name is not None:
            _check_name(name)
        _check_description(description)
        role = self.reader.existing_role(role_id)
        changes = {
            key: value
            for key, value in (("name", name), ("description", description))
            if value is not None and value != getattr(role, key)
        }
        if changes:
            self._change_role(role, changes)
        return self.get_role(role_id)

    def delete_role(self, role_id: int) -> None:
        self.remove_role(self.reader.existing_role(role_id))

    def delete_roles_for_workspace(self, workspace_name: str) -> None:
        for role in self._roles_in(workspace_name):
            self.remove_role(role)

    def write_new_role(self, role: RoleRecord, more: Iterable[TransactWrite] = ()) -> None:
        """Write a role, the guard of its name and what else belongs to it, in one transaction.

        The first operation is refused if the name is taken.
        """
        self.workspaces_in_use.note(role.workspace)
        self.table.transact([_name_guard(role.name, role), Put(role.to_item()), *more])

    def remove_role(self, role: RoleRecord) -> None:
        """Remove a role, its grants and its assignments.

        Grants and assignments without their role allow nothing, and numbers are not given twice.
        So the role goes first: an interrupted removal leaves nobody a permission.
        """
        guard = grant_keys.role_name_guard(role.name, role.workspace)
        self.table.transact([Delete(grant_keys.role_key(role.id)), Delete(guard)])
        for grant in self.reader.grants_of(role):
            self.grants.remove_grant(grant)
        for member in self.reader.members_of(role.id):
            keys = assignment_keys(role.id, int(member["user_id"]), str(member["username"]))
            self.table.transact([Delete(key) for key in keys])

    def _change_role(self, role: RoleRecord, changes: dict[str, str]) -> None:
        unchanged = Attr("name").eq(role.name)
        writes: list[TransactWrite] = [
            Patch(grant_keys.role_key(role.id), Update(set=changes), condition=unchanged)
        ]
        if "name" in changes:
            writes.append(_name_guard(changes["name"], role))
            writes.append(Delete(grant_keys.role_name_guard(role.name, role.workspace)))
        try:
            self.table.transact(writes)
        except TransactionCancelled as cancelled:
            if "name" not in changes or not cancelled.refused(1):
                raise
            raise already_exists(
                f"Role with name={changes['name']} already exists in workspace={role.workspace}"
            ) from cancelled

    def _roles_in(self, workspace: str) -> list[RoleRecord]:
        query = Query(access_keys.workspace_pk(workspace), where=grant_keys.ROLE_NAMES.on())
        keys = [grant_keys.role_key(int(guard["role_id"])) for guard in self.table.items(query)]
        return [RoleRecord.read(item) for item in self.table.get_many(keys).values()]


def _name_guard(name: str, role: RoleRecord) -> Put:
    """The write that takes a name for a role; refused if another role has it."""
    guard = grant_keys.role_name_guard(name, role.workspace)
    return Put({"PK": guard.pk, "SK": guard.sk, "role_id": role.id}, condition=ABSENT)


def _exists(name: str, workspace: str) -> MlflowException:
    return already_exists(f"Role (name={name}, workspace={workspace}) already exists.")


def _check_description(description: str | None) -> None:
    if description is not None:
        check_length(description, "Role description")


def _check_name(name: str) -> None:
    check_text(name, "Role name")
    if name.startswith(OWN_ROLE_PREFIX):
        raise invalid(
            f"Role name {name!r} uses the reserved '{OWN_ROLE_PREFIX}' prefix, under which the "
            "grants of single users are kept. Choose a different name."
        )
