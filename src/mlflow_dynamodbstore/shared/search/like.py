"""LIKE and ILIKE as MLflow's filters mean them.

``%`` stands for any text, ``_`` for any one character, and there is no escape character. LIKE is
case-sensitive. ILIKE ignores the case of ASCII letters only, which is what MLflow does on SQLite.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_WILDCARDS = re.compile("([%_])")


def ascii_lower(text: str) -> str:
    """A text with its ASCII letters in lower case."""
    return text.translate(_ASCII_LOWER)


@lru_cache(maxsize=1024)
def like(pattern: str, *, ignore_case: bool = False) -> Callable[[str], bool]:
    """A function that tells whether a text matches a pattern."""
    if ignore_case:
        exact = like(ascii_lower(pattern))
        return lambda text: exact(ascii_lower(text))
    body = "".join({"%": ".*", "_": "."}.get(p, re.escape(p)) for p in _WILDCARDS.split(pattern))
    compiled = re.compile(body, re.DOTALL)
    return lambda text: compiled.fullmatch(text) is not None


def fixed_prefix(pattern: str) -> str:
    """The text that everything matching a LIKE pattern begins with."""
    return _WILDCARDS.split(pattern, maxsplit=1)[0]


def fixed_suffix(pattern: str) -> str:
    """The text that everything matching a LIKE pattern ends with."""
    return _WILDCARDS.split(pattern)[-1]
