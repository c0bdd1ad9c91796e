"""What the installed release of MLflow can do. A test that needs more is skipped, and says why."""

from __future__ import annotations

import importlib

import mlflow
import pytest

CAPABILITIES = {
    "a second engine": "mlflow.server.jobs.lock_manager:JobLockManager",
    "admin password variable": "mlflow.environment_variables:MLFLOW_AUTH_ADMIN_PASSWORD",
    "budgets of users": "mlflow.entities.gateway_budget_policy:BudgetTargetScope.USER",
    "checks of datasets and issues": "mlflow.server.auth:validate_can_read_dataset",
    "comparison of NaN": "mlflow.store.tracking.utils.trace_analytics:TOKEN_COLUMN_BY_KEY",
    "denials": "mlflow.server.auth.permissions:DENY",
    "numbers in filters": "mlflow.utils.search_utils:SearchUtils.LIST_SUPPORTED_KEYS",
    "parser of experiment ids": "mlflow.utils.validation:_parse_experiment_id",
    "filters by experiment id": "mlflow.utils.search_utils:SearchUtils.LIST_SUPPORTED_KEYS",
    "filters by lists of names": "mlflow.utils.search_utils:SearchUtils.LIST_SUPPORTED_KEYS",
    "filters by version": "mlflow.utils.search_utils:SearchUtils.LIST_SUPPORTED_KEYS",
    "description of the server": "mlflow.server.handlers:build_server_info_payload",
    "jobs that are recovered": "mlflow.entities._job_status:JobStatus.NEEDS_RECOVERY",
    "refusal of code in guardrails": "mlflow.genai.scorers.base:_serialized_scorer_is_custom_code",
    "refusal of the shipped password": "mlflow.server.auth:_validate_bootstrap_admin_password",
    "sums of traces": "mlflow.store.tracking.utils.trace_analytics:TOKEN_COLUMN_BY_KEY",
}
"""Each capability, and a name that MLflow has in the releases that have it."""


def has(capability: str) -> bool:
    """Whether this release has a capability."""
    module, _, path = CAPABILITIES[capability].partition(":")
    try:
        found: object = importlib.import_module(module)
    except ModuleNotFoundError:
        return False
    for name in path.split("."):
        if not hasattr(found, name):
            return False
        found = getattr(found, name)
    return True


def needs(capability: str) -> pytest.MarkDecorator:
    """A mark that skips a test on a release without a capability."""
    return pytest.mark.skipif(
        not has(capability), reason=f"MLflow {mlflow.__version__} has no {capability}"
    )


def takes(ours: list[str], theirs: list[str]) -> bool:
    """Whether a method of ours takes what MLflow's takes; that of an older release takes less."""
    return ours == theirs if has("sums of traces") else ours[: len(theirs)] == theirs
