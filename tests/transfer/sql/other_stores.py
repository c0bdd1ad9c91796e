"""Jobs, the AI gateway, MCP servers and reviews, written by MLflow's own stores or by ours."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from mlflow.entities import GatewayEndpointModelConfig
from mlflow.entities.gateway_budget_policy import (
    BudgetAction,
    BudgetDuration,
    BudgetDurationUnit,
    BudgetTargetScope,
    BudgetUnit,
)
from mlflow.entities.gateway_endpoint import FallbackConfig, GatewayModelLinkageType
from mlflow.entities.gateway_guardrail import GuardrailAction, GuardrailStage
from mlflow.entities.mcp_server import MCPRemoteTransportType, MCPStatus, MCPTool
from mlflow.genai.label_schemas.label_schemas import InputCategorical, InputNumeric, InputPassFail

from mlflow_dynamodbstore.mlflow_compat.jobs import NEEDS_RECOVERY, JobStatus
from mlflow_dynamodbstore.transfer.sql.database import Database
from mlflow_dynamodbstore.transfer.sql.kinds import STORES
from tests.traces.making import trace_id

KINDS = ("label schemas", "review queues", "MCP servers", "jobs")
REST: dict[str, dict[str, Any]] = {
    "budget_policies": {"target_value": "ada"},
    "endpoint_bindings": {"display_name": "a judge"},
    "endpoints": {"routing_strategy": "REQUEST_BASED_TRAFFIC_SPLIT"},
    "guardrails": {"created_by": "ada", "last_updated_by": "bob"},
    "jobs": {
        "creator": "ada",
        "executor_backend": "local",
        "lease_expires_at": 5,
        "status_message": "halfway",
        "progress": '{"phase": "counting", "completed": 1, "total": 4, "unit": "steps"}',
        "progress_updated_at": 6,
        "next_attempt_at": 7,
        "retry_count": 2,
    },
    "label_schemas": {"created_by": "ada"},
    "mcp_server_versions": {"connect_options": '{"a": 1}'},
    "mcp_servers": {"display_name": "Files"},
    "secrets": {"description": "of ada"},
}
"""Columns that MLflow fills only sometimes, or in a later release."""
NEVER_FILLED = {("jobs", "token_hash"), ("jobs", "scoped_permissions")}
"""MLflow has these columns, and no code yet that fills them."""
LONG = "long " * 800
ODD = "k: a/b - 50. ż"


def fill(store: Any, job_store: Any, experiment_id: str) -> None:
    """Something of everything, through MLflow's own stores or through ours."""
    _gateway(store, experiment_id)
    _mcp(store)
    _reviews(store, experiment_id)
    _jobs(job_store)


def fill_rest(uri: str) -> None:
    """Something in every column of the tables of these stores, and jobs in each status."""
    engine = sa.create_engine(uri)
    tables = sa.MetaData()
    tables.reflect(engine)
    with engine.begin() as connection:
        for name, values in REST.items():
            known = {
                column: value for column, value in values.items() if column in tables.tables[name].c
            }
            if known:
                texts = ", ".join(f"{column} = :{column}" for column in known)
                connection.execute(sa.text(f"UPDATE {name} SET {texts}"), known)
        one = connection.execute(sa.text("SELECT endpoint_id FROM endpoints")).scalars().first()
        connection.execute(sa.text("UPDATE guardrails SET action_endpoint_id = :one"), {"one": one})
        jobs = connection.execute(sa.text("SELECT id FROM jobs ORDER BY creation_time")).scalars()
        others = (JobStatus.TIMEOUT, JobStatus.CANCELED, NEEDS_RECOVERY)
        for job, status in zip(jobs.all(), others, strict=False):
            update = sa.text("UPDATE jobs SET status = :status WHERE id = :job")
            connection.execute(update, {"status": status.to_int(), "job": job})
    engine.dispose()


def empty_columns(uri: str) -> set[tuple[str, str]]:
    """The columns of the tables of these stores in which no row has a value."""
    database = Database.to_read(uri)
    stores = [rows for name, rows, _ in STORES if name in KINDS or name.startswith("gateway")]
    tables = {table for rows in stores for table in rows.tables()}
    empty = set()
    for table in tables:
        found = list(database.rows(sa.select(database.table(table))))
        columns = database.table(table).c.keys()
        empty |= {(table, name) for name in columns if all(row[name] is None for row in found)}
    database.close()
    return empty


