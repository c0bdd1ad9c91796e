"""What each command does, as a person sees it and as a program does."""

from __future__ import annotations

import json

import pytest
from mlflow.entities import Dataset, DatasetInput

from mlflow_dynamodbstore.cli.exits import FAILED, FINDINGS, INTERRUPTED, NO_TABLE, USAGE
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.shared.policies import ENVIRONMENT
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.upkeep import backfill, cleanup, doctor
from tests.engines import moto_server
from tests.places import run_place
from tests.upkeep.helpers import items_of, make_run

# --- ttl ----------------------------------------------------------------------------------------


def test_ttl_show_and_set(run):
    assert run.json("ttl", "show") == {
        "soft_deleted_retention_days": {"days": 90, "source": "default"},
        "trace_retention_days": {"days": 30, "source": "default"},
        "metric_history_retention_days": {"days": 365, "source": "default"},
    }
    run("ttl", "set", "--trace-retention-days", "60", "--soft-deleted-retention-days", "0")
    shown = run("ttl", "show").stdout
    assert "60" in shown
    assert "never expire" in shown


def test_ttl_set_needs_a_policy_and_days(run):
    run("ttl", "set", code=USAGE)
    run("ttl", "set", "--trace-retention-days", "-1", code=USAGE)


def test_ttl_show_tells_what_the_environment_says(run, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT["trace_retention_days"], "7")
    assert run.json("ttl", "show")["trace_retention_days"] == {"days": 7, "source": "environment"}
    assert ENVIRONMENT["trace_retention_days"] in run("ttl", "show").stdout
    monkeypatch.setenv(ENVIRONMENT["trace_retention_days"], "soon")
    assert "soon" in run("ttl", "show", code=USAGE).output


def orphan(store):
    key = Key("EXP#0", run_keys.run_tag(ids.new_id("0", now_ms=1_700_000_000_000), "team"))
    store.table.put({"PK": key.pk, "SK": key.sk, "value": "blue"})
    return key


def test_ttl_cleanup_previews_and_cleans(run, store):
    make_run(store)
    key = orphan(store)
    preview = run.json("ttl", "cleanup", "--dry-run")
    assert (preview["found"], preview["dated"], preview["removed"]) == ({"Run tag": 1}, 0, 0)
    assert "nothing was changed" in run("ttl", "cleanup", "--dry-run").stdout
    assert store.table.get(key) is not None
    said = run("ttl", "cleanup", "--segments", "3").stdout
    assert "1 orphans marked as expired, 0 removed" in " ".join(said.split())
    assert store.table.get(key) is None
    assert run.json("ttl", "cleanup", "--restart")["orphans"] == 0


def test_ttl_cleanup_takes_a_second_look_at_what_may_be_being_written(run, store):
    store.table.put({"PK": "EXP#12", "SK": "E#TAG#team", "value": "x"})
    assert run.json("ttl", "cleanup", "--grace", "0.1")["found"] == {"Experiment tag": 1}


def test_stopping_with_ctrl_c_has_its_own_code(run, store, monkeypatch):
    def stopped(self, walk):
        raise KeyboardInterrupt

    monkeypatch.setattr(cleanup.Cleanup, "_note_position", stopped)
    run("ttl", "cleanup", code=INTERRUPTED)


# --- config -------------------------------------------------------------------------------------


def test_config_list_get_and_set(run):
    assert run("config", "get", "trace_retention_days").stdout.strip() == "30"
    run("config", "set", "primary_metric", "accuracy")
    assert run("config", "get", "primary_metric").stdout.strip() == "accuracy"
    listed = run.json("config", "list")
    assert listed["primary_metric"] == {"value": "accuracy", "source": "table"}
    assert listed["fts_fields"] == {"value": {}, "source": "default"}
    assert "accuracy" in run("config", "list").stdout


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nonsense", "1"),
        ("trace_retention_days", "soon"),
        ("fts_fields", "run.name"),
        ("fts_fields", '{"run.name": ["word"]}'),
    ],
)
def test_config_refuses_what_no_reader_understands(run, name, value):
    assert name in run("config", "set", name, value, code=USAGE).output


def test_config_list_leaves_out_notes_of_upkeep(run, store):
    store.policies.set(cleanup.POSITION, {"noted": 0})
    assert cleanup.POSITION not in run.json("config", "list")


# --- run ----------------------------------------------------------------------------------------


