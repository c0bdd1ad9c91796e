"""A prefilter of packed summaries never loses a run that matches."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.search.filters import METRIC, PARAM, TAG, Comparison, all_hold
from mlflow_dynamodbstore.tracking.records import RunContents, RunRecord
from mlflow_dynamodbstore.tracking.run_search.summary_prefilter import prefilters

NAMES = st.sampled_from(["a", "ab", "b", "t1", "x" * 40])
TEXTS = st.sampled_from(
    ["", "a", "ab", "foo", "a foo b", "é", "t1", "y" * 40, "z" * 300, "z" * 70_000]
)
NUMBERS = st.sampled_from([0.0, -0.0, 1.0, 2.5, math.nan, math.inf, -math.inf, 5e-324])
CONTENTS = st.builds(
    RunContents,
    params=st.dictionaries(NAMES, TEXTS, max_size=3),
    tags=st.dictionaries(NAMES, TEXTS, max_size=3),
    metrics=st.dictionaries(NAMES, st.tuples(NUMBERS, st.just(1), st.just(2)), max_size=3),
)
TERMS = st.one_of(
    st.builds(
        Comparison,
        st.sampled_from([PARAM, TAG]),
        NAMES,
        st.sampled_from(["=", "!=", "LIKE", "ILIKE", "IS NULL", "IS NOT NULL"]),
        st.one_of(TEXTS, st.sampled_from(["%foo%", "A%", "_", "%", "%é"])),
    ),
    st.builds(
        Comparison,
        st.just(METRIC),
        NAMES,
        st.sampled_from(["=", "!=", "<", ">=", "IS NULL", "IS NOT NULL"]),
        NUMBERS,
    ),
)


def passes(contents: RunContents, *terms: Comparison) -> bool:
    raw = large_values.decompress(large_values.pack(contents.to_summary()))
    return all(prefilter(raw) for prefilter in prefilters(terms))


@given(CONTENTS, st.lists(TERMS, max_size=3))
def test_what_matches_passes(contents: RunContents, terms: list[Comparison]) -> None:
    """Whatever a run holds and whatever is asked."""
    if all_hold(terms)(RunRecord({"PK": "EXP#0", "SK": "R#r"}, contents)):
        assert passes(contents, *terms)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (Comparison(TAG, "t1", "LIKE", "%foo%"), False),
        (Comparison(TAG, "t2", "LIKE", "%foo%"), True),
        (Comparison(PARAM, "p", "=", "x1"), True),
        (Comparison(PARAM, "p", "=", "x2"), False),
        (Comparison(METRIC, "m", ">", 0.4), True),
        (Comparison(METRIC, "m", ">", 0.6), False),
        (Comparison(METRIC, "n", "IS NOT NULL"), False),
        (Comparison(TAG, "t3", "IS NULL"), True),
        (Comparison(PARAM, "p", "LIKE", "\ud800"), False),
        (Comparison(PARAM, "p", "=", "\ud800"), False),
    ],
)
def test_what_does_not_match_is_seldom_unpacked(term: Comparison, expected: bool) -> None:
    """A value elsewhere does not count for the name that is asked for."""
    contents = RunContents(
        params={"p": "x1"}, tags={"t1": "bar", "t2": "a foo"}, metrics={"m": (0.5, 1, 2)}
    )
    assert passes(contents, term) is expected
