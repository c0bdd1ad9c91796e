"""Help, version, completion and errors come at once: they import neither MLflow nor boto3."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import mlflow_dynamodbstore
from mlflow_dynamodbstore import cli
from mlflow_dynamodbstore.cli import limits
from versioned import listing
from versioned.cli import context
from versioned.cli import main as versioned

SOURCES = str(Path(mlflow_dynamodbstore.__file__).parents[1])
SLOW = ("mlflow", "boto3", "botocore", "sqlalchemy", "pandas", "rich")
CPU_SECONDS = 0.3
"""What a start may take of a processor; it takes about 0.1."""
PROGRAM = """
import json, resource, sys
from {module} import main
try:
    main(prog_name="program")
except SystemExit as end:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({{
        "code": end.code or 0,
        "slow": sorted(set({slow!r}) & set(sys.modules)),
        "seconds": used.ru_utime + used.ru_stime,
    }}), file=sys.stderr)
"""
OURS, VERSIONED = "mlflow_dynamodbstore.cli", "versioned.cli"


def called(module: str, *arguments: str, **environment: str) -> dict[str, Any]:
    """How a program ended in an interpreter of its own, and what it took."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MLFLOW", "VERSIONED"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(module=module, slow=SLOW), *arguments],
        env={**kept, "PYTHONPATH": SOURCES, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    told: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])
    return told | {"said": done.stdout + done.stderr}


@pytest.mark.parametrize(
    ("module", "arguments", "code"),
    [
        (OURS, ["--help"], 0),
        (OURS, ["--version"], 0),
        (OURS, ["alias", "split", "--help"], 0),
        (OURS, ["nonsense"], 2),
        (OURS, ["stats"], 2),
        (OURS, ["stats", "--uri", "dynamodb:///missing.ddb"], 3),
        (OURS, ["ttl", "set", "--uri", "dynamodb:///a.ddb", "--trace-retention-days", "x"], 2),
        (VERSIONED, ["--help"], 0),
        (VERSIONED, ["--version"], 0),
        (VERSIONED, ["list"], 2),
        (VERSIONED, ["names"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_help_and_errors_wait_for_nothing(module, arguments, code):
    done = called(module, *arguments)
    assert (done["code"], done["slow"]) == (code, []), done["said"]
    assert done["seconds"] < CPU_SECONDS


@pytest.mark.parametrize(
    ("module", "variable", "typed", "found"),
    [
        (OURS, "_PROGRAM_COMPLETE", "program ttl cl", "cleanup"),
        (OURS, "_PROGRAM_COMPLETE", "program stats --ur", "--uri"),
        (VERSIONED, "_PROGRAM_COMPLETE", "program alias can", "canary"),
    ],
)
def test_the_shell_completes_commands_and_options(module, variable, typed, found):
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    done = called(module, **{variable: "bash_complete"}, **words)
    assert found in str(done["said"])
    assert done["slow"] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_documented_completion_scripts_exist(shell):
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    assert f"_MLFLOW_DYNAMODBSTORE_COMPLETE={shell}_source mlflow-dynamodbstore" in page
    made = CliRunner().invoke(
        cli.main,
        prog_name="mlflow-dynamodbstore",
        env={"_MLFLOW_DYNAMODBSTORE_COMPLETE": f"{shell}_source"},
    )
    assert f"{shell}_complete" in made.output


def groups(group: click.Group, path: tuple[str, ...] = ()):
    yield path, group
    for name, below in group.commands.items():
        if isinstance(below, click.Group):
            yield from groups(below, (*path, name))


@pytest.mark.parametrize(
    ("program", "path"),
    [(program, path) for program in (cli.main, versioned) for path, _ in groups(program)],
)
def test_no_help_text_is_cut(program, path):
    for width in (60, 80, 120):
        said = CliRunner().invoke(program, [*path, "--help"], terminal_width=width).output
        assert "..." not in said.replace("[ARGS]...", "")


def commands(group: click.Group, path: tuple[str, ...] = ()):
    for name, below in group.commands.items():
        if isinstance(below, click.Group):
            yield from commands(below, (*path, name))
        else:
            yield (*path, name), below


@pytest.mark.parametrize("path", [path for path, _ in commands(cli.main)], ids=" ".join)
def test_the_list_of_options_has_options_only_and_each_says_what_it_does(path):
    said = CliRunner().invoke(cli.main, [*path, "--help"], terminal_width=100).output
    listed = said.partition("\nOptions:\n")[2].partition("\n\n")[0].splitlines()
    assert listed
    assert not [line for line in listed if not line.startswith(("  -", "      "))]
    assert "RANGE" not in said


def test_the_limits_of_options_are_those_of_the_code():
    from mlflow.entities.workspace import WorkspaceDeletionMode

    from mlflow_dynamodbstore.keys import base
    from mlflow_dynamodbstore.registry import aliases
    from mlflow_dynamodbstore.shared import policies
    from mlflow_dynamodbstore.shared.search import fulltext
    from mlflow_dynamodbstore.traces import xray_cache
    from mlflow_dynamodbstore.upkeep import cleanup

    assert limits.MAX_ALIAS_WEIGHT == aliases.MAX_WEIGHT
    assert limits.MOST_DAYS == policies.MOST_DAYS
    assert limits.GRACE_SECONDS == cleanup.GRACE_SECONDS
    assert limits.XRAY_DAYS == xray_cache.XRAY_DAYS
    assert limits.TEXT_LEVELS == fulltext.LEVELS
    assert limits.DEFAULT_WORKSPACE == base.DEFAULT_WORKSPACE
    modes = sorted(mode.value.lower() for mode in WorkspaceDeletionMode)
    assert list(limits.WORKSPACE_DELETION_MODES) == modes
    for name in ("SOFT_DELETED_RETENTION", "TRACE_RETENTION", "METRIC_HISTORY_RETENTION"):
        assert getattr(limits, name) == getattr(policies, name)
    assert context.DEFAULT_LIMIT == listing.DEFAULT_LIMIT
