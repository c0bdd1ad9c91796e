"""One of everything in a workspace, and arguments for every method that name these things.

What is in the things holds :data:`MARK`; their names and ids, which callers may know, do not.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any

from mlflow.entities import (
    Dataset,
    DatasetInput,
    ExperimentTag,
    GatewayEndpointTag,
    LoggedModelInput,
    LoggedModelOutput,
    LoggedModelParameter,
    LoggedModelStatus,
    LoggedModelTag,
    Metric,
    Param,
    RunStatus,
    RunTag,
    ViewType,
)
from mlflow.entities.assessment import Feedback
from mlflow.entities.gateway_budget_policy import (
    BudgetAction,
    BudgetDuration,
    BudgetDurationUnit,
    BudgetTargetScope,
    BudgetUnit,
)
from mlflow.entities.gateway_guardrail import GuardrailAction, GuardrailStage
from mlflow.entities.issue import IssueStatus
from mlflow.entities.model_registry import ModelVersionTag, RegisteredModelTag
from mlflow.entities.trace_metrics import AggregationType, MetricAggregation, MetricViewType
from mlflow.entities.webhook import WebhookAction, WebhookEntity, WebhookEvent
from mlflow.exceptions import MlflowException
from mlflow.models import Model
from mlflow.utils.async_logging.run_operations import RunOperations
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.gateway.making import a_definition, a_secret, an_endpoint, config
from tests.reviews.making import ask
from tests.stores import everything_in
from tests.traces.making import make_info, make_spans, trace_id

MARK = "only for team-a"
URL = "https://93.184.215.14/hook"
NAME = "the-name"
SERVER = "io.github.ada/files"
VERSION = {"name": SERVER, "version": "1.0.0", "description": MARK}
CREATED = WebhookEvent(WebhookEntity.MODEL_VERSION, WebhookAction.CREATED)
JUDGE = json.dumps(
    {"instructions_judge_pydantic_data": {"model": "openai:/gpt-4o", "instructions": MARK}}
)
MONTH = BudgetDuration(BudgetDurationUnit.MONTHS, 1)
Values = dict[str, Any]


def fill(tracking: DynamoDBTrackingStore, registry: DynamoDBRegistryStore) -> Values:
    """Make one of everything in the active workspace; returns the values that name it."""
    made: Values = {}
    for make in (_tracking, _traces, _genai, _gateway, _mcp):
        make(tracking, made)
    _registry(registry, made)
    return made | _contents(made)


def _tracking(store: DynamoDBTrackingStore, made: Values) -> None:
    experiment = store.create_experiment(NAME, tags=[ExperimentTag("k", MARK)])
    run = store.create_run(experiment, "ada", 1, [RunTag("k", MARK)], NAME).info.run_id
    store.log_batch(run, [Metric("m", 1.0, 1, 0)], [Param("p", MARK)], [])
    dataset = DatasetInput(Dataset("d", "1", "local", MARK), [])
    store.log_inputs(run, [dataset])
    model = store.create_logged_model(experiment, NAME, run, [LoggedModelTag("k", MARK)]).model_id
    store.log_outputs(run, [LoggedModelOutput(model, 0)])
    made |= {
        "experiment_id": experiment,
        "experiment_ids": [experiment],
        "experiment_name": NAME,
        "run_id": run,
        "run_ids": [run],
        "source_run_id": run,
        "model_id": model,
        "models": [LoggedModelOutput(model, 0)],
        "datasets": [dataset],
    }


def _traces(store: DynamoDBTrackingStore, made: Values) -> None:
    trace = trace_id(1)
    experiment = made["experiment_id"]
    store.start_trace(make_info(trace, experiment, tags={"k": MARK}))
    store.log_spans(experiment, make_spans(trace, 2))
    feedback = store.create_assessment(Feedback(name="good", value=MARK, trace_id=trace))
    store.link_traces_to_run([trace], made["run_id"])
    made |= {
        "trace_id": trace,
        "request_id": trace,
        "trace_ids": [trace],
        "source_ids": [trace],
        "source_type": "trace",
        "destination_type": "run",
        "destination_ids": [made["run_id"]],
        "item_id": trace,
        "item_ids": [trace],
        "assessment_id": feedback.assessment_id,
        "assessment": Feedback(name="good", value="x", trace_id=trace),
        "trace_info": make_info(trace, experiment),
        "spans": make_spans(trace, 2),
        "location": experiment,
        "locations": [experiment],
    }


def _genai(store: DynamoDBTrackingStore, made: Values) -> None:
    experiment = made["experiment_id"]
    scorer = store.register_scorer(experiment, NAME, JUDGE)
    schema = ask(store, experiment, NAME)
    queue = store.create_review_queue(experiment, name=NAME, queue_type="custom", users=["ada"])
    store.add_items_to_review_queue(queue.queue_id, item_ids=made["item_ids"])
    dataset = store.create_dataset(NAME, {"k": MARK}, [experiment]).dataset_id
    store.upsert_dataset_records(dataset, [{"inputs": {"q": MARK}}])
    records, _ = store._load_dataset_records(dataset)
    scorer._serialized_scorer = JUDGE.replace(MARK, "?")
    made |= {
        "scorer": scorer,
        "scorer_id": scorer.scorer_id,
        "scorer_ids": [scorer.scorer_id],
        "scorer_name": NAME,
        "scorer_version": scorer.scorer_version,
        "schema_id": schema.schema_id,
        "input": schema.input,
        "schema_ids": [schema.schema_id],
        "queue_id": queue.queue_id,
        "dataset_id": dataset,
        "dataset_record_ids": [records[0].dataset_record_id],
        "issue_id": store.create_issue(experiment, NAME, MARK).issue_id,
    }


def _gateway(store: DynamoDBTrackingStore, made: Values) -> None:
    secret = a_secret(store, NAME, MARK)
    definition = a_definition(store, NAME, secret)
    endpoint = an_endpoint(store, NAME, definition).endpoint_id
    store.set_gateway_endpoint_tag(endpoint, GatewayEndpointTag("k", MARK))
    store.create_endpoint_binding(endpoint, "scorer", "5d1c")
    guardrail = store.create_gateway_guardrail(
        NAME,
        made["scorer_id"],
        made["scorer_version"],
        GuardrailStage.BEFORE,
        GuardrailAction.VALIDATION,
    ).guardrail_id
    store.add_guardrail_to_endpoint(endpoint, guardrail)
    budget = store.create_budget_policy(
        BudgetUnit.USD,
        5,
        MONTH,
        BudgetTargetScope.ENDPOINT,
        BudgetAction.REJECT,
        target_value=endpoint,
    ).budget_policy_id
    made |= {
        "secret_id": secret,
        "secret_name": NAME,
        "model_definition_id": definition,
        "model_config": config(definition),
        "model_configs": [config(definition)],
        "endpoint_id": endpoint,
        "endpoint_name": NAME,
        "guardrail_id": guardrail,
        "budget_policy_id": budget,
        "target_value": endpoint,
    }


def _mcp(store: DynamoDBTrackingStore, made: Values) -> None:
    store.create_mcp_server_version(VERSION)
    store.set_mcp_server_tag(SERVER, "k", MARK)
    store.set_mcp_server_version_tag(SERVER, "1.0.0", "k", MARK)
    store.set_mcp_server_alias(SERVER, "a", "1.0.0")
    endpoint = store.create_mcp_access_endpoint(SERVER, URL, server_version="1.0.0")
    made |= {"server_name": SERVER, "mcp_endpoint_id": endpoint.id}


def _registry(store: DynamoDBRegistryStore, made: Values) -> None:
    store.create_registered_model(NAME, [RegisteredModelTag("k", MARK)], MARK)
    version = store.create_model_version(
        NAME, "s3://bucket/model", made["run_id"], [ModelVersionTag("k", MARK)], description=MARK
    )
    store.set_registered_model_alias(NAME, "a", "1")
    store.create_prompt(PROMPT, MARK, {"k": MARK})
    store.create_prompt_version(PROMPT, MARK)
    store.set_prompt_alias(PROMPT, "a", "1")
    hook = store.create_webhook(NAME, URL, [CREATED], MARK)
    made |= {"src_mv": version, "webhook_id": hook.webhook_id}


PROMPT = "the-prompt"


def _contents(made: Values) -> Values:
    """The values of the other parameters."""
    return {
        "name": NAME,
        "new_name": "another-name",
        "dst_name": "another-name",
        "key": "k",
        "value": "v",
        "alias": "a",
        "version": "1",
        "tag": RunTag("k", "v"),
        "tags": {"k": "v"},
        "param": Param("p", "other"),
        "params": [Param("p2", "other")],
        "metric": Metric("m", 2.0, 2, 1),
        "metrics": [Metric("m", 2.0, 2, 1)],
        "metric_key": "m",
        "metric_name": "trace_count",
        "mlflow_model": Model(run_id=made["run_id"], artifact_path="m"),
        "max_results": 10,
        "filter_string": None,
        "filter_string1": "attributes.status = 'OK'",
        "filter_string2": "attributes.status = 'ERROR'",
        "order_by": None,
        "page_token": None,
        "run_view_type": ViewType.ALL,
        "view_type": MetricViewType.TRACES,
        "aggregations": [MetricAggregation(AggregationType.COUNT)],
        "run_status": RunStatus.FINISHED,
        "run_name": "other",
        "end_time": 5,
        "start_time": 1,
        "user_id": "bob",
        "start_step": 0,
        "end_step": 9,
        "steps": [0, 1],
        "status": LoggedModelStatus.READY,
        "timestamp_ms": 1,
        "request_metadata": {},
        "max_timestamp_millis": 4_000_000_000_000,
        "start_time_ms": 0,
        "end_time_ms": 4_000_000_000_000,
        "min_last_trace_timestamp_ms": 0,
        "max_last_trace_timestamp_ms": 4_000_000_000_000,
        "prompt_versions": [],
        "mcp_servers": [],
        "serialized_scorer": JUDGE.replace(MARK, "?"),
        "sample_rate": 0.5,
        "description": "d",
        "type": "feedback",
        "queue_type": "custom",
        "user": "ada",
        "records": [{"inputs": {"q": "other"}}],
        "secret_value": {"api_key": "other"},
        "provider": "openai",
        "model_name": "gpt-4o",
        "resource_type": "scorer",
        "resource_id": "5d1c",
        "budget_unit": BudgetUnit.USD,
        "budget_amount": 5,
        "duration": MONTH,
        "target_scope": BudgetTargetScope.ENDPOINT,
        "budget_action": BudgetAction.REJECT,
        "stage": GuardrailStage.BEFORE,
        "action": GuardrailAction.VALIDATION,
        "server_json": VERSION | {"description": "d"},
        "url": URL,
        "source": "s3://bucket/model",
        "event": CREATED,
        "events": [CREATED],
        "template": "Hello",
        "weight": 10,
        "archive_existing_versions": True,
        "default_retention": "30d",
        "default_trace_archival_location": "s3://bucket/archive",
        "broader_retention": "0d",
        "resolved_trace_archival_location": "s3://bucket/archive",
        "older_than": 0,
        "source_databricks_request_id": "x",
        "source_inference_table": "x",
    }


def overrides(method: str, made: Values) -> Values:
    """Values for parameters that mean something else in this method than in others."""
    found: Values = {}
    if "mcp" in method:
        found |= {"name": SERVER, "version": "1.0.0", "endpoint_id": made["mcp_endpoint_id"]}
        found |= {"server_version": "1.0.0", "status": None}
    if "prompt" in method:
        found |= {"name": PROMPT}
    if "logged_model" in method:
        found |= {"tags": [LoggedModelTag("k", "v")], "params": [LoggedModelParameter("p", "v")]}
        found |= {"models": [LoggedModelInput(made["model_id"])]}
    if method in ("create_run", "log_batch", "log_batch_async"):
        found |= {"tags": [RunTag("k", "v")]}
    if "model_version" in method or "registered_model" in method:
        found |= {"tags": [], "tag": RegisteredModelTag("k", "v"), "stage": "Staging"}
    if method == "log_inputs":
        found |= {"models": [LoggedModelInput(made["model_id"])]}
    if method == "resolve_endpoint_in_scorer":
        found |= {"scorer_version": made["scorer"]}
    return found | SPECIAL.get(method, {})


SPECIAL: dict[str, Values] = {
    "set_experiment_tag": {"tag": ExperimentTag("k", "v")},
    "create_experiment": {"tags": [], "name": "another-name"},
    "set_gateway_endpoint_tag": {"tag": GatewayEndpointTag("k", "v")},
    "set_review_queue_item_status": {"status": "complete"},
    "deprecated_end_trace_v2": {"status": "OK", "tags": {}},
    "search_logged_models": {"datasets": [{"dataset_name": "d"}]},
    "create_prompt_version": {"model_config": None},
    "list_review_queue_items": {"status": None},
    "search_traces": {"experiment_ids": None},
    "get_secret_info": {"secret_name": None},
    "update_webhook": {"status": None},
    "create_webhook": {"status": None},
    "search_experiments": {"view_type": ViewType.ALL},
    "create_issue": {"status": IssueStatus.PENDING},
    "update_issue": {"status": IssueStatus.RESOLVED},
}


def methods(store: type, private: frozenset[str]) -> Iterator[str]:
    """The names of all methods that MLflow or an operator may call."""
    for name, _ in inspect.getmembers(store, inspect.isfunction):
        if not name.startswith("_") or name in private:
            yield name


def arguments(method: Callable[..., Any], made: Values) -> tuple[Values, list[str]]:
    """The arguments of a method, and the names of those without a known value."""
    known = made | overrides(method.__name__, made)
    given: Values = {}
    unknown = []
    for name, parameter in inspect.signature(method).parameters.items():
        if name in known:
            given[name] = known[name]
        elif parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD:
            unknown.append(name)
    return given, unknown


PRIVATE_METHODS_MLFLOW_CALLS = frozenset(
    {
        "_delete_traces",
        "_get_decrypted_secret",
        "_get_deleted_logged_models",
        "_get_deleted_runs",
        "_hard_delete_experiment",
        "_hard_delete_logged_model",
        "_hard_delete_run",
        "_load_dataset_records",
        "_search_datasets",
        "_search_runs",
    }
)
STORES = {"tracking": DynamoDBTrackingStore, "registry": DynamoDBRegistryStore}
CALLS = [
    (store, name)
    for store, kind in STORES.items()
    for name in methods(kind, PRIVATE_METHODS_MLFLOW_CALLS)
]


class World:
    """A table with one of everything in team-a, which must not change."""

    def __init__(self, tracking: DynamoDBTrackingStore):
        self.tracking = tracking
        uri = tracking.table.engine.uri
        self.registry = DynamoDBRegistryStore(uri, uri, table=tracking.table)
        with WorkspaceContext("team-b"):
            tracking.create_experiment("mine")
        before = self.items()
        with WorkspaceContext("team-a"):
            self.values = fill(self.tracking, self.registry)
        self.theirs = {
            key: item
            for key, item in self.items().items()
            if key not in before and key[0] != access_keys.CONFIG_PK
        }
        self.places = {pk for pk, _ in self.theirs}

    def items(self) -> dict[tuple[str, str], Any]:
        found = everything_in(self.tracking.table)
        return {(str(item["PK"]), str(item["SK"])): item for item in found}

    def damage(self) -> list[Any]:
        """The items of team-a that were changed, removed or added since the last call."""
        now = {key: item for key, item in self.items().items() if key[0] in self.places}
        before, self.theirs = self.theirs, now
        return sorted(key for key in before | now if before.get(key) != now.get(key))


def called(method: Callable[..., Any], given: Values) -> Any:
    """All that a method returns, or its error."""
    try:
        answer = method(**given)
        if isinstance(answer, RunOperations):
            answer.wait()
        return list(answer) if inspect.isgenerator(answer) else answer
    except (MlflowException, NotImplementedError) as error:
        return str(error)
