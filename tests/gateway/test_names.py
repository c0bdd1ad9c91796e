"""The gateway's modules share one class with all others of the store."""

from __future__ import annotations

import inspect

from mlflow_dynamodbstore.gateway.base import GatewayBase
from mlflow_dynamodbstore.gateway.store import Gateway
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore

SHARED = {"_open", "_note_trace_metadata"}
"""What is meant to be done by several modules, one after the other."""


def test_no_helper_of_another_part_of_the_store_stands_in_the_way_of_one_of_ours():
    ours = [c for c in Gateway.__mro__ if issubclass(c, GatewayBase)]
    for own in ours:
        for name, member in vars(own).items():
            if inspect.isfunction(member) and name.startswith("_") and name not in SHARED:
                found = inspect.unwrap(getattr(DynamoDBTrackingStore, name))
                assert found is getattr(Gateway, name), name
