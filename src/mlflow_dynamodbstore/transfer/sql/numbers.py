"""Values of metrics and made-up ids, as MLflow's database has them."""

from __future__ import annotations

import math
import sys
import uuid

GREATEST = sys.float_info.max
_OURS = uuid.UUID("5b0d2a52-7b0e-5c9b-9a4e-5a1f6f0f3d11")


def in_columns(value: float) -> tuple[float, bool]:
    """A value and whether it is NaN: MLflow writes NaN as 0, and an infinite one as the greatest.

    What MLflow shows of an infinite value is the greatest number, too.
    """
    if math.isnan(value):
        return 0.0, True
    return (math.copysign(GREATEST, value) if math.isinf(value) else value), False


def from_columns(value: float, is_nan: bool) -> float:
    """The inverse of :func:`in_columns`, but for infinite values, which no longer are."""
    return math.nan if is_nan else float(value)


def made_id(*named: str) -> str:
    """An id of a row that MLflow numbers at random; the same each time, for the same thing."""
    return uuid.uuid5(_OURS, "\0".join(named)).hex