def test_what_a_run_has_read_and_produced_is_listed(run, store):
    run_id = make_run(store)
    data = Dataset(name="mnist", digest="9f", source_type="s3", source="s3://b")
    store.log_inputs(run_id, [DatasetInput(data)])
    models = [store.create_logged_model("0", "iris", run_id).model_id for _ in range(2)]
    assert run.json("run", "datasets", run_id) == [
        {"name": "mnist", "digest": "9f", "source_type": "s3"}
    ]
    assert {one["model_id"] for one in run.json("run", "models", run_id)} == set(models)
    assert "mnist" in run("run", "datasets", run_id).stdout
    assert "iris" in run("run", "models", run_id).stdout
    run("run", "models", "nothing", code=NO_TABLE)


# --- fts and explain ----------------------------------------------------------------------------


def test_fts_add_backfill_list_and_remove(run, store, monkeypatch):
    monkeypatch.setattr(backfill, "SETTLING_SECONDS", 0.0)
    make_run(store, name="night owl")
    assert "No text is indexed" in run("fts", "list").stdout
    run("fts", "add", "run.name", "--level", "word")
    assert "waits for" in run("fts", "list").stdout
    assert run.json("fts", "backfill", "run.name")["entries"] == 4
    assert run.json("fts", "list")["run.name"]["complete"] is True
    plan = run.json("explain", "attributes.run_name LIKE '% owl'", "--path", "ByText")
    assert [way["name"] for way in plan["ways"] if way["chosen"]] == ["ByText"]
    assert plan["runs"] == 1
    run("fts", "remove", "run.name", typed="n\n", code=FAILED)
    assert "4 entries deleted" in run("fts", "remove", "run.name", "--yes").stdout
    run("fts", "remove", "run.name", "--yes", code=USAGE)


def test_primary_metric_show_and_backfill(run, store, monkeypatch):
    monkeypatch.setattr(backfill, "SETTLING_SECONDS", 0.0)
    make_run(store, metrics={"acc": 0.5, "loss": 0.1})
    assert run.json("primary-metric", "show") == {
        "wanted": None,
        "indexed": None,
        "complete": False,
    }
    assert "No primary metric" in run("primary-metric", "backfill").stdout
    assert "primary-metric backfill" in run("config", "set", "primary_metric", "loss").stdout
    assert "waits for" in run("primary-metric", "show").stdout
    assert run.json("primary-metric", "backfill")["entries"] == 1
    assert run.json("primary-metric", "show")["complete"] is True
    plan = run.json("explain", "metrics.loss < 0.7", "--order-by", "metrics.loss ASC")
    assert [way["name"] for way in plan["ways"] if way["chosen"]] == ["ByPrimaryMetric"]
    assert "0 runs moved" in run("primary-metric", "backfill").stdout


def test_explain_shows_path_range_and_cost(run, store):
    make_run(store)
    shown = run("explain", "metrics.loss < 0.7", "--order-by", "metrics.loss ASC").stdout
    assert "ByMetric" in shown
    assert "RANK#m#loss#" in shown
    assert "metric.loss < 0.7" in shown
    assert "1 runs" in shown
    run("explain", "loss is low", code=USAGE)


# --- doctor, stats, workspaces ------------------------------------------------------------------


def test_doctor_finds_nothing_wrong_with_a_healthy_table(run, store):
    make_run(store)
    findings = run.json("doctor")
    assert {finding["level"] for finding in findings} == {"ok"}
    assert {"connection", "permissions", "schema", "partitions", "orphans"} <= {
        finding["check"] for finding in findings
    }
    assert "every item belongs to something" in run("doctor").stdout


def test_doctor_ends_with_a_code_of_its_own_when_something_is_wrong(run, store):
    for _ in range(10):
        orphan(store)
    findings = {f["check"]: f for f in run.json("doctor", code=FINDINGS)}
    assert findings["orphans"]["level"] == "warning"
    assert "orphans" not in {f["check"] for f in run.json("doctor", "--quick")}


def test_doctor_names_runs_that_nobody_ended(run, store):
    run_id = make_run(store, ended=False)
    key = run_place(run_id).key
    store.table.put({**store.table.get(key), "opened": 1_700_000_000})
    assert _unended(run)["level"] == "ok", "it has logged a metric a moment ago"
    for entry in items_of(store, "LIVE#"):
        store.table.put({**entry, "at": 1_700_000_000})
    finding = _unended(run)
    assert finding["level"] == "note"
    assert run_id in finding["text"]


def _unended(run):
    (finding,) = [f for f in run.json("doctor") if f["check"] == "unended runs"]
    return finding


