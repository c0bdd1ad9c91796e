"""MLflow's checks of what is logged, registered and asked for.

A release that lacks a check accepts what the check would have looked at, unless accepting would be
unsafe: passwords, addresses that a server calls or shows, and how long traces are kept have a check
of our own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.mlflow_compat.names import private, unavailable

VALIDATION = "mlflow.utils.validation"
SHORTEST_PASSWORD = 12


def _accept(*_args: Any, **_kwargs: Any) -> None:
    """Accept everything."""


# --- experiments --------------------------------------------------------------------------------


def _experiment_id(experiment_id: str | int) -> int:
    try:
        return int(experiment_id)
    except (ValueError, TypeError):
        raise MlflowException.invalid_parameter_value(
            f"Invalid experiment ID '{experiment_id}'. Experiment ID must be a valid integer."
        ) from None


def _experiment_ids(experiment_ids: Sequence[str | int]) -> list[int]:
    return [parse_experiment_id(experiment_id) for experiment_id in experiment_ids]


def _locations(experiment_ids: list[str] | None, locations: list[str] | None) -> list[str] | None:
    if experiment_ids and locations:
        raise MlflowException.invalid_parameter_value(
            "`experiment_ids` is deprecated, use `locations` instead."
        )
    return experiment_ids or locations


parse_experiment_id = private(VALIDATION, "_parse_experiment_id", _experiment_id)
parse_experiment_ids = private(VALIDATION, "_parse_experiment_ids", _experiment_ids)
resolve_experiment_ids_and_locations = private(
    VALIDATION, "_resolve_experiment_ids_and_locations", _locations
)
validate_experiment_artifact_location_length = private(
    VALIDATION, "_validate_experiment_artifact_location_length", _accept
)
validate_experiment_name = private(VALIDATION, "_validate_experiment_name", _accept)
validate_experiment_tag = private(VALIDATION, "_validate_experiment_tag", _accept)

# --- runs and logged models ---------------------------------------------------------------------


def _batch(
    metrics: Sequence[Metric], params: Sequence[Param], tags: Sequence[RunTag]
) -> tuple[Sequence[Metric], Sequence[Param], Sequence[RunTag]]:
    return metrics, params, tags


def _param(key: str, value: str, path: str = "") -> Param:
    del path  # names the param in an error
    return Param(key, value)


def _tag(key: str, value: str, path: str = "") -> RunTag:
    del path
    return RunTag(key, value)


validate_batch_log_data = private(VALIDATION, "_validate_batch_log_data", _batch)
validate_batch_log_limits = private(VALIDATION, "_validate_batch_log_limits", _accept)
validate_dataset_inputs = private(VALIDATION, "_validate_dataset_inputs", _accept)
validate_logged_model_name = private(VALIDATION, "_validate_logged_model_name", _accept)
validate_metric = private(VALIDATION, "_validate_metric", _accept)
validate_param = private(VALIDATION, "_validate_param", _param)
validate_param_keys_unique = private(VALIDATION, "_validate_param_keys_unique", _accept)
validate_run_id = private(VALIDATION, "_validate_run_id", _accept)
validate_tag = private(VALIDATION, "_validate_tag", _tag)

# --- traces -------------------------------------------------------------------------------------


def _trace_tag(key: str, value: str) -> tuple[str, str]:
    return key, value


def _location(value: str, *, parameter_name: str | None = None) -> str:
    del parameter_name
    return value.strip()


def _retention(value: Any, *, parameter_name: str | None = None) -> str:
    if isinstance(value, str) and re.fullmatch(r"[1-9][0-9]{0,30}[mhd]", value.strip()):
        return value.strip()
    raise MlflowException.invalid_parameter_value(
        f"{parameter_name or 'Trace archival retention'} must be a number of minutes, hours or "
        f"days such as '30d', not {value!r}."
    )


validate_trace_archival_location = private(
    VALIDATION, "_validate_trace_archival_location", _location
)
validate_trace_archival_repository_support = private(
    VALIDATION, "_validate_trace_archival_repository_support", _location
)
validate_trace_archival_retention_string = private(
    VALIDATION, "_validate_trace_archival_retention_string", _retention
)
validate_trace_tag = private(VALIDATION, "_validate_trace_tag", _trace_tag)

# --- model registry -----------------------------------------------------------------------------


def _model_version(version: str | int) -> int:
    try:
        return int(version)
    except ValueError:
        raise MlflowException.invalid_parameter_value(
            f"Parameter 'version' must be an integer, got '{version}'."
        ) from None


def validate_model_version(version: str | int) -> int:
    """The number of a version; MLflow 3.15 checks it without returning it."""
    _validate_model_version(version)
    return int(version)


REGISTERED_MODEL_ALIAS_LATEST = private(VALIDATION, "_REGISTERED_MODEL_ALIAS_LATEST", "latest")
validate_model_alias_name = private(VALIDATION, "_validate_model_alias_name", _accept)
validate_model_alias_name_reserved = private(
    VALIDATION, "_validate_model_alias_name_reserved", _accept
)
validate_model_name = private(VALIDATION, "_validate_model_name", _accept)
validate_model_renaming = private(VALIDATION, "_validate_model_renaming", _accept)
_validate_model_version = private(VALIDATION, "_validate_model_version", _model_version)
validate_model_version_tag = private(VALIDATION, "_validate_model_version_tag", _accept)
validate_registered_model_tag = private(VALIDATION, "_validate_registered_model_tag", _accept)
validate_tag_name = private(VALIDATION, "_validate_tag_name", _accept)
validate_webhook_events = private(VALIDATION, "_validate_webhook_events", _accept)
validate_webhook_name = private(VALIDATION, "_validate_webhook_name", _accept)
validate_webhook_url = private(
    VALIDATION, "_validate_webhook_url", unavailable("Creating webhooks")
)

# --- MCP servers --------------------------------------------------------------------------------


def _without_source(
    icons: list[dict[str, Any]] | None, field_name: str = "icons"
) -> list[dict[str, Any]] | None:
    del field_name
    if icons is None:
        return None
    return [{name: icon[name] for name in icon if name != "source"} for icon in icons]


def _https_icons(icons: list[dict[str, Any]] | None, field_name: str = "icons") -> None:
    for icon in icons or []:
        if not str(icon.get("src")).startswith("https://"):
            raise MlflowException.invalid_parameter_value(
                f"The src of each of the {field_name} must be an https URL."
            )


strip_mcp_icon_response_fields = private(
    VALIDATION, "_strip_mcp_icon_response_fields", _without_source
)
validate_mcp_icon_payloads = private(VALIDATION, "_validate_mcp_icon_payloads", _https_icons)
validate_mcp_initial_status = private(VALIDATION, "_validate_mcp_initial_status", _accept)
validate_mcp_tool_payloads = private(VALIDATION, "_validate_mcp_tool_payloads", _accept)

# --- users --------------------------------------------------------------------------------------


def _username(username: str | None) -> None:
    if not username:
        raise MlflowException.invalid_parameter_value("Username cannot be empty.")


def _password(password: str | None) -> None:
    if password is None or len(password) < SHORTEST_PASSWORD:
        raise MlflowException.invalid_parameter_value(
            f"Password must be at least {SHORTEST_PASSWORD} characters."
        )


validate_username = private(VALIDATION, "_validate_username", _username)
validate_password = private(VALIDATION, "_validate_password", _password)
