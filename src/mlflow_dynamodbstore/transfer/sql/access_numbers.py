"""New numbers for the users and roles of an imported database, and for what refers to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlflow_dynamodbstore.auth.records import ALL, is_own_role_name, own_role_name
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import grants as grant_keys
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Key, Value
from mlflow_dynamodbstore.transfer.sql.access import USERNAMES
from mlflow_dynamodbstore.transfer.sql.entities import NOT_IMPORTABLE, Entity
from mlflow_dynamodbstore.transfer.sql.numbers import Numbers


class AccessNumbers:
    """New numbers of users and roles. A user or role of the same name is taken to be the same."""

    def __init__(
        self,
        table: Table,
        source: str,
        experiment: Callable[[str], str | None],
        named: Callable[[str], str],
    ):
        self.table = table
        self.users = Numbers(table, source, "user", lambda n: grant_keys.user_entry_key(int(n)))
        self.roles = Numbers(table, source, "role", lambda n: grant_keys.role_key(int(n)))
        self._assignments = Numbers(table, source, "role_assignment")
        self._experiment = experiment
        self._named = named

    def number_users(self, entities: Sequence[Entity]) -> None:
        """Give users their new numbers."""
        keys = {access_keys.user_key(e.values["username"]): str(e.key[0]) for e in entities}
        found = self.table.get_many(keys)
        named = {keys[key]: str(item["id"]) for key, item in found.items()}
        self.users.give([str(e.key[0]) for e in entities], named)
        for entity in entities:
            entity.key = (int(self.users.known()[str(entity.key[0])]),)

    def number_roles(self, entities: Sequence[Entity]) -> None:
        """Give roles their new numbers, and their members and grants those that they refer to."""
        users = self.users.known()
        guards: dict[Key, str] = {}
        for entity in entities:
            values = entity.values
            members = {int(users[str(one)]): number for one, number in values["members"].items()}
            names = {int(users[str(one)]): name for one, name in entity.hints[USERNAMES].items()}
            values["members"], entity.hints[USERNAMES] = members, names
            if is_own_role_name(values["name"]) and members:
                values["name"] = own_role_name(min(members))
            elif is_own_role_name(values["name"]):
                entity.hints[NOT_IMPORTABLE] = "its user does not exist"
            guards[grant_keys.role_name_guard(values["name"], values["workspace"])] = str(
                entity.key[0]
            )
            self._follow_grants(entity)
        found = self.table.get_many(guards)
        named = {guards[key]: str(item["role_id"]) for key, item in found.items()}
        self.roles.give([str(e.key[0]) for e in entities], named)
        for entity in entities:
            numbers = [str(number) for number in entity.values["members"].values()]
            self._assignments.give(numbers, {})
            entity.values["members"] = {
                user: int(self._assignments.known()[str(number)])
                for user, number in entity.values["members"].items()
            }
            entity.key = (int(self.roles.known()[str(entity.key[0])]),)

    def _follow_grants(self, entity: Entity) -> None:
        """Let grants name the new ids; one that cannot be followed must not reach another's."""
        granted: dict[tuple[str, str], Value] = {}
        for (kind, pattern), permission in entity.values["permissions"].items():
            new = pattern
            if pattern != ALL and kind in ("experiment", "scorer"):
                old, slash, rest = pattern.partition("/")
                number = self._experiment(old)
                if number is None:
                    entity.hints[NOT_IMPORTABLE] = (
                        f"it has a grant for experiment {old} of another database; import that "
                        "first, and name its map with --map"
                    )
                    continue
                new = f"{number}{slash}{rest}"
            elif pattern != ALL and kind in ("registered_model", "prompt"):
                new = self._named(pattern)
            granted[kind, new] = permission
        entity.values["permissions"] = granted
