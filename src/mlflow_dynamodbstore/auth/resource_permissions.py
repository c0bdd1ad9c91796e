"""A user's own permission for one resource: MLflow's older calls, alike for each resource type."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from mlflow_dynamodbstore.auth.checks import check_text, refuse_missing
from mlflow_dynamodbstore.auth.context import AuthContext
from mlflow_dynamodbstore.auth.grant_writer import GrantExistsError, GrantWriter
from mlflow_dynamodbstore.auth.own_roles import OwnRoles
from mlflow_dynamodbstore.auth.reader import AuthReader, by_number
from mlflow_dynamodbstore.auth.records import UserRecord
from mlflow_dynamodbstore.mlflow_compat import auth as mlflow_auth
from mlflow_dynamodbstore.mlflow_compat.auth import validate_permission_for_resource_type
from mlflow_dynamodbstore.shared.mlflow_errors import translated
from mlflow_dynamodbstore.shared.plain_values import optional_text
from mlflow_dynamodbstore.shared.refusals import already_exists
from mlflow_dynamodbstore.table.values import Item


def scorer_pattern(experiment_id: str, scorer_name: str) -> str:
    """How grants name a scorer."""
    return f"{experiment_id}/{quote(scorer_name, safe='')}"


@dataclass(frozen=True)
class ResourceType:
    """A type of resource: how MLflow's calls, messages and entities name its resources.

    ``arguments`` are those of MLflow's calls that name a resource, ``pattern`` turns them into the
    name that grants use, and ``entity`` shows a grant as MLflow does.
    """

    name: str
    label: str
    arguments: tuple[str, ...]
    entity: Callable[[Item, int], Any]
    pattern: Callable[..., str] = lambda resource_id: resource_id
    exists: str = "{label} permission ({resource}, username={username}) already exists."
    missing: str = "{label} permission with {resource} and username={username} not found"


def _shown_as(entity: Callable[[str, int, str], Any]) -> Callable[[Item, int], Any]:
    return lambda grant, user_id: entity(grant["resource_pattern"], user_id, grant["permission"])


def _scorer_permission(grant: Item, user_id: int) -> mlflow_auth.ScorerPermission:
    experiment_id, _, name = str(grant["resource_pattern"]).partition("/")
    return mlflow_auth.ScorerPermission(experiment_id, unquote(name), user_id, grant["permission"])


def _model_permission(grant: Item, user_id: int) -> mlflow_auth.RegisteredModelPermission:
    return mlflow_auth.RegisteredModelPermission(
        grant["resource_pattern"], user_id, grant["permission"], grant["workspace"]
    )


_MODEL = "{label} permission with workspace={workspace}, {resource} and username={username}"

EXPERIMENT = ResourceType(
    mlflow_auth.RESOURCE_TYPE_EXPERIMENT,
    "Experiment",
    ("experiment_id",),
    _shown_as(mlflow_auth.ExperimentPermission),
)
REGISTERED_MODEL = ResourceType(
    mlflow_auth.RESOURCE_TYPE_REGISTERED_MODEL,
    "Registered model",
    ("name",),
    _model_permission,
    exists=f"{_MODEL} already exists.",
    missing=f"{_MODEL} not found",
)
SCORER = ResourceType(
    mlflow_auth.RESOURCE_TYPE_SCORER,
    "Scorer",
    ("experiment_id", "scorer_name"),
    _scorer_permission,
    pattern=scorer_pattern,
    missing="{label} permission with {resource}, and username={username} not found",
)
GATEWAY_SECRET = ResourceType(
    mlflow_auth.RESOURCE_TYPE_GATEWAY_SECRET,
    "Gateway secret",
    ("secret_id",),
    _shown_as(mlflow_auth.GatewaySecretPermission),
)
GATEWAY_ENDPOINT = ResourceType(
    mlflow_auth.RESOURCE_TYPE_GATEWAY_ENDPOINT,
    "Gateway endpoint",
    ("endpoint_id",),
    _shown_as(mlflow_auth.GatewayEndpointPermission),
)
GATEWAY_MODEL_DEFINITION = ResourceType(
    mlflow_auth.RESOURCE_TYPE_GATEWAY_MODEL_DEFINITION,
    "Gateway model definition",
    ("model_definition_id",),
    _shown_as(mlflow_auth.GatewayModelDefinitionPermission),
)
MCP_SERVER = ResourceType(
    mlflow_auth.RESOURCE_TYPE_MCP_SERVER,
    "MCP server",
    ("name",),
    _shown_as(mlflow_auth.MCPServerPermission),
)


class ResourcePermissions:
    """Creating, reading, changing and deleting a user's own permission for one resource."""

    def __init__(
        self, context: AuthContext, reader: AuthReader, grants: GrantWriter, own_roles: OwnRoles
    ) -> None:
        self.context = context
        self.reader = reader
        self.grants = grants
        self.own_roles = own_roles

    def create(self, kind: ResourceType, ids: Sequence[str], username: str, permission: str) -> Any:
        validate_permission_for_resource_type(permission, kind.name)
        user = self.reader.existing_user(username)
        pattern = kind.pattern(*ids)
        check_text(pattern, "resource_pattern")
        role = self.own_roles.own_role(user, self.context.workspace())
        try:
            grant = self.grants.add_grant(role, kind.name, pattern, permission)
        except GrantExistsError as error:
            raise already_exists(self._message(kind.exists, kind, ids, username)) from error
        return kind.entity(grant, user.id)

    def get(self, kind: ResourceType, ids: Sequence[str], username: str) -> Any:
        user, grant = self._existing_grant(kind, ids, username)
        return kind.entity(grant, user.id)

    def list_in_workspace(self, kind: ResourceType, username: str) -> list[Any]:
        return self._list(kind, username, self.context.workspace())

    def list_in_all_workspaces(self, kind: ResourceType, username: str) -> list[Any]:
        return self._list(kind, username, None)

    def update(self, kind: ResourceType, ids: Sequence[str], username: str, permission: str) -> Any:
        validate_permission_for_resource_type(permission, kind.name)
        user, grant = self._existing_grant(kind, ids, username)
        changed = self.grants.set_permission(grant, permission)
        if changed is None:
            refuse_missing(self._message(kind.missing, kind, ids, username))
        return kind.entity(changed, user.id)

    def delete(self, kind: ResourceType, ids: Sequence[str], username: str) -> None:
        _, grant = self._existing_grant(kind, ids, username)
        if not self.grants.remove_grant(grant):
            refuse_missing(self._message(kind.missing, kind, ids, username))

    def _existing_grant(
        self, kind: ResourceType, ids: Sequence[str], username: str
    ) -> tuple[UserRecord, Item]:
        user, workspace = self.reader.existing_user(username), self.context.workspace()
        grant = self.reader.find_own_grant(user, workspace, kind.name, kind.pattern(*ids))
        return user, grant or refuse_missing(self._message(kind.missing, kind, ids, username))

    def _list(self, kind: ResourceType, username: str, workspace: str | None) -> list[Any]:
        user = self.reader.existing_user(username)
        grants = by_number(
            grant
            for grant in self.reader.own_grants(user.username, kind.name, workspace)
            if grant["user_id"] == user.id
            and grant["resource_type"] == kind.name
            and workspace in (None, grant["workspace"])
        )
        return [kind.entity(grant, user.id) for grant in grants]

    def _message(self, template: str, kind: ResourceType, ids: Sequence[str], username: str) -> str:
        resource = ", ".join(f"{name}={one}" for name, one in zip(kind.arguments, ids, strict=True))
        return template.format(
            label=kind.label,
            resource=resource,
            username=username,
            workspace=self.context.workspace(),
        )


def answered_for(kind: ResourceType, method: Callable[..., Any]) -> Callable[..., Any]:
    """A store's method that a method of its :class:`ResourcePermissions` answers for one type.

    Its arguments are named as MLflow names them: ``ids`` becomes the arguments of the type.
    """
    itself, _, *others = inspect.signature(method).parameters.values()
    names = kind.arguments if others[0].name == "ids" else ()
    ids = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    signature = inspect.Signature([itself, *ids, *others[bool(ids) :]])

    @translated
    def answer(store: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(store, *args, **kwargs)
        given: list[Any] = [
            optional_text(value, name) for name, value in list(bound.arguments.items())[1:]
        ]
        if ids:
            given = [given[: len(ids)], *given[len(ids) :]]
        return method(store.resource_permissions, kind, *given)

    vars(answer)["__signature__"] = signature
    return answer
