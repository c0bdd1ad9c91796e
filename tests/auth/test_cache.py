"""The cache of permission checks: how old, how large, and what a change does to it."""

from __future__ import annotations

import pytest

from mlflow_dynamodbstore.auth.cache import AnswerCache, fresh_answers
from tests.table.fakes import FakeTime


@pytest.fixture
def time():
    return FakeTime()


@pytest.fixture
def cache(time):
    return AnswerCache(seconds=2, size=3, clock=time)


def test_an_answer_is_read_once_until_it_is_old(cache, time):
    answers = iter("abc")
    assert cache.answer(("q",), lambda: next(answers)) == "a"
    time.sleep(1.9)
    assert cache.answer(("q",), lambda: next(answers)) == "a"
    time.sleep(0.1)
    assert cache.answer(("q",), lambda: next(answers)) == "b"


def test_forgetting_empties_it_at_once(cache):
    cache.answer(("q",), lambda: "old")
    cache.clear()
    assert cache.answer(("q",), lambda: "new") == "new"


def test_what_was_read_before_a_change_is_not_remembered_after_it(cache):
    def read_while_somebody_revokes():
        cache.clear()
        return "read before the change"

    cache.answer(("q",), read_while_somebody_revokes)
    assert cache.answer(("q",), lambda: "new") == "new"


def test_it_holds_no_more_than_its_size(cache):
    for number in range(10):
        cache.answer((number,), lambda: "x")
    assert len(cache) == 3


def test_that_something_does_not_exist_is_read_again(cache):
    cache.answer(("q",), lambda: None)
    assert cache.answer(("q",), lambda: "new") == "new"


def test_fresh_answers_are_read_and_remembered(cache):
    cache.answer(("q",), lambda: "old")
    with fresh_answers():
        assert cache.answer(("q",), lambda: "new") == "new"
    assert cache.answer(("q",), lambda: "newer") == "new"
