"""Text, numbers and times as pieces of a key.

A key is compared byte by byte, so every encoding here keeps the order of what it encodes. Pieces
stand between ``#`` characters, and no piece contains one. Decoding is strict: a string that the
encoder cannot produce raises ``ValueError``.
"""

from __future__ import annotations

import hashlib
import math
import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache

from mlflow_dynamodbstore.table.binary import double_of, ordered_bits

CUT = "%~"
"""Separates the readable beginning of a text that was cut from the hash of the whole text."""

_HASH_DIGITS = 32
_CUT_BYTES = len(CUT) + _HASH_DIGITS
# A beginning ends with a whole character or escape, up to so many bytes before the room ends.
_SLACK = 3

_RESERVED = re.compile("[\x00-\x25]")
_ESCAPE = re.compile("%([0-9A-F]{2})")
_TORN_ESCAPE = re.compile(r"%[0-9A-F]?\Z")
_HEX16 = re.compile("[0-9a-f]{16}")
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)

_INT64 = 1 << 63
_ALL_ONES = (1 << 64) - 1

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)
_FIRST_MS = (datetime(1, 1, 1, tzinfo=timezone.utc) - _EPOCH) // _MILLISECOND
_LAST_MS = (
    datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=timezone.utc) - _EPOCH
) // _MILLISECOND

_VERSION_DIGITS = 10


class NotEncodable(ValueError):
    """A number that a key cannot hold."""


# --- text ---------------------------------------------------------------------------------------


def segment(text: str) -> str:
    """A text as one piece of a key.

    Each character up to ``%`` becomes ``%XX``, and the empty text a lone ``%``. All characters
    of a segment therefore sort above ``#`` and ``$``: a segment sorts as its text does, whether it
    ends the key or ``#`` follows, and a range that ends in ``$`` holds exactly what begins with
    ``#``.
    """
    if not text:
        return "%"
    return _RESERVED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def text_of(segment_text: str) -> str:
    """The text of a segment. Raises ``ValueError`` when it was cut or is not a segment."""
    if segment_text == "%":
        return ""
    if segment_text and _RESERVED.search(segment_text) is None:
        return segment_text
    text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), segment_text)
    if not text or segment(text) != segment_text:
        raise ValueError(f"not the whole segment of a text: {segment_text!r}")
    return text


@lru_cache(maxsize=16384)
def bounded(text: str, limit: int = 400) -> str:
    """A text as a segment of at most ``limit`` bytes of UTF-8.

    A segment that does not fit keeps its beginning and gets a hash of the whole text. No two
    texts collide, but texts with the same long beginning lose their order: see
    :func:`certain_prefix`. Text that is not Unicode (lone surrogates) raises ``ValueError``.
    """
    if limit < _CUT_BYTES + _SLACK:
        raise ValueError(f"a limit of {limit} bytes leaves no room for a hash")
    whole = segment(text)
    if len(whole.encode()) <= limit:
        return whole
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]
    return _head(whole, limit - _CUT_BYTES) + CUT + digest


def is_cut(segment_text: str) -> bool:
    """Whether a segment holds only the beginning of its text."""
    return CUT in segment_text


def certain_prefix(segment_text: str, limit: int = 400) -> str:
    """The part of a ``bounded(text, limit)`` that can be compared with every other one.

    Texts that begin with ``text`` have segments that begin with this, and texts from ``text`` on
    have segments from this on. A range over bounded segments therefore ends here, and its reader
    compares the whole texts.
    """
    return _head(segment_text.partition(CUT)[0], limit - _CUT_BYTES - _SLACK)


def _head(segment_text: str, size: int) -> str:
    """The longest beginning of a segment within ``size`` bytes, in whole characters and escapes."""
    data = segment_text.encode()
    if len(data) <= size:
        return segment_text
    return _TORN_ESCAPE.sub("", data[:size].decode(errors="ignore"))


# --- whole numbers ------------------------------------------------------------------------------


@lru_cache(maxsize=4096)  # most points of one call share their step and time
def ordered_int(number: int) -> str:
    """A 64-bit whole number as 16 hex digits that sort as the numbers do."""
    if not -_INT64 <= number < _INT64:
        raise NotEncodable(f"not a 64-bit whole number: {number}")
    return f"{number + _INT64:016x}"


def int_of(text: str) -> int:
    """The number that :func:`ordered_int` encoded."""
    return _from_hex(text) - _INT64


def ordered_version(number: int) -> str:
    """A version number as ten digits."""
    if not 0 <= number < 10**_VERSION_DIGITS:
        raise NotEncodable(f"not a version number: {number}")
    return f"{number:0{_VERSION_DIGITS}d}"


def version_of(text: str) -> int:
    """The number that :func:`ordered_version` encoded."""
    if len(text) != _VERSION_DIGITS or not (text.isascii() and text.isdigit()):
        raise ValueError(f"not an encoded version number: {text!r}")
    return int(text)


def _from_hex(text: str) -> int:
    if _HEX16.fullmatch(text) is None:
        raise ValueError(f"not 16 hex digits: {text!r}")
    return int(text, 16)


# --- doubles ------------------------------------------------------------------------------------


NAN = "nan"
"""Sorts after every encoded number, both ascending and inverted."""


def ordered_float(number: float) -> str:
    """A double as text that sorts from minus to plus infinity, then NaN; -0.0 is 0.0."""
    return NAN if math.isnan(number) else f"{ordered_bits(number + 0.0):016x}"


def float_of(text: str) -> float:
    """The number that :func:`ordered_float` encoded."""
    return float(NAN) if text == NAN else double_of(_from_hex(text))


def inverted_float(number: float) -> str:
    """A double as text that sorts from plus to minus infinity, then NaN; -0.0 is 0.0."""
    return NAN if math.isnan(number) else f"{ordered_bits(number + 0.0) ^ _ALL_ONES:016x}"


def float_of_inverted(text: str) -> float:
    """The number that :func:`inverted_float` encoded."""
    return float(NAN) if text == NAN else double_of(_from_hex(text) ^ _ALL_ONES)


# --- times --------------------------------------------------------------------------------------

NO_TIME = "!"
"""An unknown time; sorts before all others."""


def ordered_time(milliseconds: int | None) -> str:
    """Milliseconds since 1970 as an ISO-8601 time in UTC, such as ``2026-11-15T19:35:29.123Z``.

    MLflow takes any 64-bit number as a time. One outside the years 1 to 9999 is written as a
    number after ``-`` or ``~``, which sort before and after the others.
    """
    if milliseconds is None:
        return NO_TIME
    if milliseconds < _FIRST_MS:
        return "-" + ordered_int(milliseconds)
    if milliseconds > _LAST_MS:
        return "~" + ordered_int(milliseconds)
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def time_of(text: str) -> int | None:
    """The milliseconds that :func:`ordered_time` encoded."""
    if text == NO_TIME:
        return None
    if text[:1] in ("-", "~"):
        number = int_of(text[1:])
    elif _ISO.fullmatch(text):
        number = (datetime.fromisoformat(text[:-1] + "+00:00") - _EPOCH) // _MILLISECOND
    else:
        raise ValueError(f"not an encoded time: {text!r}")
    if ordered_time(number) != text:
        raise ValueError(f"not an encoded time: {text!r}")
    return number
