"""Exit codes, and the one place where an error becomes a sentence and a code."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import IO, Any, ParamSpec, TypeVar

import click

from mlflow_dynamodbstore.table import errors

P = ParamSpec("P")
R = TypeVar("R")

OK = 0
FAILED = 1
USAGE = 2
NO_TABLE = 3
DENIED = 4
UNAVAILABLE = 5
FINDINGS = 6
DAMAGED = 7
INTERRUPTED = 130

MEANINGS = {
    OK: "done",
    FAILED: "it failed; the message says why",
    USAGE: "the command line is wrong",
    NO_TABLE: "the table does not exist or is not a table of this package, or what the command "
    "names is not in it",
    DENIED: "the credentials are missing, expired, or do not allow this",
    UNAVAILABLE: "the table did not answer, or was throttled too long",
    FINDINGS: "`doctor` found something that needs attention, a comparison found differences, or "
    "`dump --skip-damaged` left items out",
    DAMAGED: "something in the table is damaged; the message names it",
    INTERRUPTED: "stopped with Ctrl-C; finished work is kept",
}

_CODES: tuple[tuple[tuple[type[errors.TableError], ...], int], ...] = (
    ((errors.TableMissing, errors.SchemaMismatch), NO_TABLE),
    ((errors.AccessDenied,), DENIED),
    ((errors.Damaged,), DAMAGED),
    ((errors.Throttled, errors.Unavailable), UNAVAILABLE),
    ((errors.BadTableURI, errors.InvalidRequest), USAGE),
)
_MLFLOW_CODES = {
    "RESOURCE_DOES_NOT_EXIST": NO_TABLE,
    "NOT_FOUND": NO_TABLE,
    "INVALID_PARAMETER_VALUE": USAGE,
    "BAD_REQUEST": USAGE,
    "PERMISSION_DENIED": DENIED,
    "TEMPORARILY_UNAVAILABLE": UNAVAILABLE,
    "DATA_LOSS": DAMAGED,
}


class Failure(click.ClickException):
    """Ends the program with a sentence and an exit code."""

    def __init__(self, message: str, code: int = FAILED):
        super().__init__(message)
        self.code = code

    @property
    def exit_code(self) -> int:  # type: ignore[override]  # click reads it, and never sets it
        return self.code

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the sentence; stopping a command is not an error."""
        if self.code == INTERRUPTED:
            click.echo(self.message, file=file, err=file is None)
        else:
            super().show(file)


def code_of(error: errors.TableError) -> int:
    """The exit code for an error of a table."""
    if _is_incomplete_write(error):
        return UNAVAILABLE
    return next((code for kinds, code in _CODES if isinstance(error, kinds)), FAILED)


def reporting(function: Callable[P, R], stopped: str) -> Callable[P, R]:
    """Turn the errors of a command into a sentence and an exit code."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except errors.TableError as error:
            raise Failure(str(error), code_of(error)) from error
        except ValueError as error:
            raise Failure(str(error), USAGE) from error
        except OSError as error:
            if error.strerror is None or error.filename is None:
                raise
            raise Failure(f"{error.filename}: {error.strerror}") from error
        except KeyboardInterrupt as error:
            raise Failure(stopped, INTERRUPTED) from error
        except Exception as error:
            if not _is_mlflows(error):
                raise
            raise _mlflow_failure(error) from error

    return wrapper


def _is_incomplete_write(error: Exception) -> bool:
    # Importing the contract takes 0.2 s; it is loaded if this error was raised.
    contract = sys.modules.get("mlflow_dynamodbstore.table.contract")
    return contract is not None and isinstance(error, contract.IncompleteWrite)


def _is_mlflows(error: Exception) -> bool:
    # As above: MLflow takes seconds.
    exceptions = sys.modules.get("mlflow.exceptions")
    return exceptions is not None and isinstance(error, exceptions.MlflowException)


def _mlflow_failure(error: Any) -> Failure:
    return Failure(error.message, _MLFLOW_CODES.get(error.error_code, FAILED))
