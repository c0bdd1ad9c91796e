"""The operator's page in a real browser: with volumes, an import, a job and a broken item."""

from __future__ import annotations

import os
import re
import threading
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlflow
import pytest
from click.testing import CliRunner
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunStatus, ViewType
from mlflow.exceptions import MlflowException
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

from mlflow_dynamodbstore.cli import main
from mlflow_dynamodbstore.jobs.store import DynamoDBJobStore
from mlflow_dynamodbstore.mlflow_compat.jobs import JobProgress
from mlflow_dynamodbstore.shared.counter_files import CounterFiles
from mlflow_dynamodbstore.shared.volumes import Volumes
from mlflow_dynamodbstore.table.counters import COUNTERS, PERIOD_SECONDS
from mlflow_dynamodbstore.table.heat import PartitionCounters
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.transfer.sql.database import Database
from mlflow_dynamodbstore.transfer.sql.renumbering import Changes
from mlflow_dynamodbstore.transfer.sql.transfer import Transfer
from mlflow_dynamodbstore.upkeep import import_state
from mlflow_dynamodbstore.upkeep.operator_page import page_data
from mlflow_dynamodbstore.upkeep.surveys import Survey, Surveys
from mlflow_dynamodbstore.upkeep.table_stats import TableStats
from tests.e2e.processes import running_server
from tests.engines import dynoxide_server, find_dynoxide
from tests.sql import empty_database
from tests.stores import everything_in
from tests.table.fakes import FakeTime
from tests.traces.making import NOON, make_info, make_spans, trace_id

pytest.importorskip("playwright.sync_api", reason="run by make e2e")

WEEK = 7 * 24 * 3600
HOURS = 6  # of work before the page is looked at
PASSWORD = "a long password"  # of the server of this test
CARDS = (
    "Storage and its cost a month, by kind",
    "Growth",
    "Experiments and their volumes",
    "Busy volumes",
    "Write units by operation",
    "Requests by operation",
    "Calls by operation",
    "Throttles, errors and slow calls",
    "What expires when",
    "Health",
    "Transfers, upkeep and jobs",
)


