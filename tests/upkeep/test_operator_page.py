"""The operator's page: what it shows, that it needs no other site, and what looking costs."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mlflow.entities import Metric, RunStatus

from mlflow_dynamodbstore.cli import main
from mlflow_dynamodbstore.cli.exits import FINDINGS
from mlflow_dynamodbstore.jobs.store import DynamoDBJobStore
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.mlflow_compat.jobs import JobProgress
from mlflow_dynamodbstore.shared import counter_files
from mlflow_dynamodbstore.shared.counter_files import ServerCounters
from mlflow_dynamodbstore.shared.volumes import Volumes
from mlflow_dynamodbstore.table.counters import Counted, Counters, Period
from mlflow_dynamodbstore.table.heat import PARTITION_COUNTERS
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine, Usage
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.transfer.archive.fill import TableFill
from mlflow_dynamodbstore.transfer.archive.sources import TableSource
from mlflow_dynamodbstore.transfer.sql.database import Database
from mlflow_dynamodbstore.transfer.sql.renumbering import Changes
from mlflow_dynamodbstore.transfer.sql.transfer import Transfer
from mlflow_dynamodbstore.upkeep import import_state
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup
from mlflow_dynamodbstore.upkeep.fill_state import FillProgress
from mlflow_dynamodbstore.upkeep.hot_volumes import NOTHING_COUNTED
from mlflow_dynamodbstore.upkeep.import_state import ImportState
from mlflow_dynamodbstore.upkeep.operator_page import operator_page, page_data
from mlflow_dynamodbstore.upkeep.surveys import (
    CONTENTS,
    GROWTH,
    HEALTH,
    PACKED,
    Survey,
    Surveys,
)
from tests.stores import everything_in
from tests.traces.making import NOON
from tests.transfer.sql.mlflow_database import filled

REQUESTS, READ_UNITS = 6, 4.5
HOSTILE = "</script><script>alert(1)</script>"


@pytest.fixture
def engine(tmp_path: Path) -> MeteredEngine:
    return MeteredEngine(open_engine(f"dynamodb:///{tmp_path}/mlflow.ddb?synchronous=NORMAL"))


@pytest.fixture
def table(engine: MeteredEngine) -> Table:
    """A table with some experiments, a hundred runs and a job."""
    made = Table(engine)
    store = DynamoDBTrackingStore("", "s3://b", table=made)
    for n in range(30):
        store.create_experiment(f"experiment {n}" if n else HOSTILE)
    for n in range(100):
        run_id = store.create_run(str(n % 5 + 1), "ada", NOON + n, [], f"run {n}").info.run_id
        store.log_batch(run_id, [Metric("m", 1.0, NOON, step) for step in range(20)], [], [])
        store.update_run_info(run_id, RunStatus.FINISHED, NOON + 9, None)
    DynamoDBJobStore("", table=made).create_job("optimize_prompts", json.dumps({"a": 1}))
    return made


def run(table: Table, *arguments: str, code: int = 0) -> Any:
    done = CliRunner().invoke(main, ["--uri", table.engine.uri, *arguments])
    assert done.exit_code == code, done.output
    return done


def embedded(page: str) -> Any:
    """The data in a page."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    return json.loads(text)


