"""What the documentation site adds to the pages in ``docs/``; mkdocs calls these functions.

The changelog and the guide for contributors lie at the root of the repository, where people look
for them; on the site they are pages like others. The decision records are listed by their files.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
FROM_ROOT = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
RECORDS = "Decide"


def on_config(config: Any) -> Any:
    """List the decision records in the navigation."""
    records = sorted(path.name for path in (ROOT / "docs" / "adr").glob("[0-9]*.md"))
    for entry in config.nav:
        if RECORDS in entry:
            entry[RECORDS] = ["adr/README.md", *(f"adr/{name}" for name in records)]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from the root, with links as they are from ``docs/``."""
    for name, source in FROM_ROOT.items():
        text = (ROOT / source).read_text("utf-8")
        files.append(File.generated(config, name, content=from_docs(text)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links from ``docs/`` to the pages at the root lead to those of the site."""
    for name, source in FROM_ROOT.items():
        markdown = markdown.replace(f"](../{source})", f"]({name})")
    return markdown


def from_docs(text: str) -> str:
    """A page of the root with its links as they are from ``docs/``."""
    text = re.sub(r"\]\(docs/", "](", text)
    for name, source in FROM_ROOT.items():
        text = text.replace(f"]({source})", f"]({name})")
    return text
