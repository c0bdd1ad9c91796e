"""The rules for names, versions, weights and metadata, each written once."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from versioned.errors import InvalidCanary, InvalidMetadata, InvalidName, InvalidVersion

LATEST = "LATEST"
"""The one version that changes: what was put last."""

NAME_RULE = (
    "1 to 128 letters (a-z, A-Z), digits, '.', '_' or '-', beginning with a letter or a digit"
)
VERSION_RULE = "a whole number from 1, or LATEST"
FILENAME_RULE = (
    "one part of a path: text of at most 255 bytes without '/', '\\' and NUL that is not empty, "
    "'.' or '..', and does not begin like a drive ('C:')"
)
WEIGHT_RULE = "a whole number from 0 to 99"
MAX_NUMBER = 10**17 - 1
"""The highest version whose sort key still stands before ``LATEST``."""
MAX_METADATA_BYTES = 4096
MAX_FILENAME_BYTES = 255
"""File systems take no longer names."""

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}")
_FILENAME = re.compile(r"(?!\.{1,2}\Z)(?![a-zA-Z]:)[^/\\\0\ud800-\udfff]+")
_DIGITS = re.compile(r"[0-9]{1,32}")
_LONG = re.compile(r"[A-K]([1-9][0-9]{6,16})")


def check_name(name: object, what: str = "an artifact") -> str:
    """The name itself when it follows the rule. Raises ``InvalidName``."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidName(f"{_shown(name)} cannot name {what}: a name is {NAME_RULE}")
    return name


def check_filename(name: object) -> str:
    """The name itself when it can name a file in any folder. Raises ``InvalidName``."""
    if (
        not isinstance(name, str)
        or not _FILENAME.fullmatch(name)
        or len(name.encode()) > MAX_FILENAME_BYTES
    ):
        raise InvalidName(f"{_shown(name)} cannot name a file: a name is {FILENAME_RULE}")
    return name


def beginning(name: str, size: int = 100) -> str:
    """As much of a file's name as fits into some bytes, for the name of a temporary one."""
    return os.fsencode(name)[:size].decode(errors="ignore")


def parse_version(version: object) -> int | None:
    """The number of a version, None for LATEST.

    Takes None, "LATEST", a number, a number as text with or without leading zeros, and the sort
    key of a row. Raises ``InvalidVersion``.
    """
    if version is None or version == LATEST:
        return None
    number = version if isinstance(version, int) else _number_in(version)
    if isinstance(number, bool) or not 1 <= number <= MAX_NUMBER:
        raise InvalidVersion(f"{_shown(version)} is not a version: a version is {VERSION_RULE}")
    return number


def check_weight(weight: object) -> int | None:
    """The weight itself, None for none. Raises ``InvalidCanary``."""
    if weight is None:
        return None
    if isinstance(weight, bool) or not isinstance(weight, int) or not 0 <= weight <= 99:
        raise InvalidCanary(
            f"{_shown(weight)} is not a weight: it is {WEIGHT_RULE}, the percentage of keys "
            "that get the secondary version (to give it all of them, promote it)"
        )
    return weight


def check_metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """The metadata as a plain dict. Raises ``InvalidMetadata``."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise InvalidMetadata(
            f"metadata is a mapping of text to text, not {type(metadata).__name__}"
        )
    plain = dict(metadata)
    for key, value in plain.items():
        if not (isinstance(key, str) and key and isinstance(value, str)):
            raise InvalidMetadata(f"metadata is text to text; {key!r}: {value!r} is not")
    size = sum(len(key.encode()) + len(value.encode()) for key, value in plain.items())
    if size > MAX_METADATA_BYTES:
        raise InvalidMetadata(
            f"metadata holds {size} bytes and at most {MAX_METADATA_BYTES} fit: "
            "put what is longer into the artifact itself"
        )
    return plain


def _number_in(version: object) -> int:
    if isinstance(version, str):
        if _DIGITS.fullmatch(version):
            return int(version)
        long = _LONG.fullmatch(version)
        if long and ord(version[0]) - ord("A") == len(long[1]) - 7:
            return int(long[1])
    return 0


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:40]}... ({len(text)} characters)"
