"""The documentation says what is there: links lead somewhere; targets and settings are named."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from mlflow_dynamodbstore import serve
from mlflow_dynamodbstore.table import location

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
MAKEFILE = (ROOT / "Makefile").read_text()
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text()
# A name of ours in quotation marks; MLflow's own variables are documented by MLflow.
VARIABLE = re.compile(r"""["']((?:MLFLOW_DYNAMODBSTORE|MLFLOW_ALIAS|VERSIONED)_[A-Z_]+)["']""")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_leads_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    local = [t.split("#")[0] for t in targets if not re.match(r"[a-z]+:|#", t)]
    assert not [t for t in local if not (page.parent / t).exists()]


def test_make_lists_every_target_with_a_description():
    (declared,) = re.findall(r"^\.PHONY: (help .*)$", MAKEFILE, flags=re.MULTILINE)
    described = re.findall(r"^([a-z0-9-]+):.*## .+$", MAKEFILE, flags=re.MULTILINE)
    assert sorted(described) == sorted(declared.split())


def test_every_setting_of_the_makefile_is_documented():
    settings = re.findall(r"^([A-Z]+)\s*\?=", MAKEFILE, flags=re.MULTILINE)
    assert settings
    assert not [name for name in settings if f"`{name}`" not in CONFIGURATION]


def test_every_option_of_the_server_command_is_documented():
    options = [o for p in serve.main.params if isinstance(p, click.Option) for o in p.opts]
    assert options
    assert not [name for name in options if f"`{name}`" not in CONFIGURATION]


def test_every_decision_record_is_in_the_index():
    index = (ROOT / "docs" / "adr" / "README.md").read_text()
    records = sorted(p.name for p in (ROOT / "docs" / "adr").glob("[0-9]*.md"))
    assert records
    assert not [name for name in records if f"({name})" not in index]


def test_every_page_is_in_the_index():
    folder = ROOT / "docs"
    index = (folder / "index.md").read_text()
    pages = sorted(page.name for page in folder.glob("*.md") if page.name != "index.md")
    assert not [name for name in pages if f"({name})" not in index]


def rows_under(heading):
    """The first cells of the tables below a heading of the configuration page."""
    _, _, below = CONFIGURATION.partition(f"\n{heading}\n")
    level = heading.count("#")
    section = re.split(rf"^#{{1,{level}}} ", below, flags=re.MULTILINE)[0]
    return set(re.findall(r"^\| `([^`]+)` ", section, flags=re.MULTILINE))


def test_the_options_of_table_uris_are_those_that_are_documented():
    assert rows_under("### Options") == {
        name for known in location.OPTIONS.values() for name in known
    }


@pytest.mark.parametrize("form", sorted(rows_under("## Table URIs")))
def test_every_uri_form_that_is_documented_can_be_read(form):
    if form.startswith("dynamodb:"):
        assert str(location.parse(form)) == form


def test_every_environment_variable_of_ours_is_documented():
    sources = [path.read_text() for path in ROOT.glob("src/**/*.py")]
    variables = {name for source in sources for name in VARIABLE.findall(source)}
    assert variables
    assert not variables - rows_under("## Environment variables")
