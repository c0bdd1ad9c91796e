"""Roles: named sets of grants in a workspace."""

from __future__ import annotations

from collections.abc import Iterable

from boto3.dynamodb.conditions import Attr
from mlflow.exceptions import MlflowException
from mlflow.server.auth.entities import Role

from mlflow_dynamodbstore.auth.base import already_exists, check_text, not_found
from mlflow_dynamodbstore.auth.granting import Granting
from mlflow_dynamodbstore.auth.records import OWN_ROLE_PREFIX, RoleRecord
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import grants as grant_keys
from mlflow_dynamodbstore.keys.base import DEFAULT_WORKSPACE
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, Query, TransactWrite
from mlflow_dynamodbstore.table.errors import TransactionCancelled
from mlflow_dynamodbstore.table.update import Update


class Roles(Granting):
    """Roles."""

    def create_role(self, name: str, workspace: str, description: str | None = None) -> Role:
        _check_name(name)
        check_text(workspace, "Workspace")
        role = RoleRecord(self._draw("role"), name, workspace, description)
        self._note_workspace(workspace)
        try:
            self.table.transact(self._naming(role))
        except TransactionCancelled as error:
            if error.reasons[0] is None or error.reasons[0].code != "ConditionFailed":
                raise
            raise already_exists(
                f"Role (name={name}, workspace={workspace}) already exists."
            ) from error
        return role.to_entity([])

    def get_role(self, role_id: int) -> Role:
        role = self._role(role_id)
        return role.to_entity(self._grants_of(role))

    def get_role_by_name(self, workspace: str, name: str) -> Role:
        role = self._find_role_by_name(workspace, name)
        if role is None:
            not_found(f"Role with name={name} in workspace={workspace} not found")
        return role.to_entity(self._grants_of(role))

    def list_roles(self, workspaces: Iterable[str] | None = None) -> list[Role]:
        names = self._all_workspaces() if workspaces is None else set(workspaces)
        roles = [role for name in names for role in self._roles_in(name)]
        roles.sort(key=lambda role: role.id)
        return [role.to_entity(self._grants_of(role)) for role in roles]

    def update_role(
        self, role_id: int, name: str | None = None, description: str | None = None
    ) -> Role:
        if name is not None:
            _check_name(name)
        role = self._role(role_id)
        changes = {
            key: value
            for key, value in (("name", name), ("description", description))
            if value is not None and value != getattr(role, key)
        }
        if changes:
            self._change(role, changes)
        return self.get_role(role_id)

    def _change(self, role: RoleRecord, changes: dict[str, str]) -> None:
        unchanged = Attr("name").eq(role.name)
        writes: list[TransactWrite] = [
            Patch(grant_keys.role_key(role.id), Update(set=changes), condition=unchanged)
        ]
        if "name" in changes:
            guard = grant_keys.role_name_guard(changes["name"], role.workspace)
            item = {"PK": guard.pk, "SK": guard.sk, "role_id": role.id}
            writes.append(Put(item, condition=Attr("PK").not_exists()))
            writes.append(Delete(grant_keys.role_name_guard(role.name, role.workspace)))
        try:
            self.table.transact(writes)
        except TransactionCancelled as error:
            taken = error.reasons[1] if len(error.reasons) > 1 else None
            if taken is None or taken.code != "ConditionFailed":
                raise
            raise already_exists(
                f"Role with name={changes['name']} already exists in workspace={role.workspace}"
            ) from error

    def delete_role(self, role_id: int) -> None:
        self._remove_role(self._role(role_id))

    def delete_roles_for_workspace(self, workspace_name: str) -> None:
        for role in self._roles_in(workspace_name):
            self._remove_role(role)

    def _roles_in(self, workspace: str) -> list[RoleRecord]:
        query = Query(access_keys.workspace_pk(workspace), where=grant_keys.ROLE_NAMES.on())
        wanted = [grant_keys.role_key(int(guard["role_id"])) for guard in self.table.items(query)]
        return [RoleRecord.read(item) for item in self.table.get_many(wanted).values()]

    def _all_workspaces(self) -> set[str]:
        entries = self.table.items(Query(access_keys.CONFIG_PK, where=access_keys.WORKSPACES.on()))
        named = {str(access_keys.workspace_entry_of(str(entry["SK"]))) for entry in entries}
        return named | {DEFAULT_WORKSPACE}


def _check_name(name: str) -> None:
    check_text(name, "Role name")
    if name.startswith(OWN_ROLE_PREFIX):
        raise MlflowException.invalid_parameter_value(
            f"Role name {name!r} uses the reserved '{OWN_ROLE_PREFIX}' prefix, under which the "
            "grants of single users are kept. Choose a different name."
        )
