"""Prompts live in the registry, and can be linked to runs, models and traces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
from mlflow import MlflowClient
from mlflow.entities.model_registry import PromptVersion

from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from tests.stores import refused

LINKED = "mlflow.linkedPrompts"


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A table that MLflow is told to use for everything; artifacts go where the test runs."""
    monkeypatch.chdir(tmp_path)
    uri = f"dynamodb:///{tmp_path}/mlflow.ddb?synchronous=NORMAL"
    mlflow.set_tracking_uri(uri)
    yield uri
    mlflow.set_tracking_uri(None)  # type: ignore[arg-type]  # none is none, not the default


@pytest.fixture
def prompts(uri: str) -> DynamoDBRegistryStore:
    """A registry with a prompt of two versions."""
    store = DynamoDBRegistryStore(uri)
    store.create_prompt("greeting", "says hello", {"team": "nlp"})
    store.create_prompt_version("greeting", "Hello {{name}}", "first", {"tone": "warm"})
    store.create_prompt_version("greeting", [{"role": "user", "content": "Hi {{name}}"}])
    return store


def test_a_prompt_and_its_versions_come_back(prompts):
    prompt = prompts.get_prompt("greeting")
    assert (prompt.description, prompt.tags) == ("says hello", {"team": "nlp"})
    first, second = (prompts.get_prompt_version("greeting", n) for n in (1, 2))
    assert (first.template, first.commit_message) == ("Hello {{name}}", "first")
    assert first.tags == {"tone": "warm"}
    assert second.template == [{"role": "user", "content": "Hi {{name}}"}]
    assert [p.name for p in prompts.search_prompts()] == ["greeting"]
    assert [v.version for v in prompts.search_prompt_versions("greeting")] == [2, 1]
    assert prompts.get_prompt("nothing") is None


def test_a_prompt_of_a_hundred_thousand_characters_comes_back(prompts):
    text = "{{x}} é🙂" * 12_000
    prompts.create_prompt_version("greeting", text)
    assert prompts.get_prompt_version("greeting", 3).template == text
    with refused("INVALID_PARAMETER_VALUE", "Prompt text exceeds max length"):
        prompts.create_prompt_version("greeting", "x" * 100_001)


def test_aliases_and_tags_of_a_prompt(prompts):
    prompts.set_prompt_alias("greeting", "live", 1)
    assert prompts.get_prompt_version_by_alias("greeting", "live").version == 1
    prompts.set_prompt_version_tag("greeting", 1, "k", "v")
    prompts.set_prompt_tag("greeting", "owner", "ada")
    assert prompts.get_prompt_version("greeting", 1).tags["k"] == "v"
    assert prompts.get_prompt("greeting").tags == {"team": "nlp", "owner": "ada"}
    prompts.delete_prompt_version_tag("greeting", 1, "k")
    prompts.delete_prompt_tag("greeting", "owner")
    prompts.delete_prompt_alias("greeting", "live")
    assert "k" not in prompts.get_prompt_version("greeting", 1).tags
    assert prompts.get_prompt("greeting").tags == {"team": "nlp"}
    with refused("INVALID_PARAMETER_VALUE", "alias live not found"):
        prompts.get_prompt_version_by_alias("greeting", "live")


def test_a_deleted_prompt_is_gone(prompts):
    prompts.delete_prompt_version("greeting", 2)
    assert [v.version for v in prompts.search_prompt_versions("greeting")] == [1]
    prompts.delete_prompt("greeting")
    assert prompts.search_prompts() == []


def linked(tags: dict[str, str]) -> list[tuple[str, str]]:
    return [(entry["name"], entry["version"]) for entry in json.loads(tags[LINKED])]


def test_a_prompt_is_linked_to_a_run_and_to_a_model(prompts):
    with mlflow.start_run() as run:
        model = mlflow.create_external_model(name="agent")
    prompts.link_prompt_version_to_run("greeting", "1", run.info.run_id)
    prompts.link_prompt_version_to_run("greeting", "2", run.info.run_id)
    prompts.link_prompt_version_to_model("greeting", "2", model.model_id)
    tags = MlflowClient().get_run(run.info.run_id).data.tags
    assert linked(tags) == [("greeting", "1"), ("greeting", "2")]
    assert linked(MlflowClient().get_logged_model(model.model_id).tags) == [("greeting", "2")]


def test_a_prompt_is_linked_to_a_trace(prompts):
    with mlflow.start_span("ask") as span:
        pass
    mlflow.flush_trace_async_logging()
    prompt = prompts.get_prompt_version("greeting", 1)
    assert isinstance(prompt, PromptVersion)
    prompts.link_prompts_to_trace([prompt], span.trace_id)
    trace = MlflowClient().get_trace(span.trace_id)
    assert linked(trace.info.tags) == [("greeting", "1")]