def test_what_stats_and_doctor_found_is_shown(table: Table, tmp_path: Path):
    before = page_data(table)
    assert before["survey"] is before["health"] is None
    run(table, "stats")
    run(table, "doctor")
    run(table, "stats", "--html", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    shown = embedded(page)
    assert {one["kind"] for one in shown["survey"]["kinds"]} >= {"Run", "Experiment", "Job"}
    assert sum(one["items"] for one in shown["survey"]["kinds"]) > 400
    largest = shown["survey"]["experiments"][0]
    assert largest["name"]
    assert sum(largest["volumes"]) > 0
    assert largest["before"] == sum(largest["volumes"])
    assert len(shown["growth"]) == 1  # counts of ten minutes are one
    assert {one["check"] for one in shown["health"]["findings"]} >= {"damage", "orphans"}
    assert sum(items for _, items, _ in shown["survey"]["expiring"]) > 50  # histories of metrics
    assert [job["what"] for job in shown["jobs"]] == ["optimize_prompts"]
    assert [one["days"] for one in shown["retention"]] == [30, 365, 90]


def test_damaged_items_of_its_own_do_not_hide_the_rest(
    table: Table, caplog: pytest.LogCaptureFixture
):
    run(table, "stats")
    run(table, "doctor")
    for part, packed in ((CONTENTS, b"\x01nonsense"), (GROWTH, None), (HEALTH, b"")):
        key = access_keys.survey_key(part)
        broken = {} if packed is None else {PACKED: packed}
        table.put({"PK": key.pk, "SK": key.sk, **broken})
    (job,) = (item for item in everything_in(table) if item.get("name") == "optimize_prompts")
    table.put({**job, "created": "yesterday"})
    shown = page_data(table)
    assert (shown["survey"], shown["growth"], shown["health"]) == (None, [], None)
    assert [job["SK"] in one["detail"] for one in shown["jobs"]] == [True]
    assert len(shown["retention"]) == 3
    assert len(caplog.messages) == 3
    assert operator_page(table)
    run(table, "stats")  # counts anew
    assert page_data(table)["survey"] is not None


def test_growth_is_told_from_half_a_day_before(table: Table):
    day = 86_400.0
    for at, size in ((0.0, 100), (day, 500), (day + 60, 510)):
        survey = Survey(at, {}, [{"id": "1", "name": "x", "volumes": [size], "before": None}])
        Surveys(table).note(survey)
    notes = Surveys(table).read()
    assert notes.survey is not None
    assert (notes.survey.before, notes.survey.experiments[0]["before"]) == (0.0, 100)
    assert [at for at, *_ in notes.growth] == [0.0, day + 60]


def test_a_cleanup_counts_too(table: Table):
    Cleanup(table, grace=0).run()
    survey = Surveys(table).read().survey
    assert survey is not None
    assert survey.orphans == {}
    assert survey.by_kind["Run"].items == 100


def test_a_name_cannot_leave_the_script_it_is_written_into(table: Table):
    run(table, "stats")
    page = operator_page(table)
    assert HOSTILE not in page
    assert HOSTILE in [one["name"] for one in embedded(page)["survey"]["experiments"]]


def test_the_page_asks_no_other_site(table: Table):
    page = operator_page(table)
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of a language, never fetched
    assert "import(" not in page
    assert not re.search(r"<(script|img|iframe|link)[^>]+src=", page)


def test_looking_costs_a_few_read_units_however_large_the_table_is(
    table: Table, engine: MeteredEngine
):
    """Also with volumes, a running import, an unfinished copy and a broken item (in the docs)."""
    plain = looked_at(engine)
    assert (plain.total_requests, plain.read_units, plain.write_units) == (REQUESTS, READ_UNITS, 0)
    Volumes(Table(engine, clock=lambda: time.time() - 3600)).spread("1", 3)
    store = DynamoDBTrackingStore("", "s3://b", table=table)
    for n in range(30):
        store.create_run("1", "ada", NOON + n, [], f"in a volume {n}")
    table.put({"PK": "EXP#2", "SK": "R#broken#SUMMARY", "summary": b"\x01\x78 not what it was"})
    ImportState(table, "sqlite:///other.db").begin()
    filled = {"source": "dynamodb:///old.ddb", "place": None, "holder": "me", "items": 5}
    key = access_keys.fill_state_key()
    table.put({"PK": key.pk, "SK": key.sk, **filled, "expired": 0, "ended": None})
    run(table, "stats")
    run(table, "doctor", code=FINDINGS)
    used = looked_at(engine)
    assert (used.total_requests, used.write_units) == (REQUESTS, 0)
    assert used.read_units <= READ_UNITS + 1, used
    shown = page_data(table)
    assert {one["id"]: len(one["volumes"]) for one in shown["survey"]["experiments"]}["1"] == 3
    assert [one["what"] for one in shown["work"]] == [
        "transfer from dynamodb:///old.ddb",
        "import from sqlite:///other.db",
    ]
    (damage,) = [one for one in shown["health"]["findings"] if one["check"] == "damage"]
    assert damage["text"].startswith("damaged: 1, ")


def looked_at(engine: MeteredEngine) -> Usage:
    with engine.meter.measure() as used:
        page_data(Table(engine))
    return used


def test_imports_and_cleanups_show_how_far_they_are(table: Table):
    state = ImportState(table, "sqlite:///other.db")
    state.begin()
    state._noted = 0.0
    state.note("runs", 300, 1_000)
    calls = iter([False, True])
    Cleanup(table, grace=0, segments=1, stop=lambda: next(calls, True)).run()
    (imported,) = page_data(table)["work"][:1]
    assert imported["what"] == "import from sqlite:///other.db"
    assert (imported["done"], imported["total"]) == (300, 1_000)
    assert imported["detail"] == "runs: 300 of 1,000"
    state.finish()
    assert [one for one in page_data(table)["work"] if "import" in one["what"]] == []


def test_jobs_show_what_they_report(table: Table):
    """A job of MLflow's own reports its stage, others a phase and how much they have done."""
    jobs: Any = DynamoDBJobStore("", table=table)
    (waiting,) = jobs.list_jobs()
    staged, counting, counted = (jobs.create_job(f"job {n}", "{}").job_id for n in range(3))
    for one in (staged, counting, counted):
        jobs.start_job(one)
    jobs.update_status_details(staged, {"stage": "Clustering issues..."})
    jobs.update_job_progress(counting, "reading")
    jobs.update_job_progress(counted, None, JobProgress("scoring", 42, 100, "traces"))
    shown = {one["what"]: one for one in page_data(table)["jobs"]}
    assert {what: one["detail"] for what, one in shown.items()} == {
        waiting.job_name: "",
        "job 0": "Clustering issues...",
        "job 1": "reading",
        "job 2": "scoring: 42 of 100 traces",
    }
    assert (shown["job 2"]["done"], shown["job 2"]["total"]) == (42, 100)
    assert shown["job 2"]["at"] == pytest.approx(time.time(), abs=60)
    assert [shown[name]["status"] for name in ("job 2", waiting.job_name)] == ["RUNNING", "PENDING"]


def test_of_many_jobs_the_page_reads_a_few(table: Table, engine: MeteredEngine):
    jobs: Any = DynamoDBJobStore("", table=table)
    for n in range(20):
        trace_ids = [f"tr-{os.urandom(16).hex()}" for _ in range(100)]
        jobs.create_job(f"job {n}", json.dumps({"trace_ids": trace_ids}))
    shown = page_data(table)["jobs"]
    assert [one["what"] for one in shown] == [
        "optimize_prompts",
        *(f"job {n}" for n in range(4)),
        "more jobs of workspace default",
    ]
    used = looked_at(engine)
    assert used.total_requests == REQUESTS
    assert used.read_units <= READ_UNITS + 3, used


def test_a_copy_shows_how_far_it_is_of_what_was_last_counted(table: Table, tmp_path: Path):
    run(table, "stats")
    survey = Surveys(table).read().survey
    assert survey is not None
    target = Table(open_engine(f"dynamodb:///{tmp_path}/target.ddb", create=True))
    source = TableSource(table)
    seen: list[Any] = []

    def look(_: FillProgress) -> None:
        seen.extend(page_data(target)["work"])

    TableFill(target, source, look, source.last_count()).run()
    assert [one["what"] for one in seen] == [f"transfer from {source.identity}"]
    assert seen[0]["total"] == survey.total.items
    assert 0 < seen[0]["done"] <= survey.total.items + 5  # the count itself was noted after it
    assert page_data(target)["work"] == []


def test_an_import_is_shown_while_it_runs(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(import_state, "NOTE_SECONDS", 0.0)
    theirs = filled(tmp_path)
    transfer = Transfer.from_database(
        Database.to_read(theirs.uri), table, Changes(prefix="theirs-")
    )
    seen: list[Any] = []
    transfer.move(lambda *_: seen.extend(page_data(table)["work"]), transfer.count())
    assert {one["what"] for one in seen} == {f"import from {theirs.uri}"}
    details = [one["detail"] for one in seen]
    assert details[0] == "begun"
    assert "runs: 8 of 8" in details
    assert page_data(table)["work"] == []


@pytest.mark.one_volume(reason="names the one volume that all requests go to")
def test_stats_and_doctor_show_heat_as_the_page_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """All three read what the workers of a server have counted on this machine."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    uri = f"dynamodb:///{tmp_path}/mlflow.ddb"
    store = DynamoDBTrackingStore(f"{uri}?synchronous=NORMAL", "s3://b")  # counts, as in a server
    store.create_experiment("busy")
    said = CliRunner().invoke(main, ["--uri", uri, "stats"]).output
    assert f"Heat: {NOTHING_COUNTED}." in " ".join(said.split())
    PARTITION_COUNTERS.reset()
    for n in range(20):
        store.create_run("1", "ada", NOON + n, [], f"run {n}")
    counter_files.files_of_this_server.cache_clear()
    servers = counter_files.files_of_this_server().read()
    counter_files.files_of_this_server.cache_clear()
    (hot,) = json.loads(run(store.table, "stats", "--json").stdout)["heat"]
    assert (hot["experiment_id"], hot["name"], hot["volume"]) == ("1", "busy", 0)
    assert hot["requests"] >= 20
    shown = " ".join(run(store.table, "stats").output.split())
    assert "Busiest volumes in the last hour" in shown
    findings = json.loads(run(store.table, "doctor", "--quick", "--json").stdout)
    (heat,) = [one for one in findings if one["check"] == "heat"]
    assert f"last hour: 1 ({hot['requests']:,.0f} requests)" in heat["text"]
    assert page_data(store.table, servers)["servers"]["hot"] == [hot]
    # The page as a file shows the same, and nothing of servers that use other tables.
    run(store.table, "stats", "--html", str(tmp_path / "page.html"))
    shown_servers = embedded((tmp_path / "page.html").read_text())["servers"]
    assert shown_servers["hot"] == [hot]
    assert shown_servers["operations"]["create_run"]["calls"] >= 20
    other = Table(open_engine(f"dynamodb:///{tmp_path}/other.ddb", create=True))
    run(other, "stats", "--html", str(tmp_path / "other.html"))
    assert embedded((tmp_path / "other.html").read_text())["servers"] is None


def test_what_servers_count_is_shown_by_operation(table: Table):
    counts = {
        Counted("calls", "log_batch"): 10.0,
        Counted("seconds", "log_batch"): 0.5,
        Counted("write_units", "log_batch"): 20.0,
        Counted("read_units", "search_runs"): 5.0,
        Counted("throttles", "log_batch"): 1.0,
    }
    # The first periods of two processes, one of which began a minute later, and a whole one.
    periods = [Period(0.0, 300.0, counts), Period(60.0, 240.0, counts), Period(300.0, 300.0, {})]
    servers = ServerCounters({}, periods, live_runs=3, processes=2)
    shown = page_data(table, servers)["servers"]
    assert [one["start"] for one in shown["periods"]] == [0.0, 300.0]
    assert shown["operations"]["log_batch"]["write_units"] == 40
    assert shown["hours"] == pytest.approx(600 / 3600)
    assert shown["monthly_dollars"] == pytest.approx((40 * 0.625 + 10 * 0.125) / 1e6 * 730 * 6)
    assert shown["live_runs"] == 3
    assert Counters().periods()  # the form that servers give
