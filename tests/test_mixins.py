"""The parts of the tracking store do not overwrite each other's methods."""

from __future__ import annotations

from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore

# Methods by which one part adds to what another does, each calling the next or standing for it.
SHARED = {"_open", "_before_traces_deleted"}


def test_no_two_parts_have_a_method_of_the_same_name():
    """Unless one is built on the other: the first would silently be called for both."""
    parts = [c for c in DynamoDBTrackingStore.__mro__ if c.__module__.startswith("mlflow_dynamo")]
    clashes = {
        (name, one.__name__, other.__name__)
        for n, one in enumerate(parts)
        for other in parts[n + 1 :]
        for name in vars(one).keys() & vars(other).keys()
        if not name.startswith("__") and name not in SHARED and not issubclass(one, other)
    }
    assert clashes == set()
