"""MLflow's pages on our store, in a real browser."""

from __future__ import annotations

import json

# The table moves its rows without changing their order in the document.
FROM_TOP_TO_BOTTOM = """
[...document.querySelectorAll('a')].filter(link => link.innerText.startsWith('net-'))
.sort((one, other) => one.getBoundingClientRect().y - other.getBoundingClientRect().y)
.map(link => link.innerText).join()
""".strip().replace("\n", "")


def test_experiments_are_listed(browse, sample):
    with browse() as seen:
        seen.open("/experiments")
        seen.sees("fashion: convolutional nets", "digits: linear models", "Default")
        seen.keep("experiments")


def test_runs_are_sorted_by_a_metric_and_filtered(browse, sample):
    """Of twelve runs those remain that the filter names, the largest loss first."""
    with browse() as seen:
        page = seen.open(f"/experiments/{sample.experiment_id}/runs")
        seen.sees("12 matching runs")
        box = page.get_by_placeholder("metrics.rmse")
        box.fill("metrics.loss < 0.4 AND params.layers != '3'")
        box.press("Enter")
        seen.sees("5 matching runs")
        page.get_by_role("button", name="Sort: Created").click()
        page.get_by_placeholder("Search").last.fill("loss")
        page.get_by_text("loss", exact=True).last.click()
        page.get_by_role("button", name="Sort: loss").wait_for()
        # The order stays descending, as it was by time.
        expected = ["net-06", "net-11", "net-09", "net-02", "net-00"]
        page.wait_for_function(f"{FROM_TOP_TO_BOTTOM} === {json.dumps(','.join(expected))}")
        seen.keep("runs")


def test_a_run_shows_its_params_and_metrics(browse, sample):
    with browse() as seen:
        seen.open(f"/experiments/{sample.experiment_id}/runs/{sample.best}")
        seen.sees("net-00", "learning_rate", "layers", "loss", "accuracy", "Finished")
        seen.keep("run")


def test_a_metric_has_a_chart(browse, sample):
    """Both metrics are drawn as lines."""
    with browse() as seen:
        page = seen.open(f"/experiments/{sample.experiment_id}/runs/{sample.best}/model-metrics")
        seen.sees("accuracy", "loss")
        page.locator(".scatterlayer .trace path.js-line").first.wait_for(state="attached")
        assert page.locator(".scatterlayer .trace").count() >= 2
        seen.keep("chart")


def test_the_metrics_of_all_runs_have_charts(browse, sample):
    with browse() as seen:
        page = seen.open(f"/experiments/{sample.experiment_id}/runs?compareRunsMode=CHART")
        seen.sees("12 matching runs", "accuracy", "loss")
        page.locator(".scatterlayer .trace path.js-line").first.wait_for(state="attached")
        seen.keep("charts")


def test_runs_are_compared(browse, sample):
    with browse() as seen:
        runs, experiments = json.dumps(sample.runs[:3]), json.dumps([sample.experiment_id])
        seen.open(f"/compare-runs?runs={runs}&experiments={experiments}")
        seen.sees("Comparing 3 Runs from 1 Experiment", "learning_rate", "net-00", "net-02")
        seen.keep("compare")


def test_a_registered_model_shows_its_alias(browse, sample):
    with browse() as seen:
        seen.open(f"/models/{sample.model}")
        seen.sees(sample.model, "Tells shirts from shoes.", "Version 2", "champion")
        seen.keep("model")


def test_a_trace_shows_its_spans(browse, sample):
    with browse("genai") as seen:
        place = f"/experiments/{sample.experiment_id}/traces"
        seen.open(f"{place}?selectedEvaluationId={sample.trace_id}")
        seen.sees("look up", "generate", "What goes with a red coat?", "Yes, an ankle boot.")
        seen.keep("trace")


def test_a_failed_trace_shows_its_exception(browse, sample):
    """Decorated functions, nested, and what the inner one raised."""
    with browse("genai") as seen:
        place = f"/experiments/{sample.experiment_id}/traces"
        seen.open(f"{place}?selectedEvaluationId={sample.failed_trace_id}")
        seen.sees("take order", "reserve")
        seen.page.get_by_text("reserve").locator("visible=true").first.click()
        seen.page.get_by_text("Events").locator("visible=true").first.click()
        seen.sees("size 44 is sold out")


def test_a_prompt_shows_its_versions(browse, sample):
    with browse("genai") as seen:
        page = seen.open("/prompts")
        page.get_by_role("link", name=sample.prompt).click()
        seen.sees("Version 2", "production", "three bullet points")
        seen.keep("prompt")
