"""Numbers for people: three digits that count, and no powers of ten."""

from __future__ import annotations

import math


def shown(value: float) -> str:
    """``33400`` as 33,400, ``0.0123`` as 0.0123."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.3g}")  # 99.97 is 100
    digits = max(0, 2 - math.floor(math.log10(abs(rounded))))
    return f"{round(value, digits):,.{digits}f}"
