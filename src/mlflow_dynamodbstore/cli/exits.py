"""Exit codes, and the one place where an error becomes a sentence and a code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import click
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.table import errors
from mlflow_dynamodbstore.table.contract import IncompleteWrite

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
    NO_TABLE: "the table does not exist, or is not a table of this package",
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
    ((errors.Throttled, errors.Unavailable, IncompleteWrite), UNAVAILABLE),
    ((errors.BadTableURI, errors.InvalidRequest), USAGE),
)


class Failure(click.ClickException):
    """Ends the program with a sentence and an exit code."""

    def __init__(self, message: str, code: int = FAILED):
        super().__init__(message)
        self.code = code

    @property
    def exit_code(self) -> int:  # type: ignore[override]  # click reads it, and never sets it
        return self.code


def code_of(error: errors.TableError) -> int:
    """The exit code for an error of a table."""
    return next((code for kinds, code in _CODES if isinstance(error, kinds)), FAILED)


def reporting(function: Callable[P, R]) -> Callable[P, R]:
    """Turn the errors of a command into a sentence and an exit code."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except errors.TableError as error:
            raise Failure(str(error), code_of(error)) from error
        except MlflowException as error:
            raise Failure(error.message) from error
        except ValueError as error:
            raise Failure(str(error), USAGE) from error
        except KeyboardInterrupt as error:
            raise Failure("stopped", INTERRUPTED) from error

    return wrapper
