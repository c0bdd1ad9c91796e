"""The kinds of entities, in the order they are moved."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from mlflow.entities.entity_type import EntityAssociationType

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import grants as grant_keys
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.transfer.sql.database import AUTH_TABLES, TABLES, Database
from mlflow_dynamodbstore.transfer.sql.datasets import DatasetItems, DatasetRows
from mlflow_dynamodbstore.transfer.sql.entities import EntityStore
from mlflow_dynamodbstore.transfer.sql.evaluation_datasets import (
    EvaluationDatasetItems,
    EvaluationDatasetRows,
    EvaluationRecordItems,
    EvaluationRecordRows,
)
from mlflow_dynamodbstore.transfer.sql.experiments import ExperimentItems, ExperimentRows
from mlflow_dynamodbstore.transfer.sql.gateway import (
    BindingItems,
    BindingRows,
    BudgetItems,
    BudgetRows,
    EndpointItems,
    EndpointRows,
    GuardrailItems,
    GuardrailRows,
    GuardrailUseItems,
    GuardrailUseRows,
    ModelDefinitionItems,
    ModelDefinitionRows,
    SecretItems,
    SecretRows,
)
from mlflow_dynamodbstore.transfer.sql.issues import IssueItems, IssueRows
from mlflow_dynamodbstore.transfer.sql.items import ItemStore, TransferTable
from mlflow_dynamodbstore.transfer.sql.jobs import JobItems, JobRows
from mlflow_dynamodbstore.transfer.sql.logged_models import LoggedModelItems, LoggedModelRows
from mlflow_dynamodbstore.transfer.sql.mcp import MCPServerItems, MCPServerRows
from mlflow_dynamodbstore.transfer.sql.move import EXPERIMENTS, Kind
from mlflow_dynamodbstore.transfer.sql.older_trace_rows import OlderTraceRows
from mlflow_dynamodbstore.transfer.sql.registry import ModelItems, ModelRows
from mlflow_dynamodbstore.transfer.sql.reviews import (
    LabelSchemaItems,
    LabelSchemaRows,
    ReviewQueueItems,
    ReviewQueueRows,
)
from mlflow_dynamodbstore.transfer.sql.rows import RowStore
from mlflow_dynamodbstore.transfer.sql.run_items import RunItems
from mlflow_dynamodbstore.transfer.sql.run_rows import RunRows
from mlflow_dynamodbstore.transfer.sql.scorers import ScorerItems, ScorerRows
from mlflow_dynamodbstore.transfer.sql.trace_items import TraceItems
from mlflow_dynamodbstore.transfer.sql.trace_rows import TraceRows
from mlflow_dynamodbstore.transfer.sql.webhooks import WebhookItems, WebhookRows
from mlflow_dynamodbstore.transfer.sql.workspaces import WorkspaceItems, WorkspaceRows

USERS = "users"
Stores = tuple[str, type[RowStore], type[ItemStore]]

STORES: tuple[Stores, ...] = (
    ("workspaces", WorkspaceRows, WorkspaceItems),
    (EXPERIMENTS, ExperimentRows, ExperimentItems),
    ("datasets", DatasetRows, DatasetItems),
    ("runs", RunRows, RunItems),
    ("logged models", LoggedModelRows, LoggedModelItems),
    (
        "traces",
        TraceRows if "trace_name" in TABLES["trace_info"].c else OlderTraceRows,
        TraceItems,
    ),
    ("registered models", ModelRows, ModelItems),
    ("webhooks", WebhookRows, WebhookItems),
    ("issues", IssueRows, IssueItems),
    ("scorers", ScorerRows, ScorerItems),
    ("evaluation datasets", EvaluationDatasetRows, EvaluationDatasetItems),
    ("evaluation records", EvaluationRecordRows, EvaluationRecordItems),
    ("label schemas", LabelSchemaRows, LabelSchemaItems),
    ("review queues", ReviewQueueRows, ReviewQueueItems),
    ("gateway secrets", SecretRows, SecretItems),
    ("gateway models", ModelDefinitionRows, ModelDefinitionItems),
    ("gateway endpoints", EndpointRows, EndpointItems),
    ("gateway bindings", BindingRows, BindingItems),
    ("gateway budgets", BudgetRows, BudgetItems),
    ("gateway guardrails", GuardrailRows, GuardrailItems),
    ("gateway guardrail uses", GuardrailUseRows, GuardrailUseItems),
    ("MCP servers", MCPServerRows, MCPServerItems),
    ("jobs", JobRows, JobItems),
)
"""The stores of each kind; a kind comes after those that its entities lie in."""


def importing(database: Database, table: Table) -> list[Kind]:
    """The kinds of entities, to be read from a database and written to a table."""
    stores = [*(STORES if database.has_tracking else ()), *(_access() if database.has_auth else ())]
    return [Kind(name, rows, items) for name, rows, items in _opened(stores, database, table)]


def exporting(table: Table, database: Database) -> list[Kind]:
    """The kinds of entities, to be read from a table and written to a database."""
    users = Query(access_keys.CONFIG_PK, where=grant_keys.USER_ENTRIES.on(), limit=1)
    has_users = next(table.items(users), None) is not None
    stores = [*STORES, *(_access() if has_users else ())]
    return [Kind(name, items, rows) for name, rows, items in _opened(stores, database, table)]


def _opened(
    stores: Iterable[Stores], database: Database, table: Table
) -> list[tuple[str, EntityStore, EntityStore]]:
    """The name of each kind, its store in a database and its store in a table."""
    transfer_table = TransferTable(table)
    return [(name, rows(database), items(transfer_table)) for name, rows, items in stores]


def has_access(kinds: Iterable[Kind]) -> bool:
    """Whether users and roles are moved, which lie in the tables of MLflow's auth app."""
    return any(kind.name == USERS for kind in kinds)


def _access() -> tuple[Stores, ...]:
    """The stores of users and roles, which need MLflow's auth app: the extra ``auth``."""
    access = import_module("mlflow_dynamodbstore.transfer.sql.access")
    return (
        (USERS, access.UserRows, access.UserItems),
        ("roles", access.RoleRows, access.RoleItems),
    )


def not_imported(database: Database) -> dict[str, int]:
    """How many rows of which tables stay in the database."""
    moved = {table for _, rows, _ in STORES for table in rows.tables()} | AUTH_TABLES
    if not database.has_tracking:
        return database.rows_of_other_tables(moved)
    moved_links = [
        {"source_type": source, "destination_type": target}
        for source, target in (
            (EntityAssociationType.TRACE, EntityAssociationType.RUN),
            (EntityAssociationType.TRACE, EntityAssociationType.PROMPT_VERSION),
            (EntityAssociationType.EVALUATION_DATASET, EntityAssociationType.EXPERIMENT),
        )
    ]
    others = database.count("entity_associations") - sum(
        database.count("entity_associations", kind) for kind in moved_links
    )
    links = {"entity_associations": others} if others else {}
    unread = {"files that cannot be read": database.unread} if database.unread else {}
    return {**database.rows_of_other_tables(moved), **links, **unread}
