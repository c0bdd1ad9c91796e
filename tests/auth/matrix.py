"""What MLflow's auth app guards, kind by kind: how a thing is made, and what each call on it needs.

``needs`` is what a permission must allow for a call: a level allows some of them, see LEVELS.
Calls are in an order in which each finds what it needs; the one that deletes the thing is last.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import requests

from tests.auth.server import Caller
from tests.releases import has

LEVELS: dict[str | None, set[str]] = {
    None: set(),
    "READ": {"read"},
    "USE": {"read", "use"},
    "EDIT": {"read", "use", "update"},
    "MANAGE": {"read", "use", "update", "delete", "manage"},
    **({"DENY": set()} if has("denials") else {}),
}
"""What each level allows. Without a grant the configured default holds, NO_PERMISSIONS."""
UNGRANTABLE = "NO_PERMISSIONS"

OLD, NEW = "2.0/mlflow", "3.0/mlflow"
Things = dict[str, str]


@dataclass(frozen=True)
class Call:
    """One call: the permission it needs, and its arguments, with names of things in braces."""

    needs: str
    method: str
    path: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def by(self, caller: Caller, things: Things) -> requests.Response:
        arguments = filled(self.arguments, things)
        return caller.call(
            self.method,
            self.path.format_map(things),
            **({"params": arguments} if self.method == "GET" else {"json": arguments}),
        )


@dataclass(frozen=True)
class Kind:
    """A kind of thing; ``granted`` names what a grant for it is for."""

    name: str
    granted: str
    make: Callable[[Caller], Things]
    calls: tuple[Call, ...]


def filled(value: Any, things: Things) -> Any:
    """Arguments with the names of things filled in."""
    if isinstance(value, str):
        return value.format_map(things)
    if isinstance(value, dict):
        return {key: filled(inner, things) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, things) for inner in value]
    return value


def new_name() -> str:
    return f"n{uuid.uuid4().hex}"


def get(needs: str, path: str, **arguments: Any) -> Call:
    return Call(needs, "GET", path, arguments)


def post(needs: str, path: str, **arguments: Any) -> Call:
    return Call(needs, "POST", path, arguments)


def patch(needs: str, path: str, **arguments: Any) -> Call:
    return Call(needs, "PATCH", path, arguments)


def delete(needs: str, path: str, **arguments: Any) -> Call:
    return Call(needs, "DELETE", path, arguments)


def permissions(kind: str) -> tuple[Call, ...]:
    """Giving a permission to somebody else and taking it away."""
    who = {"username": "bob", "resource_type": kind, "resource_id": "{id}"}
    return (
        post("manage", f"{NEW}/users/permissions/grant", **who, permission="READ"),
        post("manage", f"{NEW}/users/permissions/revoke", **who),
    )


# --- experiments and what is in them ------------------------------------------------------------


def make_experiment(admin: Caller) -> Things:
    name = new_name()
    made = admin.must(f"{OLD}/experiments/create", name=name)["experiment_id"]
    return {"id": made, "experiment": made, "name": name, "new": new_name()}


EXPERIMENT = Kind(
    "experiment",
    "experiment",
    make_experiment,
    (
        get("read", f"{OLD}/experiments/get", experiment_id="{experiment}"),
        get("read", f"{OLD}/experiments/get-by-name", experiment_name="{name}"),
        post(
            "update",
            f"{OLD}/experiments/set-experiment-tag",
            experiment_id="{experiment}",
            key="k",
            value="v",
        ),
        post(
            "update",
            f"{OLD}/experiments/delete-experiment-tag",
            experiment_id="{experiment}",
            key="k",
        ),
        post("update", f"{OLD}/experiments/update", experiment_id="{experiment}", new_name="{new}"),
        *permissions("experiment"),
        post("delete", f"{OLD}/experiments/delete", experiment_id="{experiment}"),
        post("delete", f"{OLD}/experiments/restore", experiment_id="{experiment}"),
    ),
)


def make_run(admin: Caller) -> Things:
    things = make_experiment(admin)
    run = admin.must(f"{OLD}/runs/create", experiment_id=things["id"])["run"]["info"]["run_id"]
    return things | {"run": run}


POINT = {"key": "m", "value": 1, "timestamp": 1, "step": 0}
RUN = Kind(
    "run",
    "experiment",
    make_run,
    (
        post("update", f"{OLD}/runs/create", experiment_id="{experiment}"),
        post("update", f"{OLD}/runs/log-metric", run_id="{run}", **POINT),
        post("update", f"{OLD}/runs/log-parameter", run_id="{run}", key="p", value="1"),
        post("update", f"{OLD}/runs/log-batch", run_id="{run}", metrics=[POINT]),
        post("update", f"{OLD}/runs/log-inputs", run_id="{run}", datasets=[]),
        post("update", f"{OLD}/runs/outputs", run_id="{run}", models=[]),
        post("update", f"{OLD}/runs/set-tag", run_id="{run}", key="t", value="1"),
        post("update", f"{OLD}/runs/delete-tag", run_id="{run}", key="t"),
        get("read", f"{OLD}/runs/get", run_id="{run}"),
        get("read", f"{OLD}/metrics/get-history", run_id="{run}", metric_key="m"),
        get(
            "read",
            f"{OLD}/metrics/get-history-bulk-interval",
            run_ids=["{run}"],
            metric_key="m",
            max_results=5,
        ),
        get("read", f"{OLD}/artifacts/list", run_id="{run}"),
        post("update", f"{OLD}/runs/update", run_id="{run}", status="FINISHED"),
        post("delete", f"{OLD}/runs/delete", run_id="{run}"),
        post("delete", f"{OLD}/runs/restore", run_id="{run}"),
    ),
)


def trace_of(experiment: str, trace: str) -> dict[str, Any]:
    place = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": experiment}}
    info = {
        "trace_id": trace,
        "trace_location": place,
        "request_time": "2025-01-01T00:00:00Z",
        "execution_duration": "1s",
        "state": "OK",
    }
    return {"trace": {"trace_info": info}}


def make_trace(admin: Caller) -> Things:
    things = make_run(admin)
    trace, other = f"tr-{uuid.uuid4().hex}", f"tr-{uuid.uuid4().hex}"
    admin.must(f"{NEW}/traces", **trace_of(things["id"], trace))
    made = admin.must(f"{NEW}/traces/{trace}/assessments", **assessment(trace))
    return things | {
        "trace": trace,
        "other": other,
        "assessment": made["assessment"]["assessment_id"],
    }


def assessment(trace: str) -> dict[str, Any]:
    source = {"source_type": "HUMAN", "source_id": "ada"}
    body = {"assessment_name": "good", "trace_id": trace, "source": source}
    return {"assessment": body | {"feedback": {"value": True}}}


PLACES = [{"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": "{experiment}"}}]
ONE_ASSESSMENT = f"{NEW}/traces/{{trace}}/assessments/{{assessment}}"
TRACE = Kind(
    "trace",
    "experiment",
    make_trace,
    (
        post("update", f"{NEW}/traces", **trace_of("{experiment}", "{other}")),
        get("read", f"{NEW}/traces/{{trace}}"),
        post("read", f"{NEW}/traces/batchGetInfos", trace_ids=["{trace}"]),
        post("read", f"{NEW}/traces/search", locations=PLACES),
        get("read", f"{OLD}/traces/{{trace}}/info"),
        get("read", f"{OLD}/traces", experiment_ids=["{experiment}"]),
        post(
            "read",
            f"{NEW}/traces/calculate-filter-correlation",
            experiment_ids=["{experiment}"],
            filter_string1="attributes.status = 'OK'",
            filter_string2="attributes.status = 'ERROR'",
        ),
        post(
            "read",
            f"{NEW}/traces/metrics",
            experiment_ids=["{experiment}"],
            view_type="TRACES",
            metric_name="trace_count",
            aggregations=[{"aggregation_type": "COUNT"}],
        ),
        patch("update", f"{NEW}/traces/{{trace}}/tags", key="k", value="v"),
        delete("update", f"{NEW}/traces/{{trace}}/tags", key="k"),
        post("update", f"{OLD}/traces/link-to-run", trace_ids=["{trace}"], run_id="{run}"),
        post("update", f"{NEW}/traces/{{trace}}/assessments", **assessment("{trace}")),
        get("read", ONE_ASSESSMENT),
        patch(
            "update",
            ONE_ASSESSMENT,
            assessment={"assessment_id": "{assessment}", "assessment_name": "better"},
            update_mask="assessmentName",
        ),
        delete("update", ONE_ASSESSMENT),
        post(
            "delete",
            f"{NEW}/traces/delete-traces",
            experiment_id="{experiment}",
            request_ids=["{trace}"],
        ),
    ),
)


def make_logged_model(admin: Caller) -> Things:
    things = make_experiment(admin)
    made = admin.must(f"{OLD}/logged-models", experiment_id=things["id"], name="m")
    return things | {"model": made["model"]["info"]["model_id"]}


ONE_MODEL = f"{OLD}/logged-models/{{model}}"
LOGGED_MODEL = Kind(
    "logged model",
    "experiment",
    make_logged_model,
    (
        post("update", f"{OLD}/logged-models", experiment_id="{experiment}", name="n"),
        get("read", ONE_MODEL),
        get("read", f"{ONE_MODEL}/artifacts/directories"),
        patch("update", f"{ONE_MODEL}/tags", tags=[{"key": "k", "value": "v"}]),
        post(
            "update", f"{ONE_MODEL}/params", model_id="{model}", params=[{"key": "p", "value": "1"}]
        ),
        patch("update", ONE_MODEL, model_id="{model}", status="LOGGED_MODEL_READY"),
        delete("delete", f"{ONE_MODEL}/tags/k"),
        delete("delete", ONE_MODEL),
    ),
)


def make_scorer(admin: Caller) -> Things:
    things = make_experiment(admin)
    scorer = new_name()
    admin.must(
        f"{NEW}/scorers/register",
        experiment_id=things["experiment"],
        name=scorer,
        serialized_scorer=SCORER,
    )
    return things | {"id": f"{things['experiment']}/{scorer}", "scorer": scorer}


SCORER = '{"name": "s", "builtin_scorer_class": "Safety", "builtin_scorer_pydantic_data": {}}'
NAMED = {"experiment_id": "{experiment}", "name": "{scorer}"}
SCORERS = Kind(
    "scorer",
    "scorer",
    make_scorer,
    (
        get("read", f"{NEW}/scorers/get", **NAMED),
        get("read", f"{NEW}/scorers/versions", **NAMED),
        *permissions("scorer"),
        delete("delete", f"{NEW}/scorers/delete", **NAMED),
    ),
)


def make_dataset(admin: Caller) -> Things:
    things = make_experiment(admin)
    made = admin.must(f"{NEW}/datasets/create", name=new_name(), experiment_ids=[things["id"]])
    return things | {"dataset": made["dataset"]["dataset_id"]}


ONE_DATASET = f"{NEW}/datasets/{{dataset}}"
DATASET = Kind(
    "dataset",
    "experiment",
    make_dataset,
    (
        post("update", f"{NEW}/datasets/create", name="{new}", experiment_ids=["{experiment}"]),
        get("read", ONE_DATASET),
        get("read", f"{ONE_DATASET}/records"),
        get("read", f"{ONE_DATASET}/experiment-ids"),
        post("read", f"{NEW}/datasets/search", experiment_ids=["{experiment}"]),
        patch("update", f"{ONE_DATASET}/tags", tags='{{"k": "v"}}'),
        delete("update", f"{ONE_DATASET}/tags/k"),
        post("update", f"{ONE_DATASET}/records", records='[{{"inputs": {{"q": "1"}}}}]'),
        delete("delete", ONE_DATASET),
    ),
)


def make_issue(admin: Caller) -> Things:
    things = make_experiment(admin)
    made = admin.must(f"{NEW}/issues", experiment_id=things["id"], name="n", description="d")
    return things | {"issue": made["issue"]["issue_id"]}


ISSUE = Kind(
    "issue",
    "experiment",
    make_issue,
    (
        post("update", f"{NEW}/issues", experiment_id="{experiment}", name="n", description="d"),
        get("read", f"{NEW}/issues/{{issue}}"),
        post("read", f"{NEW}/issues/search", experiment_id="{experiment}"),
        patch("update", f"{NEW}/issues/{{issue}}", issue_id="{issue}", name="other"),
    ),
)

LABEL = {"type": "FEEDBACK", "input": {"text": {}}}


def make_label_schema(admin: Caller) -> Things:
    things = make_experiment(admin)
    made = admin.must(
        f"{NEW}/label-schemas/create", experiment_id=things["id"], name="label", **LABEL
    )
    return things | {"schema": made["label_schema"]["schema_id"]}


LABEL_SCHEMA = Kind(
    "label schema",
    "experiment",
    make_label_schema,
    (
        get("read", f"{NEW}/label-schemas/get", schema_id="{schema}"),
        get("read", f"{NEW}/label-schemas/list", experiment_id="{experiment}"),
        get("read", f"{NEW}/label-schemas/get-by-name", experiment_id="{experiment}", name="label"),
        post(
            "manage",
            f"{NEW}/label-schemas/create",
            experiment_id="{experiment}",
            name="other",
            **LABEL,
        ),
        patch("manage", f"{NEW}/label-schemas/update", schema_id="{schema}", name="better"),
        delete("manage", f"{NEW}/label-schemas/delete", schema_id="{schema}"),
    ),
)


def make_review_queue(admin: Caller) -> Things:
    things = make_experiment(admin)
    made = admin.must(
        f"{NEW}/review-queues/create",
        experiment_id=things["id"],
        name="queue",
        queue_type="CUSTOM",
    )
    return things | {"queue": made["review_queue"]["queue_id"]}


REVIEW_QUEUE = Kind(
    "review queue",
    "experiment",
    make_review_queue,
    (
        get("read", f"{NEW}/review-queues/list", experiment_id="{experiment}"),
        get("manage", f"{NEW}/review-queues/get", queue_id="{queue}"),
        get("manage", f"{NEW}/review-queues/items/list", queue_id="{queue}"),
        post(
            "update",
            f"{NEW}/review-queues/create",
            experiment_id="{experiment}",
            name="other",
            queue_type="CUSTOM",
        ),
        post("manage", f"{NEW}/review-queues/update", queue_id="{queue}", name="better"),
        post("manage", f"{NEW}/review-queues/delete", queue_id="{queue}"),
    ),
)


# --- the registry -------------------------------------------------------------------------------


def make_registered_model(admin: Caller) -> Things:
    name = new_name()
    admin.must(f"{OLD}/registered-models/create", name=name)
    return {"id": name, "name": name, "new": new_name()}


REGISTERED_MODEL = Kind(
    "registered model",
    "registered_model",
    make_registered_model,
    (
        get("read", f"{OLD}/registered-models/get", name="{name}"),
        post("update", f"{OLD}/registered-models/set-tag", name="{name}", key="k", value="v"),
        delete("update", f"{OLD}/registered-models/delete-tag", name="{name}", key="k"),
        patch("update", f"{OLD}/registered-models/update", name="{name}", description="d"),
        *permissions("registered_model"),
        delete("delete", f"{OLD}/registered-models/delete", name="{name}"),
    ),
)


def make_model_version(admin: Caller) -> Things:
    things = make_registered_model(admin)
    run = make_run(admin)["run"]
    source = f"runs:/{run}/model"
    named = {"name": things["name"]}
    admin.must(f"{OLD}/model-versions/create", **named, source=source, run_id=run)
    admin.must(f"{OLD}/registered-models/alias", **named, version="1", alias="first")
    return things


VERSION = {"name": "{name}", "version": "1"}
MODEL_VERSION = Kind(
    "model version",
    "registered_model",
    make_model_version,
    (
        post("update", f"{OLD}/model-versions/create", name="{name}", source="models:/{name}/1"),
        get("read", f"{OLD}/model-versions/get", **VERSION),
        get("read", f"{OLD}/model-versions/get-download-uri", **VERSION),
        post("read", f"{OLD}/registered-models/get-latest-versions", name="{name}"),
        patch("update", f"{OLD}/model-versions/update", **VERSION, description="d"),
        post("update", f"{OLD}/model-versions/set-tag", **VERSION, key="k", value="v"),
        post("update", f"{OLD}/model-versions/transition-stage", **VERSION, stage="Staging"),
        get("read", f"{OLD}/registered-models/alias", name="{name}", alias="first"),
        post("update", f"{OLD}/registered-models/alias", **VERSION, alias="a"),
        delete("delete", f"{OLD}/registered-models/alias", name="{name}", alias="a"),
        delete("delete", f"{OLD}/model-versions/delete-tag", **VERSION, key="k"),
        delete("delete", f"{OLD}/model-versions/delete", **VERSION),
    ),
)


def make_prompt(admin: Caller) -> Things:
    name = new_name()
    prompt = [{"key": "mlflow.prompt.is_prompt", "value": "true"}]
    text = {"key": "mlflow.prompt.text", "value": "Hello"}
    admin.must(f"{OLD}/registered-models/create", name=name, tags=prompt)
    admin.must(
        f"{OLD}/model-versions/create", name=name, source="dummy-source", tags=[*prompt, text]
    )
    return {"id": name, "name": name}


PROMPT = Kind(
    "prompt",
    "prompt",
    make_prompt,
    (
        get("read", f"{OLD}/registered-models/get", name="{name}"),
        get("read", f"{OLD}/model-versions/get", **VERSION),
        post("update", f"{OLD}/registered-models/set-tag", name="{name}", key="k", value="v"),
        post("update", f"{OLD}/model-versions/set-tag", **VERSION, key="k", value="v"),
        delete("delete", f"{OLD}/registered-models/delete", name="{name}"),
    ),
)


# --- the gateway --------------------------------------------------------------------------------


def make_secret(admin: Caller) -> Things:
    made = admin.must(
        f"{NEW}/gateway/secrets/create",
        secret_name=new_name(),
        secret_value={"api_key": "not for everybody"},
        provider="openai",
    )["secret"]["secret_id"]
    return {"id": made, "secret": made}


SECRET = Kind(
    "gateway secret",
    "gateway_secret",
    make_secret,
    (
        get("read", f"{NEW}/gateway/secrets/get", secret_id="{secret}"),
        post(
            "update",
            f"{NEW}/gateway/secrets/update",
            secret_id="{secret}",
            secret_value={"api_key": "another one"},
        ),
        *permissions("gateway_secret"),
        delete("delete", f"{NEW}/gateway/secrets/delete", secret_id="{secret}"),
    ),
)


def make_definition(admin: Caller) -> Things:
    things = make_secret(admin)
    made = admin.must(
        f"{NEW}/gateway/model-definitions/create",
        name=new_name(),
        secret_id=things["secret"],
        provider="openai",
        model_name="gpt",
    )["model_definition"]["model_definition_id"]
    return things | {"id": made, "definition": made}


DEFINITION = Kind(
    "gateway model definition",
    "gateway_model_definition",
    make_definition,
    (
        get("read", f"{NEW}/gateway/model-definitions/get", model_definition_id="{definition}"),
        post(
            "update",
            f"{NEW}/gateway/model-definitions/update",
            model_definition_id="{definition}",
            model_name="gpt-2",
        ),
        *permissions("gateway_model_definition"),
        delete(
            "delete", f"{NEW}/gateway/model-definitions/delete", model_definition_id="{definition}"
        ),
    ),
)


def make_endpoint(admin: Caller) -> Things:
    things = make_definition(admin)
    made = admin.must(
        f"{NEW}/gateway/endpoints/create",
        name=new_name(),
        model_configs=[
            {"model_definition_id": things["definition"], "linkage_type": "PRIMARY", "weight": 1}
        ],
        usage_tracking=False,
    )["endpoint"]["endpoint_id"]
    return things | {"id": made, "endpoint": made, "new": new_name()}


ENDPOINT = Kind(
    "gateway endpoint",
    "gateway_endpoint",
    make_endpoint,
    (
        get("read", f"{NEW}/gateway/endpoints/get", endpoint_id="{endpoint}"),
        get("read", f"{NEW}/gateway/endpoints/bindings/list", endpoint_id="{endpoint}"),
        post("update", f"{NEW}/gateway/endpoints/update", endpoint_id="{endpoint}", name="{new}"),
        post(
            "update",
            f"{NEW}/gateway/endpoints/set-tag",
            endpoint_id="{endpoint}",
            key="k",
            value="v",
        ),
        delete("update", f"{NEW}/gateway/endpoints/delete-tag", endpoint_id="{endpoint}", key="k"),
        *permissions("gateway_endpoint"),
        delete("delete", f"{NEW}/gateway/endpoints/delete", endpoint_id="{endpoint}"),
    ),
)


# --- MCP servers --------------------------------------------------------------------------------


def make_mcp_server(admin: Caller) -> Things:
    name = f"com.example/{new_name()}"
    admin.must(f"{NEW}/mcp-servers", name=name, description="d")
    server = {"name": name, "version": "1.0.0", "description": "d"}
    admin.must(f"{NEW}/mcp-servers/{name}/versions", server_json=server)
    admin.must(f"{NEW}/mcp-servers/{name}/aliases", alias="first", version="1.0.0")
    return {"id": name, "server": name}


ONE_SERVER = f"{NEW}/mcp-servers/{{server}}"
MCP_SERVER = Kind(
    "MCP server",
    "mcp_server",
    make_mcp_server,
    (
        get("read", ONE_SERVER),
        get("read", f"{ONE_SERVER}/versions"),
        get("read", f"{ONE_SERVER}/versions/1.0.0"),
        patch("update", ONE_SERVER, description="other"),
        post("update", f"{ONE_SERVER}/tags", key="k", value="v"),
        get("read", f"{ONE_SERVER}/aliases/first"),
        post("update", f"{ONE_SERVER}/aliases", alias="a", version="1.0.0"),
        patch("update", f"{ONE_SERVER}/versions/1.0.0", tools=[]),
        *permissions("mcp_server"),
        delete("delete", ONE_SERVER),
    ),
)

KINDS = (
    EXPERIMENT,
    RUN,
    TRACE,
    LOGGED_MODEL,
    SCORERS,
    DATASET,
    ISSUE,
    LABEL_SCHEMA,
    REVIEW_QUEUE,
    REGISTERED_MODEL,
    MODEL_VERSION,
    PROMPT,
    SECRET,
    DEFINITION,
    ENDPOINT,
    MCP_SERVER,
)
