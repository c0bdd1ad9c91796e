"""Grants and role assignments as they lie in the table.

A user's own grant has two items: one in the partition of the user, and its mirror in the partition
of the resource that it is for.
"""

from __future__ import annotations

from mlflow_dynamodbstore.auth.records import RoleRecord
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import grants as grant_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.mlflow_compat.auth import (
    RESOURCE_TYPE_EXPERIMENT,
    RESOURCE_TYPE_REGISTERED_MODEL,
)
from mlflow_dynamodbstore.table.values import Item, Key

GRANTS_OF_A_ROLE = 1 << 24
"""The number of a grant is the number of its role times this, plus the role's count of grants."""


def grant_number(role: RoleRecord, count: int) -> int:
    """The number of the grant that a role got when its count of grants was ``count``."""
    return role.id * GRANTS_OF_A_ROLE + count


def grant_item(
    role: RoleRecord, number: int, resource_type: str, pattern: str, permission: str
) -> Item:
    """A grant of a role."""
    key = role.grant_key(resource_type, pattern)
    grant: Item = {
        "PK": key.pk,
        "SK": key.sk,
        "id": number,
        "role_id": role.id,
        "workspace": role.workspace,
        "resource_type": resource_type,
        "resource_pattern": pattern,
        "permission": permission,
    }
    if role.owner is not None:
        grant |= {"username": role.owner, "user_id": role.owner_id}
        grant |= _index(role.owner, role.workspace, resource_type, pattern)
    return grant


def mirror_key(grant: Item) -> Key | None:
    """The key of the mirror of a grant, if the grant is a user's own."""
    username = grant.get("username")
    if username is None:
        return None
    return Key(
        grant_keys.resource_grants_pk(str(grant["resource_type"]), str(grant["resource_pattern"])),
        grant_keys.resource_grant(str(username), str(grant["workspace"])),
    )


def mirror_items(grant: Item) -> list[Item]:
    """The mirror of a grant, if the grant is a user's own."""
    key = mirror_key(grant)
    if key is None:
        return []
    named = ("role_id", "workspace", "username", "user_id", "resource_type", "resource_pattern")
    return [{"PK": key.pk, "SK": key.sk, **{name: grant[name] for name in named}}]


def assignment_keys(role_id: int, user_id: int, username: str) -> tuple[Key, Key]:
    """Where the assignment of a role to a user lies: with the user, and with the role."""
    return (
        Key(access_keys.user_pk(username), grant_keys.user_role(role_id)),
        Key(grant_keys.role_pk(role_id), grant_keys.role_member(user_id)),
    )


def assignment_items(
    role: RoleRecord, user_id: int, username: str, number: int
) -> tuple[Item, Item]:
    """The assignment of a role to a user: with the user, and with the role."""
    assignment: Item = {
        "id": number,
        "role_id": role.id,
        "workspace": role.workspace,
        "username": username,
        "user_id": user_id,
    }
    held, member = assignment_keys(role.id, user_id, username)
    return (
        {"PK": held.pk, "SK": held.sk, **assignment},
        {"PK": member.pk, "SK": member.sk, **assignment},
    )


def _index(
    username: str, workspace: str, resource_type: str, pattern: str
) -> index_keys.Attributes:
    if resource_type == RESOURCE_TYPE_EXPERIMENT:
        return index_keys.gsi4_experiment_permission(pattern, username)
    if resource_type == RESOURCE_TYPE_REGISTERED_MODEL:
        return index_keys.gsi4_model_permission(pattern, username, workspace)
    return {}
