"""Looking up names that a release of MLflow may lack."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeVar, cast

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import NOT_IMPLEMENTED
from mlflow.version import VERSION

T = TypeVar("T")

_ABSENT = object()


@dataclass(frozen=True)
class PrivateName:
    """A name that we use although MLflow does not promise it.

    ``name`` may be that of a member: ``SearchUtils._parse_order_by_string``. ``feature`` is what
    does not work without it; None if we have an equivalent.
    """

    module: str
    name: str
    feature: str | None


LOOKED_UP: list[PrivateName] = []
"""All names that have been asked for in this process."""


def private(module: str, name: str, otherwise: T) -> T:
    """The object that MLflow has under a name, or ``otherwise`` in a release that lacks it."""
    _note(module, name, otherwise)
    return _found_or(module, name, otherwise)


def private_later(module: str, name: str, otherwise: Any) -> Any:
    """As :func:`private`, but the module is imported when the object is first used.

    For modules that cost much to import, or that import us.
    """
    _note(module, name, otherwise)
    return _Later(module, name, otherwise)


def unavailable(feature: str) -> Any:
    """What stands for a missing name: importing it works, using it says which feature is lost."""
    return _Unavailable(feature)


def missing_names(*modules: str) -> list[str]:
    """The names in some modules of MLflow that this release lacks and that a feature needs."""
    return [
        f"{known.module}.{known.name}"
        for known in dict.fromkeys(LOOKED_UP)
        if known.feature is not None
        and known.module in modules
        and _find(known.module, known.name) is _ABSENT
    ]


def _note(module: str, name: str, otherwise: object) -> None:
    feature = otherwise.feature if isinstance(otherwise, _Unavailable) else None
    LOOKED_UP.append(PrivateName(module, name, feature))


def _found_or(module: str, name: str, otherwise: T) -> T:
    found = _find(module, name)
    if found is not _ABSENT:
        return cast("T", found)
    if isinstance(otherwise, _Unavailable):
        otherwise.missing = f"{module}.{name}"
    return otherwise


def _find(module: str, name: str) -> object:
    try:
        found: object = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mlflow":
            raise  # MLflow has the module, and this environment lacks what the module needs
        return _ABSENT
    for part in name.split("."):
        found = getattr(found, part, _ABSENT)
    return found


class _Unavailable:
    """A placeholder that raises when it is called; so do all its members."""

    def __init__(self, feature: str):
        self.feature = feature
        self.missing = ""

    def __call__(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise MlflowException(
            f"{self.feature} cannot be used with MLflow {VERSION}, which lacks {self.missing}.",
            NOT_IMPLEMENTED,
        )

    def __getattr__(self, name: str) -> _Unavailable:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __instancecheck__(self, instance: object) -> Literal[False]:
        return False


class _Later:
    """Stands for an object until it is called or a member of it is read."""

    def __init__(self, module: str, name: str, otherwise: object):
        self._private = (module, name, otherwise)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _found_or(*self._private)(*args, **kwargs)  # type: ignore[operator]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_found_or(*self._private), name)
