"""Ids that sort by the time they were made and know their experiment.

An id is a UUIDv7 without dashes. Its 74 free bits are, from the top:

====  ==========================================================================================
bits  meaning
====  ==========================================================================================
33    a sequence: random in every new millisecond, counted up within one
1     1 when the last field is an experiment id, 0 when it is random
40    the experiment id, or random bits
====  ==========================================================================================

A run is asked for by its id alone, while its item lies in its experiment's partition. With the
experiment inside the id, a consistent read finds it at once, and no index that lags is asked.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
import time

_SEQUENCE_BITS = 33
_LOW_SEQUENCE_BITS = 21  # the rest of the sequence fills the 12 bits beside the version
_EXPERIMENT_BITS = 40
_TIME_BITS = 48

_HEX_ID = re.compile("[0-9a-f]{32}")
_EXPERIMENT_ID = re.compile("0|[1-9][0-9]{0,12}")
_MODEL_PREFIX = "m-"


class _Sequence:
    """Hands out (millisecond, sequence) pairs; within a millisecond they only go up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_ms = -1
        self._last = 0

    def at(self, now_ms: int) -> tuple[int, int]:
        """The next pair in exactly this millisecond, or the one after when it is used up."""
        with self._lock:
            return self._take(now_ms)

    def now(self) -> tuple[int, int]:
        """The next pair by the clock; a clock that goes back does not take the ids back."""
        with self._lock:
            return self._take(max(time.time_ns() // 1_000_000, self._last_ms))

    def _take(self, now_ms: int) -> tuple[int, int]:
        if now_ms == self._last_ms and self._last + 1 < 1 << _SEQUENCE_BITS:
            self._last += 1
        else:
            # Equal only when the sequence has run out: the next millisecond is borrowed.
            self._last_ms = now_ms + 1 if now_ms == self._last_ms else now_ms
            self._last = secrets.randbits(_SEQUENCE_BITS)
        return self._last_ms, self._last


class _Source:
    """The sequences of this process, made anew in a forked child.

    Without that, parent and child would count on from the same number.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.clocked = _Sequence()
        self.given = _Sequence()


_source = _Source()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_source.renew)


def new_id(experiment_id: str | None = None, now_ms: int | None = None) -> str:
    """A new id, above all earlier ones of this process that its clock made.

    ``now_ms`` sets the time inside it. An experiment id goes into it when it is a plain decimal
    number below 2**40; any other is left out, and :func:`experiment_of` then gives None.
    """
    if now_ms is not None and not 0 <= now_ms < (1 << _TIME_BITS) - 1:
        raise ValueError(f"not a time that an id can hold: {now_ms}")
    ms, sequence = _source.clocked.now() if now_ms is None else _source.given.at(now_ms)
    number = _number_of(experiment_id)
    last = secrets.randbits(_EXPERIMENT_BITS) if number is None else number
    value = ms << 80 | 0x7 << 76 | 0b10 << 62
    value |= sequence >> _LOW_SEQUENCE_BITS << 64
    value |= (sequence & ((1 << _LOW_SEQUENCE_BITS) - 1)) << (_EXPERIMENT_BITS + 1)
    value |= (number is not None) << _EXPERIMENT_BITS
    return f"{value | last:032x}"


def new_model_id(experiment_id: str | None = None, now_ms: int | None = None) -> str:
    """A new id of a logged model: ``m-`` and an id."""
    return _MODEL_PREFIX + new_id(experiment_id, now_ms)


def experiment_of(text: str) -> str | None:
    """The experiment inside a run's or logged model's id, or None when there is none.

    This is a guess that costs nothing. An id made elsewhere that happens to be a UUIDv7 may be
    misread, so callers read the item in that experiment and, when it is not there, ask the
    index GSI1 for the id.
    """
    text = text.removeprefix(_MODEL_PREFIX)
    if not is_hex_id(text):
        return None
    value = int(text, 16)
    is_uuid7 = value >> 76 & 0xF == 0x7 and value >> 62 & 0b11 == 0b10
    if not is_uuid7 or not value >> _EXPERIMENT_BITS & 1:
        return None
    return str(value & ((1 << _EXPERIMENT_BITS) - 1))


def made_at(text: str) -> int | None:
    """The millisecond in which an id was made, or None for one without a time in it."""
    text = text.removeprefix(_MODEL_PREFIX)
    if not is_hex_id(text):
        return None
    value = int(text, 16)
    return value >> 80 if value >> 76 & 0xF == 0x7 and value >> 62 & 0b11 == 0b10 else None


def is_hex_id(text: str) -> bool:
    """Whether a text is 32 lower-case hex digits."""
    return _HEX_ID.fullmatch(text) is not None


def _number_of(experiment_id: str | None) -> int | None:
    """The experiment id as a number that fits an id, or None."""
    if experiment_id is None or _EXPERIMENT_ID.fullmatch(experiment_id) is None:
        return None
    number = int(experiment_id)
    return number if number < 1 << _EXPERIMENT_BITS else None
