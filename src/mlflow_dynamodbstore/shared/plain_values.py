"""Values from clients as they are stored: text and 64-bit whole numbers, or refused.

MLflow declares texts and numbers, and Python lets a client send anything. What is stored can always
be read back, by MLflow's server too, so other values become text as a SQL column would make them
(``5`` is stored as ``'5'``), or are refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from mlflow_dynamodbstore.shared.refusals import invalid

SMALLEST, LARGEST = -(2**63), 2**63 - 1


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
        if _is_unicode(plain):
            return plain
    raise invalid(f"Invalid value {shown(value)} for {what}: it must be text.")


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
    raise invalid(f"Invalid value {shown(value)} for {what}: it must be a whole number of 64 bits.")


def shown(value: Any) -> str:
    """A value as an error message shows it: short, and always printable."""
    return ascii(value)[:100]


def _is_unicode(value: str) -> bool:
    """Whether a text can be encoded, which half of a surrogate pair cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
