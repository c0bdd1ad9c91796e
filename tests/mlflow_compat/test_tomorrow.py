"""An MLflow that lacks any one of the names we use: imports and plain tracking go on."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlflow_dynamodbstore.mlflow_compat import names
from tests.mlflow_compat import tomorrow

ROOT = Path(__file__).parents[2]
LONGEST = 1200
"""Seconds for all cases of a test, each a process: minutes on a busy machine."""
pytestmark = pytest.mark.timeout(LONGEST + 60)
REFUSALS = [
    # what is missing, what needs it, what the refusal says
    ("mlflow.utils.crypto", "_encrypt_secret", "secret", "Secrets of the AI gateway"),
    ("mlflow.utils.validation", "_validate_webhook_url", "webhook", "Creating webhooks"),
    ("mlflow.store.artifact.utils.models", "_parse_model_uri", "models URI", "a models:/ URI"),
    *(
        (module, name, "auth app", f"it has no {module}.{name}")
        for module, name in (
            ("mlflow.server.auth.entities", "Role"),
            ("mlflow.server.auth.permissions", "_validate_permission_for_resource_type"),
            ("mlflow.server.handlers", "_get_request_message"),
        )
    ),
]


UNTOLD = {
    "_build_uvicorn_command": "the server starts later",
    "_check_requirements": "MLflow's own check, whatever its name then, refuses our URIs",
    "_job_store": "we make the variable",
    "build_server_info_payload": "no release before 3.17 has it",
    "get_job_execution_engine": "no release before 3.17 has it",
    "initialize_backend_stores": "the server's processes check the keys of secrets themselves",
}
"""What we replace and whose loss needs no word, with the reason."""


def case(module: str, name: str | None, *checks: Any) -> dict[str, Any]:
    return {"module": module, "name": name, "checks": checks}


def outcomes(cases: list[dict[str, Any]]) -> dict[str, str]:
    """What went wrong, by what was missing."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.mlflow_compat.tomorrow"],
        cwd=ROOT,
        input="".join(json.dumps(each) + "\n" for each in cases),
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST,
    )
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(lines) == len(cases), ran.stderr
    found = zip(cases, lines, strict=True)
    return {f"{each['module']}.{each['name']}": wrong for each, wrong in found if wrong is not None}


def known_names() -> list[names.PrivateName]:
    """All names that our package looks up and that this release has."""
    tomorrow.compat_modules()
    looked_up = sorted(dict.fromkeys(names.LOOKED_UP), key=str)
    return [one for one in looked_up if names._find(one.module, one.name) is not names._ABSENT]


def test_imports_and_tracking_survive_the_loss_of_any_name():
    """And the feature that needs the name says so."""
    known = known_names()
    assert len(known) > 80
    cases = [
        case(
            one.module,
            one.name,
            ("track", ()),
            *([("says_why", (one.module, one.name))] if one.feature else []),
        )
        for one in known
    ]
    assert outcomes(cases) == {}


def test_imports_and_tracking_survive_the_loss_of_a_module():
    """Of each from which we import nothing without looking it up."""
    imported = {
        node.module
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ImportFrom)
    }
    replaced_in = {*tomorrow.modules_with_replacements()}
    modules = sorted(({one.module for one in known_names()} | replaced_in) - imported)
    assert "mlflow.entities._job" in modules
    assert outcomes([case(module, None, ("track", ())) for module in modules]) == {}


def test_the_loss_of_what_we_replace_is_told():
    replaced = tomorrow.replaced_names()
    assert ("mlflow.server.jobs.utils", "_exec_job") in replaced
    cases = [
        case(module, name, ("track", ()) if name in UNTOLD else ("tells", (name,)))
        for module, name in replaced
    ]
    assert outcomes(cases) == {}


WITHOUT_ANY = """
from mlflow_dynamodbstore.mlflow_compat import names, post_import
names._find = lambda module, name: names._ABSENT
post_import.replace = lambda module, name, replacement: False
import mlflow, mlflow.version
mlflow.version.VERSION = "3.99.0"
mlflow.set_experiment("one")
with mlflow.start_run() as run:
    mlflow.log_metric("m", 0.5)
    mlflow.log_param("p", "1")
    mlflow.set_tag("t", "x")
with mlflow.start_span("work"):
    pass
mlflow.flush_trace_async_logging()
(found,) = mlflow.search_runs(filter_string="metrics.m < 1", output_format="list")
assert (found.info.run_id, found.info.status) == (run.info.run_id, "FINISHED")
assert (found.data.params, found.data.tags["t"]) == ({"p": "1"}, "x")
assert len(mlflow.search_traces()) == 1
client = mlflow.MlflowClient()
client.create_registered_model("a model")
assert [model.name for model in client.search_registered_models()] == ["a model"]
"""


def test_a_new_process_survives_the_loss_of_all_names_and_prints_one_line(tmp_path):
    """Runs, traces and models are stored without a single private name."""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT_ANY],
        cwd=tmp_path,
        env={
            **os.environ,
            "MLFLOW_TRACKING_URI": f"dynamodb:///{tmp_path}/mlflow.ddb",
            "PYTHONPATH": str(ROOT / "src"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST,
    )
    assert ran.returncode == 0, ran.stderr
    ours = [line for line in ran.stderr.splitlines() if "dynamodb" in line]
    assert ours == [
        "mlflow-dynamodbstore is tested with MLflow 3.15 to 3.17; this is MLflow 3.99.0."
    ]


def test_a_feature_that_is_lost_says_so_where_it_is_used():
    cases = [
        case(module, name, ("refuses", (use, message))) for module, name, use, message in REFUSALS
    ]
    assert outcomes(cases) == {}
