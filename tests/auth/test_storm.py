"""Users and roles under throttling, lost answers and conflicts: nothing lost, nothing doubled."""

from __future__ import annotations

from pathlib import Path

from mlflow_dynamodbstore.auth.store import DynamoDBAuthStore
from tests.storms import THREADS, assert_one_made, in_threads, outcome, stormy_table

EACH = 2
PASSWORD = "a long password 12"


def test_users_and_roles_in_a_storm(tmp_path: Path) -> None:
    """Every user and role is there once, with its grants; of one name there is one."""
    with stormy_table(tmp_path) as table:
        store = DynamoDBAuthStore(table.engine.uri, table=table)

        def work(thread: int) -> tuple[str, str]:
            for n in range(EACH):
                name = f"user-{thread}-{n}"
                store.create_user(name, PASSWORD)
                role = store.create_role(f"role-{thread}-{n}", "default")
                store.add_role_permission(role.id, "experiment", str(n), "EDIT")
                store.assign_role_to_user(store.get_user(name).id, role.id)
                store.grant_user_resource_permission(name, "experiment", f"own-{n}", "READ")
            store.delete_user(f"user-{thread}-0")
            return (
                outcome(lambda: store.create_user("same", PASSWORD)),
                outcome(lambda: store.create_role("same", "default")),
            )

        results = in_threads(work)
        assert_one_made([user for user, _ in results])
        assert_one_made([role for _, role in results])

        kept = [f"user-{t}-{n}" for t in range(THREADS) for n in range(1, EACH)]
        assert sorted(u.username for u in store.list_users()) == sorted([*kept, "same"])
        ids = [role.id for role in store.list_roles(["default"])]
        assert len(ids) == len(set(ids))
        for name in kept:
            _, thread, n = name.split("-")
            assert store.authenticate_user(name, PASSWORD)
            roles = {role.name for role in store.list_user_roles(store.get_user(name).id)}
            assert f"role-{thread}-{n}" in roles
            role = store.get_role_by_name("default", f"role-{thread}-{n}")
            assert [p.resource_pattern for p in store.list_role_permissions(role.id)] == [n]
