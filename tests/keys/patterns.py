"""All key patterns; a test compares them with the schema page of the documentation."""

from __future__ import annotations

from mlflow_dynamodbstore.keys import (
    access,
    base,
    experiments,
    grants,
    indexes,
    logged_models,
    ranks,
    registry,
    runs,
    traces,
)
from tests.keys.section_patterns import SECTION_PATTERNS, Pattern

_RUN, _TRACE, _MODEL = "0197c9b4", "tr-5f3a", "m-0197c9b5"
_TIME = 1_700_000_000_000

_PARTITIONS = (
    Pattern("PK", "EXP#<experiment_id>", "Experiment partition", experiments.experiment_pk, ("7",)),
    Pattern(
        "PK",
        "EXP#<experiment_id>#<volume>",
        "Further volume of an experiment",
        experiments.volume_pk,
        ("7", 2),
    ),
    Pattern("PK", "RM#[<workspace>#]<model_name>", "Model partition", registry.model_pk, ("iris",)),
    Pattern(
        "PK",
        "RMRUN#[<workspace>#]<run_id>",
        "Model versions of a run",
        registry.model_run_pk,
        (_RUN,),
    ),
    Pattern("PK", "WORKSPACE#<name>", "Workspace partition", access.workspace_pk, ("default",)),
    Pattern("PK", "USER#<username>", "User partition", access.user_pk, ("ada",)),
    Pattern("PK", "ROLE#<role_id>", "Role partition", grants.role_pk, (5,)),
    Pattern(
        "PK",
        "GRANT#<resource_type>#<pattern>",
        "Grants for one thing",
        grants.resource_grants_pk,
        ("experiment", "7"),
    ),
    Pattern("PK", "TRACE#<trace_id>", "Trace locator", traces.trace_locator_key, (_TRACE,)),
    Pattern("PK", "RUNASSESS#<run_id>", "Assessments of a run", traces.run_assessments_pk, (_RUN,)),
    Pattern("PK", "CONFIG", "Global configuration", lambda: access.CONFIG_PK),
)

_EXPERIMENT = (
    Pattern("SK", "E#META", "Experiment", lambda: experiments.EXPERIMENT_META),
    Pattern("SK", "E#TAG#<key>", "Experiment tag", experiments.experiment_tag, ("team",)),
    Pattern("SK", "E#NAME_REV", "Reversed name", experiments.experiment_name_rev),
    Pattern("SK", "E#RESEALED", "Mark of resealing", experiments.experiment_resealed),
    Pattern("SK", "E#TEXTS", "Time of full-text entries", experiments.experiment_texts),
    Pattern("SK", "D#<dataset_hash>", "Dataset", experiments.dataset, ("9f2c",)),
    Pattern(
        "SK",
        "DCTX#<dataset_hash>[#<context>]",
        "Use of a dataset",
        experiments.dataset_context,
        ("9f2c",),
    ),
    Pattern(
        "SK",
        "DLINK#<run_id>#<dataset_name>[#<digest>]",
        "Dataset link",
        experiments.dataset_link,
        (_RUN, "mnist"),
    ),
    Pattern("SK", "E#<experiment_id>", "Listed experiment", experiments.listed_experiment, ("7",)),
)

_RUNS = (
    Pattern("SK", "R#<run_id>", "Run", runs.run, (_RUN,)),
    Pattern("SK", "R#<run_id>#METRIC#<key>", "Latest metric", runs.run_metric, (_RUN, "loss")),
    Pattern(
        "SK",
        "R#<run_id>#MHIST#<key>#<step>#<ts>[#<suffix>]",
        "Metric history",
        runs.run_metric_point,
        (_RUN, "loss", 3, _TIME),
    ),
    Pattern("SK", "R#<run_id>#PARAM#<key>", "Parameter", runs.run_param, (_RUN, "lr")),
    Pattern("SK", "R#<run_id>#TAG#<key>", "Run tag", runs.run_tag, (_RUN, "team")),
    Pattern(
        "SK", "R#<run_id>#INPUT#<name>[#<digest>]", "Dataset input", runs.run_input, (_RUN, "mnist")
    ),
    Pattern(
        "SK", "R#<run_id>#INPUT_LM#<model_id>", "Model input", runs.run_model_input, (_RUN, _MODEL)
    ),
    Pattern(
        "SK",
        "R#<run_id>#LM#<model_name>[#<model_id>]",
        "Logged model",
        runs.run_logged_model,
        (_RUN, "iris"),
    ),
    Pattern("SK", "R#<run_id>#OUTPUT#<model_id>", "Model output", runs.run_output, (_RUN, _MODEL)),
)

