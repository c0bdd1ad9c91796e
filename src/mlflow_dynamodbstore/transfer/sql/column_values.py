"""Metric values and generated ids as MLflow's database stores them."""

from __future__ import annotations

import math
import sys
import uuid

GREATEST = sys.float_info.max
_OURS = uuid.UUID("5b0d2a52-7b0e-5c9b-9a4e-5a1f6f0f3d11")


def to_columns(value: float) -> tuple[float, bool]:
    """The columns of a metric value, and whether it is NaN.

    MLflow stores NaN as 0, and an infinite value as the greatest number, which it also shows.
    """
    if math.isnan(value):
        return 0.0, True
    return (math.copysign(GREATEST, value) if math.isinf(value) else value), False


def from_columns(value: float, is_nan: bool) -> float:
    """The inverse of :func:`to_columns`, except that infinite values stay the greatest number."""
    return math.nan if is_nan else float(value)


def stable_id(*named: str) -> str:
    """An id for a row that MLflow numbers at random; always the same for the same names."""
    return uuid.uuid5(_OURS, "\0".join(named)).hex
