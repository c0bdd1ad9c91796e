"""What DynamoDB's requests and answers say: names, units, partitions, throttling.

For counting what is sent. Requests are built by :mod:`mlflow_dynamodbstore.table.dynamodb`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, Write
from mlflow_dynamodbstore.table.schema import Schema

Body: TypeAlias = Mapping[str, Any]

READS = frozenset({"GetItem", "BatchGetItem", "Query", "Scan"})
"""The requests that consume read units; all others consume write units."""
_WRITES: Mapping[type, str] = {Put: "PutItem", Patch: "UpdateItem", Delete: "DeleteItem"}
_THROTTLED = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "Throttling",
        "ThrottlingException",
        # the reasons of a cancelled transaction
        "ProvisionedThroughputExceeded",
        "ThrottlingError",
    }
)


def request_of(write: Write) -> str:
    """The request that does one write."""
    return _WRITES[type(write)]


def consumed(answer: Body) -> Sequence[Body]:
    """What an answer says about consumed capacity, one entry for each table."""
    reported = answer.get("ConsumedCapacity") or []
    return [reported] if isinstance(reported, Mapping) else reported


def units_of(answer: Body) -> float:
    """The units that a request consumed, in the table and all its indexes."""
    return sum(map(_units, consumed(answer)))


def units_of_global_indexes(answer: Body) -> float:
    """The units that global indexes consumed, which have partitions of their own."""
    return sum(
        _units(index)
        for one in consumed(answer)
        for index in one.get("GlobalSecondaryIndexes", {}).values()
    )


def partitions_of(schema: Schema, request: Body) -> list[str]:
    """The partitions of a request's items, in order; none for a scan or a query of a global index,
    which has partitions of its own.
    """
    if "Key" in request or "Item" in request:
        return [_pk(schema, request)]
    if "KeyConditionExpression" in request:
        index = schema.by_name.get(request.get("IndexName", ""))
        if index is not None and not index.is_local:
            return []
        (name,) = (n for n, of in request["ExpressionAttributeNames"].items() if of == schema.pk)
        _, _, after = request["KeyConditionExpression"].partition(f"{name} = ")
        return [str(request["ExpressionAttributeValues"][after.partition(" ")[0]]["S"])]
    if "TransactItems" in request:
        return [_pk(schema, one) for part in request["TransactItems"] for one in part.values()]
    return [
        _pk(schema, one)
        for entries in request.get("RequestItems", {}).values()
        for one in _entries(entries)
    ]


def throttled_partitions(schema: Schema, answer: Body, request: Body) -> list[str]:
    """The partitions that an answer asks to leave alone for a while."""
    if (error := answer.get("Error")) is not None:
        partitions = partitions_of(schema, request)
        if error["Code"] in _THROTTLED:
            return partitions
        reasons = answer.get("CancellationReasons", ())
        return [
            pk
            for pk, why in zip(partitions, reasons, strict=False)
            if why.get("Code") in _THROTTLED
        ]
    left = answer.get("UnprocessedItems") or answer.get("UnprocessedKeys")
    return partitions_of(schema, {"RequestItems": left}) if left else []


def _units(reported: Body) -> float:
    return float(reported.get("CapacityUnits", 0.0))


def _entries(entries: Any) -> Iterable[Body]:
    """The keys or items of a table in a batch."""
    if isinstance(entries, Mapping):  # a batch read
        return [{"Key": key} for key in entries["Keys"]]
    return [write for entry in entries for write in entry.values()]


def _pk(schema: Schema, one: Body) -> str:
    return str((one.get("Item") or one["Key"])[schema.pk]["S"])
