"""Record what MLflow's client sends to the native routes: ``python -m tests.server.record``.

It writes ``recorded.jsonl``, with placeholders for ids. Run it again for a new release of MLflow.

``python -m tests.server.record FILE...`` writes ``noted.jsonl`` from what ``noting.py`` has noted:
the requests of MLflow's pages (``tests/browser/test_pages.py``) and of MLflow's own REST tests
(``tests/tracking/test_rest_tracking.py`` of its repository).
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from tests.engines import free_port

RECORDED = Path(__file__).with_name("recorded.jsonl")
NOTED = Path(__file__).with_name("noted.jsonl")
ALIKE = 3
"""So many requests are kept whose fields have the same names and types."""

MOST_LOGGED = 6


class Recorder:
    """An ASGI app that notes the requests to the one inside it."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.seen: list[dict[str, Any]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body: list[bytes] = []

        async def noting() -> Any:
            message = await receive()
            body.append(message.get("body", b""))
            return message

        await self.app(scope, noting, send)
        text = b"".join(body).decode(errors="replace")
        self.seen.append(
            {
                "method": scope["method"],
                "path": scope["path"],
                "query": parse_qsl(scope["query_string"].decode(), keep_blank_values=True),
                "body": json.loads(text) if text.startswith("{") else None,
            }
        )


def use_the_client() -> None:
    """What programs do with runs, experiments and traces."""
    import mlflow
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag, ViewType

    client = MlflowClient()
    mlflow.set_experiment("recorded")
    experiment = mlflow.get_experiment_by_name("recorded")
    assert experiment is not None
    mlflow.get_experiment(experiment.experiment_id)
    mlflow.get_experiment_by_name("no such experiment")
    with mlflow.start_run(run_name="a run", tags={"team": "é"}, description="text") as run:
        run_id = run.info.run_id
        mlflow.log_param("depth", 3)
        mlflow.log_params({"a": 1, "b": "text", "c": 0.5})
        mlflow.log_metric("loss", 0.5)
        mlflow.log_metric("loss", 0.25, step=7)
        mlflow.log_metric("odd", math.nan)
        mlflow.log_metrics({"x": 1, "y": math.inf, "z": -math.inf}, step=3)
        mlflow.set_tag("mlflow.note.content", "a note")
        mlflow.set_tags({"one": 1, "two": "2"})
    with mlflow.start_run(nested=False) as other, mlflow.start_run(nested=True):
        mlflow.log_metric("inner", 1.0)
    client.log_batch(
        other.info.run_id,
        [Metric("m", n / 7, 1_700_000_000_000 + n, n) for n in range(40)],
        [Param("p", "q")],
        [RunTag("t", "u")],
    )
    client.set_terminated(other.info.run_id, "FAILED")
    client.update_run(run_id, name="renamed")
    client.update_run(run_id, status="KILLED")
    client.get_run(run_id)
    client.get_metric_history(run_id, "loss")
    client.get_metric_history(other.info.run_id, "m")
    ids = [experiment.experiment_id]
    for filter_string, order, view, size in [
        ("", None, ViewType.ACTIVE_ONLY, 1000),
        ("metrics.loss < 1 and params.a = '1'", ["metrics.loss DESC"], ViewType.ALL, 10),
        ("tags.team = 'é'", ["attributes.start_time ASC", "params.a"], ViewType.ACTIVE_ONLY, 2),
        ("attributes.status = 'FINISHED'", [], ViewType.DELETED_ONLY, 100),
    ]:
        client.search_runs(ids, filter_string, view, size, order)
    mlflow.search_runs(experiment_ids=ids)
    client.create_run(experiment.experiment_id, start_time=5, tags={"k": "v"}, run_name="made")

    @mlflow.trace(attributes={"number": 5})
    def inner(value: int) -> dict[str, int]:
        return {"twice": 2 * value}

    @mlflow.trace
    def outer(value: int) -> Any:
        mlflow.update_current_trace(tags={"colour": "red"}, metadata={"m": "n"})
        return inner(value)

    for n in range(3):
        outer(n)
    mlflow.flush_trace_async_logging()
    traces = mlflow.search_traces(locations=ids, return_type="list")
    mlflow.search_traces(
        locations=ids,
        filter_string="tags.colour = 'red'",
        order_by=["timestamp_ms DESC"],
        max_results=2,
        return_type="list",
        include_spans=False,
    )
    for trace in traces:
        mlflow.get_trace(trace.info.trace_id)
        client.get_trace(trace.info.trace_id)
    mlflow.log_feedback(trace_id=traces[0].info.trace_id, name="good", value=True)
    mlflow.get_trace(traces[0].info.trace_id)


