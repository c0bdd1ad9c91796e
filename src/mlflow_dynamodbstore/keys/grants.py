"""Keys of what users may do: their own grants, roles, and the grants of roles.

A user's own grants lie in the user's partition, those of a role in the role's. Each own grant has a
second item in a partition for the resource, so a consistent read finds all grants for a resource;
``GSI4`` lists the same for experiments and models, with some lag.
"""

from __future__ import annotations

from mlflow_dynamodbstore.keys.access import (
    CONFIG_PK,
    USER_EXPERIMENT_PERMISSIONS,
    USER_MODEL_PERMISSIONS,
    user_experiment_permission,
    user_model_permission,
    workspace_pk,
)
from mlflow_dynamodbstore.keys.base import (
    DEFAULT_WORKSPACE,
    LONE_NAME,
    NAME,
    PARTITION_NAME,
    WORD,
    WORKSPACE,
    Range,
    children,
    join,
)
from mlflow_dynamodbstore.keys.encoding import bounded, ordered_version
from mlflow_dynamodbstore.table.values import Key

ROLE_META = "RL#META"
ROLE_GRANTS = children("RL#PERM")
ROLE_MEMBERS = children("RL#USER")
ROLE_NAMES = children("ROLENAME")
USER_ENTRIES = children("UID")
USER_GRANTS = children("U#GRANT")
USER_ROLES = children("U#ROLE")

_EXPERIMENT = "experiment"
_MODEL = "registered_model"


def user_entry(user_id: int) -> str:
    """A user in the list of all users, by number."""
    return join("UID", ordered_version(user_id))


def user_entry_key(user_id: int) -> Key:
    """The whole key of a user's entry in the list."""
    return Key(CONFIG_PK, user_entry(user_id))


def user_role(role_id: int) -> str:
    """A role that a user has."""
    return join("U#ROLE", ordered_version(role_id))


def user_grant(resource_type: str, pattern: str, workspace: str = DEFAULT_WORKSPACE) -> str:
    """A user's own grant for a resource that is neither an experiment nor a registered model."""
    return join(
        "U#GRANT",
        bounded(workspace, WORKSPACE),
        bounded(resource_type, WORD),
        bounded(pattern, NAME),
    )


def own_grant(resource_type: str, pattern: str, workspace: str = DEFAULT_WORKSPACE) -> str:
    """A user's own grant for a resource of any type."""
    if resource_type == _EXPERIMENT:
        return user_experiment_permission(pattern, workspace)
    if resource_type == _MODEL:
        return user_model_permission(pattern, workspace)
    return user_grant(resource_type, pattern, workspace)


def own_grants(resource_type: str, workspace: str | None = None) -> Range:
    """A user's own grants for one resource type; for the default workspace, of all workspaces."""
    if resource_type == _EXPERIMENT:
        return _in_workspace(USER_EXPERIMENT_PERMISSIONS, workspace)
    if resource_type == _MODEL:
        return _in_workspace(USER_MODEL_PERMISSIONS, workspace)
    if workspace is None:
        return USER_GRANTS
    return children(join("U#GRANT", bounded(workspace, WORKSPACE), bounded(resource_type, WORD)))


def role_pk(role_id: int) -> str:
    """The partition of a role."""
    return join("ROLE", ordered_version(role_id))


def role_key(role_id: int) -> Key:
    """A role's own item."""
    return Key(role_pk(role_id), ROLE_META)


def role_grant(resource_type: str, pattern: str) -> str:
    """A grant of a role."""
    return join("RL#PERM", bounded(resource_type, WORD), bounded(pattern, NAME))


def role_member(user_id: int) -> str:
    """A user who has a role."""
    return join("RL#USER", ordered_version(user_id))


def role_name_guard(name: str, workspace: str = DEFAULT_WORKSPACE) -> Key:
    """The item that keeps a role's name unique."""
    return Key(workspace_pk(workspace), join("ROLENAME", bounded(name, LONE_NAME)))


def resource_grants_pk(resource_type: str, pattern: str) -> str:
    """The partition that lists the users' own grants for a resource."""
    return join("GRANT", bounded(resource_type, WORD), bounded(pattern, PARTITION_NAME))


def resource_grant(username: str, workspace: str = DEFAULT_WORKSPACE) -> str:
    """A user who has an own grant for a resource."""
    return join("USER", bounded(workspace, WORKSPACE), bounded(username, NAME))


def resource_grants(workspace: str | None = None) -> Range:
    """The users who have an own grant for a resource, in one workspace or in all."""
    if workspace is None:
        return children("USER")
    return children(join("USER", bounded(workspace, WORKSPACE)))


def _in_workspace(of_all: Range, workspace: str | None) -> Range:
    """Keys of the default workspace do not name it, so its range is that of all workspaces."""
    if workspace is None or workspace == DEFAULT_WORKSPACE:
        return of_all
    return children(of_all.low + bounded(workspace, WORKSPACE))
