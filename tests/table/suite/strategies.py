"""Everything an item can hold, for hypothesis."""

from __future__ import annotations

import struct

from hypothesis import strategies as st

WORST_DOUBLES = [
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    2.2250738585072014e-308,
    1.7976931348623157e308,
    float("inf"),
    float("-inf"),
    float("nan"),
    -float("nan"),
    1e300,
    0.1,
    1.0,
]


def double_of(bits: int) -> float:
    """The double with these 64 bits."""
    value: float = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
    return value


def order_of(value: float) -> int:
    """Where a double stands in the total order that storage compares by."""
    bits = int.from_bytes(struct.pack(">d", value), "big")
    return bits ^ (0xFFFF_FFFF_FFFF_FFFF if bits >> 63 else 1 << 63)


doubles = st.one_of(
    st.sampled_from(WORST_DOUBLES),
    st.integers(0, 2**64 - 1).map(double_of),
    st.integers(0, 2**51 - 1).map(lambda payload: double_of(0x7FF8 << 48 | payload)),
    st.floats(),
)

# Storage is UTF-8, which has no lone surrogates.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
whole_numbers = st.integers(-(10**38) + 1, 10**38 - 1)
scalars = st.one_of(texts, whole_numbers, doubles, st.binary(max_size=40), st.booleans(), st.none())
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=12,
)
