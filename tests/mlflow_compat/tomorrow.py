"""MLflow of tomorrow: a process that lacks one of the names that we use, or a whole module.

Run as a script, it imports everything once and then forks a process for each case that it reads,
one JSON list a line, from its input: what to take away, and which of ``CHECKS`` to run. It writes
what went wrong in each, or null.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import json
import logging
import os
import pkgutil
import re
import sys
import tempfile
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

OURS = "mlflow_dynamodbstore"
COMPAT = f"{OURS}.mlflow_compat"
STORES = ("tracking", "registry", "workspaces", "jobs", "auth")
KEPT = (["table"], ["keys"])
"""Packages that import nothing of MLflow's."""
AT_ONCE = 2
REPLACING = (
    "commands",
    "gateway_routes",
    "job_locks",
    "job_runner",
    "job_server",
    "online_scoring",
    "server_start",
)
"""Our modules that replace functions of MLflow's, or call others of the same modules."""
ROUTES = ("mlflow.server.gateway_api", "mlflow.store.tracking.gateway.config_resolver")
"""Where functions are replaced once our store is opened."""


# --- taking away --------------------------------------------------------------------------------


class Without:
    """A class without one of its members."""

    def __init__(self, whole: type, member: str):
        self._whole, self._member = whole, member

    def __getattr__(self, name: str) -> Any:
        if name == self._member:
            raise AttributeError(name)
        return getattr(self._whole, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._whole(*args, **kwargs)

    def __iter__(self) -> Any:
        return iter(self._whole)  # type: ignore[call-overload]

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type]:
        return (self._whole,)


def take_away(module: str, name: str | None) -> None:
    """Replace a module by one that lacks a name, or by none. MLflow's own code goes on as it is."""
    package, _, last = module.rpartition(".")
    if name is None:
        sys.modules[module] = None  # type: ignore[assignment]
        vars(sys.modules[package]).pop(last, None)
        return
    whole = sys.modules[module]
    fake = types.ModuleType(module)
    vars(fake).update(vars(whole))
    first, _, member = name.partition(".")
    if member:
        vars(fake)[first] = Without(vars(whole)[first], member)
    else:
        del vars(fake)[name]
    sys.modules[module] = fake
    setattr(sys.modules[package], last, fake)


# --- what must still work -----------------------------------------------------------------------


def track(folder: str) -> None:
    """Our stores can be imported, and runs be logged, found and ended."""
    from mlflow.entities import Metric, Param, RunStatus, RunTag, ViewType

    for name in STORES:
        importlib.import_module(f"{OURS}.{name}.store")
    plugin = importlib.import_module(f"{OURS}.plugin")
    store = plugin.tracking_store(f"dynamodb:///{folder}/mlflow.ddb?synchronous=NORMAL", folder)
    experiment_id = store.create_experiment("one")
    run_id = store.create_run(experiment_id, "ada", 1, [RunTag("k", "v")], "a run").info.run_id
    store.log_batch(run_id, [Metric("m", 0.5, 2, 0)], [Param("p", "1")], [RunTag("t", "x")])
    assert store.get_run(run_id).data.metrics == {"m": 0.5}
    store.update_run_info(run_id, RunStatus.FINISHED, 9, "a run")
    filters = "metrics.m < 1 AND params.p = '1' AND attributes.start_time > 0"
    (found,) = store.search_runs(
        [experiment_id], filters, ViewType.ACTIVE_ONLY, order_by=["metrics.m DESC"]
    )
    assert (found.info.run_id, found.info.status, found.data.tags["t"]) == (run_id, "FINISHED", "x")
    assert store.get_experiment_by_name("one").experiment_id == experiment_id


def says_why(folder: str, module: str, name: str) -> None:
    """What needs a missing name says which feature is lost, and with which release."""
    from mlflow.exceptions import MlflowException
    from mlflow.version import VERSION

    modules, names = compat_modules(), importlib.import_module(f"{COMPAT}.names")
    feature = next(n.feature for n in names.LOOKED_UP if (n.module, n.name) == (module, name))
    lost = [
        value
        for each in modules
        for value in vars(each).values()
        if (isinstance(value, names._Unavailable) and value.missing == f"{module}.{name}")
        or (isinstance(value, names._Later) and value._private[:2] == (module, name))
    ]
    assert lost, "nothing stands for it"
    said = f"{feature} cannot be used with MLflow {VERSION}, which lacks {module}.{name}."
    for each in lost:
        with pytest.raises(MlflowException, match=re.escape(said)) as refused:
            each()
        assert refused.value.error_code == "NOT_IMPLEMENTED"


def tells(folder: str, name: str) -> None:
    """Without something that we replace runs are tracked, and a warning or a refusal names it."""
    from mlflow.exceptions import MlflowException

    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger(OURS).addHandler(handler)
    track(folder)
    utils = sys.modules["mlflow.server.jobs.utils"]
    try:
        utils._check_requirements(f"dynamodb:///{folder}/mlflow.ddb")
    except MlflowException as error:
        said.append(error.message)
    assert any(re.search(rf"\b{name}\b", line) for line in said), said


def refuses(folder: str, use: str, message: str) -> None:
    """A use of something is refused with a message that holds a text."""
    from mlflow.exceptions import MlflowException

    with pytest.raises(MlflowException, match=re.escape(message)):
        USES[use](folder)