def test_doctor_examines_a_table_behind_an_endpoint(anywhere, monkeypatch):
    # That would be a finding, and a machine that is busy with other tests may well be slow.
    monkeypatch.setattr(doctor, "SLOW_SECONDS", float("inf"))
    with moto_server() as host:
        # All of moto in a process has the same tables: this one is nobody else's.
        open_engine(f"dynamodb://{host}/examined").close()
        findings = anywhere.json("--name", "examined", "--endpoint-url", f"http://{host}", "doctor")
    found = {finding["check"]: finding for finding in findings}
    assert found["expiry"]["text"] == "time to live is on"
    assert found["recovery"]["level"] == "ok"
    assert found["protection"]["level"] == "ok"


def test_stats_count_items_and_bytes_by_kind(run, store):
    make_run(store)
    counted = run.json("stats")
    assert counted["entities"]["Run"]["items"] == 1
    assert counted["entities"]["Metric history"]["expiring"] == 1
    assert counted["total"]["items"] == sum(e["items"] for e in counted["entities"].values())
    assert len(counted["experiments"]) == 1
    shown = run("stats", "--price-per-gb", "1000000").stdout
    (total,) = [line for line in shown.splitlines() if "total" in line]
    (usual,) = [line for line in run("stats").stdout.splitlines() if "total" in line]
    assert "< $0.01" in usual
    assert "$" in total
    assert "< $" not in total
    assert "Largest experiments" in shown


def test_workspaces_are_listed_created_and_deleted(run):
    run("workspace", "create", "team-a", "--description", "ours")
    assert [w["name"] for w in run.json("workspace", "list")] == ["default", "team-a"]
    assert "already exists" in run("workspace", "create", "team-a", code=FAILED).output
    run("workspace", "delete", "team-a", code=FAILED)
    run("workspace", "delete", "team-a", "--mode", "cascade", "--yes")
    assert "team-a" not in run("workspace", "list").stdout


# --- deploy -------------------------------------------------------------------------------------


def test_deploy_and_destroy(anywhere):
    with moto_server() as host:
        named = ("--name", "staged", "--endpoint-url", f"http://{host}", "--region", "us-east-1")
        assert "CREATE_COMPLETE" in anywhere(*named, "deploy").stdout
        anywhere(*named, "ttl", "show")
        anywhere(*named, "destroy", code=FAILED)
        assert "removed" in anywhere(*named, "destroy", "--yes").stdout
        assert "no stack" in anywhere(*named, "destroy", "--yes", code=FAILED).output
        assert "already exists" in anywhere(*named, "deploy", code=FAILED).output
        anywhere(*named, "destroy", "--delete-data", "--yes")


def test_the_template_and_the_policies_are_printed(anywhere):
    named = ("--name", "mlflow", "--region", "eu-west-1")
    template = json.loads(anywhere(*named, "deploy", "--template").stdout)
    assert template["Resources"]["Table"]["Properties"]["TableName"] == "mlflow"
    account = "123456789012"
    policy = json.loads(anywhere(*named, "iam-policy", "writer", "--account", account).stdout)
    resources = policy["Statement"][0]["Resource"]
    assert f"arn:aws:dynamodb:eu-west-1:{account}:table/mlflow" in resources


# --- traces -------------------------------------------------------------------------------------


def test_trace_cache_needs_a_region(run, store):
    assert "xray_region" in run("trace", "cache", code=USAGE).output


def test_trace_cache_counts_what_it_did(run, store, monkeypatch):
    with moto_server() as host:
        monkeypatch.setenv("AWS_ENDPOINT_URL_XRAY", f"http://{host}")
        run("config", "set", "xray_region", "us-east-1")
        assert run.json("trace", "cache", "--days", "7") == {
            "looked_at": 0,
            "stored_already": 0,
            "cached": 0,
            "not_in_xray": 0,
        }
        assert "0 traces" in run("trace", "cache", "--experiment-id", "0").stdout
        wrong = run("trace", "cache", "--experiment-id", "first", code=USAGE)
        assert "Invalid experiment ID 'first'" in wrong.stderr


# --- tags ---------------------------------------------------------------------------------------


def test_tag_patterns_are_listed_added_removed_and_backfilled(run, store):
    assert run.json("tag", "list") == ["*"]
    run("tag", "add", "mlflow.*")
    assert run.json("tag", "remove", "*") == ["mlflow.*"]
    assert "mlflow.*" in run("tag", "list").stdout
    run("tag", "remove", "*", code=USAGE)
    assert run.json("tag", "backfill") == {"experiments": 1, "in_all": 1, "changed": 0}
    run("tag", "remove", "mlflow.*")
    assert "No tag is copied" in run("tag", "list").stdout
    run("config", "set", "denormalized_tags", "mlflow.*", code=USAGE)
