"""DynamoDB's on-demand prices in us-east-1, table class Standard, in dollars."""

from __future__ import annotations

READ_PRICE = 0.125
"""For a million read units."""
WRITE_PRICE = 0.625
"""For a million write units."""
PRICE_PER_GB = 0.25
"""For a GB and month of storage, beyond the free 25 GB."""
MILLION = 1_000_000


def dollars(read_units: float, write_units: float) -> float:
    """The price of some units."""
    return (read_units * READ_PRICE + write_units * WRITE_PRICE) / MILLION


def in_dollars(amount: float) -> str:
    """Dollars as people read them."""
    if not amount:
        return "$0"
    return "< $0.01" if amount < 0.01 else f"${amount:,.2f}"
