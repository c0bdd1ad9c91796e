"""The auth store that MLflow's auth app sees: which part answers which call."""

from __future__ import annotations

from mlflow_dynamodbstore.auth.context import AuthContext
from mlflow_dynamodbstore.auth.grant_writer import GrantWriter
from mlflow_dynamodbstore.auth.own_roles import OwnRoles
from mlflow_dynamodbstore.auth.permission_checks import PermissionChecks
from mlflow_dynamodbstore.auth.reader import AuthReader
from mlflow_dynamodbstore.auth.resource_permissions import (
    EXPERIMENT,
    GATEWAY_ENDPOINT,
    GATEWAY_MODEL_DEFINITION,
    GATEWAY_SECRET,
    MCP_SERVER,
    REGISTERED_MODEL,
    SCORER,
    ResourcePermissions,
    answered_for,
    scorer_pattern,
)
from mlflow_dynamodbstore.auth.role_assignments import RoleAssignments
from mlflow_dynamodbstore.auth.role_permissions import RolePermissions
from mlflow_dynamodbstore.auth.roles import Roles
from mlflow_dynamodbstore.auth.user_grants import UserGrants
from mlflow_dynamodbstore.auth.users import Users
from mlflow_dynamodbstore.auth.workspace_permissions import WorkspacePermissions
from mlflow_dynamodbstore.shared.face import answered_by
from mlflow_dynamodbstore.shared.open_tables import open_table
from mlflow_dynamodbstore.table.table import Table

_create, _get = ResourcePermissions.create, ResourcePermissions.get
_list_here = ResourcePermissions.list_in_workspace
_list_everywhere = ResourcePermissions.list_in_all_workspaces
_update, _delete = ResourcePermissions.update, ResourcePermissions.delete


