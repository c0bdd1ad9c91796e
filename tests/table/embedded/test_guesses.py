"""A write judged by what its process remembers ends as one judged by what stands in the file."""

from __future__ import annotations

from contextlib import closing
from unittest import mock

import pytest
from boto3.dynamodb.conditions import Attr
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_dynamodbstore.table.contract import Delete, Put
from mlflow_dynamodbstore.table.embedded import row_changes
from tests.table.embedded.opened import KEY, item, open_file

ABSENT = Attr("PK").not_exists()


def rising(n):
    """A put that succeeds where nothing stands, or something with a smaller number."""
    return Put(item(n=n), ABSENT | Attr("n").lt(n), "old")


@pytest.fixture
def other(embedded, opened):
    """A second engine on the same file, which knows nothing of what the first remembers."""
    return opened()


def only(outcomes):
    (outcome,) = outcomes
    return outcome.status, outcome.image


def test_what_was_remembered_comes_back_as_the_old_item(embedded):
    assert only(embedded.apply_many([rising(1)])) == ("applied", None)
    assert only(embedded.apply_many([rising(2)])) == ("applied", item(n=1))
    assert only(embedded.apply_many([rising(3)])) == ("applied", item(n=2))
    assert embedded.get(KEY) == item(n=3)


def test_changing_an_item_that_was_put_changes_nothing_remembered(embedded):
    mine = item(n=1)
    embedded.apply_many([Put(mine, ABSENT, "old")])
    embedded.apply_many([rising(2)])
    mine["n"] = 100
    _, old = only(embedded.apply_many([rising(3)]))
    old["n"] = 100
    assert only(embedded.apply_many([rising(4)])) == ("applied", item(n=3))


def test_nobody_is_refused_on_a_guess(embedded, other):
    """Another process made room meanwhile: what is remembered would refuse, the file does not."""
    embedded.apply_many([rising(5)])
    embedded.apply_many([rising(6)])
    other.apply(Put(item(n=1)))
    assert only(embedded.apply_many([rising(2)])) == ("applied", item(n=1))


def test_what_another_process_wrote_is_not_overwritten(embedded, other):
    embedded.apply_many([rising(1)])
    other.apply(Put(item(n=9)))
    assert only(embedded.apply_many([rising(2)])) == ("refused", item(n=9))
    assert embedded.get(KEY) == item(n=9)


def test_what_another_process_removed_comes_anew(embedded, other):
    embedded.apply_many([rising(1)])
    other.apply(Delete(KEY))
    assert only(embedded.apply_many([rising(2)])) == ("applied", None)
    assert embedded.get(KEY) == item(n=2)


def test_what_was_given_an_expiry_is_seen_to_have_one(embedded, other):
    """Only the expiry changed, which is no part of what is compared."""
    embedded.apply_many([rising(1)])
    other.redate("p", [("s", "s")], [], 1)
    embedded.expiry_clock = lambda: 100.0
    assert only(embedded.apply_many([rising(2)])) == ("applied", None)
    assert embedded.get(KEY) == item(n=2)


def test_a_wrong_guess_undoes_nothing_of_the_batch(embedded, other):
    """All of the batch is written, each by its own condition, though it had to begin again."""
    embedded.apply_many([rising(1)])
    other.apply(Put(item(n=9)))
    writes = [
        Put(at("fresh", n=1), ABSENT),
        rising(2),
        Put(at("blind", n=1)),
        Delete(key_at("nothing")),
    ]
    assert [o.status for o in embedded.apply_many(writes)] == [
        "applied",
        "refused",
        "applied",
        "applied",
    ]
    assert embedded.get(key_at("fresh")) == at("fresh", n=1)
    assert embedded.get(key_at("blind")) == at("blind", n=1)


@pytest.mark.parametrize("extra", [{}, {"ttl": 4_000_000_000}, {"gsi1pk": "g", "gsi1sk": "s"}])
def test_what_stands_is_found_by_a_write_that_wants_absence(embedded, other, extra):
    other.apply(Put(item(n=1, **extra)))
    outcome = only(embedded.apply_many([Put(item(n=2, **extra), ABSENT)]))
    assert outcome == ("refused", item(n=1, **extra))


def test_an_expired_item_counts_as_absent(embedded, other):
    other.apply(Put(item(n=1, ttl=1)))
    embedded.expiry_clock = lambda: 100.0
    assert only(embedded.apply_many([Put(item(n=2), ABSENT)])) == ("applied", None)
    assert embedded.get(KEY) == item(n=2)


def test_after_a_wrong_guess_nothing_is_guessed_for_a_while(embedded, other, monkeypatch):
    """Two processes that write one item in turns do not undo every one of their transactions."""
    undone = mock.Mock(side_effect=embedded._file.on_rollback)
    monkeypatch.setattr(embedded._file, "on_rollback", undone)
    for n in range(1, 100, 2):
        assert only(embedded.apply_many([rising(n)]))[0] == "applied"
        assert only(other.apply_many([rising(n + 1)]))[0] == "applied"
    assert undone.call_count == 1


def test_little_is_remembered(embedded, monkeypatch):
    """Neither many items nor large ones."""
    monkeypatch.setattr(row_changes, "MOST_REMEMBERED", 2)
    known = embedded._batch_writer._recent.known
    for n in range(5):
        embedded.apply_many([Put(at(f"s{n}", n=n), ABSENT | Attr("n").lt(n))])
        assert len(known) <= 2
    embedded.apply_many([Put(at("large", text="x" * 2_000), ABSENT | Attr("n").lt(1))])
    assert key_at("large") not in known


CHANGES = st.lists(
    st.tuples(
        st.booleans(),  # who
        st.sampled_from(["rise", "new", "put", "delete", "date"]),
        st.sampled_from(["a", "b"]),
        st.integers(0, 5),
    ),
    max_size=25,
)


@given(CHANGES)
@settings(deadline=None)
def test_two_processes_agree_with_one_that_remembers_nothing(tmp_path_factory, changes):
    """Whoever does what, outcomes and items are those of an engine opened for each write."""
    folder = tmp_path_factory.mktemp("guesses")

    with (
        closing(open_file(folder / "kept")) as one,
        closing(open_file(folder / "kept")) as two,
        mock.patch.object(row_changes, "CAUTIOUS_BATCHES", 0),
    ):
        for first, kind, sk, n in changes:
            ours = done(one if first else two, kind, sk, n)
            with closing(open_file(folder / "anew")) as forgetful:
                assert ours == done(forgetful, kind, sk, n)
                for key in map(key_at, "ab"):
                    assert one.get(key) == forgetful.get(key)


def done(engine, kind, sk, n):
    engine.expiry_clock = lambda: 2.0
    if kind == "date":
        engine.redate("p", [(sk, sk)], [], n or None)
        return None
    write = {
        "rise": Put(at(sk, n=n), ABSENT | Attr("n").lt(n), "old"),
        "new": Put(at(sk, n=n), ABSENT),
        "put": Put(at(sk, n=n)),
        "delete": Delete(key_at(sk)),
    }[kind]
    return only(engine.apply_many([write]))


def at(sk, **attributes):
    return item(sk=sk, **attributes)


def key_at(sk):
    return KEY._replace(sk=sk)
