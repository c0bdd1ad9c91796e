"""What depends on whether workspaces are switched on.

Switched off, everything lies in the default workspace. Switched on, a provider (this table's own,
unless another is configured) says where a workspace keeps artifacts, and how long it keeps traces.
"""

from __future__ import annotations

import logging
from pathlib import PurePath
from typing import NamedTuple
from urllib.parse import urlsplit

from mlflow.entities.workspace import TraceArchivalConfig
from mlflow.exceptions import MlflowException
from mlflow.store.workspace.abstract_store import AbstractStore, ResolvedTraceArchivalConfig
from mlflow.tracing.trace_archival_config import get_trace_archival_server_config
from mlflow.utils.file_utils import local_file_uri_to_path
from mlflow.utils.uri import append_to_uri_path, is_local_uri
from mlflow.utils.workspace_utils import WORKSPACES_DIR_NAME, resolve_workspace_store_uri

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.mlflow_compat.trace_archival import (
    resolve_effective_trace_archival_retention,
)
from mlflow_dynamodbstore.mlflow_compat.validation import validate_trace_archival_retention_string
from mlflow_dynamodbstore.mlflow_compat.workspaces import get_workspace_store
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_items import Tags
from mlflow_dynamodbstore.shared.refusals import invalid, invalid_state
from mlflow_dynamodbstore.shared.workspaces import all_workspaces
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.workspaces.store import DynamoDBWorkspaceStore

_logger = logging.getLogger(__name__)


class ArchivalRetention(NamedTuple):
    """How long experiments keep traces before they are archived, and which may do so longer."""

    default: str
    longer: set[str]

    def of(self, experiment_id: str, tags: Tags) -> str:
        """The retention of an experiment."""
        retention: str = resolve_effective_trace_archival_retention(
            experiment_id=experiment_id,
            experiment_tags=dict(tags),  # type: ignore[arg-type]  # a value may be None
            broader_retention=self.default,
            long_retention_allowlist=self.longer,
        )
        return retention


class WorkspaceMode:
    """Where a workspace keeps artifacts, and how long it keeps traces."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.table = context.table

    def workspace_provider(self) -> AbstractStore:
        """The store that knows the workspaces."""
        own = self.table.engine.uri
        uri = resolve_workspace_store_uri(tracking_uri=own)
        if uri == own:
            return DynamoDBWorkspaceStore(own, table=self.table)
        provider: AbstractStore = get_workspace_store(str(uri))
        return provider

    # --- artifacts ------------------------------------------------------------------------------

    def artifact_location(self, experiment_id: str, workspace: str) -> str:
        """Where a new experiment keeps its artifacts by default."""
        root: str | None = self.context.artifact_root_uri
        if self.context.has_workspaces():
            root, append = self.workspace_provider().resolve_artifact_root(root, workspace)
            if not root:
                raise invalid(
                    f"Cannot determine an artifact root for workspace '{workspace}'. "
                    "Set --default-artifact-root when starting the server or configure the "
                    "workspace's default_artifact_root."
                )
            if append:
                root = append_to_uri_path(root, WORKSPACES_DIR_NAME, workspace)
        return str(append_to_uri_path(root, experiment_id))

    def check_artifact_root(self) -> None:
        """Refuse a root whose end would be taken for the folder of a workspace."""
        *_, last_but_one, last = ["", "", *_segments(self.context.artifact_root_uri or "")]
        if last == WORKSPACES_DIR_NAME:
            fault = f"ends with the reserved '{WORKSPACES_DIR_NAME}' segment"
        elif last_but_one == WORKSPACES_DIR_NAME:
            fault = f"is already scoped under the reserved '{WORKSPACES_DIR_NAME}/<name>' prefix"
        else:
            return
        raise invalid_state(
            "Cannot enable workspace mode because the default artifact root "
            f"{self.context.artifact_root_uri} {fault}. Choose a different artifact root before "
            "enabling workspaces."
        )

    # --- workspaces in use ----------------------------------------------------------------------

    def check_no_hidden_experiments(self) -> None:
        """Refuse to work without workspaces while there are experiments outside the default one."""
        for workspace in all_workspaces(self.table)[1:]:  # the default one is the first
            names = Query(
                access_keys.workspace_pk(workspace),
                where=access_keys.EXPERIMENT_NAMES.on(),
                limit=100,
            )
            if next(self.table.items(names), None) is not None:
                raise invalid_state(
                    "Cannot disable workspaces because experiments exist outside the default "
                    "workspace (i.e., assigned to non-default workspaces). Enable workspace "
                    "support (MLFLOW_ENABLE_WORKSPACES=true) or move those experiments back to "
                    "the default workspace before starting the tracking store in single-tenant "
                    "mode."
                )

    # --- traces ---------------------------------------------------------------------------------

    def resolve_trace_archival_config(
        self, *, default_trace_archival_location: str, default_retention: str
    ) -> ResolvedTraceArchivalConfig:
        if self.context.has_workspaces():
            return self.workspace_provider().resolve_trace_archival_config(
                default_trace_archival_location, default_retention, self.context.workspace()
            )
        return ResolvedTraceArchivalConfig(
            config=TraceArchivalConfig(default_trace_archival_location, default_retention),
            append_workspace_prefix=False,
        )

    def trace_retention(self) -> ArchivalRetention | None:
        """How long the server keeps traces; None when it archives none."""
        try:
            server = get_trace_archival_server_config()
            if server is None or not server.enabled:
                return None
            resolved = self.resolve_trace_archival_config(
                default_trace_archival_location=server.location, default_retention=server.retention
            )
            retention = resolved.config.retention or server.retention
            valid = validate_trace_archival_retention_string(retention)
        except MlflowException:
            _logger.warning("Ignoring an invalid trace archival configuration.", exc_info=True)
            return None
        return ArchivalRetention(valid, set(server.long_retention_allowlist))


def _segments(uri: str) -> list[str]:
    """The folders in an artifact URI."""
    if is_local_uri(uri):
        path = PurePath(local_file_uri_to_path(uri) if uri.startswith("file:") else uri)
        return [part for part in path.parts if part != path.anchor]
    return [part for part in urlsplit(uri).path.split("/") if part]
