"""What MLflow's server keeps for its handlers: its stores, and the message of a request.

Importing this module imports the server.
"""

from __future__ import annotations

from typing import Any

from mlflow_dynamodbstore.mlflow_compat.names import private, unavailable

HANDLERS = "mlflow.server.handlers"
PAGES = "Filtering pages of a search by permissions"

BACKEND_STORE_URI_ENV_VAR = private(
    "mlflow.server.constants", "BACKEND_STORE_URI_ENV_VAR", "_MLFLOW_SERVER_FILE_STORE"
)
get_tracking_store: Any = private(HANDLERS, "_get_tracking_store", unavailable(PAGES))
get_model_registry_store: Any = private(HANDLERS, "_get_model_registry_store", unavailable(PAGES))
get_request_message: Any = private(HANDLERS, "_get_request_message", unavailable(PAGES))
