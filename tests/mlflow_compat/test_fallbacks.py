"""What we do in place of a name that a release lacks is what MLflow does where it has it."""

from __future__ import annotations

import json
import logging
import math
import sys
import types
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES
from mlflow.exceptions import MlflowException
from mlflow.tracing.constant import TraceExperimentTagKey, TraceMetadataKey
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.mlflow_compat import (
    auth,
    hooks,
    jobs,
    names,
    releases,
    search,
    trace_analytics,
    trace_archival,
    validation,
    workspaces,
)
from mlflow_dynamodbstore.mlflow_compat.names import private, unavailable
from tests.releases import has, needs

VALUES: list[Any] = [
    *(None, True, False, 0, -1, 7, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**400),
    *(0.5, 3.0, -0.0, 1e300, math.nan, math.inf, -math.inf),
    *("", "7", " 7 ", "7.0", "7.5", "1e3", "1e1000", "1e-1000", "nan", "x", "Yes", " no ", "YES!"),
    *([], {}, {"a": 1}, Decimal("1.5"), "m" * 600),
]


def outcome(function, *arguments, **named):
    try:
        return "gives", function(*arguments, **named)
    except MlflowException as error:
        return error.error_code, error.message


def same(ours, theirs, *arguments, **named):
    """The outcome of a function of ours is that of MLflow's."""
    one, other = (outcome(function, *arguments, **named) for function in (ours, theirs))
    assert repr(one) == repr(other), (arguments, named)


@needs("sums of traces")
def test_sums_of_traces_are_mlflows():
    theirs = trace_analytics
    for value in VALUES:
        same(trace_analytics._float, theirs.finite_float_or_none, value)
        same(trace_analytics._count, theirs.token_count_or_none, value)
        same(trace_analytics._dimension, theirs.bounded_model_dimension, value)
        same(trace_analytics._aggregate, theirs.assessment_aggregate, value)
    for text in (None, "", "a", "n" * 250, "n" * 251, "n" * 8000, "n" * 8001):
        same(trace_analytics._session_id, theirs.validate_session_id, text)
        same(trace_analytics._trace_name, theirs.validate_trace_name, text)
    tokens = dict(zip(theirs.TOKEN_COLUMN_BY_KEY, VALUES[1:], strict=False))
    costs = dict(zip(theirs.COST_COLUMN_BY_KEY, (1.5, None, "x"), strict=True))
    usage = {TraceMetadataKey.TOKEN_USAGE: json.dumps(tokens, default=str)}
    stated = [
        {},
        {TraceMetadataKey.TRACE_SESSION: "s"},
        {TraceMetadataKey.TRACE_SESSION: "s" * 300},
        usage,
        {**usage, TraceMetadataKey.COST: json.dumps(costs), "other": "x"},
        *({TraceMetadataKey.COST: text} for text in ("", "[]", "{", "null", '{"input_cost": 1}')),
    ]
    for metadata in stated:
        same(trace_analytics._columns, theirs.analytics_columns_from_metadata, metadata)


@needs("sums of traces")
def test_columns_of_sums_are_mlflows(monkeypatch):
    """They are what a table holds, so they must be the same in every release."""
    monkeypatch.setattr(names, "_find", lambda module, name: names._ABSENT)
    source = str(trace_analytics.__file__)
    scope: dict[str, object] = {"__name__": "without", "__file__": source}
    exec(compile(Path(source).read_text("utf-8"), source, "exec"), scope)
    for name in (
        "TOKEN_COLUMN_BY_KEY",
        "COST_COLUMN_BY_KEY",
        "PROMOTED_TRACE_METADATA_KEYS",
        "TRACE_ANALYTICS_COLUMNS_BY_METADATA_KEY",
    ):
        assert scope[name] == getattr(trace_analytics, name), name


@needs("parser of experiment ids")
def test_experiment_ids_are_parsed_as_mlflow_does():
    odd: list[Any] = ["0", 7, " 12 ", "x", "", "1.5", None, [], "٣"]
    for given in odd:
        same(validation._experiment_id, validation.parse_experiment_id, given)
    for many in ([], ["1", 2], ["1", "x"]):
        same(validation._experiment_ids, validation.parse_experiment_ids, many)


def test_retention_is_resolved_as_mlflow_does():
    tag = TraceExperimentTagKey.ARCHIVAL_RETENTION
    stated = ["", "30d", "[]", "{", '{"type": "duration"}', '{"type": "x", "value": "1d"}']
    stated += [json.dumps({"type": "duration", "value": v}) for v in ("1d", " 90d ", "0d", 5)]
    for value in (None, *stated):
        for own, allowed in (("1", {"1"}), ("2", {"1"})):
            same(
                trace_archival._effective_retention,
                trace_archival.resolve_effective_trace_archival_retention,
                experiment_id=own,
                experiment_tags={} if value is None else {tag: value},
                broader_retention="30d",
                long_retention_allowlist=allowed,
            )
    requests = (None, "", "{}", "[]", "{", '{"older_than": "2h"}', '{"older_than": "x"}')
    for value in requests:
        asked = [
            kind.from_tag_value(value)
            for kind in (trace_archival._Request, trace_archival.ArchiveNowRequest)
        ]
        ours, theirs = (one and vars(one) for one in asked)
        assert ours == theirs, value
    for text in ("1m", "2h", "30d", " 7d"):
        same(trace_archival._duration_ms, trace_archival.parse_trace_archival_duration_millis, text)


