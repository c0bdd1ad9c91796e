"""Keys of the items that search reads: runs ranked by metric or param, and words of texts."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from mlflow_dynamodbstore.keys.base import (
    ID,
    KEY,
    RANKED,
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

# Above every encoded number and below NaN.
_BEHIND_NUMBERS = "g"

Comparison = Literal["<", "<=", "=", ">=", ">"]

MODEL_NAME = "registered_model.name"
"""The type of full-text entries whose entity is a registered model, named by its name."""


class MetricRank(NamedTuple):
    """What the key of a metric's rank says; None stands for text that was cut."""

    key: str | None
    value: float
    run_id: str | None


class ParamRank(NamedTuple):
    """What the key of a param's rank says; None stands for text that was cut."""

    key: str | None
    value: str | None
    run_id: str | None


class Token(NamedTuple):
    """What the key of a full-text entry says; None stands for text that was cut."""

    level: str | None
    token: str | None
    entity_type: str | None
    entity_id: str | None


def metric_rank(key: str, value: float, run_id: str) -> str:
    """A run's place by its latest value of a metric, the greatest first and NaN last."""
    return join("RANK#m", bounded(key, KEY), inverted_float(value), bounded(run_id, ID))


def metric_ranks(key: str) -> Range:
    """All runs with a metric."""
    return children(join("RANK#m", bounded(key, KEY)))


def metric_ranks_where(key: str, comparison: Comparison, value: float) -> Range:
    """The runs whose metric compares so with a number; a NaN compares with none.

    ``=`` with NaN gives the runs whose metric is NaN.
    """
    metric = join("RANK#m", bounded(key, KEY))
    same = children(join(metric, inverted_float(value)))
    if comparison == "=":
        return same
    if math.isnan(value):
        raise ValueError("no number is less or greater than NaN")
    # Values descend, so what is greater comes before. No key ends in "#" or "$", so an end
    # of the range that is included adds nothing.
    if comparison in (">", ">="):
        return Range(children(metric).low, same.low if comparison == ">" else same.high)
    return Range(same.high if comparison == "<" else same.low, join(metric, _BEHIND_NUMBERS))


def metric_rank_of(sk: str) -> MetricRank:
    """The rank of a metric, taken apart."""
    key, value, run_id = pieces_of(sk, "RANK", "m")
    return MetricRank(key_text(key), float_of_inverted(value), key_text(run_id))


def runs_by_metric_where(key: str, comparison: Comparison, value: float) -> Range:
    """In LSI5: sealed runs whose primary metric compares so with a number.

    ``=`` with NaN gives the runs whose metric is NaN, as in RANK.
    """
    metric = join("M", bounded(key, KEY))
    same = children(join(metric, ordered_float(value)))
    if comparison == "=":
        return same
    if math.isnan(value):
        raise ValueError("no number is less or greater than NaN")
    if comparison in ("<", "<="):
        return Range(children(metric).low, same.low if comparison == "<" else same.high)
    return Range(same.high if comparison == ">" else same.low, join(metric, _BEHIND_NUMBERS))


def primary_metric_of(lsi5sk: str) -> float:
    """The value of the primary metric by which a sealed run stands in LSI5."""
    return float_of(pieces_of(lsi5sk, "M")[1])


def param_rank(key: str, value: str, run_id: str) -> str:
    """A run's place by the value of a param."""
    return join("RANK#p", bounded(key, RANKED), bounded(value, RANKED), bounded(run_id, ID))


def ranked_run_of(sk: str) -> str:
    """The run that a rank is of; all that most readers of ranks need."""
    return text_of(sk[sk.rindex("#") + 1 :])  # ids are short and never cut


def param_ranks(key: str) -> Range:
    """All runs with a param."""
    return children(join("RANK#p", bounded(key, RANKED)))


def param_ranks_of(key: str, value: str) -> Range:
    """The runs whose param has exactly this value."""
    return children(join("RANK#p", bounded(key, RANKED), bounded(value, RANKED)))


def param_ranks_starting(key: str, text: str) -> Range:
    """The runs whose param begins with a text; for a long text also others like it."""
    return starting_text(join("RANK#p", bounded(key, RANKED)), text, RANKED)


def param_rank_of(sk: str) -> ParamRank:
    """The rank of a param, taken apart."""
    key, value, run_id = pieces_of(sk, "RANK", "p")
    return ParamRank(key_text(key), key_text(value), key_text(run_id))


def param_rank_group(sk: str) -> str:
    """What ranks of a param compare by: long values are in order by their beginning only."""
    return certain_prefix(pieces_of(sk, "RANK", "p")[1], RANKED)


def fts(level: str, token: str, entity_type: str, entity_id: str) -> str:
    """The full-text entry that leads from a word to an entity."""
    return join(
        "FTS", bounded(level, WORD), bounded(token, TOKEN), *_entity(entity_type, entity_id)
    )


def fts_entries(level: str, token: str, entity_type: str | None = None) -> Range:
    """All entities with exactly this word, or those of one type."""
    word = join("FTS", bounded(level, WORD), bounded(token, TOKEN))
    return children(word if entity_type is None else join(word, bounded(entity_type, WORD)))


def fts_entries_starting(level: str, text: str) -> Range:
    """All entities with a word that begins so; for a long text also others like it."""
    return starting_text(join("FTS", bounded(level, WORD)), text, TOKEN)


def fts_of(sk: str) -> Token:
    """A full-text entry, taken apart."""
    level, token, entity_type, entity_id = pieces_of(sk, "FTS")
    return Token(key_text(level), key_text(token), key_text(entity_type), key_text(entity_id))


def fts_rev(entity_type: str, entity_id: str, level: str, token: str) -> str:
    """The full-text entry that leads from an entity back to one of its words."""
    entity = _entity(entity_type, entity_id)
    return join("FTS_REV", *entity, bounded(level, WORD), bounded(token, TOKEN))


def fts_rev_entries(entity_type: str, entity_id: str, level: str | None = None) -> Range:
    """All words of an entity, or those of one level."""
    entity = join("FTS_REV", *_entity(entity_type, entity_id))
    return children(entity if level is None else join(entity, bounded(level, WORD)))


def fts_rev_entries_of_type(entity_type: str) -> Range:
    """All words of all entities of a type."""
    return children(join("FTS_REV", bounded(entity_type, WORD)))


def fts_of_rev(sk: str) -> str:
    """The entry from a word to an entity, given the one from the entity back to the word."""
    entity_type, entity_id, level, token = pieces_of(sk, "FTS_REV")
    return join("FTS", level, token, entity_type, entity_id)


def fts_rev_of(sk: str) -> Token:
    """An entry from an entity to a word, taken apart."""
    entity_type, entity_id, level, token = pieces_of(sk, "FTS_REV")
    return Token(key_text(level), key_text(token), key_text(entity_type), key_text(entity_id))


def _entity(entity_type: str, entity_id: str) -> tuple[str, str]:
    return bounded(entity_type, WORD), bounded(entity_id, TOKEN)
