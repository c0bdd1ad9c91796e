"""Many writes at once, each on its own."""

from __future__ import annotations

import pytest
from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.table.contract import Delete, Outcome, Patch, Put, Query
from mlflow_dynamodbstore.table.errors import InvalidRequest, ItemTooLarge
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key
from tests.table.suite.samples import fill, item, walk

ABSENT = Attr("PK").not_exists()


def test_nothing_to_do(engine, table):
    """A bulk write of nothing does nothing."""
    assert engine.apply_many([]) == []
    assert table.write([]) == []


def test_every_kind_of_write_at_once(engine):
    """Puts, patches and deletes, conditional or not, go into one bulk write."""
    fill(engine, [item("p", "deleted"), item("p", "patched", n=1), item("p", "kept", a=1)])
    outcomes = engine.apply_many(
        [
            Put(item("p", "put", a=1)),
            Patch(Key("p", "patched"), Update(add={"n": 1})),
            Delete(Key("p", "deleted")),
            Put(item("p", "kept", a=2), ABSENT),
            Put(item("q", "fresh"), ABSENT),
            Delete(Key("p", "never")),
        ]
    )
    assert [outcome.status for outcome in outcomes] == [
        "applied",
        "applied",
        "applied",
        "refused",
        "applied",
        "applied",
    ]
    assert walk(engine, Query("p")) == [
        item("p", "kept", a=1),
        item("p", "patched", n=2),
        item("p", "put", a=1),
    ]
    assert engine.get(Key("q", "fresh")) == item("q", "fresh")


def test_outcomes_come_in_the_order_given(engine):
    """Each outcome stands where its write stood, with the image it asked for."""
    fill(engine, [item("p", f"{n:02}", n=n) for n in range(40)])
    writes = []
    for n in range(40):
        key, refused = Key("p", f"{n:02}"), Attr("n").eq(-1)
        writes.append(
            [
                Patch(key, Update(add={"n": 100}), returns="new"),
                Put(item(*key, n=0), returns="old"),
                Delete(key, returns="old"),
                Put(item(*key, n=0), refused),
            ][n % 4]
        )
    outcomes = engine.apply_many(writes)
    for n, outcome in enumerate(outcomes):
        status = "refused" if n % 4 == 3 else "applied"
        image = item("p", f"{n:02}", n=n + 100 if n % 4 == 0 else n)
        assert (outcome.status, outcome.image) == (status, image)


def test_refused_without_an_item(engine):
    """A write refused for want of an item has no image."""
    [outcome] = engine.apply_many([Delete(Key("p", "s"), Attr("PK").exists())])
    assert (outcome.status, outcome.image) == ("refused", None)


@pytest.mark.parametrize("conditional", [False, True])
def test_any_number_of_writes(engine, conditional):
    """A bulk write takes more than one request's worth."""
    condition = ABSENT if conditional else None
    writes = [Put(item(f"p{n % 3}", f"{n:03}", n=n), condition) for n in range(103)]
    assert engine.apply_many(writes) == [Outcome("applied")] * 103
    assert sum(len(walk(engine, Query(f"p{n}"))) for n in range(3)) == 103
    deletes = [Delete(Key(f"p{n % 3}", f"{n:03}")) for n in range(103)]
    assert engine.apply_many(deletes) == [Outcome("applied")] * 103
    assert walk(engine, Query("p0")) == []


def test_a_repeated_key_is_refused_whole(engine):
    """A bulk write that names a key twice is an invalid request, and nothing is written."""
    for twice in (
        [Put(item("p", "s", n=1)), Put(item("p", "s", n=2))],
        [Put(item("p", "s")), Delete(Key("p", "s"))],
        [Patch(Key("p", "s"), Update(add={"n": 1})), Delete(Key("p", "s"))],
    ):
        with pytest.raises(InvalidRequest):
            engine.apply_many([Put(item("p", "other")), *twice])
    assert walk(engine, Query("p")) == []


def test_one_bad_write_does_not_harm_the_others(engine):
    """A write that can never succeed fails alone; those beside it are applied."""
    writes = [Put(item("p", f"{n}")) for n in range(6)]
    writes[2] = Put(item("p", "2", body="x" * 500_000))
    outcomes = engine.apply_many(writes)
    assert [o.status for o in outcomes] == ["failed" if n == 2 else "applied" for n in range(6)]
    assert isinstance(outcomes[2].error, ItemTooLarge)
    assert len(walk(engine, Query("p"))) == 5


def test_an_unfit_value_fails_alone(engine):
    """A value of an unknown type fails its own write only."""
    outcomes = engine.apply_many(
        [Put(item("p", "1")), Put(item("p", "2", bad=object())), Put(item("p", "3"))]
    )
    assert [o.status for o in outcomes] == ["applied", "failed", "applied"]
    assert isinstance(outcomes[1].error, InvalidRequest)


def test_large_batches_of_large_items(engine):
    """Bulk writes whose items together pass a request's size are split."""
    body = "x" * 390_000
    outcomes = engine.apply_many([Put(item("p", f"{n:02}", body=body)) for n in range(50)])
    assert outcomes == [Outcome("applied")] * 50
    assert len(walk(engine, Query("p", keys_only=True))) == 50


def test_a_table_writes_in_two_steps(table):
    """``then`` is begun only when everything before it is durable, else not at all."""
    first = [Put(item("p", f"{n:03}")) for n in range(60)]
    outcomes = table.write(first, then=[Put(item("p", "head"))])
    assert outcomes == [Outcome("applied")] * 61
    again = [Put(item("p", "fresh")), Put(item("p", "000", a=1), ABSENT)]
    outcomes = table.write(again, then=[Put(item("p", "second"))])
    assert [o.status for o in outcomes] == ["applied", "refused"]
    assert outcomes[1].image == item("p", "000")
    assert table.get(Key("p", "second")) is None


def test_the_second_step_sees_the_first(table):
    """``then`` may name a key again, and is judged by what the first step left there."""
    seen = Patch(Key("p", "1"), Update(add={"n": 1}), Attr("n").eq(1), "new")
    outcomes = table.write([Put(item("p", "1", n=1), ABSENT)], then=[seen])
    assert outcomes[1] == Outcome("applied", item("p", "1", n=2))
    outcomes = table.write([Put(item("p", "2"))], then=[seen])
    assert outcomes == [Outcome("applied"), Outcome("refused", item("p", "1", n=2))]
    assert table.get(Key("p", "2")) == item("p", "2")


def test_the_second_step_may_be_all_there_is(table):
    """Nothing has to come first."""
    assert table.write([], then=[Put(item("p", "1"))]) == [Outcome("applied")]
    assert table.get(Key("p", "1")) == item("p", "1")


def test_a_table_writes_nothing_of_a_call_with_an_item_that_is_too_large(table):
    """It could never succeed, so its neighbours are not written either."""
    good, bad = Put(item("p", "1")), Put(item("p", "2", body="x" * 500_000))
    for writes, then in (([good, bad], [Put(item("p", "3"))]), ([good], [bad])):
        with pytest.raises(ItemTooLarge):
            table.write(writes, then=then)
    assert table.get(Key("p", "1")) is None
    assert table.get(Key("p", "3")) is None
