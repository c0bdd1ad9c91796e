"""Ids that sort by creation time and name their experiment.

An id is a UUIDv7 without dashes. Its 74 free bits are, from the top:

====  ==========================================================================================
bits  meaning
====  ==========================================================================================
33    a sequence: random at the start of a millisecond, then counted up
1     1 when the last field is an experiment id, 0 when it is random
40    the experiment id, or random bits
====  ==========================================================================================

When something lies in another volume of its experiment than the first, the upper 12 of the 40 bits
are the number of the volume, and the experiment id must fit the other 28.

MLflow asks for a run by its id alone, and the run's item lies in its experiment's partition. With
the experiment in the id, one consistent read finds the run without an index, which would lag.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
import time
from typing import NamedTuple

_SEQUENCE_BITS = 33
_LOW_SEQUENCE_BITS = 21  # the rest of the sequence fills the 12 bits beside the version
_EXPERIMENT_BITS = 40
_SMALL_EXPERIMENT_BITS = 28
_TIME_BITS = 48

_HEX_ID = re.compile("[0-9a-f]{32}")
_EXPERIMENT_ID = re.compile("0|[1-9][0-9]{0,12}")
_MODEL_PREFIX = "m-"

MOST_VOLUMES = 1 << _EXPERIMENT_BITS - _SMALL_EXPERIMENT_BITS
"""The volumes that an id can tell apart."""


class Home(NamedTuple):
    """An experiment and one of its volumes."""

    experiment_id: str
    volume: int


class _Sequence:
    """Hands out (millisecond, sequence) pairs, which ascend within a millisecond."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_ms = -1
        self._last = 0

    def at(self, now_ms: int) -> tuple[int, int]:
        """The next pair of this millisecond, or of the next one when it is used up."""
        with self._lock:
            return self._take(now_ms)

    def now(self) -> tuple[int, int]:
        """The next pair by the clock; ids still ascend when the clock goes back."""
        with self._lock:
            return self._take(max(time.time_ns() // 1_000_000, self._last_ms))

    def _take(self, now_ms: int) -> tuple[int, int]:
        if now_ms == self._last_ms and self._last + 1 < 1 << _SEQUENCE_BITS:
            self._last += 1
        else:
            # Equal only when the sequence has run out: take the next millisecond.
            self._last_ms = now_ms + 1 if now_ms == self._last_ms else now_ms
            self._last = secrets.randbits(_SEQUENCE_BITS)
        return self._last_ms, self._last


class _Source:
    """The sequences of this process; a forked child makes its own.

    Otherwise parent and child would go on from the same number.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.clocked = _Sequence()
        self.given = _Sequence()


_source = _Source()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_source.renew)


def new_id(experiment_id: str | None = None, now_ms: int | None = None, volume: int = 0) -> str:
    """A new id, greater than all that this process has made by its clock.

    ``now_ms`` sets the time in it. It names the experiment when that is a plain decimal number
    below 2**40 (2**28 in another volume than the first); otherwise :func:`homes_of` gives none.
    """
    if now_ms is not None and not 0 <= now_ms < (1 << _TIME_BITS) - 1:
        raise ValueError(f"not a time that an id can hold: {now_ms}")
    ms, sequence = _source.clocked.now() if now_ms is None else _source.given.at(now_ms)
    number = _number_of(experiment_id, volume)
    last = secrets.randbits(_EXPERIMENT_BITS) if number is None else number
    value = ms << 80 | 0x7 << 76 | 0b10 << 62
    value |= sequence >> _LOW_SEQUENCE_BITS << 64
    value |= (sequence & ((1 << _LOW_SEQUENCE_BITS) - 1)) << (_EXPERIMENT_BITS + 1)
    value |= (number is not None) << _EXPERIMENT_BITS
    return f"{value | last:032x}"


def new_model_id(
    experiment_id: str | None = None, now_ms: int | None = None, volume: int = 0
) -> str:
    """A new id of a logged model: ``m-`` and an id."""
    return _MODEL_PREFIX + new_id(experiment_id, now_ms, volume)


def homes_of(text: str) -> list[Home]:
    """Where a run or logged model may lie by its id; nothing if that does not say.

    This is a free guess: an id from elsewhere may happen to be a UUIDv7. Callers therefore read
    the item there and, when it is not there, ask index GSI1 for the id.
    """
    named = experiment_of(text)
    if named is None:
        return []
    number = int(named)
    volume, small = divmod(number, 1 << _SMALL_EXPERIMENT_BITS)
    # A large number is a volume and an experiment, or an experiment with a large id.
    return [Home(str(small), volume), Home(named, 0)] if volume else [Home(named, 0)]


def experiment_of(text: str) -> str | None:
    """The experiment named by the id of something in the first volume, or None."""
    text = text.removeprefix(_MODEL_PREFIX)
    if not is_hex_id(text):
        return None
    value = int(text, 16)
    is_uuid7 = value >> 76 & 0xF == 0x7 and value >> 62 & 0b11 == 0b10
    if not is_uuid7 or not value >> _EXPERIMENT_BITS & 1:
        return None
    return str(value & ((1 << _EXPERIMENT_BITS) - 1))


def made_at(text: str) -> int | None:
    """The millisecond in which an id was made; None for an id without a time."""
    text = text.removeprefix(_MODEL_PREFIX)
    if not is_hex_id(text):
        return None
    value = int(text, 16)
    return value >> 80 if value >> 76 & 0xF == 0x7 and value >> 62 & 0b11 == 0b10 else None


def is_hex_id(text: str) -> bool:
    """Whether a text is 32 lower-case hex digits."""
    return _HEX_ID.fullmatch(text) is not None


def _number_of(experiment_id: str | None, volume: int) -> int | None:
    """The experiment id and the volume as a number that fits an id, or None."""
    if experiment_id is None or _EXPERIMENT_ID.fullmatch(experiment_id) is None:
        return None
    number = int(experiment_id)
    if not volume:
        return number if number < 1 << _EXPERIMENT_BITS else None
    if number >= 1 << _SMALL_EXPERIMENT_BITS or volume >= MOST_VOLUMES:
        return None
    return volume << _SMALL_EXPERIMENT_BITS | number
