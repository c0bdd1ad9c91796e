"""MLflow's own stores and ours, with one of everything, and good arguments for every method."""

from __future__ import annotations

import inspect
import itertools
import shutil
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlflow.entities import Workspace
from mlflow.server.auth.sqlalchemy_store import SqlAlchemyStore as SqlAuthStore
from mlflow.store.jobs.sqlalchemy_store import SqlAlchemyJobStore
from mlflow.store.model_registry.sqlalchemy_store import SqlAlchemyStore as SqlRegistryStore
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore as SqlTrackingStore
from mlflow.store.workspace.sqlalchemy_store import SqlAlchemyStore as SqlWorkspaceStore

from mlflow_dynamodbstore.auth.store import DynamoDBAuthStore
from mlflow_dynamodbstore.jobs.store import DynamoDBJobStore
from mlflow_dynamodbstore.mlflow_compat.jobs import JobProgress, JobStatus
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.table.location import parse
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.workspaces.store import DynamoDBWorkspaceStore
from tests.auth.stores import PASSWORD
from tests.sql import empty_database
from tests.stores import everything_in
from tests.workspaces import everything
from tests.workspaces.everything import Values

ARTIFACTS = "s3://bucket/root"
KINDS = ("tracking", "registry", "workspace", "jobs", "auth")
THEIRS: dict[str, type] = {
    "tracking": SqlTrackingStore,
    "registry": SqlRegistryStore,
    "workspace": SqlWorkspaceStore,
    "jobs": SqlAlchemyJobStore,
    "auth": SqlAuthStore,
}
NOT_CALLED = {
    "init_db": "opens MLflow's database",
    "sanitize_metric_value": "a helper of MLflow's own store",
    "test_webhook": "calls the address of the webhook",
    "log_batch_async": "a queue calls log_batch, which is called here",
    "log_metric_async": "a queue calls log_batch",
    "log_param_async": "a queue calls log_batch",
    "set_tag_async": "a queue calls log_batch",
    "log_spans_async": "a coroutine that calls log_spans",
    "end_async_logging": "ends the queue of log_batch",
    "flush_async_logging": "waits for the queue of log_batch",
    "shut_down_async_logging": "ends the queue of log_batch",
}
"""Public methods that are not called with bad values, each with the reason."""
FRESH = ("create_", "register_", "rename_")
"""Methods that need a name that nobody has."""
REMOVING = ("delete_", "_delete", "remove_", "_hard", "unassign", "detach_", "archive_", "revoke_")

_numbers = itertools.count()


def methods(kind: str) -> list[str]:
    """The names of all methods of a kind of store that MLflow or an operator may call."""
    private = everything.PRIVATE_METHODS_MLFLOW_CALLS
    named = everything.methods(THEIRS[kind], private)
    return [name for name in named if name not in NOT_CALLED]


def removes(method: str) -> bool:
    """Whether a method may take away what later calls need."""
    return method.startswith(REMOVING)


@dataclass
class World:
    """The five stores of one side, and the values that name what is in them."""

    stores: dict[str, Any]
    values: dict[str, Values]
    close: Callable[[], None] = field(repr=False)
    table: Table | None = None
    """The table of our stores."""

    def arguments(self, kind: str, method: str, number: int) -> Values:
        """Good arguments for a method; those of one number are the same on both sides."""
        called = getattr(self.stores[kind], method)
        known = self.values[kind] | _overrides(kind, method, self.values[kind])
        if method.startswith(FRESH):
            fresh = f"fresh-{number}"
            known |= {"new_name": fresh, "dst_name": fresh, "secret_name": fresh}
            if "mcp" in method:
                known |= {"server_json": everything.VERSION | {"version": f"1.1.{number}"}}
            if method == "create_mcp_server":
                known |= {"name": f"io.github.ada/{fresh}"}
            elif "mcp" not in method:
                known |= {"name": fresh}
        found: Values = {}
        for name, parameter in inspect.signature(called).parameters.items():
            if name in known:
                found[name] = known[name]
            elif parameter.default is parameter.empty and parameter.kind not in VARIABLE:
                raise LookupError(f"no good value is known for {name} of {method}")
            elif parameter.kind not in VARIABLE:
                found[name] = parameter.default
        return found


VARIABLE = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def _overrides(kind: str, method: str, made: Values) -> Values:
    return everything.overrides(method, made) if kind in ("tracking", "registry") else {}


# --- MLflow's -------------------------------------------------------------------------------------


class Theirs:
    """MLflow's stores, on copies of one database with one of everything."""

    def __init__(self, folder: Path):
        self._folder = folder
        empty_database(folder)
        paths = dict.fromkeys(KINDS, folder / "theirs.db")
        world = self._open(paths | {"auth": folder / "auth.db"})
        self._values = world.values
        world.close()

    def fresh(self, kind: str) -> World:
        name = "auth" if kind == "auth" else "theirs"
        path = self._folder / f"{name}-{next(_numbers)}.db"
        shutil.copyfile(self._folder / f"{name}.db", path)
        return self._open({kind: path}, self._values)

    def _open(self, paths: dict[str, Path], values: dict[str, Values] | None = None) -> World:
        stores = {kind: _open_theirs(kind, path) for kind, path in paths.items()}

        def close() -> None:
            for kind, store in stores.items():
                engine = store._engine if kind == "workspace" else store.engine
                engine.dispose()

        return World(stores, _filled(stores) if values is None else values, close)


