"""Metadata that depends on where the repository is: project URLs, and the README as PyPI shows it.

PyPI shows the README without the repository around it, so its relative links and pictures must
become absolute. The one base URL is ``repository`` in ``[tool.hatch.metadata.hooks.custom]``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")


class ReadmeAndUrls(MetadataHookInterface):
    """Sets ``readme`` and ``urls``."""

    def update(self, metadata: dict[str, Any]) -> None:
        repository = str(self.config["repository"]).rstrip("/")
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = absolute_links(readme, repository, f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = {
            "Homepage": repository,
            "Documentation": str(self.config["documentation"]),
            "Changelog": f"{repository}/blob/main/CHANGELOG.md",
            "Issues": f"{repository}/issues",
            "Source": repository,
        }


def absolute_links(text: str, repository: str, ref: str) -> str:
    """A page whose links and pictures lead to the repository as it was at a tag."""

    def absolute(found: re.Match[str]) -> str:
        target = found["target"]
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        view = "raw" if found["picture"] else "blob"
        return f"{found['picture']}[{found['text']}]({repository}/{view}/{ref}/{target})"

    return _LINK.sub(absolute, text)
