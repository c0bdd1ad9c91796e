"""Texts that try to break keys, and every function that makes a sort key."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hypothesis import strategies as st

from mlflow_dynamodbstore import keys
from mlflow_dynamodbstore.keys import evaluation
from mlflow_dynamodbstore.keys.traces import trace_issue

# What keys are made of, what stands next to it in order, and characters of every width.
NASTY = '#$%&!~/ \x00"a0ZzF_é\u0800\uffff\U0001f600\U0010ffff'

texts = st.text(max_size=12) | st.text(NASTY, max_size=8)
long_texts = st.builds(
    lambda text, times, end: text * times + end,
    st.text(NASTY, min_size=1, max_size=3),
    st.sampled_from([1, 40, 300, 900]),
    st.text(NASTY, max_size=2),
)
any_texts = texts | long_texts | st.sampled_from(["", "a", "a#", "a#b", "ab", "METRIC", "PART"])
int64 = st.integers(-(2**63), 2**63 - 1)
doubles = st.floats(allow_nan=False).map(lambda number: number + 0.0)
versions = st.integers(0, 10**10 - 1)
parts = st.integers(0, 9999)


class Maker(NamedTuple):
    """A function that makes a sort key, and what it takes."""

    function: Callable[..., str]
    arguments: tuple[st.SearchStrategy, ...]

    def calls(self) -> st.SearchStrategy:
        return st.tuples(st.just(self.function), st.tuples(*self.arguments))


_text = any_texts
EXPERIMENT_PARTITION = (
    Maker(keys.experiment_meta, ()),
    Maker(keys.experiment_name_rev, ()),
    Maker(keys.experiment_tag, (_text,)),
    Maker(keys.dataset, (_text,)),
    Maker(keys.dataset_context, (_text, st.none() | _text)),
    Maker(keys.dataset_link, (_text, _text, st.none() | _text)),
    Maker(keys.run, (_text,)),
    Maker(keys.run_metric, (_text, _text)),
    Maker(keys.run_metric_point, (_text, _text, int64, int64, st.none() | _text)),
    Maker(keys.run_param, (_text, _text)),
    Maker(keys.run_tag, (_text, _text)),
    Maker(keys.run_input, (_text, _text, st.none() | _text)),
    Maker(keys.run_model_input, (_text, _text)),
    Maker(keys.run_logged_model, (_text, _text)),
    Maker(keys.run_output, (_text, _text)),
    Maker(keys.logged_model, (_text,)),
    Maker(keys.logged_model_tag, (_text, _text)),
    Maker(keys.logged_model_param, (_text, _text)),
    Maker(keys.logged_model_metric, (_text, _text, int64, int64, _text, st.none() | _text)),
    Maker(keys.trace, (_text,)),
    Maker(keys.trace_tag, (_text, _text)),
    Maker(keys.trace_spans, (_text,)),
    Maker(keys.trace_spans_part, (_text, parts)),
    Maker(keys.trace_assessment, (_text, _text)),
    Maker(trace_issue, (_text, _text)),
    Maker(evaluation.dataset_entry, (_text,)),
    Maker(evaluation.scorer, (_text,)),
    Maker(evaluation.scorer_version, (_text, versions)),
    Maker(evaluation.issue, (_text,)),
    Maker(keys.metric_rank, (_text, doubles, _text)),
    Maker(keys.param_rank, (_text, _text, _text)),
    Maker(keys.fts, (_text, _text, _text, _text)),
    Maker(keys.fts_rev, (_text, _text, _text, _text)),
)
MODEL_PARTITION = (
    Maker(keys.model_meta, ()),
    Maker(keys.model_version, (versions,)),
    Maker(keys.model_version_tag, (versions, _text)),
    Maker(keys.model_tag, (_text,)),
    Maker(keys.model_alias, (_text,)),
    Maker(keys.model_alias_change, (_text, int64, _text)),
)
WORKSPACE_PARTITION = (
    Maker(keys.workspace_meta, ()),
    Maker(lambda name: keys.experiment_name_guard(name).sk, (_text,)),
    Maker(lambda name: keys.model_name_guard(name).sk, (_text,)),
    Maker(lambda webhook_id: keys.webhook_key(webhook_id).sk, (_text,)),
    Maker(lambda name: keys.role_name_guard(name).sk, (_text,)),
    Maker(evaluation.dataset_entry, (_text,)),
)
USER_PARTITION = (
    Maker(keys.user_meta, ()),
    Maker(keys.user_experiment_permission, (_text, _text)),
    Maker(keys.user_model_permission, (_text, _text)),
    Maker(keys.user_grant, (_text, _text, _text)),
    Maker(keys.user_role, (versions,)),
)
ROLE_PARTITION = (
    Maker(keys.role_meta, ()),
    Maker(keys.role_grant, (_text, _text)),
    Maker(keys.role_member, (versions,)),
)
GRANT_PARTITION = (Maker(keys.resource_grant, (_text, _text)),)
CONFIG_PARTITION = (
    Maker(keys.setting, (_text,)),
    Maker(keys.sequence, (_text,)),
    Maker(keys.workspace_entry, (_text,)),
    Maker(keys.user_entry, (versions,)),
)
DATASET_PARTITION = (
    Maker(evaluation.dataset_meta, ()),
    Maker(evaluation.dataset_schema, ()),
    Maker(evaluation.dataset_tag, (_text,)),
    Maker(evaluation.dataset_experiment, (_text,)),
    Maker(evaluation.dataset_input, (_text,)),
    Maker(evaluation.dataset_record, (_text,)),
)
RUN_LINK_PARTITION = (Maker(keys.model_run_link, (_text, versions)),)
PARTITIONS = {
    "experiment": EXPERIMENT_PARTITION,
    "model": MODEL_PARTITION,
    "run links": RUN_LINK_PARTITION,
    "workspace": WORKSPACE_PARTITION,
    "user": USER_PARTITION,
    "config": CONFIG_PARTITION,
    "role": ROLE_PARTITION,
    "grants": GRANT_PARTITION,
    "evaluation dataset": DATASET_PARTITION,
}
PARTITION_KEYS = (
    Maker(keys.experiment_pk, (_text,)),
    Maker(keys.model_pk, (_text, _text)),
    Maker(keys.model_run_pk, (_text, _text)),
    Maker(keys.workspace_pk, (_text,)),
    Maker(keys.user_pk, (_text,)),
    Maker(keys.role_pk, (versions,)),
    Maker(keys.resource_grants_pk, (_text, _text)),
    Maker(evaluation.dataset_pk, (_text,)),
    Maker(lambda scorer_id: evaluation.scorer_locator_key(scorer_id).pk, (_text,)),
    Maker(lambda issue_id: evaluation.issue_locator_key(issue_id).pk, (_text,)),
)


def near(text: str) -> st.SearchStrategy:
    """Texts that stand close to another in order, or try to continue it."""
    ends = ["", "#", "$", "%", "\x00", "0", "z", "\U0010ffff", "#TAG", "#TAG#k", "\uffff#"]
    return st.sampled_from([*(text + end for end in ends), text[:-1], text[1:], "%", "R"])


def call_near(makers: tuple[Maker, ...], arguments: tuple[object, ...]) -> st.SearchStrategy:
    """A call of one of these functions whose texts stand close to those in the arguments."""
    known = [text for text in arguments if isinstance(text, str)] or ["a"]
    close = st.sampled_from(known).flatmap(near)
    return st.sampled_from(makers).flatmap(
        lambda maker: st.tuples(
            st.just(maker.function),
            st.tuples(*(close if kind is any_texts else kind for kind in maker.arguments)),
        )
    )


def any_call(makers: tuple[Maker, ...]) -> st.SearchStrategy:
    """A call of one of these functions: the function and its arguments."""
    return st.one_of([maker.calls() for maker in makers])
