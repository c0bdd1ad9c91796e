"""Keys of search entries: runs ranked by a metric or param, and full-text entries."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from mlflow_dynamodbstore.keys.base import (
    HALF_KEY,
    ID,
    KEY,
    TOKEN,
    WORD,
    Range,
    children,
    join,
    key_text,
    pieces_of,
    starting_text,
)
from mlflow_dynamodbstore.keys.encoding import (
    bounded,
    certain_prefix,
    float_of,
    float_of_inverted,
    inverted_float,
    ordered_float,
    text_of,
)

# Sorts after every encoded number and before NaN.
_AFTER_NUMBERS = "g"

Comparison = Literal["<", "<=", "=", ">=", ">"]

FTS_ENTRIES = children("FTS")
"""All full-text entries of a partition, from words to entities."""

MODEL_NAME = "registered_model.name"
"""The entity type of full-text entries of the names of registered models."""


class MetricRank(NamedTuple):
    """The parts of a metric rank's key; None for text that was cut."""

    key: str | None
    value: float
    run_id: str | None


class Token(NamedTuple):
    """The parts of a full-text entry's key; None for text that was cut."""

    level: str | None
    token: str | None
    entity_type: str | None
    entity_id: str | None


def metric_rank(key: str, value: float, run_id: str) -> str:
    """A run ranked by its latest value of a metric, the greatest first and NaN last."""
    return join("RANK#m", bounded(key, KEY), inverted_float(value), bounded(run_id, ID))


def metric_ranks_where(key: str, comparison: Comparison, value: float) -> Range:
    """The ranks of the runs whose metric compares so with a number; NaN only equals NaN."""
    metric = join("RANK#m", bounded(key, KEY))
    same = children(join(metric, inverted_float(value)))
    if comparison == "=":
        return same
    if math.isnan(value):
        raise ValueError("no number is less or greater than NaN")
    # Values descend, so greater ones come first. No key ends in "#" or "$", so including the
    # end of a range adds no key.
    if comparison in (">", ">="):
        return Range(children(metric).low, same.low if comparison == ">" else same.high)
    return Range(same.high if comparison == "<" else same.low, join(metric, _AFTER_NUMBERS))


def metric_rank_of(sk: str) -> MetricRank:
    """The parts of a metric rank's key."""
    key, value, run_id = pieces_of(sk, "RANK", "m")
    return MetricRank(key_text(key), float_of_inverted(value), key_text(run_id))


def runs_by_metric_where(key: str, comparison: Comparison, value: float) -> Range:
    """In LSI5: sealed runs whose primary metric compares so with a number; NaN only equals NaN."""
    metric = join("M", bounded(key, KEY))
    same = children(join(metric, ordered_float(value)))
    if comparison == "=":
        return same
    if math.isnan(value):
        raise ValueError("no number is less or greater than NaN")
    if comparison in ("<", "<="):
        return Range(children(metric).low, same.low if comparison == "<" else same.high)
    return Range(same.high if comparison == ">" else same.low, join(metric, _AFTER_NUMBERS))


def primary_metric_of(lsi5sk: str) -> float:
    """The value of the primary metric that a sealed run has in LSI5."""
    return float_of(pieces_of(lsi5sk, "M")[1])


def param_rank(key: str, value: str, run_id: str) -> str:
    """A run ranked by the value of a param."""
    return join("RANK#p", bounded(key, HALF_KEY), bounded(value, HALF_KEY), bounded(run_id, ID))


def ranked_run_of(sk: str) -> str:
    """The run that a rank belongs to, without decoding the rest of its key."""
    return text_of(sk[sk.rindex("#") + 1 :])  # ids are short and never cut


def param_ranks(key: str) -> Range:
    """The ranks of all runs with a param."""
    return children(join("RANK#p", bounded(key, HALF_KEY)))


def param_ranks_equal(key: str, value: str) -> Range:
    """The ranks of the runs whose param has exactly this value."""
    return children(join("RANK#p", bounded(key, HALF_KEY), bounded(value, HALF_KEY)))


def param_ranks_starting(key: str, text: str) -> Range:
    """The ranks of the runs whose param begins with a text; for a long text, of others too."""
    return starting_text(join("RANK#p", bounded(key, HALF_KEY)), text, HALF_KEY)


def param_rank_group(sk: str) -> str:
    """The part of a rank that is in order: of a long value, only the beginning is."""
    return certain_prefix(pieces_of(sk, "RANK", "p")[1], HALF_KEY)


def fts(level: str, token: str, entity_type: str, entity_id: str) -> str:
    """The full-text entry from a word to an entity that has it."""
    return join(
        "FTS", bounded(level, WORD), bounded(token, TOKEN), *_entity(entity_type, entity_id)
    )


def fts_entries(level: str, token: str, entity_type: str | None = None) -> Range:
    """The entries of all entities with exactly this word, or of those of one type."""
    word = join("FTS", bounded(level, WORD), bounded(token, TOKEN))
    return children(word if entity_type is None else join(word, bounded(entity_type, WORD)))


def fts_of(sk: str) -> Token:
    """The parts of a full-text entry's key."""
    level, token, entity_type, entity_id = pieces_of(sk, "FTS")
    return Token(key_text(level), key_text(token), key_text(entity_type), key_text(entity_id))


def fts_rev(entity_type: str, entity_id: str, level: str, token: str) -> str:
    """The reversed full-text entry, from an entity to one of its words."""
    entity = _entity(entity_type, entity_id)
    return join("FTS_REV", *entity, bounded(level, WORD), bounded(token, TOKEN))


def fts_rev_entries(entity_type: str, entity_id: str, level: str | None = None) -> Range:
    """The reversed entries of an entity, or those of one level."""
    entity = join("FTS_REV", *_entity(entity_type, entity_id))
    return children(entity if level is None else join(entity, bounded(level, WORD)))


def fts_rev_entries_of_type(entity_type: str) -> Range:
    """The reversed entries of all entities of a type."""
    return children(join("FTS_REV", bounded(entity_type, WORD)))


def forward_fts(sk: str) -> str:
    """The full-text entry that belongs to a reversed one."""
    entity_type, entity_id, level, token = pieces_of(sk, "FTS_REV")
    return join("FTS", level, token, entity_type, entity_id)


def _entity(entity_type: str, entity_id: str) -> tuple[str, str]:
    return bounded(entity_type, WORD), bounded(entity_id, TOKEN)