_LOGGED_MODELS = (
    Pattern("SK", "LM#<model_id>", "Logged model", logged_models.logged_model, (_MODEL,)),
    Pattern(
        "SK",
        "LM#<model_id>#TAG#<key>",
        "Logged model tag",
        logged_models.logged_model_tag,
        (_MODEL, "team"),
    ),
    Pattern(
        "SK",
        "LM#<model_id>#PARAM#<key>",
        "Logged model parameter",
        logged_models.logged_model_param,
        (_MODEL, "lr"),
    ),
    Pattern(
        "SK",
        "LM#<model_id>#METRIC#<key>#<step>#<ts>#<run_id>[#<dataset>]",
        "Logged model metric",
        logged_models.logged_model_metric,
        (_MODEL, "auc", 0, _TIME, _RUN),
    ),
)

_TRACES = (
    Pattern("SK", "T#<trace_id>", "Trace", traces.trace, (_TRACE,)),
    Pattern("SK", "T#<trace_id>#TAG#<key>", "Trace tag", traces.trace_tag, (_TRACE, "team")),
    Pattern(
        "SK", "T#<trace_id>#CLIENT", "Client's request", traces.trace_client_request, (_TRACE,)
    ),
    Pattern("SK", "T#<trace_id>#SPANS", "Spans", traces.trace_spans, (_TRACE,)),
    Pattern("SK", "T#<trace_id>#SPANS#<part>", "More spans", traces.trace_spans_part, (_TRACE, 1)),
    Pattern(
        "SK",
        "T#<trace_id>#ASSESS#<assessment_id>",
        "Assessment",
        traces.trace_assessment,
        (_TRACE, "a-77"),
    ),
    Pattern("SK", "T#LOC", "Trace locator", traces.trace_locator_key, (_TRACE,)),
    Pattern("SK", "TSA#<trace_id>", "Session assessed", traces.session_assessed, (_TRACE,)),
    Pattern(
        "SK",
        "A#<trace_id>#<assessment_id>",
        "Assessment of a run",
        traces.run_assessment_key,
        (_RUN, _TRACE, "a-77"),
    ),
)

_RANKS = (
    Pattern(
        "SK",
        "RANK#m#<key>#<inv_value>#<run_id>",
        "Metric rank",
        ranks.metric_rank,
        ("loss", 0.5, _RUN),
    ),
    Pattern(
        "SK", "RANK#p#<key>#<value>#<run_id>", "Param rank", ranks.param_rank, ("lr", "0.1", _RUN)
    ),
    Pattern(
        "SK",
        "FTS#<level>#<token>#<entity_type>#<entity_id>",
        "Full-text entry",
        ranks.fts,
        ("word", "iris", "run.name", _RUN),
    ),
    Pattern(
        "SK",
        "FTS_REV#<entity_type>#<entity_id>#<level>#<token>",
        "Full-text entry, reversed",
        ranks.fts_rev,
        ("run.name", _RUN, "word", "iris"),
    ),
)

_REGISTRY = (
    Pattern("SK", "M#META", "Registered model", lambda: registry.MODEL_META),
    Pattern("SK", "M#V#<version>", "Model version", registry.model_version, (3,)),
    Pattern(
        "SK",
        "M#V#<version>#TAG#<key>",
        "Model version tag",
        registry.model_version_tag,
        (3, "team"),
    ),
    Pattern("SK", "M#TAG#<key>", "Model tag", registry.model_tag, ("team",)),
    Pattern("SK", "M#ALIAS#<alias>", "Model alias", registry.model_alias, ("champion",)),
    Pattern(
        "SK",
        "M#ALIASHIST#<alias>#<time>#<change_id>",
        "Alias history",
        registry.model_alias_change,
        ("champion", _TIME, "0197c9b6"),
    ),
    Pattern(
        "SK", "RM#<model_name>#<version>", "Run's version", registry.model_run_link, ("iris", 3)
    ),
)

