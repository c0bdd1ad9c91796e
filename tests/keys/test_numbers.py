"""Numbers, doubles and times in keys keep their order and come back as they were."""

from __future__ import annotations

import math
import struct
from datetime import datetime, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mlflow_dynamodbstore.keys import encoding
from mlflow_dynamodbstore.keys.encoding import (
    float_of,
    float_of_inverted,
    int_of,
    inverted_float,
    ordered_float,
    ordered_int,
    ordered_time,
    ordered_version,
    time_of,
    version_of,
)
from mlflow_dynamodbstore.table.binary import double_of, ordered_bits

int64 = st.integers(-(2**63), 2**63 - 1)
milliseconds = int64 | st.integers(-(10**14), 3 * 10**14)
FIRST = -62_135_596_800_000  # 0001-01-01
LAST = 253_402_300_799_999  # 9999-12-31T23:59:59.999


def bits_of(number: float) -> bytes:
    return struct.pack(">d", number)


@given(int64, int64)
@example(-1, 0)
@example(-(2**63), 2**63 - 1)
def test_whole_numbers_sort_and_return(one, other):
    assert int_of(ordered_int(one)) == one
    assert len(ordered_int(one)) == 16
    assert (ordered_int(one) < ordered_int(other)) == (one < other)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_a_number_beyond_64_bits_is_refused(number):
    with pytest.raises(ValueError):
        ordered_int(number)


@pytest.mark.parametrize("text", ["", "0", "8000000000000000 ", "800000000000000G", "A" * 16])
def test_what_is_no_encoded_number_is_refused(text):
    with pytest.raises(ValueError):
        int_of(text)
    with pytest.raises(ValueError):
        float_of(text)


@given(st.integers(0, 10**10 - 1), st.integers(0, 10**10 - 1))
def test_versions_sort_and_return(one, other):
    assert version_of(ordered_version(one)) == one
    assert len(ordered_version(one)) == 10
    assert (ordered_version(one) < ordered_version(other)) == (one < other)


@pytest.mark.parametrize("number", [-1, 10**10])
def test_a_number_that_is_no_version_is_refused(number):
    with pytest.raises(ValueError):
        ordered_version(number)


@pytest.mark.parametrize("text", ["1", "00000000001", "-000000001", "٠٠٠٠٠٠٠٠٠١", " 000000001"])
def test_what_is_no_encoded_version_is_refused(text):
    with pytest.raises(ValueError):
        version_of(text)


@given(st.integers(0, 2**64 - 1))
@example(0x7FF8000000000001)
@example(0xFFF0000000000001)
@example(0x7FF0000000000001)
def test_every_double_returns_bit_for_bit(raw):
    number = struct.unpack(">d", raw.to_bytes(8, "big"))[0]
    assert bits_of(double_of(ordered_bits(number))) == bits_of(number)


def test_the_bits_of_doubles_are_in_order():
    ordered = [-math.inf, -1e300, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, 1e300, math.inf, math.nan]
    assert sorted(ordered, key=ordered_bits) == ordered


@given(st.floats(), st.floats())
@example(-0.0, 0.0)
@example(5e-324, 0.0)
@example(-5e-324, 0.0)
@example(math.inf, 1.7976931348623157e308)
@example(math.nan, math.inf)
@example(math.nan, -math.inf)
def test_floats_sort_both_ways_with_nan_last(one, other):
    def rank(number: float, sign: int) -> tuple[bool, float]:
        return (math.isnan(number), 0.0 if math.isnan(number) else sign * number)

    assert (ordered_float(one) < ordered_float(other)) == (rank(one, 1) < rank(other, 1))
    assert (inverted_float(one) < inverted_float(other)) == (rank(one, -1) < rank(other, -1))


@given(st.floats())
@example(-0.0)
@example(5e-324)
def test_floats_return_with_one_zero_and_one_nan(number):
    for back in (
        float_of(ordered_float(number)),
        float_of_inverted(inverted_float(number)),
    ):
        if math.isnan(number):
            assert math.isnan(back)
        else:
            assert bits_of(back) == bits_of(number + 0.0)


@given(milliseconds, milliseconds)
@example(FIRST, FIRST - 1)
@example(LAST, LAST + 1)
@example(-1, 0)
@example(-(2**63), 2**63 - 1)
def test_times_sort_and_return(one, other):
    assert time_of(ordered_time(one)) == one
    assert (ordered_time(one) < ordered_time(other)) == (one < other)
    # Followed by an id, as in the indexes.
    assert (ordered_time(one) + "#" < ordered_time(other) + "#") == (one < other)


@given(milliseconds)
def test_an_unknown_time_sorts_first_and_returns(other):
    assert time_of(ordered_time(None)) is None
    assert ordered_time(None) < ordered_time(other)


@given(st.integers(FIRST, LAST))
@example(FIRST)
@example(LAST)
def test_a_time_within_the_calendar_is_iso_8601_in_utc(ms):
    moment = datetime.fromisoformat(ordered_time(ms).removesuffix("Z")).replace(tzinfo=timezone.utc)
    assert (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)).total_seconds() == pytest.approx(
        ms / 1000, abs=1e-3
    )
    assert len(ordered_time(ms)) == 24


def test_how_times_look():
    assert ordered_time(1_794_771_329_123) == "2026-11-15T19:35:29.123Z"
    assert ordered_time(0) == "1970-01-01T00:00:00.000Z"
    assert ordered_time(FIRST) == "0001-01-01T00:00:00.000Z"
    assert ordered_time(FIRST - 1).startswith("-")
    assert ordered_time(LAST + 1).startswith("~")
    assert ordered_time(None) == encoding.NO_TIME == "!"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "!!",
        "2026-11-15",
        "2026-02-30T00:00:00.000Z",
        "2026-11-15T19:35:29Z",
        "2026-11-15T19:35:29.123+00:00",
        "-8000000000000000",  # 1970 has a calendar form
        "~",
    ],
)
def test_what_is_no_encoded_time_is_refused(text):
    with pytest.raises(ValueError):
        time_of(text)
