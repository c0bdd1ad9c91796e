"""The tracking store that MLflow sees."""

from __future__ import annotations

from mlflow.store.tracking import DEFAULT_LOCAL_FILE_AND_ARTIFACT_PATH
from mlflow.store.tracking.abstract_store import AbstractStore
from mlflow.utils.uri import resolve_uri_if_local

from mlflow_dynamodbstore.evaluation.store import Evaluation
from mlflow_dynamodbstore.gateway.store import Gateway
from mlflow_dynamodbstore.mcp.store import McpRegistry
from mlflow_dynamodbstore.reviews.store import ReviewStore
from mlflow_dynamodbstore.shared.encryption_keys import GATEWAY, check_key
from mlflow_dynamodbstore.shared.mlflow_errors import translates_errors
from mlflow_dynamodbstore.shared.open_tables import open_table
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.traces.store import TraceStore
from mlflow_dynamodbstore.tracking.experiments import Experiments
from mlflow_dynamodbstore.tracking.history import History
from mlflow_dynamodbstore.tracking.inputs import Inputs
from mlflow_dynamodbstore.tracking.run_data import RunData
from mlflow_dynamodbstore.tracking.run_search.search import RunSearch


@translates_errors
class DynamoDBTrackingStore(  # type: ignore[misc]  # two of MLflow's annotations are wrong
    Experiments,
    RunData,
    Inputs,
    History,
    RunSearch,
    ReviewStore,
    TraceStore,
    Evaluation,
    Gateway,
    McpRegistry,
    AbstractStore,
):
    """MLflow's tracking store on one DynamoDB table, or on a file of the embedded engine.

    It gathers the entity modules and holds no logic of its own: ``create_run`` is in ``runs.py``,
    ``log_batch`` in ``run_data.py``, and so on.
    """

    def __init__(
        self, store_uri: str, artifact_uri: str | None = None, *, table: Table | None = None
    ):
        super().__init__()  # type: ignore[no-untyped-call]
        self._open(
            table or open_table(store_uri),
            resolve_uri_if_local(artifact_uri or DEFAULT_LOCAL_FILE_AND_ARTIFACT_PATH),
        )
        self._ensure_default_experiment()
        check_key(self.table, GATEWAY)
