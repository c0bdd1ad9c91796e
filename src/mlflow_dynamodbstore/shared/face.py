"""The face of a store: each method of MLflow's interface, and the part that answers it.

A store is a table of contents. Its class body names, one line each, the methods that MLflow calls,
and its constructor makes the parts that answer them::

    class Store(AbstractStore):
        def __init__(self, table):
            self.runs = Runs(Context.on(table))

        create_run = answered_by(Runs.create_run)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from mlflow_dynamodbstore.shared.mlflow_errors import guarded

P = ParamSpec("P")
R = TypeVar("R")


def answered_by(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A store's method that is answered by the part whose class has ``method``.

    Its arguments are checked, and other errors become MLflow's. The first call finds the part among
    the store's attributes; from then on the store holds the part's bound method.
    """
    return cast("Callable[Concatenate[Any, P], R]", _Answer(method))


class _Answer(Generic[P, R]):
    """A descriptor that gives a store the bound method of one of its parts."""

    def __init__(self, method: Callable[Concatenate[Any, P], R]):
        self._method = method
        functools.update_wrapper(cast("Callable[..., Any]", self), method)

    def __set_name__(self, store: type, name: str) -> None:
        self._name = name

    def __get__(self, store: object | None, kind: type | None = None) -> Callable[..., R]:
        if store is None:
            return self._method
        name = self._method.__name__
        for part in tuple(vars(store).values()):  # a copy: other threads add answers meanwhile
            if getattr(type(part), name, None) is self._method:
                answer = guarded(getattr(part, name))
                vars(store)[self._name] = answer
                return answer
        raise AttributeError(f"no part of {type(store).__name__} has {self._method.__qualname__}")
