"""The page about `versioned` says what is there, and its commands do what it shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.versioned.test_cli import commands
from versioned import keys
from versioned.cli import main
from versioned.cli.errors import EXIT_CODES
from versioned.names import NAME_RULE, VERSION_RULE, WEIGHT_RULE

PAGE = (Path(__file__).parents[2] / "docs" / "versioned.md").read_text()


def words(text: str) -> str:
    """Text without line breaks, which Markdown puts where it likes."""
    return " ".join(text.split())


def test_every_command_is_documented_and_every_documented_one_exists():
    documented = set(re.findall(r"^\| `versioned ((?:alias )?[a-z]+)", PAGE, flags=re.MULTILINE))
    assert documented == {" ".join(path) for path in commands(main) if path != ("alias",)}


def test_every_environment_variable_is_documented():
    variables = {p.envvar for p in main.params if getattr(p, "envvar", None)}
    assert variables
    assert set(re.findall(r"^\| `(VERSIONED_[A-Z]+)`", PAGE, flags=re.MULTILINE)) == variables


def test_every_exit_code_is_documented():
    for code, _, what in EXIT_CODES:
        assert f"| {code} | {what} |" in PAGE


def test_every_rule_is_documented():
    for rule in (NAME_RULE, VERSION_RULE, WEIGHT_RULE):
        assert rule in words(PAGE)


def test_every_key_pattern_is_documented():
    patterns = set(re.findall(r"^``([<_]\S+)``\s", keys.__doc__ or "", flags=re.MULTILINE))
    assert len(patterns) == 8
    assert set(re.findall(r"^\| `(\S+?)` \| [`L]", PAGE, flags=re.MULTILINE)) >= patterns


def walkthrough(page: str) -> Iterator[tuple[str, str]]:
    """Every command of the page with the output that stands below it."""
    for block in re.findall(r"```console\n(.*?)```", page, flags=re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output.rstrip("\n")


def carry_out(command: str, folder: Path, environment: dict[str, str]) -> str:
    """What a command prints; settings stay for the next ones."""
    if command.startswith("export "):
        name, _, value = command.removeprefix("export ").partition("=")
        environment[name] = value
        return ""
    if command.startswith("versioned "):
        result = CliRunner().invoke(main, shlex.split(command)[1:], env=environment)
        return result.output.rstrip("\n")
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.rstrip("\n")


def comparable(output: str) -> str:
    """The output without times, and without the random name of a repository's folder."""
    timeless = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "<time>", output)
    return re.sub(r"\b[0-9a-f]{12}/", "<folder>/", timeless)


def test_the_walkthrough_shows_what_the_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    environment = dict(os.environ)
    shown = list(walkthrough(PAGE))
    assert len(shown) > 20
    for command, output in shown:
        printed = carry_out(command, tmp_path, environment)
        assert (command, comparable(printed)) == (command, comparable(output))
