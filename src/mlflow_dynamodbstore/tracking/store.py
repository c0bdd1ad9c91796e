"""The tracking store that MLflow sees. This file is its table of contents."""

from __future__ import annotations

import asyncio
import time

from mlflow.entities import Span
from mlflow.store.tracking import DEFAULT_LOCAL_FILE_AND_ARTIFACT_PATH
from mlflow.store.tracking.abstract_store import AbstractStore
from mlflow.store.workspace_aware_mixin import WorkspaceAwareMixin
from mlflow.utils.time import get_current_time_millis
from mlflow.utils.uri import resolve_uri_if_local
from typing_extensions import Self

from mlflow_dynamodbstore.evaluation.dataset_experiments import DatasetExperiments
from mlflow_dynamodbstore.evaluation.dataset_reader import DatasetReader
from mlflow_dynamodbstore.evaluation.dataset_records import DatasetRecords
from mlflow_dynamodbstore.evaluation.dataset_search import DatasetSearch
from mlflow_dynamodbstore.evaluation.datasets import EvaluationDatasets
from mlflow_dynamodbstore.evaluation.issues import Issues
from mlflow_dynamodbstore.evaluation.online_scoring import OnlineScoring
from mlflow_dynamodbstore.evaluation.scorer_endpoints import ScorerEndpoints
from mlflow_dynamodbstore.evaluation.scorers import Scorers
from mlflow_dynamodbstore.gateway.bindings import Bindings
from mlflow_dynamodbstore.gateway.budgets import Budgets
from mlflow_dynamodbstore.gateway.config_cache import EndpointConfigCache
from mlflow_dynamodbstore.gateway.costs import GatewayCosts
from mlflow_dynamodbstore.gateway.encryption import GATEWAY
from mlflow_dynamodbstore.gateway.endpoint_configs import EndpointConfigs
from mlflow_dynamodbstore.gateway.endpoint_items import EndpointItems
from mlflow_dynamodbstore.gateway.endpoints import Endpoints
from mlflow_dynamodbstore.gateway.guardrail_configs import GuardrailConfigs
from mlflow_dynamodbstore.gateway.guardrails import Guardrails
from mlflow_dynamodbstore.gateway.items import GatewayItems
from mlflow_dynamodbstore.gateway.model_definitions import ModelDefinitions
from mlflow_dynamodbstore.gateway.model_mappings import ModelMappings
from mlflow_dynamodbstore.gateway.secrets import Secrets
from mlflow_dynamodbstore.mcp.aliases import ServerAliases
from mlflow_dynamodbstore.mcp.endpoints import AccessEndpoints
from mlflow_dynamodbstore.mcp.latest_versions import LatestVersions
from mlflow_dynamodbstore.mcp.search import ServerSearch
from mlflow_dynamodbstore.mcp.server_reader import ServerReader
from mlflow_dynamodbstore.mcp.servers import Servers
from mlflow_dynamodbstore.mcp.tags import ServerTags
from mlflow_dynamodbstore.mcp.versions import ServerVersions
from mlflow_dynamodbstore.mlflow_compat.crypto import SecretCache
from mlflow_dynamodbstore.reviews.attachments import QueueAttachments
from mlflow_dynamodbstore.reviews.label_schemas import LabelSchemas
from mlflow_dynamodbstore.reviews.queue_items import ReviewItems
from mlflow_dynamodbstore.reviews.queues import ReviewQueues
from mlflow_dynamodbstore.reviews.reviewed_experiments import ReviewedExperiments
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.encryption_keys import check_key
from mlflow_dynamodbstore.shared.experiment_lookup import DEFAULT_EXPERIMENT_ID, ExperimentLookup
from mlflow_dynamodbstore.shared.face import answered_by
from mlflow_dynamodbstore.shared.lookup_entries import LookupEntries
from mlflow_dynamodbstore.shared.loop_pace import LoopPace, is_file
from mlflow_dynamodbstore.shared.open_tables import open_table
from mlflow_dynamodbstore.shared.run_lookup import RunLookup
from mlflow_dynamodbstore.shared.search.name_index import NameIndex
from mlflow_dynamodbstore.shared.workspaces import WorkspacesInUse
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.traces.archival import TraceArchival
from mlflow_dynamodbstore.traces.assessments import Assessments
from mlflow_dynamodbstore.traces.changes import TraceChanges
from mlflow_dynamodbstore.traces.correlation import Correlation
from mlflow_dynamodbstore.traces.creation import TraceCreation
from mlflow_dynamodbstore.traces.deletion import TraceDeletion
from mlflow_dynamodbstore.traces.experiments import TraceExperiments
from mlflow_dynamodbstore.traces.infos import TraceInfos
from mlflow_dynamodbstore.traces.links import TraceLinks
from mlflow_dynamodbstore.traces.lookup import TraceLookup
from mlflow_dynamodbstore.traces.metrics import TraceMetrics
from mlflow_dynamodbstore.traces.reading import TraceReading
from mlflow_dynamodbstore.traces.retention import TraceRetention
from mlflow_dynamodbstore.traces.search import TraceSearch
from mlflow_dynamodbstore.traces.sessions import Sessions
from mlflow_dynamodbstore.traces.span_log import SpanLog
from mlflow_dynamodbstore.traces.tags import TraceTags
from mlflow_dynamodbstore.traces.time_indexes import TimeIndexes
from mlflow_dynamodbstore.traces.xray_cache import XRaySpans
from mlflow_dynamodbstore.tracking.associations import EntityAssociations
from mlflow_dynamodbstore.tracking.experiment_deletion import ExperimentDeletion
from mlflow_dynamodbstore.tracking.experiment_search import ExperimentSearch
from mlflow_dynamodbstore.tracking.experiments import Experiments
from mlflow_dynamodbstore.tracking.history import History
from mlflow_dynamodbstore.tracking.inputs import Inputs
from mlflow_dynamodbstore.tracking.logged_model_search import LoggedModelSearch
from mlflow_dynamodbstore.tracking.logged_models import LoggedModels
from mlflow_dynamodbstore.tracking.metric_log import MetricLog
from mlflow_dynamodbstore.tracking.metrics import Metrics
from mlflow_dynamodbstore.tracking.reversed_names import ReversedNames
from mlflow_dynamodbstore.tracking.run_admission import RunAdmission
from mlflow_dynamodbstore.tracking.run_data import RunData
from mlflow_dynamodbstore.tracking.run_models import RunModels
from mlflow_dynamodbstore.tracking.run_search.search import RunSearch
from mlflow_dynamodbstore.tracking.runs import Runs
from mlflow_dynamodbstore.tracking.workspace_mode import WorkspaceMode


