"""No key meets another, and no range reaches into what is not its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from mlflow_dynamodbstore import keys
from mlflow_dynamodbstore.keys import Range, evaluation
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
@example((keys.model_pk, ("a#b", "default")), (keys.model_pk, ("b", "a")))
@example((keys.model_pk, ("", "default")), (keys.model_pk, ("", "")))
def test_two_different_partitions_have_different_keys(one, other):
    assume(one != other)
    assert one[0](*one[1]) != other[0](*other[1])


class Owned(NamedTuple):
    """A range, and whose keys it must hold: those of some functions with the same arguments."""

    range: Callable[..., Range]
    of: tuple[Callable[..., str], ...]
    arguments: tuple[st.SearchStrategy, ...] = (any_texts,)


RUN_CHILDREN = (
    keys.run_metric,
    keys.run_metric_point,
    keys.run_param,
    keys.run_tag,
    keys.run_input,
    keys.run_model_input,
    keys.run_logged_model,
    keys.run_output,
)
TRACE_CHILDREN = (
    keys.trace_tag,
    keys.trace_spans,
    keys.trace_spans_part,
    keys.trace_assessment,
    trace_issue,
)
MODEL_CHILDREN = (
    keys.logged_model_tag,
    keys.logged_model_param,
    keys.logged_model_metric,
)
TWO = (any_texts, any_texts)
IN_EXPERIMENT = {
    "experiment tags": Owned(lambda: keys.EXPERIMENT_TAGS, (keys.experiment_tag,), ()),
    "datasets": Owned(lambda: keys.DATASETS, (keys.dataset,), ()),
    "uses": Owned(lambda: keys.DATASET_CONTEXTS, (keys.dataset_context,), ()),
    "links": Owned(keys.dataset_links, (keys.dataset_link,)),
    "runs": Owned(lambda: keys.RUNS, (keys.run, *RUN_CHILDREN), ()),
    "run children": Owned(keys.run_children, RUN_CHILDREN),
    "run and children": Owned(keys.run_and_children, (keys.run, *RUN_CHILDREN)),
    "run head": Owned(
        keys.run_head,
        (
            keys.run,
            keys.run_input,
            keys.run_model_input,
            keys.run_logged_model,
            keys.run_metric,
        ),
    ),
    "run tail": Owned(keys.run_tail, (keys.run_output, keys.run_param, keys.run_tag)),
    "metrics": Owned(keys.run_metrics, (keys.run_metric,)),
    "history": Owned(keys.run_history, (keys.run_metric_point,)),
    "history of one": Owned(keys.metric_history, (keys.run_metric_point,), TWO),
    "params": Owned(keys.run_params, (keys.run_param,)),
    "tags": Owned(keys.run_tags, (keys.run_tag,)),
    "inputs": Owned(keys.run_inputs, (keys.run_input,)),
    "model inputs": Owned(keys.run_model_inputs, (keys.run_model_input,)),
    "run models": Owned(keys.run_logged_models, (keys.run_logged_model,)),
    "outputs": Owned(keys.run_outputs, (keys.run_output,)),
    "models": Owned(lambda: keys.LOGGED_MODELS, (keys.logged_model, *MODEL_CHILDREN), ()),
    "model children": Owned(keys.logged_model_children, MODEL_CHILDREN),
    "model and children": Owned(
        keys.logged_model_and_children, (keys.logged_model, *MODEL_CHILDREN)
    ),
    "model tags": Owned(keys.logged_model_tags, (keys.logged_model_tag,)),
    "model params": Owned(keys.logged_model_params, (keys.logged_model_param,)),
    "model metrics": Owned(keys.logged_model_metrics, (keys.logged_model_metric,)),
    "model metric": Owned(keys.logged_model_metrics, (keys.logged_model_metric,), TWO),
    "traces": Owned(lambda: keys.TRACES, (keys.trace, *TRACE_CHILDREN), ()),
    "trace children": Owned(keys.trace_children, TRACE_CHILDREN),
    "trace and children": Owned(keys.trace_and_children, (keys.trace, *TRACE_CHILDREN)),
    "trace tags": Owned(keys.trace_tags, (keys.trace_tag,)),
    "spans": Owned(keys.trace_all_spans, (keys.trace_spans, keys.trace_spans_part)),
    "assessments": Owned(keys.trace_assessments, (keys.trace_assessment,)),
    "evaluation datasets": Owned(lambda: evaluation.DATASETS, (evaluation.dataset_entry,), ()),
    "scorers": Owned(lambda: evaluation.SCORERS, (evaluation.scorer,), ()),
    "scorer versions": Owned(evaluation.scorer_versions, (evaluation.scorer_version,)),
    "issues": Owned(lambda: evaluation.ISSUES, (evaluation.issue,), ()),
    "metric ranks": Owned(keys.metric_ranks, (keys.metric_rank,)),
    "param ranks": Owned(keys.param_ranks, (keys.param_rank,)),
    "param value": Owned(keys.param_ranks_of, (keys.param_rank,), TWO),
    "words": Owned(keys.fts_entries, (keys.fts,), TWO),
    "words of entity": Owned(keys.fts_rev_entries, (keys.fts_rev,), TWO),
    "words of level": Owned(keys.fts_rev_entries, (keys.fts_rev,), (*TWO, any_texts)),
}
IN_MODEL = {
    "versions": Owned(
        lambda: keys.MODEL_VERSIONS, (keys.model_version, keys.model_version_tag), ()
    ),
    "model and versions": Owned(
        lambda: keys.MODEL_AND_VERSIONS,
        (keys.model_meta, keys.model_tag, keys.model_version, keys.model_version_tag),
        (),
    ),
    "version and children": Owned(
        keys.model_version_and_children, (keys.model_version, keys.model_version_tag), (versions,)
    ),
    "version tags": Owned(keys.model_version_tags, (keys.model_version_tag,), (versions,)),
    "model tags": Owned(lambda: keys.MODEL_TAGS, (keys.model_tag,), ()),
    "aliases": Owned(lambda: keys.MODEL_ALIASES, (keys.model_alias,), ()),
    "alias changes": Owned(keys.model_alias_changes, (keys.model_alias_change,)),
    "all alias changes": Owned(keys.model_alias_changes, (keys.model_alias_change,), ()),
}
IN_DATASET = {
    "dataset tags": Owned(lambda: evaluation.DATASET_TAGS, (evaluation.dataset_tag,), ()),
    "users": Owned(lambda: evaluation.DATASET_EXPERIMENTS, (evaluation.dataset_experiment,), ()),
    "records": Owned(lambda: evaluation.DATASET_RECORDS, (evaluation.dataset_record,), ()),
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
    piece = keys.part(keys.run_tag(run_id, key), "a1b2", 7)
    assert piece in keys.parts(keys.run_tag(run_id, key))
    assert piece in keys.run_tags(run_id)
    assert piece not in keys.parts(keys.run_tag(run_id, other))
    assert piece not in keys.parts(keys.run(run_id))


@given(any_texts, st.text("0123456789abcdef", min_size=12, max_size=12), st.integers(0, 9998))
def test_parts_of_one_writing_sort_by_number(run_id, generation, number):
    sk = keys.run(run_id)
    assert sk < keys.part(sk, generation, number) < keys.part(sk, generation, number + 1)
    assert keys.part(sk, generation, number) in keys.run_tail(run_id)


@pytest.mark.parametrize("number", [-1, 10_000])
def test_a_number_with_more_digits_than_a_part_has_is_refused(number):
    with pytest.raises(ValueError):
        keys.part("R#a", "a1b2", number)
    with pytest.raises(ValueError):
        keys.trace_spans_part("tr-1", number)


@given(any_texts, any_texts, int64, int64, int64, int64)
@example("r", "k", -1, 0, 0, 0)
def test_history_sorts_by_step_then_timestamp(run_id, key, step, timestamp, step2, timestamp2):
    one = keys.run_metric_point(run_id, key, step, timestamp)
    other = keys.run_metric_point(run_id, key, step2, timestamp2)
    assert (one < other) == ((step, timestamp) < (step2, timestamp2))


@given(any_texts, any_texts, int64, int64, st.lists(int64, min_size=2, max_size=2).map(sorted))
def test_history_can_be_cut_by_step(run_id, key, step, timestamp, ends):
    point = keys.run_metric_point(run_id, key, step, timestamp, "x")
    first, last = ends
    assert (point in keys.metric_history(run_id, key, first, last)) == (first <= step <= last)
    assert (point in keys.metric_history(run_id, key, first)) == (first <= step)
    assert (point in keys.metric_history(run_id, key, last_step=last)) == (step <= last)


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
    rank = keys.metric_rank(key, value, run_id)
    expected = COMPARISONS[comparison](value, bound)
    assert (rank in keys.metric_ranks_where(key, comparison, bound)) == expected
    place = keys.lsi5_run(run_id, key, value)
    assert (place in keys.runs_by_metric_where(key, comparison, bound)) == expected
    assert keys.primary_metric_of(place) == value


@pytest.mark.parametrize("comparison", COMPARISONS)
@given(any_texts, doubles, any_texts)
def test_nan_compares_with_no_number_and_ranks_last(comparison, key, bound, run_id):
    rank = keys.metric_rank(key, float("nan"), run_id)
    assert rank not in keys.metric_ranks_where(key, comparison, bound)
    assert rank > keys.metric_rank(key, bound, run_id)
    assert rank in keys.metric_ranks_where(key, "=", float("nan"))
    place = keys.lsi5_run(run_id, key, float("nan"))
    assert place not in keys.runs_by_metric_where(key, comparison, bound)
    assert place in keys.runs_by_metric_where(key, "=", float("nan"))


def test_comparing_with_nan_is_refused():
    for where in (keys.metric_ranks_where, keys.runs_by_metric_where):
        with pytest.raises(ValueError):
            where("m", "<", float("nan"))


@given(any_texts, doubles, any_texts, st.uuids())
def test_the_run_of_a_rank_is_read_from_its_end(key, value, text, run_id):
    assert keys.ranked_run_of(keys.metric_rank(key, value, run_id.hex)) == run_id.hex
    assert keys.ranked_run_of(keys.param_rank(key, text, run_id.hex)) == run_id.hex


@given(any_texts, doubles, doubles, any_texts)
def test_metric_ranks_descend(key, value, other, run_id):
    one, two = keys.metric_rank(key, value, run_id), keys.metric_rank(key, other, run_id)
    assert (one < two) == (value > other)


STARTING = {
    "params": (
        lambda text: keys.param_rank("k", text, "r"),
        lambda text: keys.param_ranks_starting("k", text),
        keys.param_ranks("k"),
    ),
    "words": (
        lambda text: keys.fts("l", text, "run", "r"),
        lambda text: keys.fts_entries_starting("l", text),
        Range("FTS#l#", "FTS#l$"),
    ),
    "experiment names": (
        lambda text: keys.experiment_name_guard(text).sk,
        keys.experiment_names_starting,
        keys.EXPERIMENT_NAMES,
    ),
    "model names": (
        lambda text: keys.model_name_guard(text).sk,
        keys.model_names_starting,
        keys.MODEL_NAMES,
    ),
    "run names": (
        lambda text: keys.lsi4_run("r", text),
        keys.runs_by_name,
        keys.runs_by_name(),
    ),
    "trace names": (
        lambda text: keys.lsi4_trace("r", text),
        keys.traces_by_name,
        keys.traces_by_name(),
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
