"""The app ``dynamodb-auth``: MLflow's auth app on our table, with the ways of ``dynamodb``."""

from __future__ import annotations

from typing import Any

# Importing it checks that MLflow's auth app fits, before the server starts its processes.
from mlflow_dynamodbstore.auth import app as auth_app
from mlflow_dynamodbstore.mlflow_compat import server_app
from mlflow_dynamodbstore.server.app import improved, settled, with_native_routes
from mlflow_dynamodbstore.server.operator_page import install_page
from mlflow_dynamodbstore.shared.counter_files import files_of_this_server


def create_app() -> Any:
    """MLflow's auth app with our store. MLflow's server calls it once in each of its processes."""
    app = auth_app.create_app()
    counters = files_of_this_server().read
    install_page(server_app.flask_app(), counters, auth_app.auth.sender_is_admin)
    if not server_app.runs_under_uvicorn():
        return with_native_routes(app)
    has_check = server_app.permission_check(auth_app.auth)
    return settled(improved(app, server_app.flask_app(), has_check=has_check))
