"""A database with MLflow's tables, as it is opened, read and written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from mlflow.exceptions import MlflowException
from mlflow.store.db.base_sql_model import Base
from mlflow.store.db.utils import (
    _safe_initialize_tables,
    _verify_schema,
    create_sqlalchemy_engine,
)

# This one and the next put MLflow's tables into the metadata of their base.
from mlflow.store.model_registry.dbmodels.models import EncryptedString
from mlflow.store.tracking.dbmodels import models as _tracking  # noqa: F401
from mlflow.store.workspace.dbmodels import models as _workspaces  # noqa: F401

Row = dict[str, Any]

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
"""Tables that say nothing of their own: sums of others, locks, versions of the schema, and
permissions as they were kept before there were roles, which MLflow does not read any more."""
AUTH_TABLES = frozenset({"users", "roles", "role_permissions", "user_role_assignments"})
"""Tables of MLflow's auth app, in this database or in one of their own."""
READ_AT_ONCE = 1_000
KEYS_AT_ONCE = 100
WRITABLE = frozenset({"sqlite", "postgresql", "mysql"})


class Database:
    """One database. Raises ``ValueError`` with a sentence when it cannot be used."""

    def __init__(self, uri: str):
        try:
            url = sa.make_url(uri)
        except sa.exc.ArgumentError as error:
            raise ValueError(
                f"{uri!r} is not a database URI; one is such as sqlite:///mlflow.db"
            ) from error
        self.place = url.render_as_string(hide_password=True)
        self._is_new = (
            url.get_backend_name() == "sqlite"
            and bool(url.database)
            and not Path(str(url.database)).exists()
        )
        try:
            self.engine = create_sqlalchemy_engine(uri)
        except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ImportError) as error:
            raise ValueError(f"the database {self.place} cannot be opened: {error}") from error

    @classmethod
    def to_read(cls, uri: str) -> Database:
        """A database that an MLflow server has made, of the schema of this MLflow."""
        made = cls(uri)
        if made._is_new or not {"experiments", "users"} & made.names:
            raise ValueError(f"there is no database of MLflow at {made.place}")
        if made.has_tracking:
            made._check_schema()
        if "users" in made.names and not made.has_auth:
            raise ValueError(
                f"{made.place} has users but no roles: start the MLflow that is installed here "
                "on it once, with its auth app, to bring it up to date"
            )
        return made

    @classmethod
    def to_write(cls, uri: str) -> Database:
        """A database that MLflow's tables are made in, unless they are there."""
        made = cls(uri)
        dialect = made.engine.dialect.name
        if dialect not in WRITABLE:
            raise ValueError(f"an export goes to SQLite, PostgreSQL or MySQL, not to {dialect}")
        with made._reporting():
            _safe_initialize_tables(made.engine)
        made.__dict__.pop("names", None)
        made._check_schema()
        return made

    def close(self) -> None:
        self.engine.dispose()

    def _check_schema(self) -> None:
        try:
            with self._reporting():
                _verify_schema(self.engine)
        except MlflowException as error:
            raise ValueError(f"{self.place}: {error.message}") from error

    # --- tables ---------------------------------------------------------------------------------

    @cached_property
    def names(self) -> frozenset[str]:
        """The tables that are there."""
        with self._reporting():
            return frozenset(sa.inspect(self.engine).get_table_names())

    @property
    def has_tracking(self) -> bool:
        """Whether it is the database of a tracking server, and not of its auth app alone."""
        return "experiments" in self.names

    @property
    def has_auth(self) -> bool:
        """Whether users and roles are in it."""
        return self.names >= AUTH_TABLES

    def make_auth_tables(self) -> None:
        """Let MLflow's auth app make its tables, unless they are there."""
        from mlflow.server.auth.db.utils import migrate_if_needed  # noqa: PLC0415 - all of the app

        migrate_if_needed(self.engine, "head")
        self.__dict__.pop("names", None)

    def table(self, name: str) -> sa.TableClause:
        """A table; texts that it encrypts are read and written as they are."""
        tables = _auth_tables() if name in AUTH_TABLES else Base.metadata.tables
        found: sa.Table = tables[name]
        if not any(isinstance(column.type, EncryptedString) for column in found.c):
            return found
        return sa.table(name, *(sa.column(c.name, _plain(c.type)) for c in found.c))

    @property
    def is_strict(self) -> bool:
        """Whether it refuses texts that its columns are too short for; SQLite takes all."""
        return bool(self.engine.dialect.name != "sqlite")

    def unfit(self, name: str, row: Row) -> str | None:
        """Why a strict database would refuse a row, as far as its texts are to blame."""
        for column in self.table(name).c:
            text, limit = row.get(column.name), getattr(column.type, "length", None)
            if not isinstance(text, str):
                continue
            if limit is not None and len(text) > limit:
                return f"{column.name} in {name} holds {limit:,} characters, and not {len(text):,}"
            if "\0" in text:
                return f"{column.name} in {name} cannot hold a character that is zero"
        return None

    def count(self, name: str, where: Mapping[str, Any] | None = None) -> int:
        """How many rows a table has."""
        query = sa.select(sa.func.count()).select_from(self._any_table(name))
        for column, value in (where or {}).items():
            query = query.where(sa.column(column) == value)
        with self._reporting(), self.engine.connect() as connection:
            return int(connection.execute(query).scalar_one())

    def others(self, carried: Iterable[str]) -> dict[str, int]:
        """The tables that say something, are not carried over and are not empty."""
        rest = sorted(self.names - DERIVED - frozenset(carried))
        counts = {name: self.count(name) for name in rest}
        return {name: count for name, count in counts.items() if count}

    def _any_table(self, name: str) -> Any:
        return sa.table(name)

    # --- reading --------------------------------------------------------------------------------

    def page(
        self, name: str, key: Sequence[str], after: tuple[Any, ...] | None, size: int
    ) -> list[Row]:
        """The next rows of a table in the order of some columns."""
        table = self.table(name)
        columns = [table.c[column] for column in key]
        query = sa.select(table).order_by(*columns).limit(size)
        if after is not None:
            query = query.where(_beyond(columns, after))
        return list(self.rows(query))

    def having(
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
        """The rows of a query, which are not held all at once."""
        names = [column.name for column in query.selected_columns]
        return (dict(zip(names, row, strict=True)) for row in self.tuples(query))

    def tuples(self, query: sa.Select[Any]) -> Iterator[tuple[Any, ...]]:
        """The same without the names of the columns, for those who read millions."""
        with self._reporting(), self.engine.connect() as connection:
            streamed = connection.execution_options(stream_results=True, yield_per=READ_AT_ONCE)
            for row in streamed.execute(query):
                yield tuple(row)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Let what a database refuses be a sentence."""
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            why = getattr(error, "orig", None) or error
            raise MlflowException(f"the database {self.place} failed: {why}") from error

    # --- writing --------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """A transaction: what is inserted in it is there at its end, or none of it."""
        with self._reporting(), self.engine.begin() as connection:
            if self.engine.dialect.name == "mysql":
                # The default experiment is number 0, which MySQL would take for "the next one".
                connection.execute(sa.text("SET @@SESSION.sql_mode='NO_AUTO_VALUE_ON_ZERO'"))
            yield Writing(self, connection)


class Writing:
    """A transaction of a database."""

    def __init__(self, database: Database, connection: sa.Connection):
        self._database = database
        self.connection = connection

    def insert(self, name: str, rows: Sequence[Row]) -> None:
        """Add rows to a table; all of them name the same columns."""
        if rows:
            self.connection.execute(self._database.table(name).insert(), list(rows))

    def delete(self, name: str, where: Mapping[str, Any]) -> None:
        """Remove the rows that have some values."""
        table = self._database.table(name)
        query = table.delete()
        for column, value in where.items():
            query = query.where(table.c[column] == value)
        self.connection.execute(query)

    def number_on(self, name: str, column: str) -> None:
        """Let a column that numbers rows go on behind the greatest number there is."""
        if self.connection.dialect.name != "postgresql":
            return  # the others look at the rows
        table = self._database.table(name)
        greatest = sa.select(sa.func.max(table.c[column])).scalar_subquery()
        sequence = sa.func.pg_get_serial_sequence(name, column)
        self.connection.execute(sa.select(sa.func.setval(sequence, sa.func.greatest(greatest, 1))))


def _auth_tables() -> Mapping[str, sa.Table]:
    from mlflow.server.auth.db.models import Base as AuthBase  # noqa: PLC0415 - all of the app

    tables: Mapping[str, sa.Table] = AuthBase.metadata.tables
    return tables


def _plain(kind: Any) -> Any:
    return sa.String() if isinstance(kind, EncryptedString) else kind


def _beyond(columns: Sequence[Any], after: tuple[Any, ...]) -> Any:
    """That a row comes after a place in the order of some columns."""
    ways = [
        sa.and_(
            *(column == value for column, value in zip(columns[:n], after, strict=False)),
            columns[n] > after[n],
        )
        for n in range(len(columns))
    ]
    return sa.or_(*ways)


def _among(columns: Sequence[Any], values: Sequence[tuple[Any, ...]]) -> Any:
    if len(columns) == 1:
        return columns[0].in_([value for (value,) in values])
    return sa.or_(
        *(
            sa.and_(*(column == part for column, part in zip(columns, value, strict=True)))
            for value in values
        )
    )