class DynamoDBAuthStore:
    """Users, roles and grants on one DynamoDB table, or on a file of the embedded engine."""

    def __init__(self, auth_uri: str, *, table: Table | None = None):
        self.table = table or open_table(auth_uri)
        context = AuthContext.on(self.table)
        self.answers = context.answers
        reader = AuthReader(context)
        grants = GrantWriter(context, reader)
        self.roles = Roles(context, reader, grants)
        self.users = Users(context, reader, grants, self.roles)
        self.role_permissions = RolePermissions(reader, grants)
        self.role_assignments = RoleAssignments(context, reader)
        own_roles = OwnRoles(context, reader, self.roles, self.role_assignments)
        self.user_grants = UserGrants(context, reader, grants, own_roles)
        self.resource_permissions = ResourcePermissions(context, reader, grants, own_roles)
        self.workspace_permissions = WorkspacePermissions(context, reader, grants, own_roles)
        self.permission_checks = PermissionChecks(context, reader)

    def init_db(self, db_uri: str, read_db_uri: str | None = None) -> None:
        """Do nothing: MLflow's app opens its database here, and this store is open already."""
        del db_uri, read_db_uri

    # --- users ----------------------------------------------------------------------------------

    authenticate_user = answered_by(Users.authenticate_user)
    create_user = answered_by(Users.create_user)
    has_user = answered_by(Users.has_user)
    get_user = answered_by(Users.get_user)
    list_users = answered_by(Users.list_users)
    list_users_with_roles = answered_by(Users.list_users_with_roles)
    update_user = answered_by(Users.update_user)
    delete_user = answered_by(Users.delete_user)

    # --- users' own grants ----------------------------------------------------------------------

    grant_user_permission = answered_by(UserGrants.grant_user_permission)
    grant_user_resource_permission = answered_by(UserGrants.grant_user_resource_permission)
    revoke_user_resource_permission = answered_by(UserGrants.revoke_user_resource_permission)
    delete_grants_for_resource = answered_by(UserGrants.delete_grants_for_resource)
    rename_grants_for_resource = answered_by(UserGrants.rename_grants_for_resource)

    # --- users' own permissions for experiments and registered models ---------------------------

    create_experiment_permission = answered_for(EXPERIMENT, _create)
    get_experiment_permission = answered_for(EXPERIMENT, _get)
    list_experiment_permissions = answered_for(EXPERIMENT, _list_everywhere)
    update_experiment_permission = answered_for(EXPERIMENT, _update)
    delete_experiment_permission = answered_for(EXPERIMENT, _delete)

    create_registered_model_permission = answered_for(REGISTERED_MODEL, _create)
    get_registered_model_permission = answered_for(REGISTERED_MODEL, _get)
    list_registered_model_permissions = answered_for(REGISTERED_MODEL, _list_here)
    list_all_registered_model_permissions = answered_for(REGISTERED_MODEL, _list_everywhere)
    update_registered_model_permission = answered_for(REGISTERED_MODEL, _update)
    delete_registered_model_permission = answered_for(REGISTERED_MODEL, _delete)

    # --- users' permissions for workspaces ------------------------------------------------------

    delete_workspace_permissions_for_workspace = answered_by(
        WorkspacePermissions.delete_workspace_permissions_for_workspace
    )
    list_workspace_permissions = answered_by(WorkspacePermissions.list_workspace_permissions)
    list_user_workspace_permissions = answered_by(
        WorkspacePermissions.list_user_workspace_permissions
    )
    set_workspace_permission = answered_by(WorkspacePermissions.set_workspace_permission)
    delete_workspace_permission = answered_by(WorkspacePermissions.delete_workspace_permission)
    list_accessible_workspace_names = answered_by(
        WorkspacePermissions.list_accessible_workspace_names
    )
    get_workspace_permission = answered_by(WorkspacePermissions.get_workspace_permission)
    get_role_workspace_permission = answered_by(WorkspacePermissions.get_role_workspace_permission)

    # --- users' own permissions for scorers, the gateway and MCP servers ------------------------

    _scorer_pattern = staticmethod(scorer_pattern)  # MLflow's app calls it

    create_scorer_permission = answered_for(SCORER, _create)
    get_scorer_permission = answered_for(SCORER, _get)
    list_scorer_permissions = answered_for(SCORER, _list_everywhere)
    update_scorer_permission = answered_for(SCORER, _update)
    delete_scorer_permission = answered_for(SCORER, _delete)

    create_gateway_secret_permission = answered_for(GATEWAY_SECRET, _create)
    get_gateway_secret_permission = answered_for(GATEWAY_SECRET, _get)
    list_gateway_secret_permissions = answered_for(GATEWAY_SECRET, _list_here)
    update_gateway_secret_permission = answered_for(GATEWAY_SECRET, _update)
    delete_gateway_secret_permission = answered_for(GATEWAY_SECRET, _delete)

    create_gateway_endpoint_permission = answered_for(GATEWAY_ENDPOINT, _create)
    get_gateway_endpoint_permission = answered_for(GATEWAY_ENDPOINT, _get)
    list_gateway_endpoint_permissions = answered_for(GATEWAY_ENDPOINT, _list_here)
    update_gateway_endpoint_permission = answered_for(GATEWAY_ENDPOINT, _update)
    delete_gateway_endpoint_permission = answered_for(GATEWAY_ENDPOINT, _delete)

    create_gateway_model_definition_permission = answered_for(GATEWAY_MODEL_DEFINITION, _create)
    get_gateway_model_definition_permission = answered_for(GATEWAY_MODEL_DEFINITION, _get)
    list_gateway_model_definition_permissions = answered_for(GATEWAY_MODEL_DEFINITION, _list_here)
    update_gateway_model_definition_permission = answered_for(GATEWAY_MODEL_DEFINITION, _update)
    delete_gateway_model_definition_permission = answered_for(GATEWAY_MODEL_DEFINITION, _delete)

    create_mcp_server_permission = answered_for(MCP_SERVER, _create)
    get_mcp_server_permission = answered_for(MCP_SERVER, _get)
    list_mcp_server_permissions = answered_for(MCP_SERVER, _list_here)
    update_mcp_server_permission = answered_for(MCP_SERVER, _update)
    delete_mcp_server_permission = answered_for(MCP_SERVER, _delete)

    # --- roles ----------------------------------------------------------------------------------

    create_role = answered_by(Roles.create_role)
    get_role = answered_by(Roles.get_role)
    get_role_by_name = answered_by(Roles.get_role_by_name)
    list_roles = answered_by(Roles.list_roles)
    update_role = answered_by(Roles.update_role)
    delete_role = answered_by(Roles.delete_role)
    delete_roles_for_workspace = answered_by(Roles.delete_roles_for_workspace)

    # --- the grants of roles --------------------------------------------------------------------

    add_role_permission = answered_by(RolePermissions.add_role_permission)
    get_role_permission = answered_by(RolePermissions.get_role_permission)
    remove_role_permission = answered_by(RolePermissions.remove_role_permission)
    list_role_permissions = answered_by(RolePermissions.list_role_permissions)
    update_role_permission = answered_by(RolePermissions.update_role_permission)

    # --- the roles of users ---------------------------------------------------------------------

    assign_role_to_user = answered_by(RoleAssignments.assign_role_to_user)
    unassign_role_from_user = answered_by(RoleAssignments.unassign_role_from_user)
    list_user_roles = answered_by(RoleAssignments.list_user_roles)
    list_user_roles_for_workspace = answered_by(RoleAssignments.list_user_roles_for_workspace)
    user_has_any_role_in_workspace = answered_by(RoleAssignments.user_has_any_role_in_workspace)
    list_user_present_workspaces = answered_by(RoleAssignments.list_user_present_workspaces)
    list_role_users = answered_by(RoleAssignments.list_role_users)

    # --- permission checks ----------------------------------------------------------------------

    get_role_permission_for_resource = answered_by(
        PermissionChecks.get_role_permission_for_resource
    )
    is_workspace_admin = answered_by(PermissionChecks.is_workspace_admin)
    list_grants = answered_by(PermissionChecks.list_grants)
    list_role_grants_for_user_in_workspace = answered_by(
        PermissionChecks.list_role_grants_for_user_in_workspace
    )
    list_workspace_admin_workspaces = answered_by(PermissionChecks.list_workspace_admin_workspaces)
    is_workspace_admin_of_any_of_users_workspaces = answered_by(
        PermissionChecks.is_workspace_admin_of_any_of_users_workspaces
    )