_ACCESS = (
    Pattern("SK", "WS#META", "Workspace", lambda: access.WORKSPACE_META),
    Pattern("SK", "EXPNAME#<name>", "Experiment name", access.experiment_name_guard, ("nlp",)),
    Pattern("SK", "RMNAME#<name>", "Model name", access.model_name_guard, ("iris",)),
    Pattern("SK", "WEBHOOK#<webhook_id>", "Webhook", access.webhook_key, ("5d1c",)),
    Pattern("SK", "U#META", "User", lambda: access.USER_META),
    Pattern("SK", "U#FAILED", "Failed logins", lambda: access.USER_FAILURES),
    Pattern(
        "SK",
        "U#PERM#[<workspace>#]<experiment_id>",
        "Experiment permission",
        access.user_experiment_permission,
        ("7",),
    ),
    Pattern(
        "SK",
        "U#RPERM#[<workspace>#]<model_name>",
        "Registry permission",
        access.user_model_permission,
        ("iris",),
    ),
    Pattern(
        "SK",
        "U#GRANT#<workspace>#<resource_type>#<pattern>",
        "Grant",
        grants.user_grant,
        ("scorer", "7/fluency"),
    ),
    Pattern("SK", "U#ROLE#<role_id>", "Role of a user", grants.user_role, (5,)),
    Pattern("SK", "RL#META", "Role", lambda: grants.ROLE_META),
    Pattern(
        "SK",
        "RL#PERM#<resource_type>#<pattern>",
        "Grant of a role",
        grants.role_grant,
        ("experiment", "*"),
    ),
    Pattern("SK", "RL#USER#<user_id>", "User of a role", grants.role_member, (1,)),
    Pattern("SK", "ROLENAME#<name>", "Role name", grants.role_name_guard, ("readers",)),
    Pattern(
        "SK",
        "USER#<workspace>#<username>",
        "User with a grant for one thing",
        grants.resource_grant,
        ("ada",),
    ),
    Pattern("SK", "UID#<user_id>", "Entry of a user", grants.user_entry, (1,)),
    Pattern("SK", "CFG#<key>", "Configuration entry", access.setting, ("retention",)),
    Pattern("SK", "SEQ#<name>", "Counter", access.sequence_key, ("experiment",)),
    Pattern("SK", "KEY#<kind>", "Check of a key", access.key_check_key, ("webhook",)),
    Pattern("SK", "WS#<name>", "Entry of a workspace", access.workspace_entry_key, ("team",)),
    Pattern(
        "SK",
        "NUM#<sequence>#<source>#<old>",
        "New number",
        access.new_number_key,
        ("experiment", "9f2c", "7"),
    ),
    Pattern("SK", "SURVEY#<part>", "Survey", access.survey_key, ("contents",)),
    Pattern("SK", "FILL#STATE", "Origin of the table", lambda: access.FILL_STATE),
    Pattern(
        "SK",
        "<sk>#PART#<generation>#<part>",
        "Part of a large value",
        base.value_part,
        ("D#9f2c", "a1b2c3", 0),
    ),
)

_GLOBAL = tuple(
    Pattern(f"{index}{end}", text, entity, function, arguments)
    for index, entity, function, arguments, texts in (
        ("gsi1", "Run", indexes.gsi1_run, (_RUN, "7"), ("RUN#<run_id>", "EXP#<experiment_id>")),
        (
            "gsi1",
            "Trace",
            indexes.gsi1_trace,
            (_TRACE, "7"),
            ("TRACE#<trace_id>", "EXP#<experiment_id>"),
        ),
        (
            "gsi1",
            "Logged model",
            indexes.gsi1_logged_model,
            (_MODEL, "7"),
            ("LM#<model_id>", "EXP#<experiment_id>"),
        ),
        (
            "gsi1",
            "Client's request",
            indexes.gsi1_client_request,
            ("order-17", _TRACE),
            ("CLIENT#<client_request_id>", "TRACE#<trace_id>"),
        ),
        (
            "gsi1",
            "Dataset link",
            indexes.gsi1_dataset,
            ("9f2c", _RUN),
            ("DS#<digest>", "RUN#<run_id>"),
        ),
        (
            "gsi2",
            "Experiment",
            indexes.gsi2_experiment,
            ("7",),
            ("WS#<workspace>", "EXP#<experiment_id>"),
        ),
        (
            "gsi2",
            "Full-text entry",
            indexes.gsi2_fts,
            ("word", "iris", "run.name", _RUN),
            ("FTS#[<workspace>#]<token>", "<level>#<entity_type>#<entity_id>"),
        ),
        (
            "gsi3",
            "Experiment",
            indexes.gsi3_experiment,
            ("nlp", "7"),
            ("EXPNAME#[<workspace>#]<name>", "EXP#<experiment_id>"),
        ),
        (
            "gsi3",
            "Registered model",
            indexes.gsi3_model,
            ("iris",),
            ("RMNAME#[<workspace>#]<name>", "RM#[<workspace>#]<model_name>"),
        ),
        (
            "gsi3",
            "Model alias",
            indexes.gsi3_alias,
            ("champion", "iris"),
            ("ALIAS#[<workspace>#]<alias>", "RM#[<workspace>#]<model_name>"),
        ),
        (
            "gsi4",
            "Experiment permission",
            indexes.gsi4_experiment_permission,
            ("7", "ada"),
            ("EXPPERM#<experiment_id>", "USER#<username>"),
        ),
        (
            "gsi4",
            "Registry permission",
            indexes.gsi4_model_permission,
            ("iris", "ada"),
            ("RMPERM#[<workspace>#]<model_name>", "USER#<username>"),
        ),
        (
            "gsi5",
            "Experiment",
            indexes.gsi5_experiment,
            ("nlp",),
            ("WS#<workspace>#EXP", "<experiment_name>"),
        ),
        (
            "gsi5",
            "Reversed name",
            indexes.gsi5_reversed_name,
            ("nlp",),
            ("WS#<workspace>#EXP_REV", "<reversed_name>"),
        ),
        (
            "gsi5",
            "Registered model",
            indexes.gsi5_model,
            ("iris",),
            ("RM_LIST[#<workspace>]", "<model_name>"),
        ),
    )
    for end, text in zip(("pk", "sk"), texts, strict=True)
)

