"""The map of the packages is true: the picture, the pages and the code say the same."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools import draw_layers

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "mlflow_dynamodbstore"
PACKAGES = sorted(
    path.stem
    for path in SOURCE.iterdir()
    if (path.is_dir() and (path / "__init__.py").exists()) or path.suffix == ".py"
    if path.stem != "__init__"
)
LAZY = ("plugin.py", "cli/", "table/uri.py")
"""Where imports inside functions are the point: what is not needed is not loaded."""


def test_the_picture_is_drawn_from_the_contracts():
    drawn = draw_layers.picture(draw_layers.contracts())
    stale = "run `python tools/draw_layers.py`"
    assert draw_layers.PICTURE.read_text("utf-8") == drawn, stale


def test_every_package_is_on_the_map():
    on_map = [name for layer in draw_layers.layers(draw_layers.contracts()) for name in layer[2]]
    assert sorted(on_map) == PACKAGES


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_pages_name_every_package(page):
    text = (ROOT / page).read_text("utf-8")
    assert [name for name in PACKAGES if f"`{name}" not in text] == []


def test_imports_stand_at_the_top():
    """An import of ours inside a function hides a cycle, unless laziness is its purpose."""
    hidden = []
    for path in SOURCE.rglob("*.py"):
        if str(path.relative_to(SOURCE)).startswith(LAZY):
            continue
        tree = ast.parse(path.read_text("utf-8"))
        top = {id(node) for node in tree.body}
        hidden += [
            f"{path.relative_to(SOURCE)}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            and id(node) not in top
            and (node.module or "").startswith("mlflow_dynamodbstore")
        ]
    assert hidden == []
