"""An MLflow that lacks any one of the names we use: imports and plain tracking go on."""

from __future__ import annotations

import ast
import json
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
    modules = sorted({one.module for one in known_names()} - imported)
    assert "mlflow.entities._job" in modules
    assert outcomes([case(module, None, ("track", ())) for module in modules]) == {}


def test_a_feature_that_is_lost_says_so_where_it_is_used():
    cases = [
        case(module, name, ("refuses", (use, message))) for module, name, use, message in REFUSALS
    ]
    assert outcomes(cases) == {}