def _open_theirs(kind: str, path: Path) -> Any:
    uri = f"sqlite:///{path}"
    if kind == "auth":
        auth = SqlAuthStore()
        auth.init_db(uri)
        return auth
    return SqlTrackingStore(uri, ARTIFACTS) if kind == "tracking" else THEIRS[kind](uri)


# --- ours -----------------------------------------------------------------------------------------


class Ours:
    """Our stores, on copies of one file with one of everything."""

    def __init__(self, folder: Path):
        self._folder = folder
        world = self._open(folder / "ours.ddb", KINDS)
        self._values = world.values
        world.close()

    def fresh(self, kind: str) -> World:
        path = self._folder / f"ours-{next(_numbers)}.ddb"
        shutil.copyfile(self._folder / "ours.ddb", path)
        return self._open(path, (kind,), self._values)

    def _open(
        self, path: Path, kinds: Iterable[str], values: dict[str, Values] | None = None
    ) -> World:
        uri = f"dynamodb:///{path}?synchronous=NORMAL"
        table = Table(open_engine(uri))
        stores = {kind: OURS[kind](uri, table) for kind in kinds}
        return World(stores, _filled(stores) if values is None else values, table.close, table)


OURS: dict[str, Callable[[str, Table], Any]] = {
    "tracking": lambda uri, table: DynamoDBTrackingStore(uri, ARTIFACTS, table=table),
    "registry": lambda uri, table: DynamoDBRegistryStore(uri, uri, table=table),
    "workspace": lambda uri, table: DynamoDBWorkspaceStore(uri, table=table),
    "jobs": lambda uri, table: DynamoDBJobStore(uri, table=table),
    "auth": lambda uri, table: DynamoDBAuthStore(uri, table=table),
}


class Watched:
    """The items of a table, read again only after somebody wrote to its file."""

    def __init__(self, table: Table):
        self._table = table
        path = parse(table.engine.uri).path
        self._file = sqlite3.connect(path, isolation_level=None)
        self._version = -1
        self._items: list[Item] = []

    def items(self) -> list[Item]:
        version = self._file.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version:
            self._items = everything_in(self._table)
            self._version = version
        return self._items

    def close(self) -> None:
        self._file.close()


# --- filling --------------------------------------------------------------------------------------


def _filled(stores: dict[str, Any]) -> dict[str, Values]:
    contents = everything.fill(stores["tracking"], stores["registry"])
    return {
        "tracking": contents,
        "registry": contents,
        "workspace": _workspaces(stores["workspace"]),
        "jobs": _jobs(stores["jobs"]),
        "auth": _users(stores["auth"]),
    }


def _workspaces(store: Any) -> Values:
    store.create_workspace(Workspace("team-a", "the first"))
    return {
        "workspace": Workspace("team-a", "changed"),
        "workspace_name": "team-a",
        "default_artifact_root": ARTIFACTS,
        "default_trace_archival_root": "s3://bucket/archive",
        "default_retention": "30d",
    }


def _jobs(store: Any) -> Values:
    taken = inspect.signature(store.create_job).parameters
    by_a_user = {"creator": "ada"} if "creator" in taken else {}  # not in MLflow 3.15
    job = store.create_job("train", '{"a": 1}', 60.0, **by_a_user)
    return {
        "job_id": job.job_id,
        "job_name": "train",
        "job_ids": ["no-such-job"],
        "params": {"a": 1},
        "timeout": 60.0,
        "older_than": 10**12,
        "error": "it failed",
        "error_message": "it failed",
        "result": '"done"',
        "lease_duration": 30.0,
        "status": JobStatus.SUCCEEDED,
        "statuses": [JobStatus.PENDING],
        "begin_timestamp": 0,
        "end_timestamp": 4_000_000_000_000,
        "status_details": {"stage": "one"},
        "message": "half way",
        "progress": JobProgress("one", 1, 2),
        "creator": "ada",
    }


def _users(store: Any) -> Values:
    user = store.create_user("ada", PASSWORD)
    store.create_user("bob", PASSWORD)
    role = store.create_role("readers", "default", "who read")
    permission = store.add_role_permission(role.id, "experiment", "*", "READ")
    store.assign_role_to_user(user.id, role.id)
    store.create_experiment_permission("1", "ada", "READ")
    store.create_registered_model_permission("model", "ada", "READ")
    store.create_scorer_permission("1", "scorer", "ada", "READ")
    for kind in ("endpoint", "model_definition", "secret"):
        getattr(store, f"create_gateway_{kind}_permission")("g", "ada", "READ")
    store.create_mcp_server_permission("model", "ada", "READ")
    return {
        "username": "ada",
        "password": PASSWORD,
        "is_admin": False,
        "user_id": user.id,
        "admin_user_id": user.id,
        "target_user_id": user.id,
        "role_id": role.id,
        "role_permission_id": permission.id,
        "name": "model",
        "scorer_name": "scorer",
        "workspace": "default",
        "workspaces": ["default"],
        "workspace_name": "default",
        "experiment_id": "1",
        "endpoint_id": "g",
        "model_definition_id": "g",
        "secret_id": "g",
        "resource_type": "experiment",
        "resource_types": ["experiment"],
        "resource_pattern": "2",
        "old_pattern": "1",
        "new_pattern": "3",
        "resource_id": "1",
        "permission": "READ",
        "description": "d",
    }
