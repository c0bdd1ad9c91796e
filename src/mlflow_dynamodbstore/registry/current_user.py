"""The user who makes a change, as far as that is known."""

from __future__ import annotations

import sys

from mlflow.utils.credentials import read_mlflow_creds

from mlflow_dynamodbstore.mlflow_compat.registry import get_user


def current_user() -> str | None:
    """The user of the request that is being served; outside a server, the user of this process.

    In a server without authentication nobody is: the user of its process did not ask for anything.
    """
    flask = sys.modules.get("flask")  # loaded in servers only
    if flask is not None and flask.has_request_context():
        authorization = flask.request.authorization
        return None if authorization is None else authorization.username
    user: str = read_mlflow_creds().username or get_user()
    return user