class TableOfContents:
    """The methods of MLflow's interface, topic by topic, and the part that answers each."""

    # --- experiments ------------------------------------------------------------------------------

    search_experiments = answered_by(ExperimentSearch.search_experiments)
    create_experiment = answered_by(Experiments.create_experiment)
    get_experiment = answered_by(ExperimentSearch.get_experiment)
    get_experiment_by_name = answered_by(ExperimentSearch.get_experiment_by_name)
    delete_experiment = answered_by(ExperimentDeletion.delete_experiment)
    restore_experiment = answered_by(ExperimentDeletion.restore_experiment)
    rename_experiment = answered_by(Experiments.rename_experiment)
    set_experiment_tag = answered_by(Experiments.set_experiment_tag)
    delete_experiment_tag = answered_by(Experiments.delete_experiment_tag)
    filter_active_experiment_ids = answered_by(ExperimentSearch.filter_active_experiment_ids)
    _hard_delete_experiment = answered_by(ExperimentDeletion.hard_delete_experiment)

    # --- runs -------------------------------------------------------------------------------------

    get_run = answered_by(Runs.get_run)
    update_run_info = answered_by(Runs.update_run_info)
    create_run = answered_by(Runs.create_run)
    delete_run = answered_by(Runs.delete_run)
    restore_run = answered_by(Runs.restore_run)
    _hard_delete_run = answered_by(Runs.hard_delete_run)
    _get_deleted_runs = answered_by(Runs.get_deleted_runs)

    # --- traces -----------------------------------------------------------------------------------

    start_trace = answered_by(TraceInfos.start_trace)
    _delete_traces = answered_by(TraceDeletion.delete_traces)
    get_trace_info = answered_by(TraceInfos.get_trace_info)
    get_trace = answered_by(TraceReading.get_trace)
    batch_get_traces = answered_by(TraceReading.batch_get_traces)
    batch_get_trace_infos = answered_by(TraceInfos.batch_get_trace_infos)
    archive_traces = answered_by(TraceArchival.archive_traces)
    resolve_trace_archival_config = answered_by(WorkspaceMode.resolve_trace_archival_config)
    search_traces = answered_by(TraceSearch.search_traces)
    find_completed_sessions = answered_by(Sessions.find_completed_sessions)
    query_trace_metrics = answered_by(TraceMetrics.query_trace_metrics)
    set_trace_tag = answered_by(TraceTags.set_trace_tag)
    delete_trace_tag = answered_by(TraceTags.delete_trace_tag)
    log_spans = answered_by(SpanLog.log_spans)
    link_traces_to_run = answered_by(TraceLinks.link_traces_to_run)
    unlink_traces_from_run = answered_by(TraceLinks.unlink_traces_from_run)
    link_prompts_to_trace = answered_by(TraceLinks.link_prompts_to_trace)
    calculate_trace_filter_correlation = answered_by(Correlation.calculate_trace_filter_correlation)
    deprecated_start_trace_v2 = answered_by(TraceInfos.deprecated_start_trace_v2)
    deprecated_end_trace_v2 = answered_by(TraceInfos.deprecated_end_trace_v2)

    # --- assessments of traces, and issues --------------------------------------------------------

    get_assessment = answered_by(Assessments.get_assessment)
    create_assessment = answered_by(Assessments.create_assessment)
    update_assessment = answered_by(Assessments.update_assessment)
    delete_assessment = answered_by(Assessments.delete_assessment)
    create_issue = answered_by(Issues.create_issue)
    get_issue = answered_by(Issues.get_issue)
    update_issue = answered_by(Issues.update_issue)
    search_issues = answered_by(Issues.search_issues)

    # --- metrics, params and tags of runs ---------------------------------------------------------

    log_metric = answered_by(Metrics.log_metric)
    log_param = answered_by(RunData.log_param)
    set_tag = answered_by(RunData.set_tag)
    delete_tag = answered_by(RunData.delete_tag)
    log_batch = answered_by(RunData.log_batch)
    record_logged_model = answered_by(RunData.record_logged_model)
    get_metric_history = answered_by(History.get_metric_history)
    get_metric_history_bulk = answered_by(History.get_metric_history_bulk)
    get_metric_history_bulk_interval = answered_by(History.get_metric_history_bulk_interval)
    get_metric_history_bulk_interval_from_steps = answered_by(
        History.get_metric_history_bulk_interval_from_steps
    )
    get_max_step_for_metric = answered_by(History.get_max_step_for_metric)

    # --- searching runs ---------------------------------------------------------------------------

    _search_runs = answered_by(RunSearch.search_runs)

    # --- inputs and outputs of runs ---------------------------------------------------------------

    log_inputs = answered_by(Inputs.log_inputs)
    log_outputs = answered_by(Inputs.log_outputs)
    _search_datasets = answered_by(Inputs.search_used_datasets)

    # --- logged models ----------------------------------------------------------------------------

    create_logged_model = answered_by(LoggedModels.create_logged_model)
    search_logged_models = answered_by(LoggedModelSearch.search_logged_models)
    finalize_logged_model = answered_by(LoggedModels.finalize_logged_model)
    set_logged_model_tags = answered_by(LoggedModels.set_logged_model_tags)
    delete_logged_model_tag = answered_by(LoggedModels.delete_logged_model_tag)
    log_logged_model_params = answered_by(LoggedModels.log_logged_model_params)
    get_logged_model = answered_by(LoggedModels.get_logged_model)
    delete_logged_model = answered_by(LoggedModels.delete_logged_model)
    _hard_delete_logged_model = answered_by(LoggedModels.hard_delete_logged_model)
    _get_deleted_logged_models = answered_by(LoggedModels.get_deleted_logged_models)

    # --- evaluation datasets ----------------------------------------------------------------------

    create_dataset = answered_by(EvaluationDatasets.create_dataset)
    get_dataset = answered_by(EvaluationDatasets.get_dataset)
    delete_dataset = answered_by(EvaluationDatasets.delete_dataset)
    search_datasets = answered_by(DatasetSearch.search_datasets)
    upsert_dataset_records = answered_by(DatasetRecords.upsert_dataset_records)
    delete_dataset_records = answered_by(DatasetRecords.delete_dataset_records)
    set_dataset_tags = answered_by(EvaluationDatasets.set_dataset_tags)
    delete_dataset_tag = answered_by(EvaluationDatasets.delete_dataset_tag)
    get_dataset_experiment_ids = answered_by(DatasetExperiments.get_dataset_experiment_ids)
    _load_dataset_records = answered_by(DatasetRecords.load_dataset_records)
    add_dataset_to_experiments = answered_by(DatasetExperiments.add_dataset_to_experiments)
    remove_dataset_from_experiments = answered_by(
        DatasetExperiments.remove_dataset_from_experiments
    )

    # --- associations of entities -----------------------------------------------------------------

    search_entities_by_source = answered_by(EntityAssociations.search_entities_by_source)
    search_entities_by_destination = answered_by(EntityAssociations.search_entities_by_destination)

    # --- scorers ----------------------------------------------------------------------------------

    register_scorer = answered_by(Scorers.register_scorer)
    list_scorers = answered_by(Scorers.list_scorers)
    list_scorers_across_experiments = answered_by(Scorers.list_scorers_across_experiments)
    get_scorer = answered_by(Scorers.get_scorer)
    list_scorer_versions = answered_by(Scorers.list_scorer_versions)
    delete_scorer = answered_by(Scorers.delete_scorer)
    resolve_endpoint_in_scorer = answered_by(ScorerEndpoints.resolve_endpoint_in_scorer)
    upsert_online_scoring_config = answered_by(OnlineScoring.upsert_online_scoring_config)
    get_online_scoring_configs = answered_by(OnlineScoring.get_online_scoring_configs)
    get_active_online_scorers = answered_by(OnlineScoring.get_active_online_scorers)

    # --- label schemas and review queues ----------------------------------------------------------

    create_label_schema = answered_by(LabelSchemas.create_label_schema)
    get_label_schema = answered_by(LabelSchemas.get_label_schema)
    get_label_schema_by_name = answered_by(LabelSchemas.get_label_schema_by_name)
    list_label_schemas = answered_by(LabelSchemas.list_label_schemas)
    update_label_schema = answered_by(LabelSchemas.update_label_schema)
    delete_label_schema = answered_by(LabelSchemas.delete_label_schema)
    create_review_queue = answered_by(ReviewQueues.create_review_queue)
    get_or_create_user_queue = answered_by(ReviewQueues.get_or_create_user_queue)
    get_review_queue = answered_by(ReviewQueues.get_review_queue)
    get_review_queue_by_name = answered_by(ReviewQueues.get_review_queue_by_name)
    list_review_queues = answered_by(ReviewQueues.list_review_queues)
    update_review_queue = answered_by(ReviewQueues.update_review_queue)
    delete_review_queue = answered_by(ReviewQueues.delete_review_queue)
    add_items_to_review_queue = answered_by(ReviewItems.add_items_to_review_queue)
    remove_items_from_review_queue = answered_by(ReviewItems.remove_items_from_review_queue)
    list_review_queue_items = answered_by(ReviewItems.list_review_queue_items)
    set_review_queue_item_status = answered_by(ReviewItems.set_review_queue_item_status)

    # --- registry of MCP servers ------------------------------------------------------------------

    create_mcp_server = answered_by(Servers.create_mcp_server)
    get_mcp_server = answered_by(Servers.get_mcp_server)
    search_mcp_servers = answered_by(ServerSearch.search_mcp_servers)
    update_mcp_server = answered_by(Servers.update_mcp_server)
    delete_mcp_server = answered_by(Servers.delete_mcp_server)
    create_mcp_server_version = answered_by(ServerVersions.create_mcp_server_version)
    get_mcp_server_version = answered_by(ServerVersions.get_mcp_server_version)
    get_mcp_server_version_by_alias = answered_by(ServerVersions.get_mcp_server_version_by_alias)
    get_latest_mcp_server_version = answered_by(ServerVersions.get_latest_mcp_server_version)
    search_mcp_server_versions = answered_by(ServerSearch.search_mcp_server_versions)
    update_mcp_server_version = answered_by(ServerVersions.update_mcp_server_version)
    delete_mcp_server_version = answered_by(ServerVersions.delete_mcp_server_version)
    create_mcp_access_endpoint = answered_by(AccessEndpoints.create_mcp_access_endpoint)
    get_mcp_access_endpoint = answered_by(AccessEndpoints.get_mcp_access_endpoint)
    search_mcp_access_endpoints = answered_by(ServerSearch.search_mcp_access_endpoints)
    update_mcp_access_endpoint = answered_by(AccessEndpoints.update_mcp_access_endpoint)
    delete_mcp_access_endpoint = answered_by(AccessEndpoints.delete_mcp_access_endpoint)
    set_mcp_server_tag = answered_by(ServerTags.set_mcp_server_tag)
    delete_mcp_server_tag = answered_by(ServerTags.delete_mcp_server_tag)
    set_mcp_server_version_tag = answered_by(ServerTags.set_mcp_server_version_tag)
    delete_mcp_server_version_tag = answered_by(ServerTags.delete_mcp_server_version_tag)
    set_mcp_server_alias = answered_by(ServerAliases.set_mcp_server_alias)
    delete_mcp_server_alias = answered_by(ServerAliases.delete_mcp_server_alias)

    # --- AI gateway -------------------------------------------------------------------------------

    create_gateway_secret = answered_by(Secrets.create_gateway_secret)
    get_secret_info = answered_by(Secrets.get_secret_info)
    update_gateway_secret = answered_by(Secrets.update_gateway_secret)
    delete_gateway_secret = answered_by(Secrets.delete_gateway_secret)
    list_secret_infos = answered_by(Secrets.list_secret_infos)
    _get_decrypted_secret = answered_by(Secrets.get_decrypted_secret)
    create_gateway_model_definition = answered_by(ModelDefinitions.create_gateway_model_definition)
    get_gateway_model_definition = answered_by(ModelDefinitions.get_gateway_model_definition)
    list_gateway_model_definitions = answered_by(ModelDefinitions.list_gateway_model_definitions)
    update_gateway_model_definition = answered_by(ModelDefinitions.update_gateway_model_definition)
    delete_gateway_model_definition = answered_by(ModelDefinitions.delete_gateway_model_definition)
    create_gateway_endpoint = answered_by(Endpoints.create_gateway_endpoint)
    get_gateway_endpoint = answered_by(Endpoints.get_gateway_endpoint)
    update_gateway_endpoint = answered_by(Endpoints.update_gateway_endpoint)
    delete_gateway_endpoint = answered_by(Endpoints.delete_gateway_endpoint)
    list_gateway_endpoints = answered_by(Endpoints.list_gateway_endpoints)
    attach_model_to_endpoint = answered_by(ModelMappings.attach_model_to_endpoint)
    detach_model_from_endpoint = answered_by(ModelMappings.detach_model_from_endpoint)
    create_endpoint_binding = answered_by(Bindings.create_endpoint_binding)
    delete_endpoint_binding = answered_by(Bindings.delete_endpoint_binding)
    list_endpoint_bindings = answered_by(Bindings.list_endpoint_bindings)
    set_gateway_endpoint_tag = answered_by(Endpoints.set_gateway_endpoint_tag)
    delete_gateway_endpoint_tag = answered_by(Endpoints.delete_gateway_endpoint_tag)
    gateway_endpoint_config = answered_by(EndpointConfigs.gateway_endpoint_config)
    gateway_resource_configs = answered_by(EndpointConfigs.gateway_resource_configs)
    create_budget_policy = answered_by(Budgets.create_budget_policy)
    get_budget_policy = answered_by(Budgets.get_budget_policy)
    update_budget_policy = answered_by(Budgets.update_budget_policy)
    delete_budget_policy = answered_by(Budgets.delete_budget_policy)
    list_budget_policies = answered_by(Budgets.list_budget_policies)
    sum_gateway_trace_cost = answered_by(GatewayCosts.sum_gateway_trace_cost)
    create_gateway_guardrail = answered_by(Guardrails.create_gateway_guardrail)
    get_gateway_guardrail = answered_by(Guardrails.get_gateway_guardrail)
    delete_gateway_guardrail = answered_by(Guardrails.delete_gateway_guardrail)
    list_gateway_guardrails = answered_by(Guardrails.list_gateway_guardrails)
    add_guardrail_to_endpoint = answered_by(GuardrailConfigs.add_guardrail_to_endpoint)
    update_endpoint_guardrail_config = answered_by(
        GuardrailConfigs.update_endpoint_guardrail_config
    )
    remove_guardrail_from_endpoint = answered_by(GuardrailConfigs.remove_guardrail_from_endpoint)
    list_endpoint_guardrail_configs = answered_by(GuardrailConfigs.list_endpoint_guardrail_configs)


