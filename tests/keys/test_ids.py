"""Ids are UUIDv7, sort by time, are unique, and tell their experiment."""

from __future__ import annotations

import os
import threading
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys.ids import experiment_of, is_hex_id, new_id, new_model_id


@given(st.none() | st.integers(0, 2**40 - 1).map(str), st.integers(0, 2**48 - 2))
def test_an_id_is_a_uuid7_with_its_time_and_experiment(experiment_id, now_ms):
    made = new_id(experiment_id, now_ms)
    parsed = uuid.UUID(hex=made)
    assert parsed.hex == made
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122
    assert parsed.int >> 80 == now_ms
    assert experiment_of(made) == experiment_id


@pytest.mark.parametrize(
    "experiment_id", ["", "00", "007", "-1", "1.0", "x", str(2**40), "٣", "1\n"]
)
def test_an_experiment_that_does_not_fit_is_left_out(experiment_id):
    made = new_id(experiment_id)
    assert is_hex_id(made)
    assert experiment_of(made) is None


def test_a_models_id_tells_its_experiment():
    made = new_model_id("42")
    assert made.startswith("m-")
    assert is_hex_id(made[2:])
    assert experiment_of(made) == "42"


@given(st.uuids(version=4).map(lambda made: made.hex) | st.text())
def test_ids_from_elsewhere_have_no_experiment(text):
    assert experiment_of(text) is None


def test_ids_of_one_process_only_go_up_whatever_they_hold():
    made = [new_id(experiment_id) for _ in range(3_000) for experiment_id in ("0", None, "99")]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_ids_of_one_given_millisecond_only_go_up():
    made = [new_id("1", 1_700_000_000_000) for _ in range(1_000)]
    assert made == sorted(set(made))


def test_threads_do_not_make_the_same_id():
    made: list[list[str]] = [[] for _ in range(8)]

    def make(mine: list[str]) -> None:
        mine.extend(new_id("1") for _ in range(2_000))

    threads = [threading.Thread(target=make, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in made)
    assert len({one for mine in made for one in mine}) == 16_000


def test_a_clock_that_goes_back_does_not_take_the_ids_back(monkeypatch):
    before = new_id("1")
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000_000)
    assert new_id("1") > before


def test_a_used_up_millisecond_borrows_from_the_next():
    sequence = ids._Sequence()
    sequence.at(5)
    sequence._last = (1 << 33) - 1
    assert sequence.at(5)[0] == 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_does_not_repeat_its_parent(monkeypatch):
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
    new_id("1")
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write_end, "".join(new_id("1") for _ in range(50)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        text = answer.read()
    theirs = {text[n : n + 32] for n in range(0, len(text), 32)}
    assert len(theirs) == 50
    assert not theirs & {new_id("1") for _ in range(50)}


@pytest.mark.parametrize("now_ms", [-1, 2**48 - 1])
def test_a_time_that_does_not_fit_is_refused(now_ms):
    with pytest.raises(ValueError):
        new_id("1", now_ms)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0" * 32, True), ("0" * 31, False), ("G" * 32, False), ("A" * 32, False), ("0" * 33, False)],
)
def test_what_looks_like_an_id(text, expected):
    assert is_hex_id(text) is expected
