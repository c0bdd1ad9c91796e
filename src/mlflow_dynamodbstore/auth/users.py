"""Users: who they are, and whether they are who they say."""

from __future__ import annotations

from boto3.dynamodb.conditions import Attr
from mlflow.server.auth.entities import Role, User
from mlflow.utils.validation import _validate_password, _validate_username
from werkzeug.security import generate_password_hash

from mlflow_dynamodbstore.auth.base import already_exists, check_text, is_text, not_found
from mlflow_dynamodbstore.auth.passwords import FAILURES
from mlflow_dynamodbstore.auth.records import UserRecord
from mlflow_dynamodbstore.auth.removal import Removal
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import grants as grant_keys
from mlflow_dynamodbstore.table.contract import Delete, Put, Query
from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Value


class Users(Removal):
    """Users."""

    def authenticate_user(self, username: str, password: str, *, use_primary: bool = False) -> bool:
        del use_primary  # every read is consistent
        if not is_text(username) or not is_text(password):
            return False
        if self.passwords.once_right(username, password):
            known = self._find_user_lately(username)
            if known and self.passwords.were_right(username, password, known.password_hash):
                return True
        # From here on the same is done for users and for names that nobody has. Nothing that is
        # remembered of a user may make it faster.
        user, failures = self.failures.read(username)
        if failures >= FAILURES:
            return False
        stored = None if user is None else user.password_hash
        if not self.passwords.are_right(username, password, stored):
            return False
        if failures:
            self.failures.forget(username)
        return True

    def create_user(self, username: str, password: str, is_admin: bool = False) -> User:
        _validate_username(username)
        check_text(username, "Username")
        _validate_password(password)
        user = UserRecord(
            self._draw("user"), username, generate_password_hash(password), bool(is_admin)
        )
        key, entry = access_keys.user_key(username), grant_keys.user_entry_key(user.id)
        item = {
            "id": user.id,
            "username": username,
            "password_hash": user.password_hash,
            "is_admin": user.is_admin,
        }
        try:
            self.table.transact(
                [
                    Put({"PK": key.pk, "SK": key.sk, **item}, condition=Attr("PK").not_exists()),
                    Put({"PK": entry.pk, "SK": entry.sk, "username": username}),
                ]
            )
        except TransactionCancelled as error:
            if error.reasons[0] is None or error.reasons[0].code != "ConditionFailed":
                raise
            raise already_exists(f"User (username={username}) already exists.") from error
        return user.to_entity()

    def has_user(self, username: str, *, use_primary: bool = False) -> bool:
        del use_primary  # every read is consistent
        return self._find_user(username) is not None

    def get_user(self, username: str) -> User:
        return self._user_lately(username).to_entity()

    def list_users(self) -> list[User]:
        return [user.to_entity() for user in self._all_users()]

    def list_users_with_roles(self) -> list[tuple[User, list[Role]]]:
        return [
            (
                user.to_entity(),
                [role.to_entity(self._grants_of(role)) for role in self._roles_of(user)],
            )
            for user in self._all_users()
        ]

    def update_user(
        self, username: str, password: str | None = None, is_admin: bool | None = None
    ) -> User:
        user = self._user(username)
        changes: dict[str, Value] = {}
        if password is not None:
            _validate_password(password)
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
            not_found(f"User with username={username} not found")
        assert item is not None
        return UserRecord.read(item).to_entity()

    def delete_user(self, username: str) -> None:
        user = self._user(username)
        # What hangs on the user goes first, so that an interrupted deletion can be repeated and
        # leaves nothing to whoever takes the name next.
        self._remove_holdings(user)
        self.table.transact(
            [Delete(access_keys.user_key(username)), Delete(grant_keys.user_entry_key(user.id))]
        )
        self._remove_holdings(user)  # what was granted meanwhile

    def _all_users(self) -> list[UserRecord]:
        """All users in the order they were created."""
        entries = self.table.items(Query(access_keys.CONFIG_PK, where=grant_keys.USER_ENTRIES.on()))
        wanted = [access_keys.user_key(str(entry["username"])) for entry in entries]
        found = self.table.get_many(wanted)
        users = [UserRecord.read(found[key]) for key in wanted if key in found]
        return sorted(users, key=lambda user: user.id)