class DynamoDBTrackingStore(  # type: ignore[misc]  # three of MLflow's annotations are wrong
    TableOfContents, WorkspaceAwareMixin, AbstractStore
):
    """MLflow's tracking store on one DynamoDB table, or on a file of the embedded engine.

    It makes the parts; the table of contents says which of them answers which call.
    """

    DEFAULT_EXPERIMENT_ID = DEFAULT_EXPERIMENT_ID

    def __init__(
        self, store_uri: str, artifact_uri: str | None = None, *, table: Table | None = None
    ):
        root = resolve_uri_if_local(artifact_uri or DEFAULT_LOCAL_FILE_AND_ARTIFACT_PATH)
        self._compose(Context.on(table or open_table(store_uri), root))
        self.experiments.ensure_default_experiment()
        check_key(self.table, GATEWAY)

    async def log_spans_async(self, location: str, spans: list[Span]) -> list[Span]:
        """Log spans on the loop, or in a thread where that would hold up others."""
        if not is_file(self.table) or not self._pace.is_short():
            return await asyncio.to_thread(self.log_spans, location, spans)
        began = time.perf_counter()
        try:
            return self.log_spans(location, spans)
        finally:
            self._pace.took(time.perf_counter() - began)

    @classmethod
    def on(cls, table: Table) -> Self:
        """A store on a table, for upkeep: reads and writes nothing when it is opened."""
        store = cls.__new__(cls)
        store._compose(Context.on(table))  # noqa: SLF001 - its own
        return store

    def _compose(self, context: Context) -> None:  # noqa: PLR0915 - a line for each part
        """Make the parts, each from those it names, and connect those that listen to others."""
        self.table = context.table
        self._pace = LoopPace()  # of log_spans_async
        self.policies = context.policies
        self.artifact_root_uri = context.artifact_root_uri  # MLflow's server reads it
        experiment_names = NameIndex(context.table, context.policies)
        self.experiment_lookup = ExperimentLookup(context)
        self.run_lookup = RunLookup(context, self.experiment_lookup)
        self.workspaces_in_use = WorkspacesInUse(context.table)
        self.workspace_mode = WorkspaceMode(context)
        self.experiment_search = ExperimentSearch(
            context,
            self.experiment_lookup,
            experiment_names,
            ReversedNames(context),
            self.workspace_mode,
        )
        self.experiments = Experiments(
            context,
            self.experiment_lookup,
            self.workspaces_in_use,
            experiment_names,
            self.workspace_mode,
        )
        self.run_admission = RunAdmission(context, self.experiment_lookup, self.run_lookup)
        self.metric_log = MetricLog(context)
        self.runs = Runs(
            context, self.experiment_lookup, self.run_lookup, self.run_admission, self.metric_log
        )
        self.experiment_deletion = ExperimentDeletion(
            context, self.experiment_lookup, experiment_names, self.run_admission, self.runs
        )
        self.run_models = RunModels(context, self.run_lookup)
        self.logged_models = LoggedModels(context, self.experiment_lookup, self.run_models)
        self.logged_model_search = LoggedModelSearch(
            context, self.experiment_lookup, self.run_models
        )
        self.metrics = Metrics(context, self.run_admission, self.logged_models, self.metric_log)
        self.run_data = RunData(
            context, self.run_admission, self.runs, self.logged_models, self.metrics
        )
        self.history = History(context, self.run_lookup)
        self.inputs = Inputs(context, self.experiment_lookup, self.run_lookup, self.run_admission)
        self.lookup_entries = LookupEntries(context)
        self.run_search = RunSearch(context, self.experiment_lookup, self.lookup_entries)
        self.trace_lookup = TraceLookup(context, self.experiment_lookup)
        self.trace_changes = TraceChanges(context, self.trace_lookup)
        self.trace_experiments = TraceExperiments(context, self.experiment_lookup)
        self.trace_time_indexes = TimeIndexes(context)
        self.trace_search = TraceSearch(
            context, self.experiment_lookup, self.trace_time_indexes, self.lookup_entries
        )
        self.trace_creation = TraceCreation(context, self.experiment_lookup, self.trace_lookup)
        self.trace_infos = TraceInfos(
            context,
            self.trace_lookup,
            self.trace_changes,
            self.trace_experiments,
            self.trace_creation,
        )
        self.span_log = SpanLog(
            context,
            self.trace_lookup,
            self.trace_changes,
            self.trace_experiments,
            self.trace_creation,
        )
        self.xray_spans = XRaySpans(
            context, self.experiment_lookup, self.trace_search, self.span_log
        )
        self.trace_reading = TraceReading(context, self.trace_lookup, self.xray_spans)
        self.trace_tags = TraceTags(context, self.trace_lookup, self.trace_changes)
        self.assessments = Assessments(context, self.trace_lookup, self.trace_changes)
        self.trace_links = TraceLinks(
            context, self.run_lookup, self.trace_lookup, self.trace_changes
        )
        self.trace_deletion = TraceDeletion(
            context, self.experiment_lookup, self.trace_lookup, self.trace_time_indexes
        )
        self.trace_retention = TraceRetention(
            context,
            self.experiment_lookup,
            self.trace_lookup,
            self.trace_changes,
            self.trace_time_indexes,
        )
        self.trace_archival = TraceArchival(
            context,
            self.experiment_lookup,
            self.trace_changes,
            self.trace_search,
            self.experiments.delete_experiment_tag,
            lambda: self._get_archive_traces_now_millis(),  # noqa: PLW0108 - tests replace it
        )
        self.trace_sessions = Sessions(context, self.experiment_lookup, self.trace_search)
        self.trace_metrics = TraceMetrics(self.trace_search)
        self.trace_correlation = Correlation(self.trace_search)
        self.endpoint_config_cache = EndpointConfigCache()
        self.gateway_items = GatewayItems(context)
        self.gateway_secrets = Secrets(
            context, self.workspaces_in_use, self.gateway_items, self.endpoint_config_cache
        )
        self.model_definitions = ModelDefinitions(
            context, self.gateway_items, self.endpoint_config_cache
        )
        self.endpoint_items = EndpointItems(context, self.gateway_items)
        self.gateway_endpoints = Endpoints(
            context,
            self.experiment_lookup,
            self.endpoint_items,
            self.endpoint_config_cache,
            self.experiments.get_or_create_experiment,
        )
        self.model_mappings = ModelMappings(
            context, self.endpoint_items, self.endpoint_config_cache
        )
        self.gateway_bindings = Bindings(context, self.endpoint_config_cache)
        self.endpoint_configs = EndpointConfigs(
            context, self.gateway_bindings, self.endpoint_items, self.endpoint_config_cache
        )
        self.gateway_budgets = Budgets(context)
        self.gateway_costs = GatewayCosts(context, self.trace_search)
        self.dataset_reader = DatasetReader(context)
        self.dataset_experiments = DatasetExperiments(context, self.dataset_reader)
        self.evaluation_datasets = EvaluationDatasets(
            context, self.workspaces_in_use, self.dataset_reader, self.dataset_experiments
        )
        self.dataset_records = DatasetRecords(context, self.dataset_reader)
        self.dataset_search = DatasetSearch(context, self.experiment_lookup, self.dataset_reader)
        self.scorer_endpoints = ScorerEndpoints(self)
        self.scorers = Scorers(
            context,
            self.experiment_lookup,
            self.gateway_bindings,
            self.scorer_endpoints,
        )
        self.online_scoring = OnlineScoring(context, self.scorer_endpoints, self.scorers)
        self.associations = EntityAssociations(
            self.experiment_lookup,
            self.trace_lookup,
            self.trace_search,
            self.dataset_experiments,
            self.dataset_search,
        )
        self.issues = Issues(context, self.experiment_lookup, self.run_lookup)
        self.guardrails = Guardrails(context, self.scorers.version_by_id)
        self.guardrail_configs = GuardrailConfigs(
            context, self.gateway_items, self.endpoint_items, self.guardrails
        )
        self.reviewed_experiments = ReviewedExperiments(self.experiment_lookup)
        self.queue_attachments = QueueAttachments(context)
        self.label_schemas = LabelSchemas(context, self.reviewed_experiments)
        self.review_queues = ReviewQueues(
            context, self.reviewed_experiments, self.queue_attachments
        )
        self.review_items = ReviewItems(context, self.review_queues)
        self.server_reader = ServerReader(context)
        self.latest_versions = LatestVersions(context, self.server_reader)
        self.mcp_servers = Servers(self.server_reader, self.workspaces_in_use)
        self.mcp_versions = ServerVersions(
            context, self.workspaces_in_use, self.server_reader, self.latest_versions
        )
        self.mcp_tags = ServerTags(self.server_reader)
        self.mcp_aliases = ServerAliases(self.server_reader)
        self.mcp_endpoints = AccessEndpoints(context, self.server_reader)
        self.mcp_search = ServerSearch(context, self.server_reader, self.mcp_servers)

        events = context.events
        events.experiment_not_active.listen(self.trace_experiments.forget)
        events.run_deleted.listen(self.assessments.delete_assessments_of_run)
        events.run_removed.listen(self.issues.forget_run)
        events.trace_described.listen(self.gateway_costs.note_trace_metadata)
        events.traces_deleting.listen(self.queue_attachments.detach)
        events.trace_redating.listen(self.queue_attachments.of_trace)

        super().__init__()  # type: ignore[no-untyped-call]  # it keeps log_batch for asynchronous logging

    @property
    def supports_trace_archival(self) -> bool:
        """Whether spans of old traces can be moved to an archive."""
        return True

    def _get_archive_traces_now_millis(self) -> int:
        """The time by which traces are archived. MLflow's own tests stop this clock by its name."""
        now: int = get_current_time_millis()
        return now

    @property
    def secret_cache(self) -> SecretCache:
        """MLflow's cache of decrypted endpoint configurations; its server reads it."""
        return self.endpoint_config_cache.secret_cache
