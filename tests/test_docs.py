"""The documentation says what is there: links lead somewhere; targets and settings are named."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import click
import pytest
import yaml

from bench.numbers import shown
from mlflow_dynamodbstore import serve
from mlflow_dynamodbstore.table import location

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
MAKEFILE = (ROOT / "Makefile").read_text()
NAVIGATION = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
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


def test_the_index_lists_every_decision_record_once_by_its_title():
    folder = ROOT / "docs" / "adr"
    titles = [
        f"[{path.read_text('utf-8').splitlines()[0].removeprefix('# ')}]({path.name})"
        for path in sorted(folder.glob("[0-9]*.md"))
    ]
    index = (folder / "README.md").read_text("utf-8")
    listed = re.findall(r"^\| (\[[0-9]{4}: .*?\.md\)) \|", index, re.MULTILINE)
    assert listed == titles


def named_in(nav):
    """The pages in a navigation, in order."""
    for entry in nav:
        for page in entry.values() if isinstance(entry, dict) else (entry,):
            if isinstance(page, str):
                yield page
            else:
                yield from named_in(page)


def test_every_page_is_in_the_navigation_and_every_entry_a_page():
    listed = list(named_in(NAVIGATION))
    assert len(listed) == len(set(listed))
    pages = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert not pages - set(listed)
    made = {"contributing.md", "changelog.md", "adr/README.md"}
    assert set(listed) - pages == made


def test_the_navigation_has_the_order_that_teaches():
    assert [name for section in NAVIGATION for name in section] == [
        *("Start", "Use", "Operate", "Understand", "Decide", "Contribute"),
    ]


def test_the_readme_and_the_first_pages_say_what_expires():
    for page in ("README.md", "docs/index.md", "docs/quickstart.md"):
        text = " ".join((ROOT / page).read_text().split())
        assert "Traces expire after 30 days, the history of metrics after 365" in text, page
        assert "ttl set --keep-forever" in text, page


def test_the_diagrams_are_those_that_are_drawn():
    spec = importlib.util.spec_from_file_location("draw", ROOT / "tools" / "draw_diagrams.py")
    assert spec is not None
    assert spec.loader is not None
    draw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw)
    for name, made in draw.DRAWINGS.items():
        assert (draw.IMAGES / f"{name}.svg").read_text() == made(), "python tools/draw_diagrams.py"


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


@pytest.mark.parametrize("page", ["benchmarks.md", "benchmarks-http.md"])
def test_tables_of_figures_have_no_powers_of_ten(page):
    assert re.findall(r"\de[+-]\d+", (ROOT / "docs" / page).read_text()) == []


def test_numbers_are_shown_with_three_digits_that_count():
    assert [shown(n) for n in (33_412, 1_070, 183.4, 99.97, 9.876, 0.01234, 0)] == [
        *("33,412", "1,070", "183", "100", "9.88", "0.0123", "0"),
    ]
