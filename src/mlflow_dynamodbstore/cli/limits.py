"""Bounds, defaults and choices that options declare.

They repeat the values of modules that take seconds to import, so that help, completion and errors
need none of those; a test compares them.
"""

from __future__ import annotations

MAX_ALIAS_WEIGHT = 99
MOST_DAYS = 36_500
GRACE_SECONDS = 120.0
XRAY_DAYS = 30
TEXT_LEVELS = ("word", "trigram")
WORKSPACE_DELETION_MODES = ("cascade", "restrict", "set_default")
DEFAULT_WORKSPACE = "default"

SOFT_DELETED_RETENTION = "soft_deleted_retention_days"
TRACE_RETENTION = "trace_retention_days"
METRIC_HISTORY_RETENTION = "metric_history_retention_days"
