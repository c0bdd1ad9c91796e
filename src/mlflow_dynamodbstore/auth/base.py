"""What all parts of the auth store share: the table, finding users and roles, drawing numbers."""

from __future__ import annotations

from typing import NoReturn

from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_ALREADY_EXISTS, RESOURCE_DOES_NOT_EXIST
from mlflow.utils import workspace_context

from mlflow_dynamodbstore.auth.cache import Recent, WatchedTable, memory_of
from mlflow_dynamodbstore.auth.failures import Failures
from mlflow_dynamodbstore.auth.passwords import Passwords
from mlflow_dynamodbstore.auth.records import RoleRecord, UserRecord
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import grants as grant_keys
from mlflow_dynamodbstore.keys.base import DEFAULT_WORKSPACE
from mlflow_dynamodbstore.shared.open_tables import open_table
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item


class AuthBase:
    """The table of an auth store, and the readings that every part needs.

    What a write depends on is read from the table. What a check depends on may have been read a
    moment ago (see :mod:`mlflow_dynamodbstore.auth.cache`).
    """

    table: WatchedTable
    recent: Recent
    failures: Failures
    passwords: Passwords

    def _open(self, uri: str, table: Table | None = None) -> None:
        opened = table or open_table(uri)
        self.recent = memory_of(opened)
        self.table = WatchedTable(opened, self.recent)
        self.failures = Failures(opened)
        self.passwords = Passwords(on_wrong=self.failures.add)

    @staticmethod
    def _active_workspace() -> str:
        if not MLFLOW_ENABLE_WORKSPACES.get():
            return DEFAULT_WORKSPACE
        workspace = workspace_context.get_request_workspace()
        if not workspace:
            raise MlflowException.invalid_parameter_value(
                "Active workspace is required: configure a default workspace, or call "
                "mlflow.set_workspace() first."
            )
        return str(workspace)

    # --- users ----------------------------------------------------------------------------------

    def _find_user(self, username: str) -> UserRecord | None:
        if not is_text(username):
            return None
        item = self.table.get(access_keys.user_key(username))
        return None if item is None else UserRecord.read(item)

    def _find_user_lately(self, username: str) -> UserRecord | None:
        # That nobody has a name is not remembered: a new user can begin at once, everywhere.
        return self.recent.answer(
            ("user", username),
            lambda: self._find_user(username),
            keep=lambda user: user is not None,
        )

    def _user(self, username: str) -> UserRecord:
        return self._find_user(username) or not_found(f"User with username={username} not found")

    def _user_lately(self, username: str) -> UserRecord:
        found = self._find_user_lately(username)
        return found or not_found(f"User with username={username} not found")

    def _find_user_by_id(self, user_id: int) -> UserRecord | None:
        entry = self.table.get(grant_keys.user_entry_key(user_id)) if is_number(user_id) else None
        user = None if entry is None else self._find_user(str(entry["username"]))
        return user if user is not None and user.id == user_id else None

    # --- roles ----------------------------------------------------------------------------------

    def _find_role(self, role_id: int) -> RoleRecord | None:
        item = self.table.get(grant_keys.role_key(role_id)) if is_number(role_id) else None
        return None if item is None else RoleRecord.read(item)

    def _role(self, role_id: int) -> RoleRecord:
        return self._find_role(role_id) or not_found(f"Role with id={role_id} not found")

    def _find_role_by_name(self, workspace: str, name: str) -> RoleRecord | None:
        guard = self.table.get(grant_keys.role_name_guard(name, workspace))
        role = None if guard is None else self._find_role(int(guard["role_id"]))
        # A role that is being deleted or renamed may have left a name behind.
        return role if role is not None and role.name == name else None

    def _roles_of(self, user: UserRecord, workspace: str | None = None) -> list[RoleRecord]:
        """The roles that a user has, in one workspace or in all, in the order of their numbers."""
        query = Query(access_keys.user_pk(user.username), where=grant_keys.USER_ROLES.on())
        held = [
            grant_keys.role_key(int(item["role_id"]))
            for item in self.table.items(query)
            if item["user_id"] == user.id and workspace in (None, item["workspace"])
        ]
        found = self.table.get_many(held)
        return [RoleRecord.read(found[key]) for key in held if key in found]

    # --- grants ---------------------------------------------------------------------------------

    def _grants_of(self, role: RoleRecord, resource_type: str | None = None) -> list[Item]:
        """What a role allows, for one type of thing or for all, in the order it was granted."""
        if role.owner is None:
            query = Query(grant_keys.role_pk(role.id), where=grant_keys.ROLE_GRANTS.on())
            found = list(self.table.items(query))
        else:
            found = self._own_grants(role.owner, resource_type, role.workspace)
        grants = [
            item
            for item in found
            if item["role_id"] == role.id and resource_type in (None, item["resource_type"])
        ]
        return sorted(grants, key=lambda grant: int(grant["id"]))

    def _own_grants(
        self, username: str, resource_type: str | None, workspace: str | None
    ) -> list[Item]:
        """A user's own grants; those of other workspaces and types may be among them."""
        ranges = (
            (
                grant_keys.USER_GRANTS,
                access_keys.USER_EXPERIMENT_PERMISSIONS,
                access_keys.USER_MODEL_PERMISSIONS,
            )
            if resource_type is None
            else (grant_keys.own_grants(resource_type, workspace),)
        )
        pk = access_keys.user_pk(username)
        return [item for r in ranges for item in self.table.items(Query(pk, where=r.on()))]

    # --- numbers --------------------------------------------------------------------------------

    def _draw(self, sequence: str) -> int:
        """The next number of a sequence; none is given twice."""
        drawn = self.table.update(
            access_keys.sequence_key(sequence), Update(add={"value": 1}), returns="new"
        )
        assert drawn is not None
        return int(drawn["value"])


def is_text(value: object) -> bool:
    """Whether something can stand in a key: a text of whole characters, and not an empty one."""
    if not isinstance(value, str) or not value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_text(value: str, what: str) -> None:
    """Refuse what cannot stand in a key."""
    if not is_text(value):
        raise MlflowException.invalid_parameter_value(f"{what} must be a text that is not empty.")


def is_number(value: object) -> bool:
    """Whether something can be the number of a user or a role."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**10


def not_found(message: str) -> NoReturn:
    """Say that something does not exist."""
    raise MlflowException(message, RESOURCE_DOES_NOT_EXIST)


def already_exists(message: str) -> MlflowException:
    """That something exists already."""
    return MlflowException(message, RESOURCE_ALREADY_EXISTS)
