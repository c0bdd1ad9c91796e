"""The memory of permission checks: how old, how large, and what a change does to it."""

from __future__ import annotations

import pytest

from mlflow_dynamodbstore.auth.cache import Recent, fresh_answers
from tests.table.fakes import FakeTime


@pytest.fixture
def time():
    return FakeTime()


@pytest.fixture
def recent(time):
    return Recent(seconds=2, size=3, clock=time)


def test_an_answer_is_read_once_until_it_is_old(recent, time):
    answers = iter("abc")
    assert recent.answer(("q",), lambda: next(answers)) == "a"
    time.sleep(1.9)
    assert recent.answer(("q",), lambda: next(answers)) == "a"
    time.sleep(0.1)
    assert recent.answer(("q",), lambda: next(answers)) == "b"


def test_forgetting_empties_it_at_once(recent):
    recent.answer(("q",), lambda: "old")
    recent.forget()
    assert recent.answer(("q",), lambda: "new") == "new"


def test_what_was_read_before_a_change_is_not_remembered_after_it(recent):
    def read_while_somebody_revokes():
        recent.forget()
        return "read before the change"

    recent.answer(("q",), read_while_somebody_revokes)
    assert recent.answer(("q",), lambda: "new") == "new"


def test_it_holds_no_more_than_its_size(recent):
    for number in range(10):
        recent.answer((number,), lambda: "x")
    assert len(recent) == 3


def test_answers_that_are_not_to_be_kept_are_read_again(recent):
    recent.answer(("q",), lambda: None, keep=lambda answer: answer is not None)
    assert recent.answer(("q",), lambda: "new") == "new"


def test_fresh_answers_are_read_and_remembered(recent):
    recent.answer(("q",), lambda: "old")
    with fresh_answers():
        assert recent.answer(("q",), lambda: "new") == "new"
    assert recent.answer(("q",), lambda: "newer") == "new"
