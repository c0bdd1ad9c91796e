"""The documentation says what is there: links lead somewhere, targets and settings are named."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from mlflow_dynamodbstore import serve

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
MAKEFILE = (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_leads_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    local = [t.split("#")[0] for t in targets if not re.match(r"[a-z]+:|#", t)]
    assert not [t for t in local if not (page.parent / t).exists()]


def test_make_lists_every_target_with_a_description():
    (declared,) = re.findall(r"^\.PHONY: (help .*)$", MAKEFILE, flags=re.MULTILINE)
    described = re.findall(r"^([a-z]+):.*## .+$", MAKEFILE, flags=re.MULTILINE)
    assert sorted(described) == sorted(declared.split())


def test_every_setting_of_the_makefile_is_documented():
    text = (ROOT / "docs" / "configuration.md").read_text()
    settings = re.findall(r"^([A-Z]+)\s*\?=", MAKEFILE, flags=re.MULTILINE)
    assert settings
    assert not [name for name in settings if f"`{name}`" not in text]


def test_every_option_of_the_server_command_is_documented():
    text = (ROOT / "docs" / "configuration.md").read_text()
    options = [o for p in serve.main.params if isinstance(p, click.Option) for o in p.opts]
    assert options
    assert not [name for name in options if f"`{name}`" not in text]


def test_every_decision_record_is_in_the_index():
    index = (ROOT / "docs" / "adr" / "README.md").read_text()
    records = sorted(p.name for p in (ROOT / "docs" / "adr").glob("[0-9]*.md"))
    assert records
    assert not [name for name in records if f"({name})" not in index]
