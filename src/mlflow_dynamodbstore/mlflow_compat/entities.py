"""The types of fields of entities, which MLflow 3.15 does not declare."""

from __future__ import annotations

from typing import Any

_PAIR = {"key": str, "value": str}
UNDECLARED_FIELDS: dict[str, dict[str, Any]] = {
    "ExperimentTag": _PAIR,
    "LoggedModelParameter": _PAIR,
    "LoggedModelTag": _PAIR,
    "Metric": {"key": str, "value": float, "timestamp": int, "step": int},
    "ModelVersionTag": _PAIR,
    "Param": _PAIR,
    "RegisteredModelTag": _PAIR,
    "RunTag": _PAIR,
}
"""By the name of the entity: its fields that a call stores."""
