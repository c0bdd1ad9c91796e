"""What a key was made from can be read from it, except text that was cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import logged_models as logged_model_keys
from mlflow_dynamodbstore.keys import ranks as rank_keys
from mlflow_dynamodbstore.keys import registry as registry_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.keys.base import DEFAULT_WORKSPACE, value_part
from tests.keys.strategies import any_texts, doubles, int64, versions

SHORT = st.text(max_size=10)
LONG = "é" * 2000

INVERSES: dict[str, tuple[Any, Any]] = {
    "experiment": (experiment_keys.experiment_pk, experiment_keys.experiment_id_of),
    "experiment tag": (experiment_keys.experiment_tag, experiment_keys.experiment_tag_key),
    "run": (run_keys.run, run_keys.run_id_of),
    "run child": (lambda text: run_keys.run_tag(text, "k"), run_keys.run_id_of),
    "logged model": (logged_model_keys.logged_model, logged_model_keys.logged_model_id_of),
    "logged model child": (
        lambda text: logged_model_keys.logged_model_tag(text, "k"),
        logged_model_keys.logged_model_id_of,
    ),
    "trace": (trace_keys.trace, trace_keys.trace_id_of),
    "model tag": (registry_keys.model_tag, registry_keys.model_tag_key),
    "version tag": (
        lambda text: registry_keys.model_version_tag(3, text),
        registry_keys.model_version_tag_key,
    ),
    "workspace": (access_keys.workspace_pk, access_keys.workspace_of),
    "setting": (access_keys.setting, access_keys.setting_of),
    "experiment name": (
        lambda text: access_keys.experiment_name_guard(text).sk,
        access_keys.guarded_name_of,
    ),
    "model name": (lambda text: access_keys.model_name_guard(text).sk, access_keys.guarded_name_of),
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
    item_of = run_keys.run_item_of
    assert item_of(run_keys.run(run_id)) == (run_id, "", None, ())
    assert item_of(run_keys.run_metric(run_id, key)) == (run_id, "METRIC", key, ())
    assert item_of(run_keys.run_param(run_id, key)) == (run_id, "PARAM", key, ())
    assert item_of(run_keys.run_tag(run_id, key)) == (run_id, "TAG", key, ())
    assert item_of(run_keys.run_input(run_id, key)) == (run_id, "INPUT", key, ())
    assert item_of(run_keys.run_output(run_id, key)) == (run_id, "OUTPUT", key, ())
    point = run_keys.run_metric_point(run_id, key, step, timestamp, suffix)
    assert item_of(point)[:3] == (run_id, "MHIST", key)
    assert run_keys.metric_point_of(point) == (step, timestamp, suffix)
    part = value_part(run_keys.run_tag(run_id, key), "a1", 2)
    assert item_of(part) == (run_id, "TAG", key, ("PART", "a1", "0002"))


def test_what_is_no_item_of_a_run_is_refused():
    for sk in ("R#a#METRIC", "T#a", "R"):
        with pytest.raises(ValueError):
            run_keys.run_item_of(sk)
    with pytest.raises(ValueError):
        run_keys.metric_point_of("R#a#TAG#k")


@given(SHORT, SHORT, int64, int64, SHORT, st.none() | SHORT)
def test_items_of_a_logged_model_are_taken_apart(model_id, key, step, timestamp, run_id, dataset):
    item_of = logged_model_keys.logged_model_item_of
    assert item_of(logged_model_keys.logged_model(model_id)) == (model_id, "", None, ())
    assert item_of(logged_model_keys.logged_model_param(model_id, key)) == (
        model_id,
        "PARAM",
        key,
        (),
    )
    assert item_of(logged_model_keys.logged_model_tag(model_id, key)) == (model_id, "TAG", key, ())
    value = logged_model_keys.logged_model_metric(model_id, key, step, timestamp, run_id, dataset)
    assert item_of(value)[:3] == (model_id, "METRIC", key)
    assert logged_model_keys.logged_model_step_of(item_of(value)) == (step, timestamp)


def test_what_is_no_item_of_a_logged_model_is_refused():
    for sk in ("LM#a#METRIC", "R#a", "LM"):
        with pytest.raises(ValueError):
            logged_model_keys.logged_model_item_of(sk)
    with pytest.raises(ValueError):
        logged_model_keys.logged_model_step_of(logged_model_keys.logged_model_item_of("LM#a#TAG#k"))


@given(SHORT, doubles, SHORT)
def test_ranks_are_taken_apart(key, value, run_id):
    assert rank_keys.metric_rank_of(rank_keys.metric_rank(key, value, run_id)) == (
        key,
        value,
        run_id,
    )


@given(SHORT, SHORT, SHORT, SHORT)
def test_full_text_entries_are_taken_apart(level, token, entity_type, entity_id):
    expected = (level, token, entity_type, entity_id)
    assert rank_keys.fts_of(rank_keys.fts(level, token, entity_type, entity_id)) == expected


@given(versions, any_texts)
def test_versions_are_read_from_their_items_and_tags(version, key):
    assert registry_keys.model_version_of(registry_keys.model_version(version)) == version
    assert registry_keys.model_version_of(registry_keys.model_version_tag(version, key)) == version


@given(SHORT, versions)
def test_a_run_link_tells_model_and_version(name, version):
    assert registry_keys.model_run_link_of(registry_keys.model_run_link(name, version)) == (
        name,
        version,
    )
    assert registry_keys.model_run_link_of(registry_keys.model_run_link(LONG, version)) == (
        None,
        version,
    )


@given(SHORT, SHORT)
def test_a_model_partition_tells_name_and_workspace(name, workspace):
    assert registry_keys.model_pk_of(registry_keys.model_pk(name, workspace)) == (name, workspace)
    assert registry_keys.model_pk_of(registry_keys.model_pk(name)) == (name, DEFAULT_WORKSPACE)
    assert registry_keys.model_pk_of(registry_keys.model_pk(LONG, workspace)) == (None, workspace)
