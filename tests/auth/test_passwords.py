"""Passwords: what an answer and its cost reveal, what is remembered, and the limit on failures."""

from __future__ import annotations

import pytest
from werkzeug.security import check_password_hash, generate_password_hash

from mlflow_dynamodbstore.auth import passwords as module
from mlflow_dynamodbstore.auth.passwords import MOST_FAILURES, WINDOW_SECONDS, Passwords
from tests.table.fakes import FakeTime

CHEAP = "pbkdf2:sha256:1"


@pytest.fixture
def time():
    return FakeTime()


@pytest.fixture
def hashed(monkeypatch):
    """The hashes that passwords were compared with; each costs next to nothing here."""
    compared = []

    def counting(stored, password):
        compared.append(stored)
        return check_password_hash(stored, password)

    monkeypatch.setattr(module, "check_password_hash", counting)
    monkeypatch.setattr(
        module, "generate_password_hash", lambda text: generate_password_hash(text, CHEAP)
    )
    return compared


@pytest.fixture
def passwords(hashed, time):
    return Passwords(clock=time)


STORED = generate_password_hash("right password", CHEAP)


def test_a_name_that_nobody_has_costs_one_hash_as_a_wrong_password_does(passwords, hashed):
    assert not passwords.are_right("ada", "wrong", STORED)
    assert len(hashed) == 1
    assert not passwords.are_right("nobody", "wrong", None)
    assert len(hashed) == 2
    assert hashed[0].split("$")[0] == hashed[1].split("$")[0]  # the same method


def test_a_right_password_is_hashed_once(passwords, hashed):
    assert not passwords.were_right("ada", "right password", STORED)
    assert passwords.are_right("ada", "right password", STORED)
    assert passwords.were_right("ada", "right password", STORED)
    assert len(hashed) == 1


def test_what_was_right_for_another_hash_or_name_is_not_taken_for_right(passwords):
    assert passwords.are_right("ada", "right password", STORED)
    assert not passwords.were_right("bob", "right password", STORED)
    assert not passwords.were_right("ada", "right password", generate_password_hash("x", CHEAP))
    assert not passwords.were_right("ada", "right passwore", STORED)


@pytest.mark.parametrize("stored", [STORED, None], ids=["a user", "nobody"])
def test_after_many_failures_no_more_passwords_are_tried_until_the_window_ends(
    passwords, hashed, time, stored
):
    for _ in range(MOST_FAILURES):
        assert not passwords.are_right("ada", "wrong", stored)
    assert not passwords.are_right("ada", "right password", stored)
    assert len(hashed) == MOST_FAILURES
    time.sleep(WINDOW_SECONDS)
    assert passwords.are_right("ada", "right password", stored) == (stored is not None)


def test_somebody_who_logged_in_before_is_not_locked_out_by_the_guesses_of_others(passwords):
    assert passwords.are_right("ada", "right password", STORED)
    for _ in range(MOST_FAILURES + 1):
        passwords.are_right("ada", "wrong", STORED)
    assert passwords.were_right("ada", "right password", STORED)


def test_failures_of_one_name_do_not_block_another(passwords):
    for _ in range(MOST_FAILURES):
        passwords.are_right("bob", "wrong", None)
    assert passwords.are_right("ada", "right password", STORED)


def test_a_right_password_ends_the_count(passwords):
    for _ in range(MOST_FAILURES - 1):
        passwords.are_right("ada", "wrong", STORED)
    assert passwords.are_right("ada", "right password", STORED)
    assert not passwords.are_right("ada", "wrong", STORED)
    assert passwords.are_right("ada", "right password", STORED)


def test_a_password_of_any_length_costs_no_more_than_a_long_one(passwords, hashed):
    assert not passwords.are_right("ada", "x" * (module.LONGEST_PASSWORD + 1), STORED)
    assert hashed == []


def test_memory_is_bounded(hashed, monkeypatch):
    monkeypatch.setattr(module, "NAMES", 3)
    monkeypatch.setattr(module, "VERIFIED", 3)
    passwords = Passwords()
    for number in range(10):
        passwords.are_right(f"nobody {number}", "wrong", None)
        passwords.are_right(f"user {number}", "right password", STORED)
    assert len(passwords._failures) == 3
    assert len(passwords._verified) == 3
