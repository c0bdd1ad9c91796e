"""No key meets another, and no range reaches into what is not its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import evaluation_datasets as dataset_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import issues as issue_keys
from mlflow_dynamodbstore.keys import logged_models as logged_model_keys
from mlflow_dynamodbstore.keys import ranks as rank_keys
from mlflow_dynamodbstore.keys import registry as registry_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys import scorers as scorer_keys
from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.keys.base import Range, value_part, value_parts
from mlflow_dynamodbstore.keys.traces import trace_issue
from tests.keys.strategies import (
    DATASET_PARTITION,
    EXPERIMENT_PARTITION,
    MODEL_PARTITION,
    PARTITION_KEYS,
    PARTITIONS,
    any_call,
    any_texts,
    call_near,
    doubles,
    int64,
    model_meta,
    parts,
    versions,
)


@pytest.mark.parametrize("partition", PARTITIONS)
@given(data=st.data())
def test_two_different_things_in_a_partition_have_different_keys(partition, data):
    calls = any_call(PARTITIONS[partition])
    make, arguments = data.draw(calls)
    make_other, other = data.draw(calls | call_near(PARTITIONS[partition], arguments))
    assume((make, arguments) != (make_other, other))
    assert make(*arguments) != make_other(*other)


@given(any_call(PARTITION_KEYS), any_call(PARTITION_KEYS))
@example((registry_keys.model_pk, ("a#b", "default")), (registry_keys.model_pk, ("b", "a")))
@example((registry_keys.model_pk, ("", "default")), (registry_keys.model_pk, ("", "")))
def test_two_different_partitions_have_different_keys(one, other):
    assume(one != other)
    assert one[0](*one[1]) != other[0](*other[1])


class Owned(NamedTuple):
    """A range, and whose keys it must hold: those of some functions with the same arguments."""

    range: Callable[..., Range]
    of: tuple[Callable[..., str], ...]
    arguments: tuple[st.SearchStrategy, ...] = (any_texts,)


RUN_CHILDREN = (
    run_keys.run_metric,
    run_keys.run_metric_point,
    run_keys.run_param,
    run_keys.run_tag,
    run_keys.run_input,
    run_keys.run_model_input,
    run_keys.run_logged_model,
    run_keys.run_output,
)
TRACE_CHILDREN = (
    trace_keys.trace_tag,
    trace_keys.trace_spans,
    trace_keys.trace_spans_part,
    trace_keys.trace_assessment,
    trace_issue,
)
MODEL_CHILDREN = (
    logged_model_keys.logged_model_tag,
    logged_model_keys.logged_model_param,
    logged_model_keys.logged_model_metric,
)
TWO = (any_texts, any_texts)
IN_EXPERIMENT = {
    "experiment tags": Owned(
        lambda: experiment_keys.EXPERIMENT_TAGS, (experiment_keys.experiment_tag,), ()
    ),
    "datasets": Owned(lambda: experiment_keys.DATASETS, (experiment_keys.dataset,), ()),
    "uses": Owned(lambda: experiment_keys.DATASET_CONTEXTS, (experiment_keys.dataset_context,), ()),
    "links": Owned(experiment_keys.dataset_links, (experiment_keys.dataset_link,)),
    "runs": Owned(lambda: run_keys.RUNS, (run_keys.run, *RUN_CHILDREN), ()),
    "run children": Owned(run_keys.run_children, RUN_CHILDREN),
    "run and children": Owned(run_keys.run_and_children, (run_keys.run, *RUN_CHILDREN)),
    "run head": Owned(
        run_keys.run_head,
        (
            run_keys.run,
            run_keys.run_input,
            run_keys.run_model_input,
            run_keys.run_logged_model,
            run_keys.run_metric,
        ),
    ),
    "run tail": Owned(
        run_keys.run_tail, (run_keys.run_output, run_keys.run_param, run_keys.run_tag)
    ),
    "metrics": Owned(run_keys.run_metrics, (run_keys.run_metric,)),
    "history": Owned(run_keys.run_history, (run_keys.run_metric_point,)),
    "history of one": Owned(run_keys.metric_history, (run_keys.run_metric_point,), TWO),
    "params": Owned(run_keys.run_params, (run_keys.run_param,)),
    "tags": Owned(run_keys.run_tags, (run_keys.run_tag,)),
    "run models": Owned(run_keys.run_logged_models, (run_keys.run_logged_model,)),
    "outputs": Owned(run_keys.run_outputs, (run_keys.run_output,)),
    "model children": Owned(logged_model_keys.logged_model_children, MODEL_CHILDREN),
    "model and children": Owned(
        logged_model_keys.logged_model_and_children,
        (logged_model_keys.logged_model, *MODEL_CHILDREN),
    ),
    "model params": Owned(
        logged_model_keys.logged_model_params, (logged_model_keys.logged_model_param,)
    ),
    "traces": Owned(lambda: trace_keys.TRACES, (trace_keys.trace, *TRACE_CHILDREN), ()),
    "trace children": Owned(trace_keys.trace_children, TRACE_CHILDREN),
    "trace and children": Owned(trace_keys.trace_and_children, (trace_keys.trace, *TRACE_CHILDREN)),
    "spans": Owned(
        trace_keys.trace_all_spans, (trace_keys.trace_spans, trace_keys.trace_spans_part)
    ),
    "evaluation datasets": Owned(lambda: dataset_keys.DATASETS, (dataset_keys.dataset_entry,), ()),
    "scorers": Owned(lambda: scorer_keys.SCORERS, (scorer_keys.scorer,), ()),
    "scorer versions": Owned(scorer_keys.scorer_versions, (scorer_keys.scorer_version,)),
    "issues": Owned(lambda: issue_keys.ISSUES, (issue_keys.issue,), ()),
    "param ranks": Owned(rank_keys.param_ranks, (rank_keys.param_rank,)),
    "param value": Owned(rank_keys.param_ranks_equal, (rank_keys.param_rank,), TWO),
    "words": Owned(rank_keys.fts_entries, (rank_keys.fts,), TWO),
    "words of entity": Owned(rank_keys.fts_rev_entries, (rank_keys.fts_rev,), TWO),
    "words of level": Owned(rank_keys.fts_rev_entries, (rank_keys.fts_rev,), (*TWO, any_texts)),
}
IN_MODEL = {
    "versions": Owned(
        lambda: registry_keys.MODEL_VERSIONS,
        (registry_keys.model_version, registry_keys.model_version_tag),
        (),
    ),
    "model and versions": Owned(
        lambda: registry_keys.MODEL_AND_VERSIONS,
        (
            model_meta,
            registry_keys.model_tag,
            registry_keys.model_version,
            registry_keys.model_version_tag,
        ),
        (),
    ),
    "model tags": Owned(lambda: registry_keys.MODEL_TAGS, (registry_keys.model_tag,), ()),
    "alias changes": Owned(registry_keys.model_alias_changes, (registry_keys.model_alias_change,)),
    "all alias changes": Owned(
        registry_keys.model_alias_changes, (registry_keys.model_alias_change,), ()
    ),
}
IN_DATASET = {
    "dataset tags": Owned(lambda: dataset_keys.DATASET_TAGS, (dataset_keys.dataset_tag,), ()),
    "users": Owned(
        lambda: dataset_keys.DATASET_EXPERIMENTS, (dataset_keys.dataset_experiment,), ()
    ),
    "records": Owned(lambda: dataset_keys.DATASET_RECORDS, (dataset_keys.dataset_record,), ()),
}
RANGES = [
    *(pytest.param(owned, EXPERIMENT_PARTITION, id=name) for name, owned in IN_EXPERIMENT.items()),
    *(pytest.param(owned, MODEL_PARTITION, id=name) for name, owned in IN_MODEL.items()),
    *(pytest.param(owned, DATASET_PARTITION, id=name) for name, owned in IN_DATASET.items()),
]


@pytest.mark.parametrize(("owned", "makers"), RANGES)
@given(data=st.data())
def test_a_range_holds_all_that_is_its_own(owned, makers, data):
    arguments = data.draw(st.tuples(*owned.arguments))
    maker = data.draw(st.sampled_from([maker for maker in makers if maker.function in owned.of]))
    rest = data.draw(st.tuples(*maker.arguments[len(arguments) :]))
    assert maker.function(*arguments, *rest) in owned.range(*arguments)


@pytest.mark.parametrize(("owned", "makers"), RANGES)
@given(data=st.data())
def test_a_range_holds_nothing_of_others(owned, makers, data):
    arguments = data.draw(st.tuples(*owned.arguments))
    make, theirs = data.draw(call_near(makers, arguments))
    assume(make not in owned.of or theirs[: len(arguments)] != arguments)
    assert make(*theirs) not in owned.range(*arguments)


def sample(kind: st.SearchStrategy) -> object:
    """The same value for everything of one kind."""
    return 1 if kind in (int64, versions, parts) else 0.5 if kind is doubles else "a"


@pytest.mark.parametrize(("owned", "makers"), RANGES)
def test_a_range_holds_its_own_kinds_and_no_other_of_the_same_owner(owned, makers):
    ours = owned.range(*map(sample, owned.arguments))
    held = {m.function for m in makers if m.function(*map(sample, m.arguments)) in ours}
    assert held == set(owned.of)


@given(any_texts, any_texts, any_texts)
def test_parts_lie_beside_their_own_item_only(run_id, key, other):
    assume(key != other)
    piece = value_part(run_keys.run_tag(run_id, key), "a1b2", 7)
    assert piece in value_parts(run_keys.run_tag(run_id, key))
    assert piece in run_keys.run_tags(run_id)
    assert piece not in value_parts(run_keys.run_tag(run_id, other))
    assert piece not in value_parts(run_keys.run(run_id))


@given(any_texts, st.text("0123456789abcdef", min_size=12, max_size=12), st.integers(0, 9998))
def test_parts_of_one_writing_sort_by_number(run_id, generation, number):
    sk = run_keys.run(run_id)
    assert sk < value_part(sk, generation, number) < value_part(sk, generation, number + 1)
    assert value_part(sk, generation, number) in run_keys.run_tail(run_id)


@pytest.mark.parametrize("number", [-1, 10_000])
def test_a_number_with_more_digits_than_a_part_has_is_refused(number):
    with pytest.raises(ValueError):
        value_part("R#a", "a1b2", number)
    with pytest.raises(ValueError):
        trace_keys.trace_spans_part("tr-1", number)


@given(any_texts, any_texts, int64, int64, int64, int64)
@example("r", "k", -1, 0, 0, 0)
def test_history_sorts_by_step_then_timestamp(run_id, key, step, timestamp, step2, timestamp2):
    one = run_keys.run_metric_point(run_id, key, step, timestamp)
    other = run_keys.run_metric_point(run_id, key, step2, timestamp2)
    assert (one < other) == ((step, timestamp) < (step2, timestamp2))


@given(any_texts, any_texts, int64, int64, st.lists(int64, min_size=2, max_size=2).map(sorted))
def test_history_can_be_cut_by_step(run_id, key, step, timestamp, ends):
    point = run_keys.run_metric_point(run_id, key, step, timestamp, "x")
    first, last = ends
    assert (point in run_keys.metric_history(run_id, key, first, last)) == (first <= step <= last)
    assert (point in run_keys.metric_history(run_id, key, first)) == (first <= step)
    assert (point in run_keys.metric_history(run_id, key, last_step=last)) == (step <= last)


COMPARISONS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "=": lambda a, b: a == b,
    ">=": lambda a, b: a >= b,
    ">": lambda a, b: a > b,
}


@pytest.mark.parametrize("comparison", COMPARISONS)
@given(any_texts, doubles, doubles, any_texts)
@example("m", -0.0, 0.0, "r")
@example("m", float("inf"), float("inf"), "r")
@example("m", float("-inf"), float("inf"), "r")
def test_ranks_answer_comparisons_exactly(comparison, key, value, bound, run_id):
    rank = rank_keys.metric_rank(key, value, run_id)
    expected = COMPARISONS[comparison](value, bound)
    assert (rank in rank_keys.metric_ranks_where(key, comparison, bound)) == expected
    place = index_keys.lsi5_run(run_id, key, value)
    assert (place in rank_keys.runs_by_metric_where(key, comparison, bound)) == expected
    assert rank_keys.primary_metric_of(place) == value


@pytest.mark.parametrize("comparison", COMPARISONS)
@given(any_texts, doubles, any_texts)
def test_nan_compares_with_no_number_and_ranks_last(comparison, key, bound, run_id):
    rank = rank_keys.metric_rank(key, float("nan"), run_id)
    assert rank not in rank_keys.metric_ranks_where(key, comparison, bound)
    assert rank > rank_keys.metric_rank(key, bound, run_id)
    assert rank in rank_keys.metric_ranks_where(key, "=", float("nan"))
    place = index_keys.lsi5_run(run_id, key, float("nan"))
    assert place not in rank_keys.runs_by_metric_where(key, comparison, bound)
    assert place in rank_keys.runs_by_metric_where(key, "=", float("nan"))


def test_comparing_with_nan_is_refused():
    for where in (rank_keys.metric_ranks_where, rank_keys.runs_by_metric_where):
        with pytest.raises(ValueError):
            where("m", "<", float("nan"))


@given(any_texts, doubles, any_texts, st.uuids())
def test_the_run_of_a_rank_is_read_from_its_end(key, value, text, run_id):
    assert rank_keys.ranked_run_of(rank_keys.metric_rank(key, value, run_id.hex)) == run_id.hex
    assert rank_keys.ranked_run_of(rank_keys.param_rank(key, text, run_id.hex)) == run_id.hex


@given(any_texts, doubles, doubles, any_texts)
def test_metric_ranks_descend(key, value, other, run_id):
    one, two = rank_keys.metric_rank(key, value, run_id), rank_keys.metric_rank(key, other, run_id)
    assert (one < two) == (value > other)


STARTING = {
    "params": (
        lambda text: rank_keys.param_rank("k", text, "r"),
        lambda text: rank_keys.param_ranks_starting("k", text),
        rank_keys.param_ranks("k"),
    ),
    "experiment names": (
        lambda text: access_keys.experiment_name_guard(text).sk,
        access_keys.experiment_names_starting,
        access_keys.EXPERIMENT_NAMES,
    ),
    "model names": (
        lambda text: access_keys.model_name_guard(text).sk,
        access_keys.model_names_starting,
        access_keys.MODEL_NAMES,
    ),
    "run names": (
        lambda text: index_keys.lsi4_run("r", text),
        index_keys.runs_by_name,
        index_keys.runs_by_name(),
    ),
    "trace names": (
        lambda text: index_keys.lsi4_trace("r", text),
        index_keys.traces_by_name,
        index_keys.traces_by_name(),
    ),
}


@pytest.mark.parametrize("place", STARTING)
@given(text=any_texts, rest=any_texts)
@example(text="ab", rest="\U0010ffff" * 150)
@example(text="a" * 360, rest="b" * 600)
@example(text="a" * 600, rest="\U0001f600" * 600)
def test_a_range_of_beginnings_misses_nothing(place, text, rest):
    make, starting, everything = STARTING[place]
    assert make(text + rest) in starting(text)
    assert make(text + rest) in everything


@pytest.mark.parametrize("place", STARTING)
@given(text=any_texts, beginning=st.text("a#%é\U0001f600\U0010ffff", max_size=8))
@example(text="ac", beginning="ab")
@example(text="a", beginning="ab")
def test_a_range_of_short_beginnings_holds_nothing_else(place, text, beginning):
    make, starting, _ = STARTING[place]
    assert (make(text) in starting(beginning)) == text.startswith(beginning)
