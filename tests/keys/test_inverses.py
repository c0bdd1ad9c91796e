"""What a key was made from can be read from it, except text that was cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_dynamodbstore import keys
from tests.keys.strategies import any_texts, doubles, int64, versions

SHORT = st.text(max_size=10)
LONG = "é" * 2000

INVERSES: dict[str, tuple[Any, Any]] = {
    "experiment": (keys.experiment_pk, keys.experiment_id_of),
    "experiment tag": (keys.experiment_tag, keys.experiment_tag_key),
    "dataset": (keys.dataset, keys.dataset_hash_of),
    "link": (lambda text: keys.dataset_link(text, "d"), keys.dataset_link_run),
    "run": (keys.run, keys.run_id_of),
    "run child": (lambda text: keys.run_tag(text, "k"), keys.run_id_of),
    "logged model": (keys.logged_model, keys.logged_model_id_of),
    "logged model child": (lambda text: keys.logged_model_tag(text, "k"), keys.logged_model_id_of),
    "trace": (keys.trace, keys.trace_id_of),
    "trace tag": (lambda text: keys.trace_tag("tr-1", text), keys.trace_tag_key),
    "model tag": (keys.model_tag, keys.model_tag_key),
    "version tag": (lambda text: keys.model_version_tag(3, text), keys.model_version_tag_key),
    "alias": (keys.model_alias, keys.model_alias_of),
    "workspace": (keys.workspace_pk, keys.workspace_of),
    "user": (keys.user_pk, keys.username_of),
    "permission": (keys.user_experiment_permission, keys.user_experiment_permission_of),
    "setting": (keys.setting, keys.setting_of),
    "experiment name": (lambda text: keys.experiment_name_guard(text).sk, keys.guarded_name_of),
    "model name": (lambda text: keys.model_name_guard(text).sk, keys.guarded_name_of),
}


@pytest.mark.parametrize("name", INVERSES)
@given(text=SHORT)
def test_short_text_is_read_back(name, text):
    make, read = INVERSES[name]
    assert read(make(text)) == text


@pytest.mark.parametrize("name", INVERSES)
@given(text=any_texts)
def test_any_text_is_read_back_or_known_to_be_cut(name, text):
    make, read = INVERSES[name]
    assert read(make(text)) in (text, None)


@pytest.mark.parametrize("name", INVERSES)
def test_text_that_was_cut_is_none(name):
    make, read = INVERSES[name]
    assert read(make(LONG)) is None


@pytest.mark.parametrize("name", INVERSES)
@pytest.mark.parametrize("foreign", ["", "R", "X#a", "E#META", "CONFIG", "T#a#SPANS"])
def test_a_key_of_another_kind_is_refused(name, foreign):
    _, read = INVERSES[name]
    if not (foreign == "T#a#SPANS" and name == "trace"):
        with pytest.raises(ValueError):
            read(foreign)


@given(SHORT, SHORT, int64, int64, st.none() | SHORT)
def test_items_of_a_run_are_taken_apart(run_id, key, step, timestamp, suffix):
    item_of = keys.run_item_of
    assert item_of(keys.run(run_id)) == (run_id, "", None, ())
    assert item_of(keys.run_metric(run_id, key)) == (run_id, "METRIC", key, ())
    assert item_of(keys.run_param(run_id, key)) == (run_id, "PARAM", key, ())
    assert item_of(keys.run_tag(run_id, key)) == (run_id, "TAG", key, ())
    assert item_of(keys.run_input(run_id, key)) == (run_id, "INPUT", key, ())
    assert item_of(keys.run_output(run_id, key)) == (run_id, "OUTPUT", key, ())
    point = keys.run_metric_point(run_id, key, step, timestamp, suffix)
    assert item_of(point)[:3] == (run_id, "MHIST", key)
    assert keys.metric_point_of(point) == (step, timestamp, suffix)
    part = keys.part(keys.run_tag(run_id, key), "a1", 2)
    assert item_of(part) == (run_id, "TAG", key, ("PART", "a1", "0002"))


def test_what_is_no_item_of_a_run_is_refused():
    for sk in ("R#a#METRIC", "T#a", "R"):
        with pytest.raises(ValueError):
            keys.run_item_of(sk)
    with pytest.raises(ValueError):
        keys.metric_point_of("R#a#TAG#k")


@given(SHORT, SHORT, int64, int64, SHORT, st.none() | SHORT)
def test_items_of_a_logged_model_are_taken_apart(model_id, key, step, timestamp, run_id, dataset):
    item_of = keys.logged_model_item_of
    assert item_of(keys.logged_model(model_id)) == (model_id, "", None, ())
    assert item_of(keys.logged_model_param(model_id, key)) == (model_id, "PARAM", key, ())
    assert item_of(keys.logged_model_tag(model_id, key)) == (model_id, "TAG", key, ())
    value = keys.logged_model_metric(model_id, key, step, timestamp, run_id, dataset)
    assert item_of(value)[:3] == (model_id, "METRIC", key)
    assert keys.logged_model_step_of(item_of(value)) == (step, timestamp)


def test_what_is_no_item_of_a_logged_model_is_refused():
    for sk in ("LM#a#METRIC", "R#a", "LM"):
        with pytest.raises(ValueError):
            keys.logged_model_item_of(sk)
    with pytest.raises(ValueError):
        keys.logged_model_step_of(keys.logged_model_item_of("LM#a#TAG#k"))


@given(SHORT, doubles, SHORT, SHORT)
def test_ranks_are_taken_apart(key, value, text, run_id):
    assert keys.metric_rank_of(keys.metric_rank(key, value, run_id)) == (key, value, run_id)
    assert keys.param_rank_of(keys.param_rank(key, text, run_id)) == (key, text, run_id)
    assert keys.param_rank_of(keys.param_rank(key, LONG, run_id)) == (key, None, run_id)


@given(SHORT, SHORT, SHORT, SHORT)
def test_full_text_entries_are_taken_apart(level, token, entity_type, entity_id):
    expected = (level, token, entity_type, entity_id)
    assert keys.fts_of(keys.fts(level, token, entity_type, entity_id)) == expected
    assert keys.fts_rev_of(keys.fts_rev(entity_type, entity_id, level, token)) == expected


@given(versions, any_texts)
def test_versions_are_read_from_their_items_and_tags(version, key):
    assert keys.model_version_of(keys.model_version(version)) == version
    assert keys.model_version_of(keys.model_version_tag(version, key)) == version


@given(SHORT, versions)
def test_a_run_link_tells_model_and_version(name, version):
    assert keys.model_run_link_of(keys.model_run_link(name, version)) == (name, version)
    assert keys.model_run_link_of(keys.model_run_link(LONG, version)) == (None, version)


@given(SHORT, SHORT)
def test_a_model_partition_tells_name_and_workspace(name, workspace):
    assert keys.model_pk_of(keys.model_pk(name, workspace)) == (name, workspace)
    assert keys.model_pk_of(keys.model_pk(name)) == (name, keys.DEFAULT_WORKSPACE)
    assert keys.model_pk_of(keys.model_pk(LONG, workspace)) == (None, workspace)
