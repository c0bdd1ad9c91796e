"""What all key patterns share: limits, joining and splitting, ranges, workspaces, parts."""

from __future__ import annotations

from typing import NamedTuple

from boto3.dynamodb.conditions import ConditionBase
from boto3.dynamodb.conditions import Key as KeyCondition

from mlflow_dynamodbstore.keys.encoding import bounded, certain_prefix, is_cut, text_of
from mlflow_dynamodbstore.table.contract import MAX_SK_BYTES

DEFAULT_WORKSPACE = "default"

# The most bytes that a piece of a key takes. The pieces of a sort key, with the suffix of a part,
# stay under 1,024 bytes, those of a partition key under 2,048; a test adds them up.
ID = 128
KEY = 640
SHORT_KEY = 560  # a key that shares its sort key with three ids
NAME = 640
LONE_NAME = 900  # a name that has a sort key to itself
PARTITION_NAME = 1600
WORKSPACE = 200
WORD = 64
TOKEN = 300
HALF_KEY = 380  # two of these share a sort key

_LAST_CHARACTER = "\U0010ffff"
_PART_DIGITS = 4


class Range(NamedTuple):
    """All keys from ``low`` to ``high``, both included.

    Texts compare by code points, which is the order of their UTF-8 bytes and so the table's.
    """

    low: str
    high: str

    def on(self, attribute: str = "SK") -> ConditionBase:
        """This range as the condition of a query on a sort key."""
        return KeyCondition(attribute).between(self.low, self.high)

    @property
    def is_empty(self) -> bool:
        """Whether no key lies in this range."""
        return self.low > self.high

    def overlap(self, other: Range) -> Range:
        """The keys that lie in both ranges."""
        return Range(max(self.low, other.low), min(self.high, other.high))

    def __contains__(self, key: object) -> bool:
        """Whether a key lies in this range."""
        return isinstance(key, str) and self.low <= key <= self.high


def join(*pieces: str) -> str:
    """Segments and fixed words as one key."""
    return "#".join(pieces)


def children(key: str) -> Range:
    """Everything below a key, without the key itself.

    ``$`` follows ``#`` and occurs in no key, so the range is exact.
    """
    return Range(key + "#", key + "$")


def starting(prefix: str) -> Range:
    """Everything that begins with a prefix, which may end in the middle of a text.

    The upper end repeats the last character there is, up to the length of a key.
    """
    room = MAX_SK_BYTES - len(prefix.encode())
    return Range(prefix, prefix + _LAST_CHARACTER * (room // 4))


def starting_text(key: str, text: str, limit: int) -> Range:
    """Everything below a key whose next piece, a ``bounded(..., limit)``, begins with a text.

    For a text longer than the limit, the range may also hold others that begin alike.
    """
    if not text:
        return children(key)
    return starting(join(key, certain_prefix(bounded(text, limit), limit)))


def key_text(piece: str) -> str | None:
    """The text of one piece of a key; None when it was cut and the item holds it."""
    return None if is_cut(piece) else text_of(piece)


def pieces_of(key: str, *fixed: str) -> list[str]:
    """The pieces after the fixed words that a key begins with. Raises ``ValueError``."""
    pieces = key.split("#")
    if pieces[: len(fixed)] != list(fixed) or len(pieces) == len(fixed):
        raise ValueError(f"not a key that begins with {join(*fixed)}#: {key!r}")
    return pieces[len(fixed) :]


def in_workspace(word: str, workspace: str, *pieces: str) -> str:
    """A key that names its workspace after the first word, unless it is the default one.

    Pieces contain no ``#``, so the two forms differ in their number of pieces and never collide.
    """
    if workspace == DEFAULT_WORKSPACE:
        return join(word, *pieces)
    return join(word, bounded(workspace, WORKSPACE), *pieces)


def value_part(sk: str, generation: str, number: int) -> str:
    """One part of a value that is too large for the item at ``sk``.

    The parts written together share a generation, so two writes never mix.
    """
    if not 0 <= number < 10**_PART_DIGITS:
        raise ValueError(f"not a part number: {number}")
    return join(sk, "PART", bounded(generation, WORD), f"{number:0{_PART_DIGITS}d}")


def is_value_part(sk: str) -> bool:
    """Whether a sort key is one that :func:`value_part` makes."""
    return sk.split("#")[-3:-2] == ["PART"]


def value_parts(sk: str) -> Range:
    """The parts of the large values of an item, of every generation."""
    return children(join(sk, "PART"))
