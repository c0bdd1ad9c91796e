"""Full-text entries lead from words and letters to runs, and stay true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow.entities import RunStatus, RunTag, ViewType

from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared.policies import TEXT_FIELDS
from mlflow_dynamodbstore.shared.search.filters import Comparison
from mlflow_dynamodbstore.shared.search.fulltext import TRIGRAM, WORD, needed, tokens
from mlflow_dynamodbstore.shared.search.like import like
from mlflow_dynamodbstore.tracking.run_search.search import forced_path, parse_run_query
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.places import items_in

TEXTS = st.text(st.sampled_from("aAbB cż_%-Σσς"), max_size=12)


@given(TEXTS, TEXTS, st.sampled_from(["=", "LIKE", "ILIKE"]), st.sampled_from([WORD, TRIGRAM]))
def test_what_matches_has_every_token_asked_for(
    text: str, pattern: str, comparator: str, level: str
) -> None:
    """The index may bring too much, and never too little."""
    comparison = Comparison("tag", "x", comparator, pattern)
    if comparison.holds()(text):
        assert needed(level, comparison) <= tokens(level, text)


@given(TEXTS, TEXTS)
def test_like_minds_case_and_ilike_does_not(text: str, pattern: str) -> None:
    """A LIKE match is an ILIKE match."""
    if like(pattern)(text):
        assert like(pattern, ignore_case=True)(text)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    store = DynamoDBTrackingStore(f"dynamodb:///{tmp_path}/x.ddb?synchronous=NORMAL", "/tmp")
    store.policies.set(
        TEXT_FIELDS,
        {
            "run.name": {"levels": ["word", "trigram"], "complete": True},
            "run.tags.note": {"levels": ["trigram"], "complete": True},
        },
    )
    return store


def finished(store: Any, name: str, note: str) -> str:
    run_id: str = store.create_run("0", "u", 1, [RunTag("note", note)], name).info.run_id
    store.update_run_info(run_id, RunStatus.FINISHED, 2, None)
    return run_id


def found(store: Any, filter_string: str) -> set[str]:
    token = forced_path.set("ByText")
    try:
        runs = store.search_runs(["0"], filter_string, ViewType.ACTIVE_ONLY, 50)
    finally:
        forced_path.reset(token)
    return {run.info.run_id for run in runs}


def entries(store: Any) -> list[str]:
    return [item["SK"] for item in items_in(store.table, "0", Range("FTS", "FTS_REV$"))]


def test_runs_are_found_by_letters_and_words(store: Any) -> None:
    """Names and tags, whatever their case, live runs included."""
    one = finished(store, "Big Model 7", "first try")
    two = finished(store, "small model", "second Try")
    live = store.create_run("0", "u", 1, [RunTag("note", "third try")], "big other").info.run_id
    assert found(store, "run_name LIKE '%Model%'") == {one}
    assert found(store, "run_name ILIKE '%MODEL%'") == {one, two}
    assert found(store, "run_name ILIKE 'big%'") == {one, live}
    assert found(store, "tags.note ILIKE '%d try'") == {two, live}


def test_entries_are_named_as_the_schema_says(store: Any) -> None:
    """A forward and a reverse item for each token of each level."""
    run_id = finished(store, "ab cd", "")
    assert set(entries(store)) == {
        *(f"FTS#word#{w}#run.name#{run_id}" for w in ("ab", "cd")),
        *(f"FTS_REV#run.name#{run_id}#word#{w}" for w in ("ab", "cd")),
        *(f"FTS#trigram#{t}#run.name#{run_id}" for t in ("ab%20", "b%20c", "%20cd")),
        *(f"FTS_REV#run.name#{run_id}#trigram#{t}" for t in ("ab%20", "b%20c", "%20cd")),
    }


def test_entries_follow_the_values(store: Any) -> None:
    """A changed text loses its old entries once sealed; a removed run leaves none."""
    run_id = finished(store, "alpha", "some words")
    store.set_tag(run_id, RunTag("note", "other"))
    store.update_run_info(run_id, RunStatus.FINISHED, 3, None)
    assert found(store, "tags.note LIKE '%words%'") == set()
    assert found(store, "tags.note LIKE '%other%'") == {run_id}
    assert not [sk for sk in entries(store) if "#wor#" in sk]
    store.delete_run(run_id)
    assert found(store, "tags.note LIKE '%other%'") == set()
    store._hard_delete_run(run_id)
    assert entries(store) == []


def test_an_incomplete_field_is_not_searched(store: Any) -> None:
    """A field added to runs that exist waits for its backfill."""
    run_id = finished(store, "alpha", "x")
    store.policies.set(TEXT_FIELDS, {"run.tags.x": {"levels": ["trigram"], "complete": False}})
    filter_string = "run_name LIKE '%lph%'"
    parsed = parse_run_query(filter_string, None, ViewType.ACTIVE_ONLY)
    query = store.run_search._with_indexes(parsed)
    assert [path.name for path in query.plans().all()] == ["ByTime", "ByPartition"]
    runs = store.search_runs(["0"], filter_string, ViewType.ACTIVE_ONLY, 50)
    assert [run.info.run_id for run in runs] == [run_id]
