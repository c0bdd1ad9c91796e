"""The one place where another error becomes an ``MlflowException``.

Errors of the table have a code each. What is left are errors of Python's: they come from an
argument that nobody foresaw, which is the caller's to change, or from a mistake of ours, which is
logged with its traceback.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, ParamSpec, TypeVar

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

from mlflow_dynamodbstore.keys.encoding import NotEncodable
from mlflow_dynamodbstore.shared.bad_arguments import fault_of
from mlflow_dynamodbstore.shared.declared_arguments import checks_of, settled
from mlflow_dynamodbstore.shared.plain_values import WrongTypeError
from mlflow_dynamodbstore.table import errors as table_errors
from mlflow_dynamodbstore.table.contract import IncompleteWrite, is_full
from mlflow_dynamodbstore.table.counters import COUNTERS
from mlflow_dynamodbstore.table.undo import UndoneIfFull

_logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

_CODES: tuple[tuple[type[table_errors.TableError], int], ...] = (
    (table_errors.Throttled, TEMPORARILY_UNAVAILABLE),
    (table_errors.Unavailable, TEMPORARILY_UNAVAILABLE),
    (IncompleteWrite, TEMPORARILY_UNAVAILABLE),
    (table_errors.TransactionCancelled, TEMPORARILY_UNAVAILABLE),
    (table_errors.ItemTooLarge, INVALID_PARAMETER_VALUE),
    (table_errors.InvalidRequest, INVALID_PARAMETER_VALUE),
    (table_errors.BadTableURI, INVALID_PARAMETER_VALUE),
    (table_errors.TableMissing, INVALID_STATE),
    (table_errors.SchemaMismatch, INVALID_STATE),
    (table_errors.NewerItem, INVALID_STATE),
    (table_errors.Damaged, DATA_LOSS),
    (table_errors.AccessDenied, PERMISSION_DENIED),
)


_FULL = (
    "What this would be added to cannot grow any more: its partition holds the 10 GB that DynamoDB "
    "allows, and is full. Begin a new run or trace, which gets room elsewhere. To make room here, "
    "delete runs or traces, or let them expire sooner with `mlflow-dynamodbstore ttl`."
)
_TRANSIENT = (table_errors.Throttled, table_errors.Unavailable)
_REFUSALS = {
    table_errors.RefusalCode.ITEM_TOO_LARGE: table_errors.ItemTooLarge,
    table_errors.RefusalCode.COLLECTION_FULL: table_errors.CollectionFull,
}


class PartitionFull(MlflowException):
    """MLflow's error for what does not fit. MLflow has no status for its code, and would send 500,
    which clients repeat.
    """

    def get_http_status_code(self) -> int:
        return int(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


def as_mlflow_exception(error: table_errors.TableError) -> MlflowException:
    """The exception MLflow's client, server and tests expect for a storage error."""
    if is_full(error):
        return PartitionFull(_FULL, error_code=RESOURCE_LIMIT_EXCEEDED)
    error = _permanent_cause(error) or error
    for kind, code in _CODES:
        if isinstance(error, kind):
            return MlflowException(str(error), error_code=code)
    return MlflowException(str(error), error_code=INTERNAL_ERROR)


def _permanent_cause(error: table_errors.TableError) -> table_errors.TableError | None:
    """Why one write of several can never succeed; None if trying again may help."""
    if isinstance(error, IncompleteWrite):
        cause = error.__cause__
        if isinstance(cause, table_errors.TableError) and not isinstance(cause, _TRANSIENT):
            return cause
    if isinstance(error, table_errors.TransactionCancelled):
        for reason in error.reasons:
            if reason is not None and reason.code in _REFUSALS:
                return _REFUSALS[reason.code](reason.message or str(error))
    return None


def translated(function: Callable[P, R]) -> Callable[P, R]:
    """A function that raises no error but ``MlflowException``.

    ``NotImplementedError`` stays: it is how a store tells MLflow what it does not offer.
    """

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with UndoneIfFull():
                return function(*args, **kwargs)
        except (MlflowException, NotImplementedError):
            raise
        except Exception as error:
            raise _translation(error, function, args, kwargs) from error

    return wrapper


def guarded(method: Callable[..., R]) -> Callable[..., R]:
    """A part's bound method as a store offers it: with checked arguments and MLflow's errors."""
    checks = checks_of(method)
    operation = method.__name__

    @functools.wraps(method)
    def wrapper(*args: Any, **kwargs: Any) -> R:
        with COUNTERS.call(operation):
            try:
                args, kwargs = settled(checks, args, kwargs)
                with UndoneIfFull():
                    return method(*args, **kwargs)
            except (MlflowException, NotImplementedError):
                raise
            except Exception as error:
                raise _translation(error, method, args, kwargs) from error

    return wrapper


def _translation(
    error: Exception, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> MlflowException:
    """MLflow's exception for another error."""
    if isinstance(error, table_errors.TableError):
        return as_mlflow_exception(error)
    if isinstance(error, UnicodeEncodeError):
        return MlflowException("A text holds half of a surrogate pair.", INVALID_PARAMETER_VALUE)
    if isinstance(error, OverflowError | NotEncodable):
        return MlflowException(f"A number is out of range: {error}.", INVALID_PARAMETER_VALUE)
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:  # no such argument, or one too few: Python's message names it
        return WrongTypeError(str(error))
    fault = fault_of(function, args, kwargs)
    if fault:
        return MlflowException(fault, INVALID_PARAMETER_VALUE)
    name = function.__qualname__
    _logger.error("%s failed unexpectedly", name, exc_info=error)
    return MlflowException(f"{name} failed: {type(error).__name__}", error_code=INTERNAL_ERROR)


def translates_errors(store: C) -> C:
    """Check the arguments of every public method of a store class, and translate its errors."""
    ours = [c for c in store.__mro__ if c.__module__.startswith("mlflow_dynamodbstore.")]
    names = {name for c in ours for name, member in vars(c).items() if inspect.isfunction(member)}
    for name in names:
        if not name.startswith("_"):
            setattr(store, name, guarded(getattr(store, name)))
    return store
