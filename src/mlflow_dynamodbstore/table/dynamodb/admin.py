"""Create, check, inspect and delete the table."""

from __future__ import annotations

import logging
import time
from email.utils import parsedate_to_datetime
from typing import Any

from mlflow_dynamodbstore.table.contract import TableState
from mlflow_dynamodbstore.table.dynamodb.definition import check_table, table_definition
from mlflow_dynamodbstore.table.dynamodb.errors import table_missing
from mlflow_dynamodbstore.table.dynamodb.transport import Body, ServiceError, Transport
from mlflow_dynamodbstore.table.errors import Unavailable
from mlflow_dynamodbstore.table.location import Location
from mlflow_dynamodbstore.table.schema import Schema
from mlflow_dynamodbstore.table.values import TTL

ACTIVE_SECONDS = 300.0
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 3.0

_NOT_OFFERED = {
    "UnknownOperationException",
    "UnknownOperation",
    "UnsupportedOperationException",
    "ValidationException",
    "ValidationError",
    "NotImplementedException",
    "NotImplemented",
    "501",
}

_log = logging.getLogger(__name__)


class Admin:
    """Operations on the table itself."""

    def __init__(self, transport: Transport, schema: Schema, location: Location) -> None:
        self._transport = transport
        self._schema = schema
        self._location = location
        self._name = location.table

    def prepare(self, *, create: bool) -> None:
        """See :meth:`~mlflow_dynamodbstore.table.contract.Engine.prepare`.

        Any number of processes may do this at once: one creates the table, all wait for it.
        """
        described = self._describe()
        if described is None:
            if not create:
                raise table_missing(self._location)
            self._create()
        if described is None or described["TableStatus"] not in ("ACTIVE", "UPDATING"):
            described = self._wait_until_active()
        check_table(self._schema, described)
        if create:
            self._switch_on_features()

    def state(self) -> TableState:
        """The settings of the table. Raises ``TableMissing``."""
        answer = self._call_optional("description", "DescribeTable")
        if answer is None:
            raise table_missing(self._location)
        sent = self._transport.date
        return TableState(
            expires_items=self._expires_items(),
            recovers=self._recovers(),
            protected=answer["Table"].get("DeletionProtectionEnabled"),
            endpoint_time=parsedate_to_datetime(sent).timestamp() if sent else None,
        )

    def remove(self) -> None:
        """Delete the table with all its data, even a protected one. An absent table is no error."""
        if self._describe() is None:
            return
        self._call_optional("protection", "UpdateTable", DeletionProtectionEnabled=False)
        self._wait_until_active()
        self._transport.call("DeleteTable", {"TableName": self._name})
        self._wait_until_gone()

    def _wait_until_gone(self) -> None:
        deadline = time.monotonic() + ACTIVE_SECONDS
        while self._describe() is not None:
            if time.monotonic() > deadline:
                raise Unavailable(f"{self._location} is still being deleted; check again later")
            time.sleep(_LONGEST_PAUSE / 3)

    def _recovers(self) -> bool | None:
        """Whether point-in-time recovery is on; None where the endpoint has none."""
        answer = self._call_optional("point-in-time recovery", "DescribeContinuousBackups")
        if answer is None:
            return None
        described = answer.get("ContinuousBackupsDescription", {})
        status = described.get("PointInTimeRecoveryDescription", {})
        return bool(status.get("PointInTimeRecoveryStatus") == "ENABLED")

    def _describe(self) -> Body | None:
        try:
            answer = self._transport.call("DescribeTable", {"TableName": self._name})
        except ServiceError as error:
            if error.code == "ResourceNotFoundException":
                return None
            raise
        described: Body = answer["Table"]
        return described

    def _create(self) -> None:
        definition = table_definition(self._schema, self._name)
        try:
            self._create_unless_there(definition)
        except ServiceError as error:
            if error.code not in _NOT_OFFERED:
                raise
            # Some endpoints refuse what they do not offer. A definition that is wrong in itself
            # fails again.
            definition.pop("DeletionProtectionEnabled")
            self._create_unless_there(definition)

    def _create_unless_there(self, definition: Body) -> None:
        try:
            self._transport.call("CreateTable", definition)
        except ServiceError as error:
            if error.code != "ResourceInUseException":  # another process was quicker
                raise

    def _wait_until_active(self) -> Body:
        deadline = time.monotonic() + ACTIVE_SECONDS
        pause = _FIRST_PAUSE
        while True:
            described = self._describe()
            if described is not None and described["TableStatus"] in ("ACTIVE", "UPDATING"):
                return described
            if time.monotonic() > deadline:
                state = described["TableStatus"] if described else "absent"
                raise Unavailable(
                    f"{self._location} is still {state} after {ACTIVE_SECONDS:g} seconds"
                )
            time.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)

    def _switch_on_features(self) -> None:
        """Switch on expiry and point-in-time recovery, where the endpoint has them.

        If expiry is on, the process that created the table has done this already.
        """
        if self._expires_items() is not False:
            return
        self._call_optional(
            "time to live",
            "UpdateTimeToLive",
            TimeToLiveSpecification={"Enabled": True, "AttributeName": TTL},
        )
        self._call_optional(
            "point-in-time recovery",
            "UpdateContinuousBackups",
            PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True},
        )

    def _expires_items(self) -> bool | None:
        """Whether time to live is on; None where the endpoint has none."""
        answer = self._call_optional("time to live", "DescribeTimeToLive")
        if answer is None:
            return None
        status = answer.get("TimeToLiveDescription", {}).get("TimeToLiveStatus", "DISABLED")
        return status in ("ENABLED", "ENABLING")

    def _call_optional(self, feature: str, operation: str, **arguments: Any) -> Body | None:
        try:
            return self._transport.call(operation, {"TableName": self._name, **arguments})
        except ServiceError as error:
            if error.code not in _NOT_OFFERED:
                raise
            _log.debug("%s has no %s: %s", self._location, feature, error)
            return None
