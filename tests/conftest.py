"""What every test relies on: no telemetry, and property tests that repeat themselves."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Before anything imports mlflow, which reads it once. Servers started by tests inherit it.
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

# "short" tries the same examples every time, so that a red test is red for everybody; "long" looks
# for new ones and keeps what it finds in .hypothesis/. Deadlines are off in both: a busy machine is
# slow, not wrong.
settings.register_profile(
    "short",
    max_examples=50,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "long",
    max_examples=2_000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))
