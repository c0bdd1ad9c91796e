"""A tracking store on a file whose global indexes lag."""

from __future__ import annotations

from tests.lagging import other, store, time

__all__ = ["other", "store", "time"]
