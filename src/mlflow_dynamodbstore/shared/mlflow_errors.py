"""The one place where a storage error becomes an ``MlflowException``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import (
    DATA_LOSS,
    INTERNAL_ERROR,
    INVALID_PARAMETER_VALUE,
    INVALID_STATE,
    PERMISSION_DENIED,
    RESOURCE_LIMIT_EXCEEDED,
    TEMPORARILY_UNAVAILABLE,
)

from mlflow_dynamodbstore.table import errors as table_errors
from mlflow_dynamodbstore.table.contract import IncompleteWrite

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

_CODES: tuple[tuple[type[table_errors.TableError], int], ...] = (
    (table_errors.Throttled, TEMPORARILY_UNAVAILABLE),
    (table_errors.Unavailable, TEMPORARILY_UNAVAILABLE),
    (IncompleteWrite, TEMPORARILY_UNAVAILABLE),
    (table_errors.TransactionCancelled, TEMPORARILY_UNAVAILABLE),
    (table_errors.CollectionFull, RESOURCE_LIMIT_EXCEEDED),
    (table_errors.ItemTooLarge, INVALID_PARAMETER_VALUE),
    (table_errors.InvalidRequest, INVALID_PARAMETER_VALUE),
    (table_errors.BadTableURI, INVALID_PARAMETER_VALUE),
    (table_errors.TableMissing, INVALID_STATE),
    (table_errors.SchemaMismatch, INVALID_STATE),
    (table_errors.NewerItem, INVALID_STATE),
    (table_errors.Damaged, DATA_LOSS),
    (table_errors.AccessDenied, PERMISSION_DENIED),
)


_PERMANENT = (table_errors.ItemTooLarge, table_errors.InvalidRequest)


def as_mlflow_exception(error: table_errors.TableError) -> MlflowException:
    """The exception MLflow's client, server and tests expect for a storage error."""
    if isinstance(error, IncompleteWrite) and isinstance(error.__cause__, _PERMANENT):
        error = error.__cause__  # trying again would not help
    for kind, code in _CODES:
        if isinstance(error, kind):
            return MlflowException(str(error), error_code=code)
    return MlflowException(str(error), error_code=INTERNAL_ERROR)


def translated(function: Callable[P, R]) -> Callable[P, R]:
    """A function that raises ``MlflowException`` instead of a table error."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except table_errors.TableError as error:
            raise as_mlflow_exception(error) from error

    return wrapper


def translates_errors(store: C) -> C:
    """Apply :func:`translated` to every public method of a store class."""
    ours = [c for c in store.__mro__ if c.__module__.startswith("mlflow_dynamodbstore.")]
    names = {name for c in ours for name, member in vars(c).items() if inspect.isfunction(member)}
    for name in names:
        if not name.startswith("_"):
            setattr(store, name, translated(getattr(store, name)))
    return store
