"""Draw the map of the packages from the import contracts in pyproject.toml.

``python tools/draw_layers.py`` writes ``docs/images/layers.svg``; a test fails while it is stale.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "layers.svg"

WIDTH, LEFT, TOP, ROW, BOX = 980, 190, 16, 62, 34
GAP, NOTE = 8, 22


class Layer(NamedTuple):
    """One row of the map."""

    title: str
    reason: str
    packages: list[str]


class AllowedImport(NamedTuple):
    """One store that may import another, and why."""

    importer: str
    imported: str
    reason: str


def layers(contracts: str) -> list[Layer]:
    """The layers, the highest first, each with the comment that stands above it."""
    block = contracts.split("layers = [", 1)[1].split("\n]", 1)[0]
    rows = re.findall(r"# (.+?): (.+)\n\s+\"(.+)\"", block)
    return [Layer(title, reason, re.split(" [:|] ", packages)) for title, reason, packages in rows]


def exceptions(contracts: str) -> list[AllowedImport]:
    """The imports between stores that are allowed, each with the comment above it."""
    block = contracts.split("ignore_imports = [", 1)[1].split("\n]", 1)[0]
    rows = re.findall(r"# (.+)\n\s+\"(.+?) -> (.+?)\"", block)
    return [
        AllowedImport(_package(importer), _package(imported), reason)
        for reason, importer, imported in rows
    ]


def _package(module: str) -> str:
    package = module.removeprefix("mlflow_dynamodbstore.").split(".")[0]
    return "other stores" if package.startswith("*") else package


def picture(contracts: str) -> str:
    """The map as SVG."""
    rows = layers(contracts)
    allowed = exceptions(contracts)
    height = TOP + len(rows) * ROW + NOTE * (len(allowed) + 2)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" font-family="sans-serif">'
        ),
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for number, layer in enumerate(rows):
        parts += _row(layer, TOP + number * ROW)
    y = TOP + len(rows) * ROW + NOTE
    parts.append(_text(16, y, "Between stores, only these imports are allowed:", weight="bold"))
    for line in allowed:
        y += NOTE
        parts.append(_text(16, y, f"{line.importer} → {line.imported}"))
        parts.append(_text(LEFT + 40, y, line.reason, color="#555555"))
    return "\n".join([*parts, "</svg>", ""])


def _row(layer: Layer, y: int) -> list[str]:
    """One layer: its title, and a box for each package."""
    count = len(layer.packages)
    width = (WIDTH - LEFT - 16 - GAP * (count - 1)) / count
    parts = [
        f'<rect x="8" y="{y}" width="{WIDTH - 16}" height="{ROW - 8}" rx="6" fill="#f2f5f9"/>',
        _text(16, y + 22, layer.title, weight="bold"),
        _text(16, y + 40, layer.reason, color="#555555", size=10),
    ]
    for number, package in enumerate(layer.packages):
        x = LEFT + number * (width + GAP)
        parts.append(
            f'<rect x="{x:.1f}" y="{y + 10}" width="{width:.1f}" height="{BOX}" rx="4" '
            'fill="#ffffff" stroke="#4a6fa5"/>'
        )
        parts.append(_text(x + width / 2, y + 31, package, anchor="middle", size=11))
    return parts


def _text(
    x: float,
    y: float,
    text: str,
    *,
    weight: str = "normal",
    color: str = "#222222",
    anchor: str = "start",
    size: int = 13,
) -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    return (
        f'<text x="{x:.1f}" y="{y}" font-weight="{weight}" fill="{color}" '
        f'text-anchor="{anchor}" font-size="{size}">{escaped}</text>'
    )


def contracts() -> str:
    """The part of pyproject.toml that holds the import contracts."""
    return (ROOT / "pyproject.toml").read_text("utf-8").split("[tool.importlinter]", 1)[1]


if __name__ == "__main__":
    PICTURE.write_text(picture(contracts()), "utf-8")
    print(PICTURE)
