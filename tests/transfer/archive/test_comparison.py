"""Two sides are the same if and only if they hold the same items, in whatever order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mlflow_dynamodbstore.transfer.archive.comparison import MOST_DIFFERENCES, compare
from mlflow_dynamodbstore.transfer.archive.digests import DigestSums

KEYS = st.tuples(st.sampled_from(["EXP#1", "EXP#2", "RM#iris"]), st.text("RM#ab", min_size=1))
TABLES = st.dictionaries(KEYS, st.integers(0, 3) | st.floats(0, 1), max_size=30)


class Given:
    """A source of items that a test has made up, in pages of three."""

    identity = "given"

    def __init__(self, table, rng):
        self.items = [{"PK": pk, "SK": sk, "value": value} for (pk, sk), value in table.items()]
        rng.shuffle(self.items)

    def pages(self, place=None):
        for start in range(0, len(self.items), 3):
            yield self.items[start : start + 3], start


@given(TABLES, st.randoms())
def test_the_order_does_not_matter(table, rng):
    found = compare(Given(table, rng), Given(table, rng), 0.0)
    assert found.is_same
    assert found.first.digest == found.second.digest
    assert found.first.total == len(table)


@given(TABLES, TABLES, st.randoms())
def test_every_difference_is_found_and_named(first, second, rng):
    both = {**first, **second} if rng.random() < 0.5 else second
    found = compare(Given(first, rng), Given(both, rng), 0.0)
    differing = [k for k in {*first, *both} if repr(first.get(k)) != repr(both.get(k))]
    assert found.is_same == (not differing)
    named = {tuple(d.key): d.where for d in found.differences}
    assert set(named) <= set(differing)
    assert len(named) == min(len(differing), MOST_DIFFERENCES)
    for key, where in named.items():
        assert where == (
            "second only" if key not in first else "first only" if key not in both else "both"
        )
    families = {(pk.split("#")[0], sk.split("#")[0]) for pk, sk in differing}
    assert {tuple(name.split("/")) for name, *_, same in found.families if not same} == families


def test_the_digest_is_the_one_that_the_page_describes():
    sums = DigestSums()
    assert sums.digest == "0" * 64
    line = sums.add({"PK": "CONFIG", "SK": "CFG#a", "value": 0.5})
    assert line == b'{"Item":{"PK":{"S":"CONFIG"},"SK":{"S":"CFG#a"},"value":{"F":"0.5"}}}'
    assert sums.items == {"CONFIG/CFG": 1}