def test_the_active_workspace_is_mlflows(monkeypatch):
    for enabled in ("false", "true"):
        monkeypatch.setenv(MLFLOW_ENABLE_WORKSPACES.name, enabled)
        same(workspaces._active_workspace, workspaces.get_active_workspace)
        with WorkspaceContext("team-a"):
            same(workspaces._active_workspace, workspaces.get_active_workspace)


def test_parts_of_filters_are_parsed_as_mlflow_does():
    for text in (
        "name",
        "name ASC",
        "name desc",
        "`a b` DESC",
        "`name`",
        "a b c",
        "a b DESC",
        "name up",
    ):
        ours, theirs = (
            outcome(function, text) for function in (search._order, search.parse_order_by_string)
        )
        assert ours[0] == theirs[0], text
    for text in ("`a`", "a", "`", "``", "`a"):
        same(search._plain, search.trim_backticks, text)


@needs("jobs that are recovered")
def test_entities_of_jobs_are_mlflows():
    assert {s.value for s in jobs._Status} == {s.value for s in jobs.JobStatus}
    for status in jobs.JobStatus:
        assert str(jobs._Status(status.value)) == str(status)
        final = jobs._Status.is_finalized(jobs._Status(status.value))
        assert final == jobs.JobStatus.is_finalized(status)
    for stated in ({}, {"phase": "p"}, {"phase": "p", "completed": 1, "total": 2, "unit": "u"}):
        assert jobs._Progress.from_dict(stated).to_dict() == stated
        assert jobs.JobProgress.from_dict(stated).to_dict() == stated
    raised = [
        kind("j-1", jobs.JobStatus.FAILED)
        for kind in (jobs._TerminalStateUpdateError, jobs.JobTerminalStateUpdateException)
    ]
    assert raised[0].message == raised[1].message
    assert raised[0].error_code == raised[1].error_code


def test_a_job_that_needs_recovery_runs_where_a_release_does_not_know_better():
    stored = "NEEDS_RECOVERY"
    running = jobs.JobStatus.RUNNING
    known = has("jobs that are recovered")
    assert jobs.job_status(stored).value == (stored if known else "RUNNING")
    assert jobs.stored_statuses([running]) == (["RUNNING"] if known else ["RUNNING", stored])


def test_denials_are_refused_where_a_release_does_not_know_them():
    if has("denials"):
        auth.check_denials_hold()
    else:
        with pytest.raises(MlflowException, match="does not know the permission DENY"):
            auth.check_denials_hold()


def test_unsafe_values_are_refused_without_mlflows_checks():
    for call in (
        lambda: validation._password("short"),
        lambda: validation._username(""),
        lambda: validation._retention("forever"),
        lambda: validation._https_icons([{"src": "javascript:alert(1)"}]),
    ):
        with pytest.raises(MlflowException):
            call()


@pytest.fixture
def looked_up(monkeypatch):
    """Names that a test asks for are forgotten after it."""
    monkeypatch.setattr(names, "LOOKED_UP", [])


def test_a_missing_name_can_be_imported_but_not_used(looked_up):
    lost = private("mlflow.utils.validation", "_no_such_check", unavailable("Checking"))
    assert not isinstance(3, lost)
    for use in (lost, lost.from_tag, lambda: lost.of.anything(1)):
        with pytest.raises(MlflowException, match="Checking cannot be used with MLflow") as raised:
            use()
        assert raised.value.error_code == "NOT_IMPLEMENTED"
    assert private("mlflow.no_such_module", "anything", 5) == 5
    assert "mlflow.utils.validation._no_such_check" in names.missing_names(
        "mlflow.utils.validation"
    )


def test_a_dependency_that_is_not_installed_is_not_taken_for_a_missing_name(
    tmp_path, monkeypatch, looked_up
):
    (tmp_path / "needs_more.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        private("needs_more", "anything", 5)


def test_a_module_of_ours_that_cannot_be_imported_leaves_mlflows_as_it_is(monkeypatch, caplog):
    """A server on SQLite starts all the same, and one line says what is lost."""
    monkeypatch.setattr(hooks, "_said", set())
    awaited: dict[str, Any] = {}
    monkeypatch.setattr(hooks, "after_import", awaited.__setitem__)
    monkeypatch.setitem(sys.modules, f"{hooks.COMPAT}.job_runner", None)
    hooks.await_modules(make_job_store=lambda uri: None, rotate_key=lambda uri, key: (0, 0))
    for name in ("mlflow.server.handlers", "mlflow.server.jobs.utils"):
        module = types.ModuleType(name)
        before = dict(vars(module))
        awaited[name](module)
        assert vars(module) == before
    (record,) = caplog.records
    assert record.getMessage().startswith("With this release of MLflow background jobs are off:")


@pytest.mark.parametrize(
    ("version", "lines"), [("3.15.0", 0), ("3.17.9", 0), ("3.18.0.dev0", 1), ("4.0.0", 1)]
)
def test_a_newer_release_gets_one_line(monkeypatch, caplog, version, lines):
    monkeypatch.setattr(releases, "VERSION", version)
    with caplog.at_level(logging.WARNING):
        releases.warn_of_newer_release()
    assert [record.getMessage() for record in caplog.records] == [
        f"mlflow-dynamodbstore is tested with MLflow 3.15 to 3.17; this is MLflow {version}."
    ] * lines
