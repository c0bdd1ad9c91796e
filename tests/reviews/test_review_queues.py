"""Review queues: what MLflow's own tests do not look at."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain

import pytest
from mlflow.genai.review_queues import ReviewStatus

from tests.reviews.making import ask, line_up, pages
from tests.stores import everything_in, refused
from tests.traces.making import NOON, make_info, trace_id

DAY = 24 * 60 * 60
NOW = "mlflow_dynamodbstore.reviews.queue_items.get_current_time_millis"


def below(store, queue):
    return [item for item in everything_in(store.table) if queue.queue_id in str(item)]


# --- queues -------------------------------------------------------------------------------------


def test_a_queue_is_found_by_another_process_at_once(store, other, experiment):
    made = line_up(store, experiment, "tr-1", users=["Bo"], created_by="Ada")
    assert other.get_review_queue(made.queue_id) == made
    assert other.get_review_queue_by_name(experiment, name="TRIAGE") == made
    assert list(other.list_review_queues(experiment)) == [made]
    assert list(other.list_review_queues(experiment, user="bo")) == [made]
    assert list(other.list_review_queues(experiment, item_id="tr-1")) == [made]
    assert list(other.list_review_queues(experiment, item_id="tr-1", user="else")) == []
    assert len(other.list_review_queue_items(made.queue_id)) == 1


@pytest.mark.parametrize(
    ("name", "same"),
    [("a#b", "A#B"), ("%", "%"), ("É" * 250, "é" * 250), ("ΑΣ", "ας"), ("🙂" * 250, "🙂" * 250)],
)
def test_names_are_unique_whatever_their_case(store, other, experiment, name, same):
    made = line_up(store, experiment, name=name)
    with refused("RESOURCE_ALREADY_EXISTS", "names are case-insensitive"):
        line_up(other, experiment, name=same)
    assert other.get_review_queue_by_name(experiment, name=same).queue_id == made.queue_id
    store.delete_review_queue(made.queue_id)
    assert line_up(other, experiment, name=same).name == same


def test_a_queue_can_change_the_case_of_its_name_and_nothing_else_of_its_guard(store, experiment):
    made = line_up(store, experiment, name="Foo")
    assert store.update_review_queue(made.queue_id, name="foo").name == "foo"
    with refused("RESOURCE_ALREADY_EXISTS", "already exists"):
        line_up(store, experiment, name="FOO")


def test_everybody_who_wants_a_users_queue_gets_the_same(store, other, experiment):
    begin = threading.Barrier(6)

    def queue_of(n: int) -> str:
        begin.wait()
        found = (store, other)[n % 2].get_or_create_user_queue(experiment, user=" Ada ")
        return str(found.queue_id)

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(queue_of, range(6)))) == 1


def test_questions_are_locked_by_what_is_attached_while_they_are_changed(store, other, experiment):
    """An item attached after the queue was found empty still refuses the change."""
    old, new = ask(store, experiment, "old"), ask(store, experiment, "new")
    queue = line_up(store, experiment, schema_ids=[old.schema_id])
    check = store.review_queues._check_questions

    def attaching(*arguments):
        check(*arguments)
        other.add_items_to_review_queue(queue.queue_id, item_ids=["tr-1"])

    store.review_queues._check_questions = attaching
    with refused("INVALID_PARAMETER_VALUE", "locked once items are assigned"):
        store.update_review_queue(queue.queue_id, schema_ids=[new.schema_id])
    assert store.get_review_queue(queue.queue_id) == queue


def test_a_change_of_users_does_not_mind_what_is_attached_meanwhile(store, other, experiment):
    queue = line_up(store, experiment)
    found = store.review_queues.get_item

    def attaching(queue_id):
        item = found(queue_id)
        other.add_items_to_review_queue(queue_id, item_ids=["tr-1"])
        return item

    store.review_queues.get_item = attaching
    assert store.update_review_queue(queue.queue_id, users=["bo", "ada"]).users == ["ada", "bo"]


def test_a_deleted_queue_leaves_nothing_and_takes_nothing(store, other, experiment):
    queue = line_up(store, experiment, *(f"tr-{n}" for n in range(120)), users=["ada"])
    read = store.review_queues.experiment_of

    def deleting(queue_id):
        home = read(queue_id)
        other.delete_review_queue(queue_id)
        return home

    store.review_queues.experiment_of = deleting
    for call in (
        lambda: store.add_items_to_review_queue(queue.queue_id, item_ids=["tr-x"]),
        lambda: store.set_review_queue_item_status(
            queue.queue_id, item_id="tr-1", status="complete", completed_by="ada"
        ),
    ):
        with refused("RESOURCE_DOES_NOT_EXIST", f"'{queue.queue_id}' not found"):
            call()
    assert below(store, queue) == []
    other.delete_review_queue(queue.queue_id)


# --- items --------------------------------------------------------------------------------------


def test_items_are_paged_newest_first_and_by_id(store, other, experiment, monkeypatch):
    queue = line_up(store, experiment)
    times = {}
    for n, moment in enumerate((5, 7, 7, 3)):
        monkeypatch.setattr(NOW, lambda moment=moment: moment)
        some = [f"tr-{k * 7 % 60}#{n}" for k in range(60)]
        store.add_items_to_review_queue(queue.queue_id, item_ids=some)
        times.update(dict.fromkeys(some, moment))
    for n, item_id in enumerate(times):
        if n % 3:
            status = ("complete", "declined")[n % 3 - 1]
            store.set_review_queue_item_status(
                queue.queue_id, item_id=item_id, status=status, completed_by="ada"
            )
    expected = sorted(times, key=lambda item_id: (-times[item_id], item_id))

    def listed(size, status=None):
        call = partial(other.list_review_queue_items, queue.queue_id, status=status)
        return [item.item_id for page in pages(call, size) for item in page]

    for size in (1, 7, 100):
        assert listed(size) == expected
    by_status = [listed(4, status) for status in ("pending", "complete", "declined")]
    assert sorted(chain.from_iterable(by_status)) == sorted(expected)
    for found in by_status:
        assert found == [item_id for item_id in expected if item_id in found]


def test_more_than_a_transaction_holds_is_attached_in_one_call(store, other, experiment):
    queue = line_up(store, experiment, "tr-150", "tr-10")
    store.set_review_queue_item_status(
        queue.queue_id, item_id="tr-10", status="declined", completed_by="ada"
    )
    wanted = [f"tr-{n}" for n in range(250)]
    items = other.add_items_to_review_queue(queue.queue_id, item_ids=[*wanted, "tr-3"])
    assert [item.item_id for item in items] == wanted
    assert [item.item_id for item in items if item.status != "pending"] == ["tr-10"]
    assert len(store.list_review_queue_items(queue.queue_id)) == 250


def test_what_two_attach_at_once_is_attached_once(store, other, experiment):
    queue = line_up(store, experiment)
    begin = threading.Barrier(4)

    def attach(n: int) -> int:
        begin.wait()
        ids = [f"tr-{k}" for k in range(n, n + 40)]
        return len((store, other)[n % 2].add_items_to_review_queue(queue.queue_id, item_ids=ids))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(attach, range(4))) == [40] * 4
    assert len(store.list_review_queue_items(queue.queue_id)) == 43


def test_of_many_reviewers_the_first_keeps_the_credit(store, other, experiment):
    queue = line_up(store, experiment, "tr-1")
    begin = threading.Barrier(6)

    def finish(n: int) -> tuple[str, int]:
        begin.wait()
        item = (store, other)[n % 2].set_review_queue_item_status(
            queue.queue_id, item_id="tr-1", status="complete", completed_by=f"user {n}"
        )
        return item.completed_by, item.completed_time_ms

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(finish, range(6)))) == 1


def test_reopening_clears_who_did_it(store, other, experiment):
    queue = line_up(store, experiment, " tr-1 ")
    done = {"item_id": "tr-1", "completed_by": "Ada"}
    assert store.set_review_queue_item_status(queue.queue_id, status="declined", **done)
    store.set_review_queue_item_status(queue.queue_id, item_id="tr-1", status="pending")
    (item,) = other.list_review_queue_items(queue.queue_id, status="pending")
    assert (item.completed_by, item.completed_time_ms) == (None, None)
    assert item.status == ReviewStatus.PENDING
    assert list(other.list_review_queue_items(queue.queue_id, status="declined")) == []


def test_ids_of_fifty_of_any_characters_are_told_apart(store, other, experiment):
    ids = ["\U0010ffff" * 50, "\U0010ffff" * 49, "#" * 50, "%" * 50, "PART", "ITEM", "a/b"]
    queue = line_up(store, experiment, *ids)
    found = [item.item_id for item in other.list_review_queue_items(queue.queue_id)]
    assert found == sorted(ids)
    for item_id in ids:
        assert len(other.list_review_queues(experiment, item_id=item_id)) == 1
    other.remove_items_from_review_queue(queue.queue_id, item_ids=ids)
    assert len(below(store, queue)) == 2  # the queue and the guard of its name


# --- what goes with others ----------------------------------------------------------------------


def test_deleting_traces_detaches_them_in_their_experiment(store, other, experiment):
    for n in range(3):
        store.start_trace(make_info(trace_id(n), experiment, start=NOON + n))
    queues = [
        line_up(store, experiment, *(trace_id(n) for n in range(3)), name=name) for name in "ab"
    ]
    other.delete_traces(experiment, trace_ids=[trace_id(1)])
    other.delete_traces(experiment, max_timestamp_millis=NOON)
    for queue in queues:
        left = [item.item_id for item in store.list_review_queue_items(queue.queue_id)]
        assert left == [trace_id(2)]


def test_what_is_attached_expires_with_its_trace(store, other, experiment, time):
    """It also follows a changed retention of traces; an item that is no trace stays."""
    ask(store, experiment)
    for n in (1, 2):
        store.start_trace(make_info(trace_id(n), experiment))
        time.now += 5 * DAY
    queue = line_up(store, experiment, trace_id(1), trace_id(2), "tr-none")
    store.set_review_queue_item_status(
        queue.queue_id, item_id=trace_id(1), status="complete", completed_by="ada"
    )

    def left():
        return [item.item_id for item in other.list_review_queue_items(queue.queue_id)]

    assert len(left()) == 3
    time.now += 20 * DAY
    assert left() == [trace_id(2), "tr-none"]
    assert list(other.list_review_queues(experiment, item_id=trace_id(1))) == []
    assert len(other.list_review_queues(experiment, item_id=trace_id(2))) == 1
    store.trace_retention.renew([experiment], days=60)
    time.now += 35 * DAY - 1
    assert left() == [trace_id(2), "tr-none"]
    time.now += 1
    assert left() == ["tr-none"]
    other.remove_items_from_review_queue(queue.queue_id, item_ids=["tr-none"])
    assert other.update_review_queue(queue.queue_id, schema_ids=[]).schema_ids == []


def test_a_deletion_that_is_interrupted_can_be_repeated(store, experiment, monkeypatch):
    """Traces are detached first, so no queue keeps a trace that does not exist."""
    store.start_trace(make_info(trace_id(1), experiment))
    queue = line_up(store, experiment, trace_id(1))

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(store.trace_deletion, "_below", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store._delete_traces(experiment, trace_ids=[trace_id(1)])
    assert list(store.list_review_queue_items(queue.queue_id)) == []


def test_a_deleted_experiment_hides_its_queues_from_lists_and_takes_them_along(store, experiment):
    queue = line_up(store, experiment, "tr-1", schema_ids=[ask(store, experiment).schema_id])
    store.list_label_schemas(experiment)
    store.delete_experiment(experiment)
    for call in (
        lambda: store.list_review_queues(experiment),
        lambda: store.list_label_schemas(experiment),
        lambda: store.get_or_create_user_queue(experiment, user="ada"),
        lambda: store.get_review_queue_by_name(experiment, name="triage"),
    ):
        with refused("RESOURCE_DOES_NOT_EXIST", "No Experiment with id"):
            call()
    assert store.get_review_queue(queue.queue_id) == queue  # as in MLflow's own store
    store._hard_delete_experiment(experiment)
    with refused("RESOURCE_DOES_NOT_EXIST", "not found"):
        store.get_review_queue(queue.queue_id)
    assert not [item for item in everything_in(store.table) if item["PK"] == f"EXP#{experiment}"]