_LOCAL = (
    Pattern(
        "lsi1sk", "<lifecycle>#<time>#<run_id>", "Run", indexes.lsi1_run, (_RUN, "active", _TIME)
    ),
    Pattern(
        "lsi1sk",
        "LM#<lifecycle>#<time>#<model_id>",
        "Logged model",
        indexes.lsi1_logged_model,
        (_MODEL, "active", _TIME),
    ),
    Pattern("lsi1sk", "T#<time>#<trace_id>", "Trace", indexes.lsi1_trace, (_TRACE, _TIME)),
    Pattern("lsi2sk", "R#<time>#<run_id>", "Run", indexes.lsi2_run, (_RUN, _TIME)),
    Pattern("lsi2sk", "T#<time>#<trace_id>", "Trace", indexes.lsi2_trace, (_TRACE, _TIME)),
    Pattern(
        "lsi2sk", "N#<time>#<experiment_id>", "Experiment name", indexes.lsi2_named, ("7", _TIME)
    ),
    Pattern(
        "lsi3sk", "<status>#<time>#<run_id>", "Run", indexes.lsi3_run, (_RUN, "RUNNING", _TIME)
    ),
    Pattern(
        "lsi3sk", "<status>#<time>#<trace_id>", "Trace", indexes.lsi3_trace, (_TRACE, "OK", _TIME)
    ),
    Pattern("lsi4sk", "R#<name>#<run_id>", "Run", indexes.lsi4_run, (_RUN, "first-try")),
    Pattern("lsi4sk", "T#<name>#<trace_id>", "Trace", indexes.lsi4_trace, (_TRACE, "chat")),
    Pattern(
        "lsi5sk",
        "TS#<session>#<time>#<trace_id>",
        "Trace",
        indexes.lsi5_trace,
        (_TRACE, "call-3", _TIME),
    ),
    Pattern(
        "lsi5sk",
        "CLIENT#<client_request_id>#<trace_id>",
        "Client's request",
        indexes.lsi5_client_request,
        (_TRACE, "order-17"),
    ),
    Pattern("lsi5sk", "DS#<digest>#<run_id>", "Dataset link", indexes.lsi5_dataset, (_RUN, "9f2c")),
    Pattern("lsi5sk", "LIVE#<run_id>", "Live run", indexes.lsi5_live, (_RUN,)),
    Pattern("lsi5sk", "LIVE##<mark>", "Mark of resealing", indexes.lsi5_resealed, ("5d1c",)),
    Pattern(
        "lsi5sk", "M#<key>#<value>#<run_id>", "Sealed run", indexes.lsi5_run, (_RUN, "loss", 0.5)
    ),
)

PATTERNS: tuple[Pattern, ...] = (
    *_PARTITIONS,
    *_EXPERIMENT,
    *_RUNS,
    *_LOGGED_MODELS,
    *_TRACES,
    *_RANKS,
    *_REGISTRY,
    *_ACCESS,
    *_GLOBAL,
    *_LOCAL,
    *SECTION_PATTERNS,
)
"""Every pattern that a key of the table or of an index can have."""