def _gateway(store: Any, experiment_id: str) -> None:
    secret = store.create_gateway_secret("openai ż", {"api_key": "sk-1"}, "openai", {"a": 1}, "ada")
    other = store.create_gateway_secret("plain", {"api_key": "sk-2"})
    store.update_gateway_secret(other.secret_id, {"api_key": "sk-3"}, updated_by="bob")
    models = [
        store.create_gateway_model_definition(name, secret.secret_id, "openai", "gpt-4o", "ada")
        for name in ("first", "second", "unused")
    ]
    primary, fallback = (
        GatewayEndpointModelConfig(models[0].model_definition_id, GatewayModelLinkageType.PRIMARY),
        GatewayEndpointModelConfig(
            models[1].model_definition_id, GatewayModelLinkageType.FALLBACK, fallback_order=1
        ),
    )
    chat = store.create_gateway_endpoint(
        "chat",
        [primary, fallback],
        created_by="ada",
        fallback_config=FallbackConfig(max_attempts=2),
        experiment_id=experiment_id,
    )
    plain = store.create_gateway_endpoint("plain", [primary], usage_tracking=False)
    for key, value in (("team", "blue"), (ODD, LONG[:4000])):
        store.set_gateway_endpoint_tag(chat.endpoint_id, _tag(key, value))
    store.create_endpoint_binding(plain.endpoint_id, "scorer", "a scorer", "ada")
    store.create_budget_policy(
        BudgetUnit.USD,
        12.5,
        BudgetDuration(BudgetDurationUnit.DAYS, 7),
        BudgetTargetScope.GLOBAL,
        BudgetAction.ALERT,
        "ada",
    )
    judge = {"instructions_judge_pydantic_data": {"model": "openai:/gpt-4o", "instructions": "?"}}
    scorer = store.register_scorer(experiment_id, "safe", json.dumps(judge))
    guardrails = [
        store.create_gateway_guardrail(
            name,
            scorer.scorer_id,
            scorer.scorer_version,
            GuardrailStage.BEFORE,
            GuardrailAction.VALIDATION,
        )
        for name in ("one", "two")
    ]
    for order, guardrail in enumerate(guardrails):
        store.add_guardrail_to_endpoint(chat.endpoint_id, guardrail.guardrail_id, order, "ada")


def _tag(key: str, value: str) -> Any:
    from mlflow.entities import GatewayEndpointTag

    return GatewayEndpointTag(key, value)


def _mcp(store: Any) -> None:
    name = "io.github.ada/files"
    icons = [{"src": "https://93.184.215.14/icon.png"}]
    store.create_mcp_server(name, "Reads files.", icons, "ada")
    for version, status in (
        ("1.0.0", MCPStatus.ACTIVE),
        ("1.1.0-rc.1", MCPStatus.DRAFT),
        ("2.0.0", MCPStatus.DRAFT),
    ):
        store.create_mcp_server_version(
            {"name": name, "version": version, "description": LONG * 20},
            source="https://93.184.215.14",
            status=status,
            tools=[MCPTool(name="read", input_schema={"type": "object"})],
            created_by="ada",
        )
    store.delete_mcp_server_version(name, "2.0.0")
    store.set_mcp_server_tag(name, "team", "blue")
    store.set_mcp_server_tag(name, ODD, LONG[:4000])
    store.set_mcp_server_version_tag(name, "1.0.0", "stage", "prod")
    store.set_mcp_server_alias(name, "stable", "1.0.0")
    for target in ({"server_version": "1.0.0"}, {"server_alias": "stable"}):
        store.create_mcp_access_endpoint(
            name,
            url="https://93.184.215.14/mcp",
            transport_type=MCPRemoteTransportType.STREAMABLE_HTTP,
            created_by="bob",
            **target,
        )
    store.create_mcp_server("io.github.ada/empty")


def _reviews(store: Any, experiment_id: str) -> None:
    store.list_label_schemas(experiment_id)  # makes the default question
    schemas = [
        store.create_label_schema(experiment_id, name=name, type=kind, input=given, **more)
        for name, kind, given, more in (
            ("tone", "feedback", InputCategorical(options=["kind", "rude"]), {}),
            ("right", "expectation", InputPassFail("right", "wrong"), {"instruction": LONG[:900]}),
            ("score", "feedback", InputNumeric(min_value=0.5), {"enable_comment": True}),
        )
    ]
    queue = store.create_review_queue(
        experiment_id,
        name="Triage ż",
        queue_type="custom",
        users=["ada", "bob"],
        schema_ids=[schema.schema_id for schema in schemas[:2]],
        created_by="ada",
    )
    items = [trace_id(n) for n in range(4)]
    store.add_items_to_review_queue(queue.queue_id, item_ids=items)
    store.set_review_queue_item_status(
        queue.queue_id, item_id=items[1], status="complete", completed_by="bob"
    )
    store.create_review_queue("0", name="empty", queue_type="custom", users=["ada"], schema_ids=[])


def _jobs(store: Any) -> None:
    waiting = store.create_job("invoke_scorer", json.dumps({"text": LONG * 10}), 12.5)
    running, done, failed = (store.create_job("optimize_prompts", "{}") for _ in range(3))
    for job in (running, done, failed):
        store.start_job(job.job_id)
    store.update_status_details(running.job_id, {"step": 1})
    store.finish_job(done.job_id, json.dumps({"text": LONG * 10}))
    store.fail_job(failed.job_id, "broken")
    assert waiting.job_id