def templates(seen: list[dict[str, Any]], paths: set[str]) -> list[dict[str, Any]]:
    """The different requests to native routes, with placeholders for ids."""
    experiment = next(
        one["body"]["experiment_id"] for one in seen if one["path"].endswith("/runs/create")
    )
    found: dict[str, dict[str, Any]] = {}
    for one in seen:
        text = with_placeholders(json.dumps(one))
        text = re.sub(rf'"{experiment}"', '"{experiment}"', text)
        made = json.loads(text)
        if made["path"].replace("{trace}", "") in paths:
            found[text] = made
    return list(found.values())


def noted_templates(seen: list[dict[str, Any]], paths: set[str]) -> list[dict[str, Any]]:
    """Some of the requests to native routes of each form, with placeholders for ids."""
    found: dict[str, dict[str, Any]] = {}
    alike: Counter[str] = Counter()
    for one in seen:
        text = re.sub(
            r'("experiment_ids?"(?:: |, )\[?)"[0-9]+"', r'\1"{experiment}"', json.dumps(one)
        )
        made = shortened(json.loads(with_placeholders(text)))
        form = json.dumps([made["method"], made["path"], form_of(made)])
        if made["path"].replace("{trace}", "") in paths and text not in found:
            alike[form] += 1
            if alike[form] <= ALIKE:
                found[text] = made
    return list(found.values())


def with_placeholders(text: str) -> str:
    text = re.sub(r"tr-[0-9a-f]{32}", "{trace}", text)
    text = re.sub(r"\b[0-9a-f]{32}\b", "{run}", text)
    text = re.sub(r"\b1[6-9]\d{11}\b", "1700000000000", text)
    text = text.replace('"root"', '"me"')
    text = re.sub(r'(source.name", "value": ")/[^"]+', r"\1train.py", text)
    text = re.sub(r'(git.branch", "value": ")[^"]+', r"\1main", text)
    return re.sub(r'(git.commit", "value": ")[^"]+', r"\g<1>" + "0" * 40, text)


def shortened(request: dict[str, Any]) -> dict[str, Any]:
    """A request that logs less at once."""
    if isinstance(request["body"], dict):
        for name, value in request["body"].items():
            request["body"][name] = value[:MOST_LOGGED] if isinstance(value, list) else value
    return request


def form_of(value: Any) -> Any:
    """The names and types in a value."""
    if isinstance(value, dict):
        return {key: form_of(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [form_of(one) for one in value[:3]]
    return type(value).__name__


def main() -> None:
    if sys.argv[1:]:
        lines = [line for name in sys.argv[1:] for line in Path(name).read_text().splitlines()]
        seen = list(map(json.loads, lines))
        write(NOTED, noted_templates(seen, native_paths()), len(seen))
        return
    folder = tempfile.mkdtemp()
    os.environ |= {
        "_MLFLOW_SERVER_FILE_STORE": f"dynamodb:///{folder}/mlflow.ddb?synchronous=NORMAL",
        "_MLFLOW_SERVER_ARTIFACT_ROOT": "mlflow-artifacts:/",
        "_MLFLOW_SERVER_SERVE_ARTIFACTS": "true",
        "_MLFLOW_SERVER_ARTIFACT_DESTINATION": f"{folder}/artifacts",
        "_MLFLOW_SGI_NAME": "uvicorn",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    import mlflow
    import uvicorn

    from mlflow_dynamodbstore.server.app import create_app

    recorder = Recorder(create_app())
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(recorder, port=port, log_level="warning"))
    threading.Thread(target=server.run, daemon=True).start()
    from mlflow.server.handlers import _get_tracking_store

    _get_tracking_store()  # it sets the tracking URI of the process
    mlflow.set_tracking_uri(f"http://127.0.0.1:{port}")
    use_the_client()
    write(RECORDED, templates(recorder.seen, native_paths()), len(recorder.seen))
    os._exit(0)


def native_paths() -> set[str]:
    from mlflow.server import app as flask

    from mlflow_dynamodbstore.server.native import routes_of

    return {route.path for route in routes_of(flask)}


def write(path: Path, found: list[dict[str, Any]], seen: int) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in found))
    print(f"{len(found)} requests of {seen}")  # noqa: T201


if __name__ == "__main__":
    main()
