"""A database with MLflow's tables: opening, reading and writing it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from mlflow.exceptions import MlflowException
from mlflow.store.db.utils import create_sqlalchemy_engine
from mlflow.store.model_registry.dbmodels.models import EncryptedString
from mlflow.store.tracking.dbmodels.models import SqlExperiment
from mlflow.store.workspace.dbmodels.models import SqlWorkspace

from mlflow_dynamodbstore.mlflow_compat.databases import (
    AuthBase,
    migrate_if_needed,
    safe_initialize_tables,
    verify_schema,
)

Row = dict[str, Any]

TABLES: Mapping[str, sa.Table] = {**SqlExperiment.metadata.tables, **SqlWorkspace.metadata.tables}
"""MLflow's tables, without those of its auth app."""

DERIVED = frozenset(
    {
        "alembic_version",
        "alembic_version_auth",
        "experiment_permissions",
        "gateway_endpoint_permissions",
        "gateway_model_definition_permissions",
        "gateway_secret_permissions",
        "job_locks",
        "registered_model_permissions",
        "scheduler_leases",
        "scorer_permissions",
        "span_metrics",
        "sql_assessment_daily_rollups",
        "sql_span_cost_daily_rollups",
        "sql_trace_metric_daily_rollups",
        "sql_trace_rollup_rebuild_queue",
        "trace_metrics",
        "workspace_permissions",
    }
)
"""Tables that are not moved because they hold no data of their own: sums over other tables, locks,
schema versions, and the permissions from before there were roles, which MLflow no longer reads."""
AUTH_TABLES = frozenset({"users", "roles", "role_permissions", "user_role_assignments"})
"""The tables of MLflow's auth app, in this database or in one of their own."""
READ_AT_ONCE = 1_000
KEYS_AT_ONCE = 100
WRITABLE = frozenset({"sqlite", "postgresql", "mysql"})


_NOT_DATABASES = {
    **dict.fromkeys(
        ("http", "https"),
        "the address of a server: name the database behind it, its --backend-store-uri",
    ),
    "dynamodb": "a table, not a database: `copy` moves a whole table to another one",
}


def _not_a_uri(text: str) -> str:
    path = Path(text.removeprefix("file://"))
    if path.is_dir():
        return f"{text} is a folder, and not a database"
    example = path if path.is_file() else "mlflow.db"
    return f"{text!r} is not a database URI; write sqlite:///{example}"


def _address(url: sa.URL) -> str:
    """The address of a database without its password, the same from every folder."""
    name = url.database or ""
    if url.get_backend_name() == "sqlite" and name and not name.startswith((":", "file:")):
        url = url.set(database=str(Path(name).resolve()))
    return url.render_as_string(hide_password=True)


