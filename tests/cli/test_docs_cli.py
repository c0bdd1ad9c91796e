"""Commands, options, exit codes, settings, variables and URI forms: documented, and there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from mlflow_dynamodbstore.cli import main
from mlflow_dynamodbstore.cli.exits import MEANINGS
from mlflow_dynamodbstore.cli.table_options import TABLE_OPTIONS
from mlflow_dynamodbstore.table import location
from mlflow_dynamodbstore.upkeep.settings import SETTINGS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text()
ALL_PAGES = "\n".join(page.read_text() for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
SOURCES = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
VARIABLE = re.compile(r"\b(?:MLFLOW_DYNAMODBSTORE|VERSIONED)_[A-Z_]*[A-Z]\b")


def commands(
    group: click.Group = main, names: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*names, name))
        else:
            yield " ".join((*names, name)), command


COMMANDS = dict(commands())


def sections() -> dict[str, str]:
    """What the page says under the heading of each command."""
    found = re.split(r"^#+ ", PAGE, flags=re.MULTILINE)
    return {
        head.strip("`"): text
        for head, _, text in (section.partition("\n") for section in found)
        if head.startswith("`")
    }


def options(command: click.Command) -> set[str]:
    return {
        name
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for name in parameter.opts
        if name.startswith("--")
    }


def listed(text: str) -> set[str]:
    """The options in a table."""
    return set(re.findall(r"^\| `(--[a-z-]+)` \|", text, flags=re.MULTILINE))


def test_every_command_has_a_section_and_every_section_a_command():
    assert list(sections()) == list(dict.fromkeys(sections()))
    assert set(sections()) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_listed_and_every_listed_option_exists(name):
    everywhere = {"--json", *(option for option, *_ in TABLE_OPTIONS)}
    assert listed(sections()[name]) == options(COMMANDS[name]) - everywhere


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_json_and_has_help(name):
    command = COMMANDS[name]
    assert "--json" in options(command)
    assert command.help
    undescribed = [
        p.name for p in command.params if isinstance(p, click.Option) and not (p.help or p.type)
    ]
    assert not undescribed


def test_what_destroys_asks_first():
    for name in ("fts remove", "alias delete", "workspace delete", "destroy"):
        assert "--yes" in options(COMMANDS[name])


def test_the_options_that_name_a_table_are_listed():
    head = PAGE.partition("## Exit codes")[0]
    assert listed(head) == options(main) | {"--help"}


def test_every_exit_code_is_documented():
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", PAGE, flags=re.MULTILINE)
    assert {int(code): text for code, text in rows} == MEANINGS


def test_every_setting_is_documented():
    text = sections()["config set"]
    assert set(re.findall(r"^\| `([a-z_]+)` \|", text, flags=re.MULTILINE)) == set(SETTINGS)


def test_every_variable_is_documented_and_every_documented_one_is_read():
    read, told = set(VARIABLE.findall(SOURCES)), set(VARIABLE.findall(ALL_PAGES))
    assert read
    assert read == told


def test_every_form_of_a_uri_in_the_pages_can_be_read():
    forms = set(re.findall(r"dynamodb://[^\s`\"')|>]+", ALL_PAGES))
    whole = [form for form in forms if "<" not in form and "…" not in form]
    assert len(whole) > 3
    kinds = {location.parse(form.rstrip(".,")).kind for form in whole}
    assert kinds == {"aws", "endpoint", "file"}


def test_every_option_of_a_uri_is_documented():
    text = (ROOT / "docs" / "configuration.md").read_text()
    table = text.partition("### Options\n")[2].partition("\n## ")[0]
    names = {name for options in location.OPTIONS.values() for name in options}
    assert set(re.findall(r"^\| `([a-z_]+)` \|", table, flags=re.MULTILINE)) == names