def make_secret(folder: str) -> None:
    tracking = importlib.import_module(f"{OURS}.tracking.store")
    store = tracking.DynamoDBTrackingStore(f"dynamodb:///{folder}/mlflow.ddb")
    store.create_gateway_secret("a", {"api_key": "sk-very-secret"})


def make_webhook(folder: str) -> None:
    from mlflow.entities.webhook import WebhookAction, WebhookEntity, WebhookEvent

    event = WebhookEvent(WebhookEntity.REGISTERED_MODEL, WebhookAction.CREATED)
    registry = importlib.import_module(f"{OURS}.registry.store")
    store = registry.DynamoDBRegistryStore(f"dynamodb:///{folder}/mlflow.ddb")
    store.create_webhook("hook", "https://example.com", [event])


def register_by_uri(folder: str) -> None:
    registry = importlib.import_module(f"{OURS}.registry.store")
    store = registry.DynamoDBRegistryStore(f"dynamodb:///{folder}/mlflow.ddb")
    store.create_registered_model("m")
    store.create_model_version("m", "models:/m/1")


def load_auth_app(folder: str) -> None:
    importlib.import_module(f"{OURS}.auth.app")


USES: dict[str, Callable[[str], None]] = {
    "secret": make_secret,
    "webhook": make_webhook,
    "models URI": register_by_uri,
    "auth app": load_auth_app,
}
CHECKS: dict[str, Callable[..., None]] = {
    "track": track,
    "says_why": says_why,
    "tells": tells,
    "refuses": refuses,
}


# --- one process a case -------------------------------------------------------------------------


def compat_modules() -> list[types.ModuleType]:
    """All modules of our package for what is private to MLflow."""
    package = importlib.import_module(COMPAT)
    found = pkgutil.iter_modules(package.__path__, f"{COMPAT}.")
    return [importlib.import_module(module.name) for module in found]


def replaced_names() -> list[tuple[str, str]]:
    """What our package replaces in MLflow's modules, or calls of them, by module and name.

    These are the names that this release has among the texts in our code.
    """
    texts = {
        node.value
        for name in REPLACING
        for node in ast.walk(ast.parse(_source(f"{COMPAT}.{name}")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return [
        (name, text)
        for name, module in modules_with_replacements().items()
        for text in sorted(texts & vars(module).keys())
        if getattr(vars(module)[text], "__module__", name if text[0] == "_" else None) == name
    ]


def modules_with_replacements() -> dict[str, types.ModuleType]:
    """MLflow's modules in which we replace something, by name; those that this release has."""
    hooks = importlib.import_module(f"{COMPAT}.hooks")
    found = {}
    for name in dict.fromkeys([*(name for name, *_ in hooks.AWAITED), *ROUTES]):
        with contextlib.suppress(ModuleNotFoundError):
            found[name] = importlib.import_module(name)
    return found


def _source(module: str) -> str:
    return Path(str(importlib.import_module(module).__file__)).read_text("utf-8")


def put_back() -> None:
    """Undo what has been replaced in MLflow so far."""
    replaced = importlib.import_module(f"{COMPAT}.post_import")._REPLACED
    for module in modules_with_replacements().values():
        for name, value in list(vars(module).items()):
            if type(value) is types.FunctionType and hasattr(value, replaced):
                setattr(module, name, vars(value)["__wrapped__"])


def load() -> None:
    """Import everything, and then forget our own modules: each process imports them anew."""
    compat_modules()
    modules_with_replacements()
    names = importlib.import_module(f"{COMPAT}.names")
    for known in names.LOOKED_UP:
        with contextlib.suppress(ModuleNotFoundError):  # an older release lacks it
            importlib.import_module(known.module)
    for name in STORES:
        importlib.import_module(f"{OURS}.{name}.store")
    importlib.import_module(f"{OURS}.auth.app")
    with tempfile.TemporaryDirectory() as folder:
        track(folder)
    put_back()
    for name in [name for name in sys.modules if name.partition(".")[0] == OURS]:
        if name.split(".")[1:2] not in KEPT:
            del sys.modules[name]
    gc.disable()
    gc.freeze()


def run(case: dict[str, Any]) -> str | None:
    """What goes wrong in a case."""
    try:
        take_away(case["module"], case["name"])
        with tempfile.TemporaryDirectory() as folder:
            for check, arguments in case["checks"]:
                CHECKS[check](folder, *arguments)
    except BaseException:  # noqa: BLE001 - reported to the test
        return traceback.format_exc()
    return None


def start(case: dict[str, Any]) -> tuple[int, int]:
    """A process for a case, and what to read its outcome from."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        Path(f"/dev/fd/{writing}").write_text(json.dumps(run(case)))
        os._exit(0)
    os.close(writing)
    return process, reading


def finish(process: int, reading: int) -> str:
    with os.fdopen(reading) as pipe:
        outcome = pipe.read()
    os.waitpid(process, 0)
    return outcome or json.dumps("the process died")


def main() -> None:
    load()
    started: list[tuple[int, int]] = []
    for line in sys.stdin:
        started.append(start(json.loads(line)))
        if len(started) == AT_ONCE:
            sys.stdout.write(finish(*started.pop(0)) + "\n")
    for each in started:
        sys.stdout.write(finish(*each) + "\n")


if __name__ == "__main__":
    main()
