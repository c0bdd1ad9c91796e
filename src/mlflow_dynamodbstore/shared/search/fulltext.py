"""Full-text entries: from a word or three letters of a text to the entities with that text.

Each token of a text has a forward item, found by the token, and a reverse item, found by the
entity. Letters are compared without regard to ASCII case, and the filter judges what entries
bring, so LIKE and ILIKE both use them.

Two levels: a *word* finds texts by their whole words, a *trigram* by any three letters in a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mlflow_dynamodbstore.keys import ranks as rank_keys
from mlflow_dynamodbstore.shared.search.filters import Comparison
from mlflow_dynamodbstore.shared.search.like import ascii_lower
from mlflow_dynamodbstore.table.values import Key

WORD, TRIGRAM = "word", "trigram"
LEVELS = (WORD, TRIGRAM)

_WORDS = re.compile(r"\w+")
_WILDCARDS = re.compile("[%_]+")
_LETTERS = 3


@dataclass(frozen=True)
class TextField:
    """A text that is indexed. ``name`` is, for example, ``run.tags.env``.

    A field added to a table with data is *complete*, and searched, only after a backfill. That also
    puts the entries that an earlier release wrote for runs into GSI2 (``in_gsi2``).
    """

    name: str
    levels: tuple[str, ...] = LEVELS
    complete: bool = True
    in_gsi2: bool = False


def tokens(level: str, text: str) -> set[str]:
    """The tokens of a text."""
    text = ascii_lower(text)
    if level == WORD:
        return set(_WORDS.findall(text))
    return {text[n : n + _LETTERS] for n in range(len(text) - _LETTERS + 1)}


def entries(pk: str, field: TextField, entity_id: str, text: str) -> Iterator[Key]:
    """The forward and reverse items of a text."""
    for level in field.levels:
        for token in tokens(level, text):
            yield Key(pk, rank_keys.fts(level, token, field.name, entity_id))
            yield Key(pk, rank_keys.fts_rev(field.name, entity_id, level, token))


def needed(level: str, comparison: Comparison) -> set[str]:
    """Tokens that every text satisfying a comparison has; none when it implies none."""
    if comparison.comparator == "=":
        return tokens(level, str(comparison.value))
    if comparison.comparator not in ("LIKE", "ILIKE"):
        return set()
    pattern = str(comparison.value)
    if level == TRIGRAM:
        return {t for part in _WILDCARDS.split(pattern) for t in tokens(level, part)}
    return set(_whole_words(ascii_lower(pattern)))


def _whole_words(pattern: str) -> Iterable[str]:
    """The words of a pattern that no wildcard can lengthen."""
    for found in _WORDS.finditer(pattern.replace("_", "\0")):
        before, after = pattern[: found.start()][-1:], pattern[found.end() :][:1]
        if before not in ("%", "_") and after not in ("%", "_"):
            yield found[0]