class Database:
    """One database. Raises ``ValueError`` when it cannot be used."""

    def __init__(self, uri: str):
        scheme = uri.partition(":")[0]
        if scheme in _NOT_DATABASES:
            raise ValueError(f"{uri} is {_NOT_DATABASES[scheme]}")
        try:
            url = sa.make_url(uri)
        except sa.exc.ArgumentError as error:
            raise ValueError(_not_a_uri(uri)) from error
        self.address = _address(url)
        self.unread = 0
        """Files of the source that this database was made of and that could not be read."""
        self.is_new = (
            url.get_backend_name() == "sqlite"
            and bool(url.database)
            and not Path(str(url.database)).exists()
        )
        try:
            self.engine = create_sqlalchemy_engine(uri)
        except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ImportError) as error:
            hint = "; install its driver" if isinstance(error, ImportError) else ""
            raise ValueError(
                f"the database {self.address} cannot be opened: {error}{hint}"
            ) from error

    @classmethod
    def to_read(cls, uri: str) -> Database:
        """An existing database of an MLflow server, with the schema of this MLflow."""
        made = cls(uri)
        if made.is_new or not {"experiments", "users"} & made.names:
            raise ValueError(f"there is no MLflow database at {made.address}")
        if made.has_tracking:
            made._check_schema()
        if "users" in made.names and not made.has_auth:
            raise ValueError(
                f"{made.address} has users but no roles: to bring it up to date, start the MLflow "
                "that is installed here on it once, with the auth app"
            )
        return made

    @classmethod
    def to_write(cls, uri: str) -> Database:
        """A database to write to; creates MLflow's tables if they are missing."""
        made = cls(uri)
        dialect = made.engine.dialect.name
        if dialect not in WRITABLE:
            raise ValueError(f"cannot export to {dialect}, only to SQLite, PostgreSQL or MySQL")
        with made._reporting():
            safe_initialize_tables(made.engine)
        made.__dict__.pop("names", None)
        made._check_schema()
        return made

    def close(self) -> None:
        self.engine.dispose()

    def _check_schema(self) -> None:
        try:
            with self._reporting():
                verify_schema(self.engine)
        except MlflowException as error:
            raise ValueError(f"{self.address}: {error.message}") from error

    # --- tables ---------------------------------------------------------------------------------

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the tables that exist."""
        with self._reporting():
            return frozenset(sa.inspect(self.engine).get_table_names())

    @property
    def has_tracking(self) -> bool:
        """Whether it has the tables of a tracking server, not only those of its auth app."""
        return "experiments" in self.names

    @property
    def has_auth(self) -> bool:
        """Whether it has the tables of the auth app."""
        return self.names >= AUTH_TABLES

    def make_auth_tables(self) -> None:
        """Create the tables of MLflow's auth app if they are missing."""
        with self._reporting():
            migrate_if_needed(self.engine, "head")
        self.__dict__.pop("names", None)

    def table(self, name: str) -> sa.TableClause:
        """A table; encrypted columns are read and written as they are stored."""
        found = (_auth_tables() if name in AUTH_TABLES else TABLES)[name]
        if not any(isinstance(column.type, EncryptedString) for column in found.c):
            return found
        return sa.table(name, *(sa.column(c.name, _plain(c.type)) for c in found.c))

    @property
    def is_strict(self) -> bool:
        """Whether it refuses texts that are too long for their columns; SQLite does not."""
        return bool(self.engine.dialect.name != "sqlite")

    def why_unfit(self, name: str, row: Row) -> str | None:
        """Why a strict database would refuse the texts of a row; None when it would not."""
        for column in self.table(name).c:
            text, limit = row.get(column.name), getattr(column.type, "length", None)
            if not isinstance(text, str):
                continue
            if limit is not None and len(text) > limit:
                return f"{column.name} in {name} holds {limit:,} characters, not {len(text):,}"
            if "\0" in text:
                return f"{column.name} in {name} cannot hold a zero character"
        return None

    def count(self, name: str, where: Mapping[str, Any] | None = None) -> int:
        """How many rows a table has, or how many with some values."""
        query = sa.select(sa.func.count()).select_from(sa.table(name))
        for column, value in (where or {}).items():
            query = query.where(sa.column(column) == value)
        with self._reporting(), self.engine.connect() as connection:
            return int(connection.execute(query).scalar_one())

    def rows_of_other_tables(self, moved: Iterable[str]) -> dict[str, int]:
        """How many rows the tables with data have that are not moved; empty ones are left out."""
        rest = sorted(self.names - DERIVED - frozenset(moved))
        counts = {name: self.count(name) for name in rest}
        return {name: count for name, count in counts.items() if count}

    # --- reading --------------------------------------------------------------------------------

    def page(
        self, name: str, key: Sequence[str], after: tuple[Any, ...] | None, size: int
    ) -> list[Row]:
        """The next rows of a table, ordered by some columns."""
        table = self.table(name)
        columns = [table.c[column] for column in key]
        query = sa.select(table).order_by(*columns).limit(size)
        if after is not None:
            query = query.where(_after(columns, after))
        return list(self.rows(query))

    def rows_with(
        self,
        name: str,
        key: Sequence[str],
        values: Sequence[tuple[Any, ...]],
        where: Mapping[str, Any] | None = None,
    ) -> Iterator[Row]:
        """The rows of a table with one of some values in some columns."""
        table = self.table(name)
        columns = [table.c[column] for column in key]
        for n in range(0, len(values), KEYS_AT_ONCE):
            some = values[n : n + KEYS_AT_ONCE]
            query = sa.select(table).where(_among(columns, some))
            for column, value in (where or {}).items():
                query = query.where(table.c[column] == value)
            yield from self.rows(query)

    def rows(self, query: sa.Select[Any]) -> Iterator[Row]:
        """The rows of a query, not held in memory all at once."""
        names = [column.name for column in query.selected_columns]
        return (dict(zip(names, row, strict=True)) for row in self.tuples(query))

    def tuples(self, query: sa.Select[Any]) -> Iterator[tuple[Any, ...]]:
        """The rows of a query without column names, for millions of them."""
        with self._reporting(), self.engine.connect() as connection:
            streamed = connection.execution_options(stream_results=True, yield_per=READ_AT_ONCE)
            for row in streamed.execute(query):
                yield tuple(row)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Turn an error of the database into an ``MlflowException`` with a sentence."""
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            why = getattr(error, "orig", None) or error
            raise MlflowException(f"the database {self.address} failed: {why}") from error

    # --- writing --------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A transaction: all of it is written at its end, or nothing."""
        with self._reporting(), self.engine.begin() as connection:
            if self.engine.dialect.name == "mysql":
                # The default experiment is number 0, which MySQL would read as "the next number".
                connection.execute(sa.text("SET @@SESSION.sql_mode='NO_AUTO_VALUE_ON_ZERO'"))
            yield Transaction(self, connection)


