"""Values from clients as they are stored: text and 64-bit whole numbers, or refused.

MLflow declares texts and numbers, and Python lets a client send anything. What is stored can always
be read back, by MLflow's server too, so other values become text as a SQL column would make them
(``5`` is stored as ``'5'``), or are refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE

from mlflow_dynamodbstore.shared.refusals import invalid

SMALLEST, LARGEST = -(2**63), 2**63 - 1
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999: MLflow sends the times of traces in messages that hold no others."""
_SECRETS = ("password", "secret", "auth_config")
"""Words in the names of arguments whose values no message shows."""
MOST_MS = 315_576_000_000_000
"""The longest duration that such a message holds: ten thousand years."""


class WrongTypeError(MlflowException, TypeError):
    """For the few arguments for which MLflow's own stores raise ``TypeError``."""

    def __init__(self, message: str):
        super().__init__(message, INVALID_PARAMETER_VALUE)


def text(value: Any, what: str) -> str:
    """A value as text; raises for what no text column takes. ``what`` names it to the caller."""
    if type(value) is str and value.isascii():
        return value
    if isinstance(value, Enum):  # members of a string enumeration
        value = value.value
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, str | int | float):
        plain = str(value)
        if is_unicode(plain):
            return plain
    raise invalid(f"Invalid value {shown(value, what)} for {what}: it must be text.")


def optional_text(value: Any, what: str) -> Any:
    """As :func:`text`; None stays None, although MLflow's entities declare a text."""
    return None if value is None else text(value, what)


def texts(values: Mapping[str, Any], what: str) -> dict[str, str]:
    """Values as texts, by their names; those without a value are left out."""
    return {name: text(value, what) for name, value in values.items() if value is not None}


def whole_number(value: Any, what: str) -> int:
    """A value as a whole number of 64 bits; raises for any other."""
    if isinstance(value, int) and SMALLEST <= value <= LARGEST:
        return int(value)
    raise invalid(
        f"Invalid value {shown(value, what)} for {what}: it must be a whole number of 64 bits."
    )


def moment(value: Any, what: str) -> int:
    """A time of a trace in milliseconds; raises for one that MLflow's messages cannot carry."""
    time = whole_number(value, what)
    if not FIRST_MS <= time <= LAST_MS:
        raise MlflowException.invalid_parameter_value(
            f"Invalid value {time} for {what}: it must be a time of the years 1 to 9999."
        )
    return time


def duration(value: Any, what: str) -> int:
    """A duration of a trace in milliseconds; raises as :func:`moment` does."""
    length = whole_number(value, what)
    if abs(length) > MOST_MS:
        raise MlflowException.invalid_parameter_value(
            f"Invalid value {length} for {what}: it must be at most {MOST_MS} milliseconds."
        )
    return length


def readable_text(value: Any) -> Any:
    """A stored text as MLflow shows it; earlier releases stored values of other types."""
    return value if type(value) is str or value is None else str(value)


def readable_number(value: Any, least: int = SMALLEST, most: int = LARGEST) -> Any:
    """A stored number as MLflow shows it; earlier releases stored larger ones and other values."""
    if value is None or (type(value) is int and least <= value <= most):
        return value
    try:
        return min(max(int(value), least), most)
    except (TypeError, ValueError, OverflowError):
        return None


def shown(value: Any, what: str = "") -> str:
    """A value as an error message shows it: short and printable, and never a secret."""
    if any(word in what for word in _SECRETS):
        return "(not shown)"
    return ascii(value)[:100]


def is_unicode(value: str) -> bool:
    """Whether a text can be encoded, which half of a surrogate pair cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
