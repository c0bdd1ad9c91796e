"""What every part of a store is given: the table, its settings, and the workspace."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES

from mlflow_dynamodbstore.mlflow_compat.releases import warn_of_newer_release
from mlflow_dynamodbstore.mlflow_compat.workspaces import get_active_workspace
from mlflow_dynamodbstore.shared.events import Events
from mlflow_dynamodbstore.shared.policies import Policies
from mlflow_dynamodbstore.table.table import Table

warn_of_newer_release()  # once a process, by whichever store it imports first


@dataclass(frozen=True)
class Context:
    """What the parts of one store share."""

    table: Table
    policies: Policies
    artifact_root_uri: str = ""
    events: Events = field(default_factory=Events)

    @classmethod
    def on(cls, table: Table, artifact_root_uri: str = "") -> Context:
        """The context of a store, or of a part used alone, on a table; reads and writes nothing."""
        return cls(table, Policies(table), artifact_root_uri)

    def now_ms(self) -> int:
        """The time in milliseconds, by the table's clock."""
        return int(self.table.clock() * 1000)

    # Assigned, not wrapped: both are asked in every call.
    workspace = staticmethod(get_active_workspace)
    """The workspace that the current call works in; raises MLflow's error when there is none."""
    has_workspaces = staticmethod(MLFLOW_ENABLE_WORKSPACES.get)
    """Whether workspaces are switched on."""
