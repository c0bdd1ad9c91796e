"""What tests share that ask MLflow's own store and ours the same, and compare the answers."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st


class Refused(NamedTuple):
    """An error, as far as both stores must agree on it."""

    code: str
    message: str


def term(
    left: st.SearchStrategy[str], comparators: list[str], values: list[str]
) -> st.SearchStrategy[str]:
    """A term of a filter."""
    return st.builds(
        lambda name, how, value: f"{name} {how} '{value}'",
        left,
        st.sampled_from(comparators),
        st.sampled_from(values),
    )


def joined(*terms: st.SearchStrategy[str]) -> st.SearchStrategy[str | None]:
    """A filter of a few terms, or none."""
    several = st.lists(st.one_of(terms), min_size=1, max_size=3, unique=True)
    return st.none() | several.map(" AND ".join)
