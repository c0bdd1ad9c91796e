"""What all key patterns share: limits, joining and splitting, ranges, workspaces, parts."""

from __future__ import annotations

from typing import NamedTuple

from boto3.dynamodb.conditions import ConditionBase
from boto3.dynamodb.conditions import Key as KeyCondition

from mlflow_dynamodbstore.keys.encoding import bounded, certain_prefix, is_cut, text_of
from mlflow_dynamodbstore.table.contract import MAX_SK_BYTES

DEFAULT_WORKSPACE = "default"

# How many bytes a piece of a key may take. The sums stay under 1,024 for sort keys, with room for
# the suffix of a part, and under 2,048 for partition keys; a test adds them up.
ID = 128
KEY = 640
MEASURED = 560  # the key of a metric that shares its sort key with a model, a run and a dataset
NAME = 640
LONE_NAME = 900  # a name that has a sort key to itself
PARTITION_NAME = 1600
WORKSPACE = 200
WORD = 64
TOKEN = 300
RANKED = 380  # two of these share a sort key

_LAST_CHARACTER = "\U0010ffff"
_PART_DIGITS = 4


class Range(NamedTuple):
    """All keys from ``low`` to ``high``, both included.

    Texts compare by their code points, which is the order of their UTF-8 bytes, the table's.
    """

    low: str
    high: str

    def on(self, attribute: str = "SK") -> ConditionBase:
        """This range as a query's condition on a sort key."""
        return KeyCondition(attribute).between(self.low, self.high)

    @property
    def is_empty(self) -> bool:
        """Whether no key can lie in this range."""
        return self.low > self.high

    def overlap(self, other: Range) -> Range:
        """The keys of both."""
        return Range(max(self.low, other.low), min(self.high, other.high))

    def __contains__(self, key: object) -> bool:
        """Whether a key lies in this range."""
        return isinstance(key, str) and self.low <= key <= self.high


def join(*pieces: str) -> str:
    """Pieces that are segments or fixed words, as one key."""
    return "#".join(pieces)


def children(key: str) -> Range:
    """Everything below a key, and not the key itself.

    ``$`` follows ``#`` and stands in no key, so the range is exact.
    """
    return Range(key + "#", key + "$")


def starting(prefix: str) -> Range:
    """Everything that begins with a prefix, be it in the middle of a text.

    No character follows the last one, so the upper end is filled with it up to a key's length.
    """
    room = MAX_SK_BYTES - len(prefix.encode())
    return Range(prefix, prefix + _LAST_CHARACTER * (room // 4))


def starting_text(key: str, text: str, limit: int) -> Range:
    """Everything below a key whose next piece, a ``bounded(..., limit)``, begins with a text.

    Texts longer than the limit are found by what their pieces have in common, so the range may
    bring more than was asked for, and never less.
    """
    if not text:
        return children(key)
    return starting(join(key, certain_prefix(bounded(text, limit), limit)))


def key_text(piece: str) -> str | None:
    """The text of one piece of a key, or None when it was cut and the item holds it."""
    return None if is_cut(piece) else text_of(piece)


def pieces_of(key: str, *fixed: str) -> list[str]:
    """What follows the fixed words that a key begins with; ``ValueError`` when it does not."""
    pieces = key.split("#")
    if pieces[: len(fixed)] != list(fixed) or len(pieces) == len(fixed):
        raise ValueError(f"not a key that begins with {join(*fixed)}#: {key!r}")
    return pieces[len(fixed) :]


def in_workspace(word: str, workspace: str, *pieces: str) -> str:
    """A key of the default workspace as it is, of another with its name after the first word.

    Pieces contain no ``#``, so the two forms differ in their number of pieces and cannot meet.
    """
    if workspace == DEFAULT_WORKSPACE:
        return join(word, *pieces)
    return join(word, bounded(workspace, WORKSPACE), *pieces)


def value_part(sk: str, generation: str, number: int) -> str:
    """One part of a value too large for the item at ``sk``.

    All parts of one writing share a generation, so that a second writing never mixes with it.
    """
    if not 0 <= number < 10**_PART_DIGITS:
        raise ValueError(f"not the number of a part: {number}")
    return join(sk, "PART", bounded(generation, WORD), f"{number:0{_PART_DIGITS}d}")


def value_parts(sk: str) -> Range:
    """All parts beside an item, of every generation."""
    return children(join(sk, "PART"))
