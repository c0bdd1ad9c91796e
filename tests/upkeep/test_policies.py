"""Settings are kept for half a minute by every process."""

from __future__ import annotations

from mlflow_dynamodbstore.shared.policies import REFRESH_SECONDS, TRACE_RETENTION
from tests.stores import open_tracking_store
from tests.table.fakes import FakeTime


def test_a_setting_is_known_everywhere_after_a_while(tmp_path):
    """Counted from the change, so that the same command given again need not wait."""
    time = FakeTime()
    policies = open_tracking_store(tmp_path, time).policies
    policies.set(TRACE_RETENTION, 60)
    left: list[float] = []
    began = time.now
    policies.wait_until_known(TRACE_RETENTION, left.append, time.sleep)
    assert REFRESH_SECONDS < time.now - began < 2 * REFRESH_SECONDS
    assert left[0] == time.now - began
    policies.wait_until_known(TRACE_RETENTION, left.append, time.sleep)
    assert left[-1] <= 1
