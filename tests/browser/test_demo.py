"""`mlflow demo` fills a server on our store, and the pages for what it made open.

Its own links to ``…/overview`` and ``…/issues`` lead to pages that MLflow's UI does not have,
whatever the store; what they are about is looked at where the UI shows it.
"""

from __future__ import annotations

import pytest
from mlflow.demo.base import DemoFeature
from mlflow.store.tracking.rest_store import RestStore
from mlflow.tracking import MlflowClient
from mlflow.utils.rest_utils import MlflowHostCreds

PROMPT = "mlflow-demo.prompts.customer-support"
RUNS = {
    "trace-level-evaluation",
    "baseline-session-evaluation",
    "improved-session-evaluation",
    "Demo Issue Detection",
}
# By the name of its picture: where a page is below the experiment, and what is to be read there.
PAGES = {
    "usage": ("overview/usage", ["Token Usage", "Latency", "Errors"]),
    "quality": ("overview/quality", ["Quality Summary", "correctness", "groundedness", "safety"]),
    "traces": ("traces", ["What do you see in this image?", "session-deployment-v2"]),
    "session": ("chat-sessions/session-deployment-v2", ["Turn 1", "deploy it as an API?"]),
    "judges": ("judges", ["mlflow-demo.judges.relevance", "mlflow-demo.judges.safety"]),
    "datasets": ("datasets", ["demo-trace-level-dataset", "demo-baseline-session-dataset"]),
    "reviews": ("review-queue", ["Demo Response Review", "alice", "bob", "Start review"]),
    "evaluations": ("evaluation-runs", sorted(RUNS)),
    "prompts": ("prompts", [PROMPT, "mlflow-demo.prompts.code-reviewer"]),
    "prompt-versions": (f"prompts/{PROMPT}", ["Version 4", "production", "tone-guidance"]),
}


@pytest.fixture
def store(server):
    return RestStore(lambda: MlflowHostCreds(server.url))


def test_the_demo_reports_every_part_and_no_error(demo, server):
    generated = next(line for line in demo.output.splitlines() if "Generated:" in line)
    assert {part.strip() for part in generated.split(":")[1].split(",")} == set(DemoFeature)
    for trouble in ("Traceback", "Failed", "failed"):
        assert trouble not in demo.output
    assert "Traceback" not in server.log
    assert '" 500 ' not in server.log


def test_the_demo_made_what_it_says(demo, server, store):
    """Traces with assessments, evaluation runs, datasets, judges, prompts, issues and queues."""
    experiment_id, client = demo.experiment_id, MlflowClient(server.url)
    assert set(demo.runs) == RUNS
    traces = client.search_traces(locations=[experiment_id], max_results=500)
    assert len(traces) > 40
    judged = {mark.name for trace in traces for mark in trace.info.assessments}
    assert {"relevance", "correctness", "groundedness", "safety"} <= judged
    run = client.get_run(demo.runs["trace-level-evaluation"])
    assert 0 < run.data.metrics["safety/mean"] <= 1

    datasets = {d.name: d for d in store.search_datasets(experiment_ids=[experiment_id])}
    assert len(datasets) == 3
    dataset = datasets["demo-trace-level-dataset"]
    assert len(store._load_dataset_records(dataset.dataset_id)[0]) > 10
    assert len(store.list_scorers(experiment_id)) == 4
    assert client.get_prompt_version_by_alias(PROMPT, "production").version == 4
    issues = store.search_issues(experiment_id=experiment_id)
    assert {issue.source_run_id for issue in issues} == {demo.runs["Demo Issue Detection"]}
    queue = store.get_review_queue_by_name(experiment_id, name="Demo Response Review")
    assert len(queue.schema_ids) == 3


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_demo_opens(browse, demo, name):
    path, texts = PAGES[name]
    with browse("genai") as seen:
        seen.open(f"/experiments/{demo.experiment_id}/{path}")
        seen.sees(*texts)
        seen.keep(f"demo-{name}")


def test_the_issues_that_were_found_are_shown_with_their_run(browse, demo):
    with browse("genai") as seen:
        place = f"/experiments/{demo.experiment_id}/evaluation-runs"
        seen.open(f"{place}/{demo.runs['Demo Issue Detection']}")
        seen.sees("Issue detection completed", "Ungrounded Claims", "Incorrect Information")
        seen.keep("demo-issues")


def test_a_dataset_shows_its_records(browse, demo, store):
    found = store.search_datasets(experiment_ids=[demo.experiment_id])
    dataset = next(d for d in found if d.name == "demo-improved-session-dataset")
    with browse("genai") as seen:
        seen.open(f"/experiments/{demo.experiment_id}/datasets/{dataset.dataset_id}")
        seen.sees("7 records", "Expectations")
        seen.keep("demo-dataset")


def test_an_evaluation_shows_what_was_judged(browse, demo):
    """Opened from the list of evaluations, a run shows its traces with their marks."""
    with browse("genai") as seen:
        page = seen.open(f"/experiments/{demo.experiment_id}/evaluation-runs")
        page.get_by_text("trace-level-evaluation").locator("visible=true").first.click()
        seen.sees("28 of 28", "What do you see in this image?", "Pass")
        seen.keep("demo-evaluation")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/gateway", "Get started with AI Gateway"),
        ("/gateway/budgets", "Budgets"),
        ("/mcp-registry", "MCP"),
        ("/settings/webhooks", "Webhooks"),
        ("/models", "Registered Models"),
    ],
)
def test_a_page_that_the_demo_leaves_empty_opens(browse, path, text):
    with browse("genai") as seen:
        seen.open(path)
        seen.sees(text)
