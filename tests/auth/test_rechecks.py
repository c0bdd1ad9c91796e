"""What cached permissions omit from a response is decided again without the cache."""

from __future__ import annotations

import types

import pytest
from flask import Flask, Response

from mlflow_dynamodbstore.auth import cache
from mlflow_dynamodbstore.auth.rechecks import with_omissions_rechecked

WHOLE = '{"run": 1, "model": 2}'
CUT = '{"run": 1}'
AUTH = types.ModuleType("auth")
AUTH.AFTER_REQUEST_HANDLERS = {}  # type: ignore[attr-defined]


class AfterRequest:
    """MLflow's hook, which cuts responses by cached permissions, fresh ones, both or neither."""

    def __init__(self, *, by_memory: bool, anew: bool):
        self._cuts = {False: by_memory, True: anew}
        self.fresh: list[bool] = []

    def __call__(self, response):
        self.fresh.append(cache._fresh.get())
        if self._cuts[self.fresh[-1]]:
            response.set_data(CUT)
        return response


def answered(hook, method="GET", path="/runs/get", *, response=None):
    with Flask("app").test_request_context(path, method=method):
        given = response or Response(WHOLE, mimetype="application/json")
        return with_omissions_rechecked(AUTH, hook)(given)


def test_an_answer_that_stays_whole_is_looked_at_once_by_memory():
    hook = AfterRequest(by_memory=False, anew=True)
    assert answered(hook).get_data(as_text=True) == WHOLE
    assert hook.fresh == [False]


@pytest.mark.parametrize(("anew", "seen"), [(False, WHOLE), (True, CUT)])
def test_what_memory_leaves_out_is_decided_by_reading_anew(anew, seen):
    hook = AfterRequest(by_memory=True, anew=anew)
    assert answered(hook).get_data(as_text=True) == seen
    assert hook.fresh == [False, True]


def test_searches_that_are_posted_only_read():
    hook = AfterRequest(by_memory=True, anew=False)
    assert answered(hook, "POST", "/runs/search").get_data(as_text=True) == WHOLE


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE", "PUT"])
def test_what_follows_a_change_is_done_once(method):
    hook = AfterRequest(by_memory=False, anew=True)
    assert answered(hook, method, "/runs/create").get_data(as_text=True) == CUT
    assert hook.fresh == [True]


def test_files_are_not_read_into_memory():
    def pieces():
        raise AssertionError("it was read")
        yield b""

    hook = AfterRequest(by_memory=False, anew=False)
    streamed = Response(pieces(), mimetype="application/json")
    assert answered(hook, response=streamed) is streamed
    assert hook.fresh == [False]


def test_an_error_is_left_as_it_is():
    hook = AfterRequest(by_memory=False, anew=False)
    answered(hook, response=Response("{}", 404, mimetype="application/json"))
    assert hook.fresh == [False]
