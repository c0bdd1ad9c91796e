"""Versioned artifacts with aliases, canary traffic and rollback.

from versioned import Repository

repo = Repository(table="dynamodb:///artifacts.ddb", storage="file:///data/artifacts")
repo.publish("my-app", "build/my-app.zip")
repo.put_alias("my-app", "prod", version=1)
repo.get(repo.resolve("my-app", "prod"), to="my-app.zip")
"""

from __future__ import annotations

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
