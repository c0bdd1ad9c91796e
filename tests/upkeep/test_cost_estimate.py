"""``estimate``: its arithmetic, and that its units are those which DynamoDB reports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mlflow_dynamodbstore.cli import main
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.upkeep.cost_estimate import DAYS_A_MONTH, Sample, Workload, estimate
from tests.stores import uri_on
from tests.transfer.sql.mlflow_database import Theirs, filled

WORK = Workload(runs_a_day=50, steps=120, traces_a_day=10, searches_a_day=20)


@pytest.fixture(params=["embedded", "dynoxide"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MeteredEngine]:
    with uri_on(request.param, tmp_path) as uri:
        made = MeteredEngine(open_engine(uri, create=True))
        yield made
        made.close()


def test_a_day_costs_what_was_estimated(engine: MeteredEngine):
    """A fifth of a day's work on another engine, charged by it, against the estimate."""
    made = estimate(WORK)
    sample = Sample(engine)
    with engine.meter.measure() as used:
        for _ in range(10):
            list(sample.run(WORK, WORK.steps))
        for n in range(2):
            sample.trace(WORK.spans, n + 1)
    written = sum(line.times * line.write_units for line in made.requests) / DAYS_A_MONTH / 5
    assert used.write_units == pytest.approx(written, rel=0.05)
    logged = [line for line in made.requests if not line.what.startswith("list")]
    read = sum(line.times * line.read_units for line in logged) / DAYS_A_MONTH / 5
    assert used.read_units == pytest.approx(read, rel=0.1)


@pytest.mark.one_volume(reason="how many runs share a page depends on their volumes")
def test_the_arithmetic_is_that_of_the_lines():
    made = estimate(WORK)
    lines = {line.what: line for line in made.requests}
    create = lines["create a run, with params and tags"]
    assert create.times == 50 * DAYS_A_MONTH
    assert create.dollars == pytest.approx(
        create.times * (create.read_units * 0.125 + create.write_units * 0.625) / 1e6
    )
    assert made.request_dollars == sum(line.dollars for line in made.requests)
    assert made.storage_dollars == 0  # below the free 25 GB
    twice = estimate(Workload(runs_a_day=100, steps=120, traces_a_day=20, searches_a_day=40))
    assert twice.request_dollars == pytest.approx(2 * made.request_dollars)


def test_what_expires_is_stored_no_longer():
    kept = {s.what: s.kept for s in estimate(Workload(steps=10, trace_days=30)).storage}
    assert kept["trace"] == pytest.approx(30 * 1_000)
    forever = {s.what: s.kept for s in estimate(Workload(steps=10, trace_days=0)).storage}
    assert forever["trace"] == pytest.approx(12 * DAYS_A_MONTH * 1_000)


def test_more_steps_than_are_measured_cost_in_proportion():
    few, many = (
        {line.what: line for line in estimate(Workload(steps=steps)).requests}
        for steps in (500, 5_000)
    )
    call = "call that logs metrics"
    assert many[call].times == 10 * few[call].times
    assert many[call].write_units == pytest.approx(few[call].write_units)


def run(*arguments: str) -> Any:
    done = CliRunner().invoke(main, ["estimate", *arguments])
    assert done.exit_code == 0, done.output
    return done


def test_the_command_needs_no_table_and_shows_its_arithmetic():
    shown = " ".join(run("--steps", "200").output.split())
    assert "end a run" in shown
    row = r"call that logs metrics │ ([\d,]+) │ ([\d.]+) │ ([\d.]+) │ \$([\d.]+)"
    logged = re.search(row, shown)
    assert logged is not None, shown
    times, read, written, dollars = (float(one.replace(",", "")) for one in logged.groups())
    assert dollars == round(times * (read * 0.125 + written * 0.625) / 1e6, 2)
    assert "a month: requests $" in shown
    told = json.loads(run("--steps", "20", "--json").stdout)
    assert told["monthly_dollars"] == told["request_dollars"] + told["storage_dollars"]
    assert told["workload"]["steps"] == 20


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Theirs:
    return filled(tmp_path_factory.mktemp("estimated"))


def test_numbers_come_from_a_database(database: Theirs, tmp_path: Path):
    told = json.loads(run("--from", database.uri, "--spans", "7", "--json").stdout)
    work = told["workload"]
    assert work["runs_a_day"] == pytest.approx(8 / 30)
    assert work["traces_a_day"] == pytest.approx(5 / 30)
    assert work["spans"] == 7
    table = f"dynamodb:///{tmp_path}/mlflow.ddb"
    arguments = ["import", database.uri, "--dry-run", "--uri", table]
    done = CliRunner().invoke(main, [*arguments, "--json"])
    assert json.loads(done.stdout)["estimate"]["monthly_dollars"] >= 0
    shown = " ".join(CliRunner().invoke(main, arguments).output.split())
    assert "a month: requests" in shown
