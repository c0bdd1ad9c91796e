"""Users and their logins."""

from __future__ import annotations

from boto3.dynamodb.conditions import Attr
from mlflow.exceptions import MlflowException
from werkzeug.security import generate_password_hash

from mlflow_dynamodbstore.auth.checks import is_text, no_such_user
from mlflow_dynamodbstore.auth.context import AuthContext
from mlflow_dynamodbstore.auth.failed_logins import FailedLogins
from mlflow_dynamodbstore.auth.grant_writer import GrantWriter
from mlflow_dynamodbstore.auth.items import assignment_keys
from mlflow_dynamodbstore.auth.passwords import MOST_FAILURES, Passwords
from mlflow_dynamodbstore.auth.reader import AuthReader
from mlflow_dynamodbstore.auth.records import UserRecord
from mlflow_dynamodbstore.auth.roles import Roles
from mlflow_dynamodbstore.auth.usernames import check_username
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import grants as grant_keys
from mlflow_dynamodbstore.mlflow_compat.auth import Role, User
from mlflow_dynamodbstore.mlflow_compat.validation import validate_password, validate_username
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.refusals import already_exists
from mlflow_dynamodbstore.table.contract import Delete, Put, Query
from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Value


class Users:
    """Creating, authenticating, changing and deleting users."""

    def __init__(
        self, context: AuthContext, reader: AuthReader, grants: GrantWriter, roles: Roles
    ) -> None:
        self.context = context
        self.table = context.table
        self.reader = reader
        self.grants = grants
        self.roles = roles
        self.failed_logins = FailedLogins(context.plain_table)
        self.passwords = Passwords(on_wrong=self.failed_logins.add)

    def authenticate_user(self, username: str, password: str, *, use_primary: bool = False) -> bool:
        del use_primary  # every read is consistent
        if not is_text(username) or not is_text(password):
            return False
        if self.passwords.once_right(username, password):
            known = self.reader.find_cached_user(username)
            if known and self.passwords.were_right(username, password, known.password_hash):
                return True
        # From here on, names that nobody has take the same steps as users: nothing that is cached
        # about a user may make the answer faster.
        user, failures = self.failed_logins.read(username)
        if failures >= MOST_FAILURES:
            return False
        stored = None if user is None else user.password_hash
        if not self.passwords.are_right(username, password, stored):
            return False
        if failures:
            self.failed_logins.forget(username)
        return True

    def create_user(self, username: str, password: str, is_admin: bool = False) -> User:
        validate_username(username)
        check_username(username)
        validate_password(password)
        if self.reader.find_user(username) is not None:
            raise _exists(username)
        user = UserRecord(
            self.context.next_number("user"),
            username,
            generate_password_hash(password),
            bool(is_admin),
        )
        key = grant_keys.user_entry_key(user.id)
        entry = {"PK": key.pk, "SK": key.sk, "username": username}
        try:
            self.table.transact([Put(user.to_item(), condition=ABSENT), Put(entry)])
        except TransactionCancelled as cancelled:
            if not cancelled.refused(0):
                raise
            raise _exists(username) from cancelled
        return user.to_entity()

    def has_user(self, username: str, *, use_primary: bool = False) -> bool:
        del use_primary  # every read is consistent
        return self.reader.find_user(username) is not None

    def get_user(self, username: str) -> User:
        return self.reader.cached_user(username).to_entity()

    def list_users(self) -> list[User]:
        return [user.to_entity() for user in self._all_users()]

    def list_users_with_roles(self) -> list[tuple[User, list[Role]]]:
        return [
            (user.to_entity(), [self.reader.role_entity(r) for r in self.reader.roles_of(user)])
            for user in self._all_users()
        ]

    def update_user(
        self, username: str, password: str | None = None, is_admin: bool | None = None
    ) -> User:
        user = self.reader.existing_user(username)
        changes: dict[str, Value] = {}
        if password is not None:
            validate_password(password)
            changes["password_hash"] = generate_password_hash(password)
        if is_admin is not None:
            changes["is_admin"] = bool(is_admin)
        if not changes:
            return user.to_entity()
        try:
            item = self.table.update(
                access_keys.user_key(username),
                Update(set=changes),
                condition=Attr("id").eq(user.id),
                returns="new",
            )
        except ConditionFailed:
            no_such_user(username)
        assert item is not None
        return UserRecord.read(item).to_entity()

    def delete_user(self, username: str) -> None:
        user = self.reader.existing_user(username)
        # Roles and grants go first: an interrupted deletion can be repeated, and the next user of
        # this name inherits nothing.
        self._remove_roles_and_grants(user)
        self.table.transact(
            [Delete(access_keys.user_key(username)), Delete(grant_keys.user_entry_key(user.id))]
        )
        self._remove_roles_and_grants(user)  # those granted in the meantime

    def _remove_roles_and_grants(self, user: UserRecord) -> None:
        """Remove a user's own grants with their roles, and the user from all other roles."""
        for role in self.reader.roles_of(user):
            if role.owner_id == user.id:
                self.roles.remove_role(role)
        for grant in self.reader.own_grants(user.username, None, None):
            self.grants.remove_grant(grant)
        query = Query(access_keys.user_pk(user.username), where=grant_keys.USER_ROLES.on())
        for held in list(self.table.items(query)):
            keys = assignment_keys(int(held["role_id"]), user.id, user.username)
            self.table.transact([Delete(key) for key in keys])

    def _all_users(self) -> list[UserRecord]:
        """All users in the order in which they were created."""
        entries = self.table.items(Query(access_keys.CONFIG_PK, where=grant_keys.USER_ENTRIES.on()))
        keys = [access_keys.user_key(str(entry["username"])) for entry in entries]
        found = self.table.get_many(keys)
        users = [UserRecord.read(found[key]) for key in keys if key in found]
        return sorted(users, key=lambda user: user.id)


def _exists(username: str) -> MlflowException:
    return already_exists(f"User (username={username}) already exists.")
