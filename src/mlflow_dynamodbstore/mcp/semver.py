"""Semantic versions as text that sorts by precedence."""

from __future__ import annotations

from functools import lru_cache

from mlflow.exceptions import MlflowException
from mlflow.utils.semver_utils import encode_prerelease_sort_key, parse_semver

KEPT = 4096
CORE_DIGITS = 10


@lru_cache(maxsize=KEPT)
def precedence(version: str, param_name: str = "version") -> str:
    """A text that sorts as semantic versions do: ``1.0.0-rc.2`` before ``1.0.0-rc.10``, ``1.0.0``.

    Versions that differ only in their build have the same text. Raises for an invalid version.
    """
    parsed = parse_semver(version, param_name=param_name)
    core = (parsed.major, parsed.minor, parsed.patch)
    digits = "".join(f"{number:0{CORE_DIGITS}d}" for number in core)
    return digits + encode_prerelease_sort_key(parsed)


def find_precedence(version: str) -> str | None:
    """The precedence of a version, or None when it is not a semantic version."""
    try:
        return precedence(version)
    except MlflowException:
        return None
