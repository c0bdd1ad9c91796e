"""With ``index_lag`` global indexes show the past; everything else shows the present."""

from __future__ import annotations

import pytest
from boto3.dynamodb.conditions import Key as KeyCondition
from hypothesis import given
from hypothesis import strategies as st

from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, Query
from mlflow_dynamodbstore.table.embedded import EmbeddedEngine
from mlflow_dynamodbstore.table.schema import Index, Schema
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key
from tests.table.embedded.opened import KEY, item
from tests.table.fakes import FakeTime

LAG = 5.0


@pytest.fixture
def time():
    return FakeTime()


@pytest.fixture
def lagging(opened, time):
    return opened(index_lag=LAG, clock=time)


def shown(engine, partition="g", **options):
    page = engine.query(Query(partition, index="GSI1", **options))
    return [(i["gsi1sk"], i["SK"]) for i in page.items]


def entry(sk="s", place="1", **attributes):
    return item(sk=sk, gsi1pk="g", gsi1sk=place, **attributes)


def test_a_new_item_appears_late(lagging, time):
    """A put shows in a global index once the lag is over, not before."""
    lagging.apply(Put(entry()))
    time.now += LAG - 0.1
    assert shown(lagging) == []
    time.now += 0.1
    assert shown(lagging) == [("1", "s")]


def test_the_table_and_local_indexes_show_it_at_once(lagging):
    """Only global indexes lag."""
    lagging.apply(Put(entry(lsi1sk="x")))
    assert lagging.get(KEY) is not None
    assert len(lagging.query(Query("p")).items) == 1
    assert len(lagging.query(Query("p", index="LSI1")).items) == 1


def test_a_removed_item_stays_late(lagging, time):
    """A deleted item is shown until the lag is over."""
    lagging.apply(Put(entry()))
    time.now += LAG
    lagging.apply(Delete(KEY))
    assert shown(lagging) == [("1", "s")]
    time.now += LAG
    assert shown(lagging) == []


def test_a_moved_item_stands_in_its_old_place(lagging, time):
    """A change of index keys is shown when its time has come, each change in its turn."""
    lagging.apply(Put(entry(place="1")))
    time.now += 2
    lagging.apply(Patch(KEY, Update(set={"gsi1sk": "2"})))
    time.now += 2
    lagging.transact([Put(entry(place="3"))], "token")
    time.now += 1
    assert shown(lagging) == [("1", "s")]
    time.now += 2
    assert shown(lagging) == [("2", "s")]
    time.now += 2
    assert shown(lagging) == [("3", "s")]


def test_bulk_writes_and_sweeps_lag_too(lagging, time):
    """No way of writing shows earlier than another."""
    writes = [Put(entry(str(n), str(n), ttl=int(time.now) + 7)) for n in range(3)]
    lagging.apply_many(writes)
    assert shown(lagging) == []
    time.now += LAG
    assert len(shown(lagging)) == 3
    time.now += LAG
    assert lagging.sweep() == 3
    assert len(shown(lagging)) == 3
    time.now += LAG
    assert shown(lagging) == []


def test_pages_and_ranges_hold_across_the_lag(lagging, time):
    """Present and past items are merged in order, in ranges, in both directions, over pages."""
    lagging.apply_many([Put(entry(f"s{n}", f"{n:02}")) for n in range(0, 20, 2)])
    time.now += LAG
    lagging.apply_many([Delete(Key("p", f"s{n}")) for n in range(0, 20, 4)])
    lagging.apply_many([Put(entry(f"s{n}", f"{n:02}")) for n in range(1, 20, 2)])
    expected = [(f"{n:02}", f"s{n}") for n in range(0, 20, 2)]
    assert shown(lagging) == expected
    assert shown(lagging, descending=True) == expected[::-1]
    inside = KeyCondition("gsi1sk").between("04", "10")
    assert shown(lagging, where=inside) == expected[2:6]
    for descending in (False, True):
        seen, cursor = [], None
        while True:
            page = lagging.query(
                Query("g", index="GSI1", limit=3, cursor=cursor, descending=descending)
            )
            seen += [i["SK"] for i in page.items]
            cursor = page.cursor
            if cursor is None:
                break
        assert seen == [sk for _, sk in (expected[::-1] if descending else expected)]


def test_other_handles_with_the_option_see_the_same(opened, time):
    """Two engines on one file agree about what an index shows."""
    one, other = opened(index_lag=LAG, clock=time), opened(index_lag=LAG, clock=time)
    one.apply(Put(entry()))
    assert shown(other) == []
    time.now += LAG
    assert shown(other) == [("1", "s")]


def test_notes_of_the_past_do_not_pile_up(lagging, time):
    """A sweep forgets what the lag no longer needs."""
    lagging.apply_many([Put(entry(str(n))) for n in range(50)])
    time.now += LAG
    lagging.sweep()
    count = "SELECT count(*) FROM pending"
    assert lagging._file.read(lambda c: c.execute(count).fetchone()) == (0,)


SMALL = Schema("small", indexes=(Index("GSI1", pk="gsi1pk", sk="gsi1sk", projection="ALL"),))
steps = st.lists(
    st.tuples(
        st.integers(0, 3),  # seconds before the step
        st.sampled_from(["a", "b", "c"]),  # which item
        st.sampled_from([None, "1", "2", "3"]),  # its place in the index; None removes it
        st.booleans(),  # whether an item that is put is in the index at all
    ),
    max_size=12,
)


@given(steps=steps)
def test_an_index_shows_the_table_as_it_was(tmp_path_factory, steps):
    """At every moment an index shows exactly the writes that are as old as the lag."""
    time = FakeTime()
    path = tmp_path_factory.mktemp("lag") / "table.ddb"
    engine = EmbeddedEngine(path, SMALL, synchronous="NORMAL", index_lag=LAG, clock=time)
    engine.prepare(create=True)
    past: list[tuple[float, str, Item | None]] = []
    for number, (pause, name, place, indexed) in enumerate(steps):
        time.now += pause
        if place is None:
            engine.apply(Delete(Key("p", name)))
            past.append((time.now, name, None))
        else:
            keys = {"gsi1pk": "g", "gsi1sk": place} if indexed else {}
            new = item(sk=name, n=number, **keys)
            engine.apply(Put(new))
            past.append((time.now, name, new))
        state: dict[str, Item] = {}
        for moment, changed, image in past:
            if moment + LAG <= time.now:
                state.pop(changed, None)
                if image is not None and "gsi1pk" in image:
                    state[changed] = image
        expected = sorted(state.values(), key=lambda i: (i["gsi1sk"], i["SK"]))
        assert engine.query(Query("g", index="GSI1")).items == expected
    engine.close()
