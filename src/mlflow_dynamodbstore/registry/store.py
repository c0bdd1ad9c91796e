"""The model registry store that MLflow sees."""

from __future__ import annotations

from mlflow.entities.model_registry import ModelVersion
from mlflow.store.model_registry.abstract_store import AbstractStore
from mlflow.store.workspace_aware_mixin import WorkspaceAwareMixin

from mlflow_dynamodbstore.registry.aliases import Aliases
from mlflow_dynamodbstore.registry.model_reader import ModelReader
from mlflow_dynamodbstore.registry.model_versions import ModelVersions
from mlflow_dynamodbstore.registry.registered_models import RegisteredModels
from mlflow_dynamodbstore.registry.search import RegistrySearch
from mlflow_dynamodbstore.registry.tags import RegistryTags
from mlflow_dynamodbstore.registry.webhook_key import WEBHOOK
from mlflow_dynamodbstore.registry.webhooks import Webhooks
from mlflow_dynamodbstore.registry.workspace_check import check_all_in_default_workspace
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.encryption_keys import check_key
from mlflow_dynamodbstore.shared.face import answered_by
from mlflow_dynamodbstore.shared.open_tables import open_table
from mlflow_dynamodbstore.shared.search.name_index import MODEL_NAME, NameIndex
from mlflow_dynamodbstore.shared.workspaces import WorkspacesInUse
from mlflow_dynamodbstore.table.table import Table


class DynamoDBRegistryStore(WorkspaceAwareMixin, AbstractStore):
    """MLflow's model registry on one DynamoDB table, or on a file of the embedded engine.

    This class is a table of contents: which part answers which call. Prompts are models with
    certain tags; what MLflow's base class makes of them is used as it is.
    """

    def __init__(
        self,
        store_uri: str,
        tracking_uri: str | None = None,
        *,
        table: Table | None = None,
        context: Context | None = None,
    ):
        super().__init__(store_uri, tracking_uri)  # type: ignore[no-untyped-call]
        self.context = context or Context.on(table or open_table(store_uri))
        self.table = self.context.table
        if not self.context.has_workspaces():
            check_all_in_default_workspace(self.table)
        check_key(self.table, WEBHOOK)
        name_index = NameIndex(self.table, self.context.policies, MODEL_NAME)
        workspaces = WorkspacesInUse(self.table)
        self.model_reader = ModelReader(self.context)
        self.registered_models = RegisteredModels(
            self.context, self.model_reader, name_index, workspaces
        )
        self.model_versions = ModelVersions(self.context, self.model_reader, tracking_uri)
        self.tags = RegistryTags(self.model_reader)
        self.aliases = Aliases(self.context, self.model_reader, self.registered_models)
        self.search = RegistrySearch(self.context, self.model_reader, name_index)
        self.webhooks = Webhooks(self.context, workspaces)

    # --- registered models ----------------------------------------------------------------------

    create_registered_model = answered_by(RegisteredModels.create_registered_model)
    update_registered_model = answered_by(RegisteredModels.update_registered_model)
    rename_registered_model = answered_by(RegisteredModels.rename_registered_model)
    delete_registered_model = answered_by(RegisteredModels.delete_registered_model)
    search_registered_models = answered_by(RegistrySearch.search_registered_models)
    get_registered_model = answered_by(RegisteredModels.get_registered_model)
    get_latest_versions = answered_by(RegisteredModels.get_latest_versions)
    set_registered_model_tag = answered_by(RegistryTags.set_registered_model_tag)
    delete_registered_model_tag = answered_by(RegistryTags.delete_registered_model_tag)

    # --- model versions -------------------------------------------------------------------------

    create_model_version = answered_by(ModelVersions.create_model_version)
    update_model_version = answered_by(ModelVersions.update_model_version)
    transition_model_version_stage = answered_by(ModelVersions.transition_model_version_stage)
    delete_model_version = answered_by(ModelVersions.delete_model_version)
    get_model_version = answered_by(ModelVersions.get_model_version)
    get_model_version_download_uri = answered_by(ModelVersions.get_model_version_download_uri)
    search_model_versions = answered_by(RegistrySearch.search_model_versions)
    set_model_version_tag = answered_by(RegistryTags.set_model_version_tag)
    delete_model_version_tag = answered_by(RegistryTags.delete_model_version_tag)

    def _await_model_version_creation(self, mv: ModelVersion, await_creation_for: int) -> None:
        """Nothing to wait for: a version is ready once it is there."""

    # --- aliases --------------------------------------------------------------------------------

    set_registered_model_alias = answered_by(Aliases.set_registered_model_alias)
    delete_registered_model_alias = answered_by(Aliases.delete_registered_model_alias)
    get_model_version_by_alias = answered_by(Aliases.get_model_version_by_alias)

    # --- aliases, beyond MLflow -----------------------------------------------------------------

    get_registered_model_alias = answered_by(Aliases.get_registered_model_alias)
    list_registered_model_aliases = answered_by(Aliases.list_registered_model_aliases)
    find_registered_models_with_alias = answered_by(Aliases.find_registered_models_with_alias)
    split_registered_model_alias = answered_by(Aliases.split_registered_model_alias)
    list_registered_model_alias_changes = answered_by(Aliases.list_registered_model_alias_changes)
    rollback_registered_model_alias = answered_by(Aliases.rollback_registered_model_alias)

    # --- webhooks -------------------------------------------------------------------------------

    create_webhook = answered_by(Webhooks.create_webhook)
    get_webhook = answered_by(Webhooks.get_webhook)
    list_webhooks = answered_by(Webhooks.list_webhooks)
    list_webhooks_by_event = answered_by(Webhooks.list_webhooks_by_event)
    update_webhook = answered_by(Webhooks.update_webhook)
    delete_webhook = answered_by(Webhooks.delete_webhook)
    test_webhook = answered_by(Webhooks.test_webhook)
