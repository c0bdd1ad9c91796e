"""The patterns of the keys whose modules describe their items themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mlflow_dynamodbstore.keys import (
    evaluation_datasets,
    gateway,
    issues,
    jobs,
    mcp,
    metric_log,
    reviews,
    scorers,
    traces,
)
from mlflow_dynamodbstore.table.values import Key


class Pattern(NamedTuple):
    """One form that a key attribute takes.

    In ``text``, ``<...>`` stands for a piece and ``[...]`` is optional.
    """

    attribute: str
    text: str
    entity: str
    function: Callable[..., str | Key | dict[str, str]]
    arguments: tuple[str | int | float, ...] = ()

    @property
    def example(self) -> str:
        """The key that the function makes of the arguments."""
        made = self.function(*self.arguments)
        if isinstance(made, Key):
            return made.pk if self.attribute == "PK" else made.sk
        return made if isinstance(made, str) else made[self.attribute]


_DATASET = "d-0197c9b7"
_EVALUATION_DATASETS = (
    Pattern(
        "PK",
        "EVALDS#<dataset_id>",
        "Evaluation dataset partition",
        evaluation_datasets.dataset_pk,
        (_DATASET,),
    ),
    Pattern("SK", "V#META", "Evaluation dataset", lambda: evaluation_datasets.DATASET_META),
    Pattern(
        "SK",
        "V#SCHEMA",
        "Schema of an evaluation dataset",
        lambda: evaluation_datasets.DATASET_SCHEMA,
    ),
    Pattern(
        "SK", "V#TAG#<key>", "Evaluation dataset tag", evaluation_datasets.dataset_tag, ("team",)
    ),
    Pattern(
        "SK",
        "V#EXP#<experiment_id>",
        "Experiment of an evaluation dataset",
        evaluation_datasets.dataset_experiment,
        ("7",),
    ),
    Pattern(
        "SK",
        "V#HASH#<input_hash>",
        "Inputs of a record",
        evaluation_datasets.dataset_input,
        ("9f2c",),
    ),
    Pattern(
        "SK", "V#REC#<record_id>", "Record", evaluation_datasets.dataset_record, ("dr-0197c9b7",)
    ),
    Pattern(
        "SK",
        "EVALDS#<dataset_id>",
        "Entry of an evaluation dataset",
        evaluation_datasets.dataset_entry,
        (_DATASET,),
    ),
)

_SCORER = "0197c9b8"
_SCORERS = (
    Pattern("PK", "SCORER#<scorer_id>", "Scorer locator", scorers.scorer_locator_key, (_SCORER,)),
    Pattern("PK", "ONLINE", "Online scorers", lambda: scorers.ONLINE_PK),
    Pattern("SK", "S#<scorer_name>", "Scorer", scorers.scorer, ("fluency",)),
    Pattern(
        "SK",
        "SV#<scorer_id>#<version>",
        "Version of a scorer",
        scorers.scorer_version,
        (_SCORER, 2),
    ),
    Pattern("SK", "S#LOC", "Scorer locator", scorers.scorer_locator_key, (_SCORER,)),
    Pattern(
        "SK",
        "S#<experiment_id>#<scorer_name>",
        "Online scorer",
        scorers.online_scorer,
        ("7", "fluency"),
    ),
    Pattern(
        "PK", "SCORERS", "Experiments with scorers", lambda: scorers.EXPERIMENTS_WITH_SCORERS_PK
    ),
)

_ISSUE = "iss-0197c9b9"
_ISSUES = (
    Pattern("PK", "ISSUE#<issue_id>", "Issue locator", issues.issue_locator_key, (_ISSUE,)),
    Pattern("PK", "ISSUES", "Experiments with issues", lambda: issues.EXPERIMENTS_WITH_ISSUES_PK),
    Pattern("SK", "I#<issue_id>", "Issue", issues.issue, (_ISSUE,)),
    Pattern("SK", "I#LOC", "Issue locator", issues.issue_locator_key, (_ISSUE,)),
    Pattern(
        "SK",
        "T#<trace_id>#ISSUE#<assessment_id>",
        "Reference to an issue",
        traces.trace_issue,
        ("tr-5f3a", "a-77"),
    ),
    Pattern(
        "lsi5sk",
        "I#<issue_id>#<trace_id>#<assessment_id>",
        "Reference to an issue",
        issues.lsi5_issue,
        (_ISSUE, "tr-5f3a", "a-77"),
    ),
)

_GATEWAY_ID = "0197c9b7"
_GATEWAY = (
    Pattern(
        "SK", "GWSECRET#<secret_id>", "Gateway secret", gateway.secret_key, (f"s-{_GATEWAY_ID}",)
    ),
    Pattern(
        "SK", "GWSECRETNAME#<name>", "Gateway secret name", gateway.secret_name_guard, ("openai",)
    ),
    Pattern(
        "SK",
        "GWMODEL#<model_definition_id>",
        "Gateway model definition",
        gateway.model_definition_key,
        (f"d-{_GATEWAY_ID}",),
    ),
    Pattern(
        "SK",
        "GWMODELNAME#<name>",
        "Gateway model definition name",
        gateway.model_definition_name_guard,
        ("gpt",),
    ),
    Pattern(
        "SK",
        "GWENDPOINT#<endpoint_id>",
        "Gateway endpoint",
        gateway.endpoint_key,
        (f"e-{_GATEWAY_ID}",),
    ),
    Pattern(
        "SK",
        "GWENDPOINTNAME#<name>",
        "Gateway endpoint name",
        gateway.endpoint_name_guard,
        ("chat",),
    ),
    Pattern(
        "SK",
        "GWBIND#<resource_type>#<resource_id>#<endpoint_id>",
        "Gateway endpoint binding",
        gateway.binding_key,
        ("scorer", "5d1c", f"e-{_GATEWAY_ID}"),
    ),
    Pattern(
        "SK",
        "GWBUDGET#<policy_id>",
        "Gateway budget policy",
        gateway.budget_key,
        (f"bp-{_GATEWAY_ID}",),
    ),
    Pattern(
        "SK",
        "GWGUARDRAIL#<guardrail_id>",
        "Gateway guardrail",
        gateway.guardrail_key,
        (f"gr-{_GATEWAY_ID}",),
    ),
    Pattern(
        "SK",
        "GWTRACED#<experiment_id>",
        "Experiment of gateway calls",
        gateway.traced_experiment_key,
        ("7",),
    ),
)

_JOB = "0197c9b4-77aa"
_JOBS = (
    Pattern("PK", "JOBS#<workspace>", "Jobs of a workspace", jobs.jobs_pk, ("default",)),
    Pattern("PK", "JOBLEASES", "Leases of job runners", jobs.leases_pk),
    Pattern("SK", "L#<name>", "Job lease", jobs.lease, ("periodic_tasks",)),
    Pattern("SK", "J#<job_id>", "Job", jobs.job, (_JOB,)),
    Pattern("lsi1sk", "JOB#<status>#<job_id>", "Job", jobs.lsi1_job, (_JOB, "PENDING")),
)

_VERSION = ("000000000100000000020000000003" + "2", "1.2.3")
_MCP = (
    Pattern(
        "PK",
        "MCP#[<workspace>#]<server_name>",
        "MCP server partition",
        mcp.server_pk,
        ("io.github.ada/files",),
    ),
    Pattern("SK", "S#META", "MCP server", lambda: mcp.SERVER_META),
    Pattern("SK", "S#V#<precedence>#<version>", "MCP server version", mcp.server_version, _VERSION),
    Pattern(
        "SK",
        "S#V#<precedence>#<version>#TAG#<key>",
        "MCP server version tag",
        mcp.server_version_tag,
        (*_VERSION, "team"),
    ),
    Pattern("SK", "S#TAG#<key>", "MCP server tag", mcp.server_tag, ("team",)),
    Pattern("SK", "S#EP#<endpoint_id>", "MCP access endpoint", mcp.server_endpoint, ("ae-0197",)),
    Pattern(
        "SK", "MCPNAME#<name>", "MCP server name", mcp.server_name_guard, ("io.github.ada/files",)
    ),
    Pattern(
        "SK",
        "MCPEP#<endpoint_id>",
        "Entry of an MCP access endpoint",
        mcp.workspace_endpoint,
        ("ae-0197",),
    ),
)

_QUEUE = "rq-0197c9b8"
_SCHEMA = "ls-0197c9b7"
_TIME = 1700000000000
_TRACE = "tr-5f3a"
_REVIEWS = (
    Pattern(
        "PK",
        "REVIEW#<id>",
        "Locator of a label schema or review queue",
        reviews.review_locator_key,
        (_QUEUE,),
    ),
    Pattern(
        "SK",
        "RV#LOC",
        "Locator of a label schema or review queue",
        reviews.review_locator_key,
        (_QUEUE,),
    ),
    Pattern("SK", "LS#<schema_id>", "Label schema", reviews.label_schema, (_SCHEMA,)),
    Pattern("SK", "LSNAME#<name>", "Name of a label schema", reviews.label_schema_name, ("tone",)),
    Pattern("SK", "RQ#<queue_id>", "Review queue", reviews.review_queue, (_QUEUE,)),
    Pattern(
        "SK",
        "RQ#<queue_id>#ITEM#<item_id>",
        "Item of a review queue",
        reviews.review_item,
        (_QUEUE, _TRACE),
    ),
    Pattern(
        "SK", "RQNAME#<name>", "Name of a review queue", reviews.review_queue_name, ("triage",)
    ),
    Pattern(
        "lsi1sk",
        "LS#<age>#<schema_id>",
        "Label schema",
        reviews.lsi1_label_schema,
        (_SCHEMA, _TIME),
    ),
    Pattern(
        "lsi1sk",
        "RQ#<age>#<queue_id>",
        "Review queue",
        reviews.lsi1_review_queue,
        (_QUEUE, _TIME),
    ),
    Pattern(
        "lsi1sk",
        "RQI#<queue_id>#<status>#<age>#<item_id>",
        "Item of a review queue",
        reviews.lsi1_review_item,
        (_QUEUE, "pending", _TRACE, _TIME),
    ),
    Pattern(
        "lsi4sk",
        "RQI#<item_id>#<queue_id>",
        "Item of a review queue",
        reviews.lsi4_review_item,
        (_TRACE, _QUEUE),
    ),
)

_LOGGED = ("0197c9b4", "5d1c07fe")
_METRIC_LOG = (
    Pattern(
        "SK",
        "LIVE#<run_id>#<writer>#<slot>",
        "Metric log",
        metric_log.log_segment,
        (*_LOGGED, 3),
    ),
    Pattern("SK", "LIVE#<run_id>#<writer>#head", "Metric log", metric_log.log_head, _LOGGED),
    Pattern("SK", "LIVE#<run_id>#latest", "Metric log", metric_log.log_latest, _LOGGED[:1]),
)

SECTION_PATTERNS: tuple[Pattern, ...] = (
    *_EVALUATION_DATASETS,
    *_SCORERS,
    *_ISSUES,
    *_GATEWAY,
    *_JOBS,
    *_MCP,
    *_METRIC_LOG,
    *_REVIEWS,
)