class Transaction:
    """An open transaction of a database."""

    def __init__(self, database: Database, connection: sa.Connection):
        self._database = database
        self.connection = connection

    def insert(self, name: str, rows: Sequence[Row]) -> None:
        """Insert rows into a table; all must name the same columns."""
        if rows:
            self.connection.execute(self._database.table(name).insert(), list(rows))

    def delete(self, name: str, where: Mapping[str, Any]) -> None:
        """Delete the rows that have some values."""
        table = self._database.table(name)
        query = table.delete()
        for column, value in where.items():
            query = query.where(table.c[column] == value)
        self.connection.execute(query)

    def advance_sequence(self, name: str, column: str) -> None:
        """Make a column that numbers rows go on after the greatest number in it."""
        if self.connection.dialect.name != "postgresql":
            return  # the others derive the next number from the rows
        table = self._database.table(name)
        greatest = sa.select(sa.func.max(table.c[column])).scalar_subquery()
        sequence = sa.func.pg_get_serial_sequence(name, column)
        self.connection.execute(sa.select(sa.func.setval(sequence, sa.func.greatest(greatest, 1))))


def _auth_tables() -> Mapping[str, sa.Table]:
    tables: Mapping[str, sa.Table] = AuthBase.metadata.tables
    return tables


def _plain(kind: Any) -> Any:
    return sa.String() if isinstance(kind, EncryptedString) else kind


def _after(columns: Sequence[Any], after: tuple[Any, ...]) -> Any:
    """The condition that a row comes after some values, in the order of some columns."""
    conditions = [
        sa.and_(
            *(column == value for column, value in zip(columns[:n], after, strict=False)),
            columns[n] > after[n],
        )
        for n in range(len(columns))
    ]
    return sa.or_(*conditions)


def _among(columns: Sequence[Any], values: Sequence[tuple[Any, ...]]) -> Any:
    """The condition that some columns of a row hold one of some values."""
    if len(columns) == 1:
        return columns[0].in_([value for (value,) in values])
    return sa.or_(
        *(
            sa.and_(*(column == part for column, part in zip(columns, value, strict=True)))
            for value in values
        )
    )
