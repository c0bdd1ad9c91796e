"""Keys of reviews sort as MLflow lists them, and each range holds only its own items."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from mlflow_dynamodbstore.keys import reviews as review_keys
from tests.keys.strategies import NASTY, any_texts

created = st.integers(-(2**62), 2**62)
item_ids = st.text(NASTY, min_size=1, max_size=50)
rows = st.tuples(created | st.sampled_from([1, 2]), item_ids)


def in_mlflows_order(row: tuple[int, str]) -> tuple[int, str]:
    moment, item_id = row
    return -moment, item_id


@given(any_texts, st.sampled_from(["pending", "complete"]), rows, rows)
def test_items_sort_newest_first_then_by_id(queue_id, status, one, other):
    first, second = (
        review_keys.lsi1_review_item(queue_id, status, item_id, moment)
        for moment, item_id in (one, other)
    )
    before = in_mlflows_order(one) < in_mlflows_order(other)
    assert (first.encode() < second.encode()) == before
    assert (second in review_keys.review_items_of_status(queue_id, status, one)) == (
        in_mlflows_order(one) <= in_mlflows_order(other)
    )


@given(any_texts, any_texts, item_ids, created)
def test_a_list_holds_one_status_of_one_queue(queue_id, other, item_id, moment):
    assume(queue_id != other)
    made = review_keys.lsi1_review_item(queue_id, "complete", item_id, moment)
    assert made in review_keys.review_items_of_status(queue_id, "complete")
    assert made not in review_keys.review_items_of_status(queue_id, "pending")
    assert made not in review_keys.review_items_of_status(other, "complete")
    assert made not in review_keys.review_queues_by_age()
    assert made not in review_keys.label_schemas_by_age()


@given(any_texts, any_texts, item_ids, item_ids)
def test_items_lie_below_their_queue_and_are_found_by_their_id(queue_id, other, item_id, another):
    assume(queue_id != other)
    assume(item_id != another)
    sk = review_keys.review_item(queue_id, item_id)
    assert sk in review_keys.review_items(queue_id)
    assert sk not in review_keys.review_items(other)
    assert sk in review_keys.REVIEW_QUEUES
    assert review_keys.review_item_id_of(sk) == item_id
    place = review_keys.lsi4_review_item(item_id, queue_id)
    assert place in review_keys.review_queues_with(item_id)
    assert place not in review_keys.review_queues_with(another)


@given(any_texts, any_texts)
def test_names_of_queues_meet_when_they_differ_by_case_only(name, other):
    same = name.lower() == other.lower()
    assert (review_keys.review_queue_name(name) == review_keys.review_queue_name(other)) == same
    assert (review_keys.label_schema_name(name) == review_keys.label_schema_name(other)) == (
        name == other
    )
    assert review_keys.review_queue_name(name.upper().lower()) not in review_keys.REVIEW_QUEUES
