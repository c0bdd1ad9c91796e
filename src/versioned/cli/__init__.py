"""The command line ``versioned``: the verbs of a repository, for people and for programs."""

from __future__ import annotations

from versioned.cli.app import main

__all__ = ["main"]
