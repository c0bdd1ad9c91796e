"""Texts that try to break keys, and every function that makes a sort key."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hypothesis import strategies as st

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import evaluation_datasets as dataset_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import grants as grant_keys
from mlflow_dynamodbstore.keys import issues as issue_keys
from mlflow_dynamodbstore.keys import logged_models as logged_model_keys
from mlflow_dynamodbstore.keys import ranks as rank_keys
from mlflow_dynamodbstore.keys import registry as registry_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys import scorers as scorer_keys
from mlflow_dynamodbstore.keys import traces as trace_keys
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
    Maker(lambda: experiment_keys.EXPERIMENT_META, ()),
    Maker(experiment_keys.experiment_name_rev, ()),
    Maker(experiment_keys.experiment_tag, (_text,)),
    Maker(experiment_keys.dataset, (_text,)),
    Maker(experiment_keys.dataset_context, (_text, st.none() | _text)),
    Maker(experiment_keys.dataset_link, (_text, _text, st.none() | _text)),
    Maker(run_keys.run, (_text,)),
    Maker(run_keys.run_metric, (_text, _text)),
    Maker(run_keys.run_metric_point, (_text, _text, int64, int64, st.none() | _text)),
    Maker(run_keys.run_param, (_text, _text)),
    Maker(run_keys.run_tag, (_text, _text)),
    Maker(run_keys.run_input, (_text, _text, st.none() | _text)),
    Maker(run_keys.run_model_input, (_text, _text)),
    Maker(run_keys.run_logged_model, (_text, _text, st.none() | _text)),
    Maker(run_keys.run_output, (_text, _text)),
    Maker(logged_model_keys.logged_model, (_text,)),
    Maker(logged_model_keys.logged_model_tag, (_text, _text)),
    Maker(logged_model_keys.logged_model_param, (_text, _text)),
    Maker(
        logged_model_keys.logged_model_metric,
        (_text, _text, int64, int64, _text, st.none() | _text),
    ),
    Maker(trace_keys.trace, (_text,)),
    Maker(trace_keys.trace_tag, (_text, _text)),
    Maker(trace_keys.trace_spans, (_text,)),
    Maker(trace_keys.trace_spans_part, (_text, parts)),
    Maker(trace_keys.trace_assessment, (_text, _text)),
    Maker(trace_issue, (_text, _text)),
    Maker(dataset_keys.dataset_entry, (_text,)),
    Maker(scorer_keys.scorer, (_text,)),
    Maker(scorer_keys.scorer_version, (_text, versions)),
    Maker(issue_keys.issue, (_text,)),
    Maker(rank_keys.metric_rank, (_text, doubles, _text)),
    Maker(rank_keys.param_rank, (_text, _text, _text)),
    Maker(rank_keys.fts, (_text, _text, _text, _text)),
    Maker(rank_keys.fts_rev, (_text, _text, _text, _text)),
)


def model_meta() -> str:
    return registry_keys.MODEL_META


MODEL_PARTITION = (
    Maker(model_meta, ()),
    Maker(registry_keys.model_version, (versions,)),
    Maker(registry_keys.model_version_tag, (versions, _text)),
    Maker(registry_keys.model_tag, (_text,)),
    Maker(registry_keys.model_alias, (_text,)),
    Maker(registry_keys.model_alias_change, (_text, int64, _text)),
)
WORKSPACE_PARTITION = (
    Maker(lambda: access_keys.WORKSPACE_META, ()),
    Maker(lambda name: access_keys.experiment_name_guard(name).sk, (_text,)),
    Maker(lambda name: access_keys.model_name_guard(name).sk, (_text,)),
    Maker(lambda webhook_id: access_keys.webhook_key(webhook_id).sk, (_text,)),
    Maker(lambda name: grant_keys.role_name_guard(name).sk, (_text,)),
    Maker(dataset_keys.dataset_entry, (_text,)),
)
USER_PARTITION = (
    Maker(lambda: access_keys.USER_META, ()),
    Maker(access_keys.user_experiment_permission, (_text, _text)),
    Maker(access_keys.user_model_permission, (_text, _text)),
    Maker(grant_keys.user_grant, (_text, _text, _text)),
    Maker(grant_keys.user_role, (versions,)),
)
ROLE_PARTITION = (
    Maker(lambda: grant_keys.ROLE_META, ()),
    Maker(grant_keys.role_grant, (_text, _text)),
    Maker(grant_keys.role_member, (versions,)),
)
GRANT_PARTITION = (Maker(grant_keys.resource_grant, (_text, _text)),)
CONFIG_PARTITION = (
    Maker(access_keys.setting, (_text,)),
    Maker(lambda name: access_keys.sequence_key(name).sk, (_text,)),
    Maker(lambda name: access_keys.workspace_entry_key(name).sk, (_text,)),
    Maker(grant_keys.user_entry, (versions,)),
)
DATASET_PARTITION = (
    Maker(lambda: dataset_keys.DATASET_META, ()),
    Maker(lambda: dataset_keys.DATASET_SCHEMA, ()),
    Maker(dataset_keys.dataset_tag, (_text,)),
    Maker(dataset_keys.dataset_experiment, (_text,)),
    Maker(dataset_keys.dataset_input, (_text,)),
    Maker(dataset_keys.dataset_record, (_text,)),
)
RUN_LINK_PARTITION = (Maker(registry_keys.model_run_link, (_text, versions)),)
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
    Maker(experiment_keys.experiment_pk, (_text,)),
    Maker(registry_keys.model_pk, (_text, _text)),
    Maker(registry_keys.model_run_pk, (_text, _text)),
    Maker(access_keys.workspace_pk, (_text,)),
    Maker(access_keys.user_pk, (_text,)),
    Maker(grant_keys.role_pk, (versions,)),
    Maker(grant_keys.resource_grants_pk, (_text, _text)),
    Maker(dataset_keys.dataset_pk, (_text,)),
    Maker(lambda scorer_id: scorer_keys.scorer_locator_key(scorer_id).pk, (_text,)),
    Maker(lambda issue_id: issue_keys.issue_locator_key(issue_id).pk, (_text,)),
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
