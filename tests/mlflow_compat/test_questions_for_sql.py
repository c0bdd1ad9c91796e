"""The places in MLflow that ask whether a store is a SQL database, and what happens there on ours.

A release with a new one fails here. Look at it: let it work on our stores, or put it into the table
of docs/jobs.md with the reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import mlflow

from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore

WORDS = {
    "DATABASE_ENGINES",
    "ManagedSessionMaker",
    "SqlAlchemyJobStore",
    "SqlAlchemyStore",
    "create_engine",
    "create_sqlalchemy_engine_with_retry",
    "extract_db_type_from_uri",
    "make_url",
    "sqlalchemy",
}
SCHEMES = ("sqlite", "postgresql", "mysql", "mssql")
OF_SQL_STORES = ("sqlalchemy", "dbmodels", "db_migrations", "store/db/", "auth/db/models")

STORES = "opens or registers MLflow's own stores; ours have entry points"
REPLACED = "works: replaced for our stores"
TABLE = "in the table of docs/jobs.md"
HELPER = "is called by the others"
REFUSAL = "expects a refusal of SQLAlchemy's; our auth app catches ours"
PARSER = "annotates a variable; only SQL stores use the parser"
DEFAULT = "where MLflow keeps things that nobody gave a URI for"
KNOWN = {
    "mlflow.cli:gc": REPLACED,
    "mlflow.cli.crypto:rotate_kek": REPLACED,
    "mlflow.db:delete_trace_rollups": TABLE,
    "mlflow.db:migrate_to_default_workspace": TABLE,
    "mlflow.db:move_resources": TABLE,
    "mlflow.db:prepopulate_trace_analytics": TABLE,
    "mlflow.db:upgrade": TABLE,
    "mlflow.genai.scorers.registry:_register_scorer_stores": STORES,
    "mlflow.projects.docker:_get_local_uri_or_none": TABLE,
    "mlflow.server.auth:create_admin_user": REFUSAL,
    "mlflow.server.auth:store": REPLACED,
    "mlflow.server.auth.db.cli:upgrade": TABLE,
    "mlflow.server.gateway_api:_validate_store": REPLACED,
    "mlflow.server.handlers:ModelRegistryStoreRegistryWrapper": STORES,
    "mlflow.server.handlers:TrackingStoreRegistryWrapper": STORES,
    "mlflow.server.handlers:_get_job_store": REPLACED,
    "mlflow.server.handlers:_get_server_info": TABLE,
    "mlflow.server.handlers:build_server_info_payload": TABLE,
    "mlflow.server.jobs.lock_manager:JobLockManager": REPLACED,
    "mlflow.server.jobs.utils:_check_requirements": REPLACED,
    "mlflow.store.fs2db:migrate": TABLE,
    "mlflow.store.fs2db.cli:migrate_filestore": TABLE,
    "mlflow.store.tracking.gateway.config_resolver:get_endpoint_config": REPLACED,
    "mlflow.store.tracking.gateway.config_resolver:get_resource_endpoint_configs": REPLACED,
    "mlflow.tracing.trace_rollup_service:validate_sql_trace_rollup_startup": TABLE,
    "mlflow.tracking._model_registry.utils:_get_sqlalchemy_store": STORES,
    "mlflow.tracking._model_registry.utils:_get_store_registry": STORES,
    "mlflow.tracking._tracking_service.utils:_get_sqlalchemy_store": STORES,
    "mlflow.tracking._tracking_service.utils:_register_tracking_stores": STORES,
    "mlflow.tracking._tracking_service.utils:get_tracking_uri": DEFAULT,
    "mlflow.tracking._workspace.registry:_get_sqlalchemy_workspace_store": STORES,
    "mlflow.tracking._workspace.registry:_register_default_workspace_stores": STORES,
    "mlflow.utils.search_logged_model_utils:parse_filter_string": PARSER,
    "mlflow.utils.uri:get_uri_scheme": HELPER,
    "mlflow.utils.validation:_validate_db_type_string": HELPER,
}
NOT_OURS = {
    "engine": "trace rollups, which the server refuses when it starts",
    "get_trace_location": "asked only of Databricks",
    "link_trace_location": "asked only of Databricks",
}


def questions() -> Iterator[str]:
    """The functions, classes and variables of MLflow that name something of a SQL database."""
    root = Path(mlflow.__file__).parent
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root.parent).as_posix()
        text = path.read_text("utf-8")
        if any(part in name for part in OF_SQL_STORES):
            continue
        if not any(word in text for word in (*WORDS, *SCHEMES)):
            continue
        module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for statement in ast.parse(text).body:
            if WORDS & set(used_names(statement)) or compares_schemes(statement):
                yield f"{module}:{name_of(statement)}"


def used_names(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement uses, but for types of arguments."""
    for node in ast.walk(statement):
        if isinstance(node, ast.arg):
            node.annotation = None
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def compares_schemes(statement: ast.stmt) -> bool:
    """Whether a statement asks what the scheme of a URI is, and knows those of SQL databases."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            asked = node.func.attr == "startswith"
        else:
            asked = isinstance(node, (ast.Compare, ast.match_case))
        if asked and any(
            isinstance(part, ast.Constant) and str(part.value).partition(":")[0] in SCHEMES
            for part in ast.walk(node)
        ):
            return True
    return False


def name_of(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Assign):
        return ast.unparse(statement.targets[0])
    return str(getattr(statement, "name", type(statement).__name__))


def attributes_asked_for() -> set[str]:
    """What MLflow asks whether a tracking store has."""
    asked = set()
    for path in Path(mlflow.__file__).parent.rglob("*.py"):
        text = path.read_text("utf-8")
        asked |= set(re.findall(r'(?:get|has)attr\((?:[\w.]*[._])?store, "(\w+)"', text))
    return asked


def test_our_store_has_what_mlflow_asks_its_stores_for():
    """Without it, the server would leave something out and say nothing."""
    asked = attributes_asked_for()
    assert {"_hard_delete_run", "get_metric_history_bulk"} <= asked
    lacking = {name for name in asked if not hasattr(DynamoDBTrackingStore, name)}
    assert lacking <= NOT_OURS.keys()


def test_every_place_that_asks_for_a_sql_database_is_known():
    assert [place for place in questions() if place not in KNOWN] == []
