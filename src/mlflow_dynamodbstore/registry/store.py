"""The model registry store that MLflow sees."""

from __future__ import annotations

from mlflow.store.model_registry.abstract_store import AbstractStore

from mlflow_dynamodbstore.registry.aliases import Aliases
from mlflow_dynamodbstore.registry.search import RegistrySearch
from mlflow_dynamodbstore.registry.tags import RegistryTags
from mlflow_dynamodbstore.registry.webhook_key import WEBHOOK
from mlflow_dynamodbstore.registry.webhooks import Webhooks
from mlflow_dynamodbstore.shared.encryption_keys import check_key
from mlflow_dynamodbstore.shared.mlflow_errors import translates_errors
from mlflow_dynamodbstore.shared.open_tables import open_table
from mlflow_dynamodbstore.table.table import Table


@translates_errors
class DynamoDBRegistryStore(Aliases, RegistryTags, RegistrySearch, Webhooks, AbstractStore):
    """MLflow's model registry on one DynamoDB table, or on a file of the embedded engine.

    It gathers the entity modules and holds no logic of its own: ``create_registered_model`` is in
    ``registered_models.py``, ``set_model_version_tag`` in ``tags.py``, and so on. Prompts are
    models with certain tags; what MLflow's base class makes of them is used as it is.
    """

    def __init__(
        self, store_uri: str, tracking_uri: str | None = None, *, table: Table | None = None
    ):
        super().__init__(store_uri, tracking_uri)  # type: ignore[no-untyped-call]
        self.tracking_uri = tracking_uri
        self._open(table or open_table(store_uri))
        if not self._workspaces_enabled():
            self._check_nothing_is_hidden()
        check_key(self.table, WEBHOOK)