IMPORTED = 400
"""Runs of the database that is being imported, more than an import reads at once."""


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A table in use for a week: three volumes, a broken item, and an import that is under way."""
    if find_dynoxide() is None:
        pytest.skip("a file reports no units: run tools/install_dynoxide.sh")
    with dynoxide_server() as host, pytest.MonkeyPatch.context() as patched:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patched.setenv(name, "test")
        patched.setattr(import_state, "NOTE_SECONDS", 0.0)
        uri = _operated(f"dynamodb://{host}/mlflow")
        with _importing(uri, tmp_path_factory.mktemp("theirs")):
            yield uri


@contextmanager
def _importing(uri: str, folder: Path) -> Iterator[None]:
    """An import in the middle of its runs; it goes on when this ends."""
    theirs = empty_database(folder)
    store = SqlAlchemyStore(theirs, "s3://bucket")
    for n in range(IMPORTED):
        store.create_run("0", "bob", NOON + n, [], f"their run {n}")
    transfer = Transfer.from_database(
        Database.to_read(theirs), Table(open_engine(uri)), Changes(prefix="theirs-")
    )
    in_the_middle, may_go_on = threading.Event(), threading.Event()

    def wait(kind: str, done: int) -> None:
        if kind == "runs" and done == IMPORTED:  # the note tells of those before
            in_the_middle.set()
            may_go_on.wait()

    with ThreadPoolExecutor(1) as thread:
        moved = thread.submit(transfer.move, wait, transfer.count())
        try:
            while not in_the_middle.wait(0.1) and not moved.done():
                pass
            yield
        finally:
            may_go_on.set()
        assert moved.result().tallies["runs"].written == IMPORTED


def _operated(uri: str) -> str:
    past = Table(open_engine(uri, create=True), clock=lambda: time.time() - WEEK)
    store = DynamoDBTrackingStore("", "s3://bucket", table=past)
    for name in ("forecasts", "ranking", "chat"):
        store.create_experiment(name)
    Volumes(past).spread("1", 3)
    _fill(uri, past, 60)
    counted = TableStats(past.schema, past.clock())
    counted.add(everything_in(past))
    Surveys(past).note(Survey.of(counted))
    now = Table(open_engine(uri))
    _fill(uri, now, 90)
    now.put({"PK": "EXP#2", "SK": "R#broken#SUMMARY", "summary": b"\x01\x78 not what it was"})
    jobs: Any = DynamoDBJobStore("", table=now)
    job = jobs.create_job("invoke_genai_evaluate", "{}")
    jobs.start_job(job.job_id)
    jobs.update_job_progress(job.job_id, None, JobProgress("scoring", 42, 100, "traces"))
    _run("stats", uri)
    _run("doctor", uri)
    return uri


def _fill(uri: str, table: Table, count: int) -> None:
    store = DynamoDBTrackingStore(uri, "s3://bucket", table=table)
    for n in range(count):
        experiment = "1" if n % 3 else "2"
        run_id = store.create_run(experiment, "ada", NOON + n, [], f"run {n}").info.run_id
        points = [Metric(f"m{k}", float(n), NOON + s, s) for k in range(5) for s in range(40)]
        store.log_batch(run_id, points, [Param(f"p{k}", str(k)) for k in range(8)], [])
        store.update_run_info(run_id, RunStatus.FINISHED, NOON + 9, None)
    for n in range(20):
        one = trace_id(count * 100 + n)
        store.log_spans("3", make_spans(one, 4, NOON + n))
        store.start_trace(make_info(one, "3", start=NOON + n))


def _run(command: str, uri: str, *options: str) -> None:
    done = CliRunner().invoke(main, [command, "--uri", uri, *options])
    assert done.exit_code in (0, 6), done.output


def _hours_of_work(uri: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another worker of the server has done for hours, by a clock that was set back."""
    clock = FakeTime(time.time() - HOURS * 3600)
    monkeypatch.setattr(COUNTERS, "_clock", clock)
    COUNTERS.reset()
    store = DynamoDBTrackingStore(uri, "s3://bucket")  # counts, as in a server
    for period in range(HOURS * 12):
        clock.now += PERIOD_SECONDS
        if period in range(40, 50):
            continue  # a break, in which nobody asks for anything
        for n in range(1 + period * 7 % 11 // 3):
            run_id = store.create_run("1", "ada", NOON, [], f"run {period} {n}").info.run_id
            for step in range(period % 9):
                store.log_metric(run_id, Metric("m", 1.0, NOON, step))
            store.update_run_info(run_id, RunStatus.FINISHED, NOON + 9, None)
        if period % 3 == 0:
            store.search_runs(["1", "2"], "", ViewType.ACTIVE_ONLY, 10)
        if period % 20 == 7:
            with pytest.raises(MlflowException):
                store.get_run("0" * 32)
    (of_server,) = folder.glob("mlflow-dynamodbstore-counters-*")
    CounterFiles(of_server, COUNTERS, PartitionCounters()).save()
    COUNTERS.reset()


@pytest.fixture
def opened(chromium: Any) -> Iterator[Any]:
    """A browser that reaches this machine alone, and notes what it asks elsewhere."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.asked = []
    page.errors = []
    page.on("request", lambda request: page.asked.append(request.url))
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("console", lambda said: page.errors.append(said.text) if said.type == "error" else None)
    yield page
    context.close()


def keep(page: Any, name: str) -> None:
    folder = os.environ.get("SCREENSHOTS")
    if folder:
        # The folder of a test says nothing to a reader.
        page.evaluate(
            """() => { document.body.innerHTML = document.body.innerHTML
                .replaceAll(/dynamodb:\\/\\/[^ <]*/g, 'dynamodb://us-east-1/mlflow')
                .replaceAll(/sqlite:\\/\\/[^ <]*/g, 'sqlite:///theirs.db'); }"""
        )
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def check(page: Any) -> None:
    """Everything is drawn, without an error and without another site."""
    page.wait_for_load_state()
    assert page.errors == []
    page.wait_for_selector("body[data-drawn=yes]")
    titles = [one.get_attribute("data-title") for one in page.query_selector_all("section")]
    assert set(CARDS) <= set(titles)
    text = page.inner_text("main")
    assert "forecasts (1)" in text
    assert "in 3 volumes" in text
    assert "import from sqlite:///" in text
    done = re.search(rf"runs: (\d+) of {IMPORTED}", text)
    assert done is not None, text
    assert 0 < int(done[1]) < IMPORTED
    assert "invoke_genai_evaluate, running in workspace default" in text
    assert "scoring: 42 of 100 traces" in text
    bars = "section[data-title='Transfers, upkeep and jobs'] .bar i"
    assert [one.get_attribute("style") for one in page.query_selector_all(bars)] == [
        f"width: {100 * int(done[1]) / IMPORTED:g}%;",
        "width: 42%;",
    ]
    assert "damage: damaged: 1" in text
    assert page.inner_text("#state") == "broken"
    assert "+" in page.inner_text("section[data-title='Experiments and their volumes']")
    assert len(page.query_selector_all("section[data-title='What expires when'] rect")) > 7


def test_the_page_of_a_server(
    uri: str, opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    counted = tmp_path / "counted"
    counted.mkdir()
    with running_server(tmp_path / "data", table=uri, TMPDIR=str(counted)) as server:
        url = server.url
        mlflow.set_tracking_uri(url)
        client = MlflowClient(url)
        for n in range(6):
            run = client.create_run("1", run_name=f"through the server {n}")
            client.log_metric(run.info.run_id, "m", n)
            client.search_runs(["1", "2"], max_results=10)
            client.set_terminated(run.info.run_id)
        time.sleep(6)  # each worker keeps its counters every five seconds
        _hours_of_work(uri, counted, monkeypatch)
        opened.goto(f"{url}/dynamodb")
        check(opened)
        text = opened.inner_text("section[data-title='Calls by operation']")
        assert "create_run" in opened.content()
        assert "ms" in text
        requests = opened.query_selector("section[data-title='Requests by operation']")
        assert requests.query_selector_all("svg polygon, svg rect")
        assert opened.inner_text("section[data-title='Throttles'] b") == "0"
        hot = opened.inner_text("section[data-title='Busy volumes']")
        assert "forecasts (1, volume " in hot
        assert "requests, busiest 5 minutes: " in hot
        units = opened.query_selector("section[data-title='Write units by operation']")
        assert "create_run" in units.inner_text()
        rate = opened.inner_text("section[data-title='Requests a month']")
        assert f"of the last {HOURS}." in rate  # hours, the break among them
        troubles = opened.inner_text("section[data-title='Throttles, errors and slow calls']")
        assert "errors" in troubles
        assert {one for one in opened.asked if not one.startswith("data:")} == {f"{url}/dynamodb"}
        keep(opened, "operator-page")
        opened.emulate_media(color_scheme="dark")
        keep(opened, "operator-page-dark")


def test_only_admins_see_the_page(uri: str, tmp_path: Path):
    secrets = {
        "MLFLOW_AUTH_ADMIN_USERNAME": "admin",
        "MLFLOW_AUTH_ADMIN_PASSWORD": PASSWORD,
        "MLFLOW_FLASK_SERVER_SECRET_KEY": "of this test",
    }
    users = ("--app-name", "dynamodb-auth")
    with running_server(tmp_path / "data", 1, uri, users, **secrets) as server:
        url = server.url

        def status(user: str | None, password: str = PASSWORD) -> int:
            headers = {}
            if user is not None:
                headers["Authorization"] = (
                    "Basic " + b64encode(f"{user}:{password}".encode()).decode()
                )
            request = urllib.request.Request(f"{url}/dynamodb", headers=headers)
            try:
                return int(urllib.request.urlopen(request, timeout=30).status)
            except urllib.error.HTTPError as refused:
                return refused.code

        assert status(None) == 401
        admin = b64encode(f"admin:{PASSWORD}".encode()).decode()
        created = urllib.request.Request(
            f"{url}/api/2.0/mlflow/users/create",
            data=b'{"username": "bob", "password": "another password"}',
            headers={"Authorization": f"Basic {admin}", "Content-Type": "application/json"},
        )
        assert urllib.request.urlopen(created, timeout=30).status == 200
        assert status("bob", "another password") == 403
        assert status("bob", "not the password") == 401
        assert status("admin") == 200


def test_looking_costs_a_few_read_units(uri: str):
    """By the figures of an endpoint that speaks DynamoDB's protocol."""
    engine = MeteredEngine(open_engine(uri))
    with engine.meter.measure() as used:
        page_data(Table(engine))
    engine.close()
    assert (used.total_requests, used.write_units) == (6, 0)
    assert used.read_units <= 6, used


def test_the_page_as_a_file(uri: str, opened: Any, tmp_path: Path):
    file = tmp_path / "page.html"
    _run("stats", uri, "--html", str(file))
    opened.context.set_offline(True)
    opened.goto(file.as_uri())
    check(opened)
    assert [one for one in opened.asked if not one.startswith(("file:", "data:"))] == []
