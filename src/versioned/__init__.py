"""Versioned artifacts with aliases, canary traffic and rollback.

from versioned import Repository

repo = Repository(table="dynamodb:///artifacts.ddb", storage="file:///data/artifacts")
repo.publish("my-app", "build/my-app.zip")
repo.put_alias("my-app", "prod", version=1)
repo.get(repo.resolve("my-app", "prod"), to="my-app.zip")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from versioned.aliases import AliasChange, AliasState
    from versioned.collecting import Collection
    from versioned.errors import VersionedError
    from versioned.listing import Page
    from versioned.repository import Repository
    from versioned.rows import Alias, Artifact
    from versioned.verifying import Verification

__all__ = [
    "Alias",
    "AliasChange",
    "AliasState",
    "Artifact",
    "Collection",
    "Page",
    "Repository",
    "Verification",
    "VersionedError",
]

_MODULES = {
    "Alias": "versioned.rows",
    "AliasChange": "versioned.aliases",
    "AliasState": "versioned.aliases",
    "Artifact": "versioned.rows",
    "Collection": "versioned.collecting",
    "Page": "versioned.listing",
    "Repository": "versioned.repository",
    "Verification": "versioned.verifying",
    "VersionedError": "versioned.errors",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: the command line prints its help without boto3."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
    return value
