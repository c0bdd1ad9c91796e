"""What a tracking store and a registry answer, put so that two stores can be compared."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from mlflow.entities import ViewType

SEARCHES: tuple[tuple[str, list[str]], ...] = (
    ("", ["attributes.start_time DESC"]),
    ("metrics.loss < 0.3", ["metrics.loss ASC"]),
    ("params.p1 LIKE '%.1'", ["params.p1 DESC"]),
    ("tags.n = '2'", []),
    ("attributes.status = 'FINISHED'", ["attributes.run_name ASC"]),
    ("dataset.name = 'wine'", []),
)


def answers(tracking: Any, registry: Any) -> Iterator[tuple[str, Any]]:
    """Questions and what is answered to them."""
    experiments = tracking.search_experiments(ViewType.ALL, max_results=100)
    yield "experiments", sorted((_plain(e) for e in experiments), key=lambda e: e["experiment_id"])
    ids = [e.experiment_id for e in experiments]
    yield from _of_runs(tracking, ids)
    yield from _of_models(tracking, ids)
    yield from _of_traces(tracking, ids)
    yield from _of_registry(registry)
    yield from _of_evaluation(tracking, ids)
    active = [e.experiment_id for e in experiments if e.lifecycle_stage == "active"]
    yield from of_gateway_mcp_and_reviews(tracking, active)


def of_gateway_mcp_and_reviews(tracking: Any, ids: list[str]) -> Iterator[tuple[str, Any]]:
    """Questions about these alone, and what is answered to them."""
    yield from _of_gateway(tracking)
    yield from _of_mcp(tracking)
    yield from _of_reviews(tracking, ids)


def _of_runs(tracking: Any, ids: list[str]) -> Iterator[tuple[str, Any]]:
    for view in (ViewType.ACTIVE_ONLY, ViewType.DELETED_ONLY):
        for text, order in SEARCHES:
            found = tracking.search_runs(ids, text, view, 1000, order)
            yield f"runs {text} {order} {view}", [run.info.run_id for run in found]
    runs = tracking.search_runs(ids, "", ViewType.ALL, 1000)
    for run in sorted(runs, key=lambda run: run.info.run_id):
        run_id = run.info.run_id
        whole = tracking.get_run(run_id)
        yield f"run {run_id}", _run(whole)
        for key in sorted(whole.data.metrics):
            history = tracking.get_metric_history(run_id, key)
            yield f"history {run_id} {key}", [_number(m.to_dictionary()) for m in history]
        latest = {m.key: (m.step, m.timestamp) for m in whole.data._metric_objs}
        yield f"latest {run_id}", latest
    found = tracking._search_datasets(ids)
    yield "datasets", sorted(str(one.to_dict()) for one in found)


def _run(run: Any) -> Any:
    inputs = sorted(run.inputs.dataset_inputs, key=lambda i: (i.dataset.name, i.dataset.digest))
    return {
        "info": dict(run.info),
        "metrics": {k: _number({"value": v}) for k, v in run.data.metrics.items()},
        "params": run.data.params,
        "tags": run.data.tags,
        "inputs": [
            (i.dataset.to_dictionary(), sorted((t.key, t.value) for t in i.tags)) for i in inputs
        ],
        "model inputs": [m.model_id for m in run.inputs.model_inputs],
        "model outputs": [(m.model_id, m.step) for m in run.outputs.model_outputs],
    }


def _of_models(tracking: Any, ids: list[str]) -> Iterator[tuple[str, Any]]:
    models = tracking.search_logged_models(ids)
    yield "logged models", [model.model_id for model in models]
    for model in models:
        found = tracking.get_logged_model(model.model_id)
        yield (
            f"logged model {model.model_id}",
            {
                **{k: v for k, v in found.to_dictionary().items() if k != "metrics"},
                "tags": found.tags or {},
                "params": found.params or {},
                "metrics": sorted(str(dict(metric)) for metric in found.metrics or []),
            },
        )
    measured = tracking.search_logged_models(ids, "metrics.auc > 0.6")
    yield "measured models", [model.model_id for model in measured]


def _of_traces(tracking: Any, ids: list[str]) -> Iterator[tuple[str, Any]]:
    traces, _ = tracking.search_traces(ids, order_by=["timestamp_ms ASC"])
    yield "traces", [trace.trace_id for trace in traces]
    for text in ("feedback.good = 'true'", "span.name LIKE 'step%'", "trace.status = 'ERROR'"):
        found, _ = tracking.search_traces(ids, text)
        yield f"traces {text}", sorted(trace.trace_id for trace in found)
    for trace in traces:
        whole = tracking.get_trace(trace.trace_id, allow_partial=True)
        info = whole.info.to_dict()
        info["assessments"] = sorted(map(str, info.get("assessments", [])))
        yield f"trace {trace.trace_id}", info
        yield f"spans {trace.trace_id}", [span.to_dict() for span in whole.data.spans]


def _of_registry(registry: Any) -> Iterator[tuple[str, Any]]:
    prompts = "tags.`mlflow.prompt.is_prompt` = 'true'"
    found = [*registry.search_registered_models(), *registry.search_registered_models(prompts)]
    yield "models", [_model(model) for model in found]
    hooks = registry.list_webhooks()
    yield "webhooks", sorted(str(_webhook(hook)) for hook in hooks)
    versions = registry.search_model_versions(max_results=1000)
    by_place = sorted(versions, key=lambda v: (v.name, int(v.version)))
    yield "versions", [_version(version) for version in by_place]
    for model in found:
        stages = {v.current_stage: int(v.version) for v in registry.get_latest_versions(model.name)}
        yield f"latest of {model.name}", stages
        for alias in model.aliases:
            version = registry.get_model_version_by_alias(model.name, alias)
            yield f"alias {model.name} {alias}", int(version.version)
    for version in by_place:
        place = version.name, version.version
        yield f"download {place}", registry.get_model_version_download_uri(*place)


def _of_evaluation(tracking: Any, ids: list[str]) -> Iterator[tuple[str, Any]]:
    for experiment_id in sorted(ids):
        issues = tracking.search_issues(experiment_id)
        yield f"issues {experiment_id}", sorted(str(vars(issue)) for issue in issues)
    active = [e for e in sorted(ids) if e != "3"]
    scorers = tracking.list_scorers_across_experiments(active)
    yield "scorers", [_scorer(scorer) for scorer in scorers]
    versions = tracking.list_scorer_versions("1", "fluency")
    yield "versions of a scorer", [_scorer(version) for version in versions]
    datasets = tracking.search_datasets()
    for dataset in sorted(datasets, key=lambda dataset: dataset.name):
        whole = tracking.get_dataset(dataset.dataset_id)
        experiments = sorted(tracking.get_dataset_experiment_ids(dataset.dataset_id))
        # The others are fetched from MLflow's current store when they are looked at.
        plain = {name: getattr(whole, name) for name in _OF_DATASET}
        plain["experiments"] = experiments
        yield f"dataset {dataset.name}", plain
        records, _ = tracking._load_dataset_records(dataset.dataset_id)
        by_id = sorted(records, key=lambda record: record.dataset_record_id)
        yield f"records of {dataset.name}", [record.to_dict() for record in by_id]


_OF_DATASET = (
    "dataset_id",
    "name",
    "digest",
    "tags",
    "schema",
    "profile",
    "created_time",
    "last_update_time",
    "created_by",
    "last_updated_by",
)


def _scorer(scorer: Any) -> Any:
    return {key: value for key, value in vars(scorer).items() if key != "_created_at"}


def _model(model: Any) -> Any:
    plain = dict(model)
    plain["latest_versions"] = sorted(_version(v)["version"] for v in model.latest_versions)
    return {key: value for key, value in plain.items() if not key.startswith("deployment")}


def _webhook(hook: Any) -> Any:
    return {**vars(hook), "events": sorted(map(str, hook.events))}


def _version(version: Any) -> Any:
    plain = dict(version)
    plain["version"] = int(version.version)
    plain["aliases"] = sorted(version.aliases)
    return {key: _plain(value) for key, value in plain.items() if key != "deployment_job_state"}


def _number(point: dict[str, Any]) -> dict[str, Any]:
    value = point["value"]
    return {**point, "value": "nan" if math.isnan(value) else value}


def _plain(value: Any) -> Any:
    """An entity as a map; anything else as it is."""
    return dict(value) if hasattr(value, "_properties") else value


def _of_gateway(tracking: Any) -> Iterator[tuple[str, Any]]:
    for name in ("secret_infos", "gateway_model_definitions", "endpoint_bindings"):
        found = getattr(tracking, f"list_{name}")()
        yield name, sorted(map(str, found))
    for endpoint in tracking.list_gateway_endpoints():
        own = endpoint.endpoint_id
        endpoint.model_mappings.sort(key=lambda mapping: mapping.mapping_id)
        endpoint.tags.sort(key=lambda tag: tag.key)
        yield f"endpoint {own}", str(endpoint)
        uses = tracking.list_endpoint_guardrail_configs(own)
        yield f"guardrails of {own}", [str(use) for use in uses]
    for secret in tracking.list_secret_infos():
        yield f"secret {secret.secret_name}", tracking._get_decrypted_secret(secret.secret_id)
    yield "budgets", [str(one) for one in tracking.list_budget_policies()]
    yield "guardrails", sorted(str(one) for one in tracking.list_gateway_guardrails())


def _of_mcp(tracking: Any) -> Iterator[tuple[str, Any]]:
    servers = tracking.search_mcp_servers()
    for server in sorted(servers, key=lambda server: str(server.name)):
        server.access_endpoints.sort(key=lambda endpoint: endpoint.id)
        server.tags = dict(sorted(server.tags.items()))
        yield f"MCP server {server.name}", str(server)
        versions = tracking.search_mcp_server_versions(server.name)
        yield f"versions of {server.name}", [str(version) for version in versions]


def _of_reviews(tracking: Any, ids: list[str]) -> Iterator[tuple[str, Any]]:
    for experiment_id in ids:
        if experiment_id == "2":  # its default question would be made by this question
            continue
        queues = tracking.list_review_queues(experiment_id)
        yield f"queues of {experiment_id}", [str(queue) for queue in queues]
        for queue in queues:
            items = tracking.list_review_queue_items(queue.queue_id)
            yield f"items of {queue.queue_id}", sorted(str(item) for item in items)
            for schema_id in queue.schema_ids:
                yield f"schema {schema_id}", str(tracking.get_label_schema(schema_id))
