"""Changing modules of MLflow as soon as they are imported.

MLflow loads our entry points while ``mlflow`` itself is imported, in every process and before its
server. So what is asked for then reaches the server, the job runner, its consumers and the process
of each job, and costs nothing in a program that imports none of them.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Action = Callable[[ModuleType], None]

_REPLACED = "_mlflow_dynamodbstore"


def after_import(name: str, action: Action) -> None:
    """Do something with a module once it is imported: now, if it is already."""
    module = sys.modules.get(name)
    if module is not None and not _is_being_imported(module):
        action(module)
        return
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _actions.setdefault(name, []).append(action)


def replace(module: ModuleType, name: str, replacement: Callable[..., Any]) -> bool:
    """Replace a function of a module by one that is given the original before its arguments.

    False if the module has no such function. What has been replaced is left as it is.
    """
    theirs = vars(module).get(name)
    if hasattr(theirs, _REPLACED):
        return True
    if not (inspect.isfunction(theirs) or inspect.isclass(theirs)):
        return False

    @functools.wraps(theirs)
    def ours(*args: Any, **kwargs: Any) -> Any:
        return replacement(theirs, *args, **kwargs)

    setattr(ours, _REPLACED, True)
    setattr(module, name, ours)
    return True


_actions: dict[str, list[Action]] = {}


class _Finder(MetaPathFinder):
    """Finds modules as the other finders do, and follows the import of those that are awaited."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _actions:
            return None
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(fullname, path, target)):
                _follow(spec)
                return spec
        return None


def _follow(spec: ModuleSpec) -> None:
    """Let the loader of a module call what awaits it."""
    loader = spec.loader
    execute = None if loader is None else loader.exec_module

    def execute_and_act(module: ModuleType) -> None:
        assert execute is not None
        execute(module)
        for action in _actions.pop(spec.name, []):
            action(module)

    if execute is not None:
        setattr(loader, "exec_module", execute_and_act)  # noqa: B010 - of this one loader


def _is_being_imported(module: ModuleType) -> bool:
    return bool(getattr(module.__spec__, "_initializing", False))
