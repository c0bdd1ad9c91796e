"""The operations of the contract as DynamoDB's requests. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from boto3.dynamodb.conditions import ConditionBase

from mlflow_dynamodbstore.table.contract import (
    Check,
    Delete,
    Patch,
    Put,
    Query,
    Returns,
    Scan,
    TransactWrite,
    Write,
)
from mlflow_dynamodbstore.table.dynamodb import cursors
from mlflow_dynamodbstore.table.dynamodb.codec import encode, encode_item, encode_key
from mlflow_dynamodbstore.table.dynamodb.transport import Body
from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.expressions import Expressions
from mlflow_dynamodbstore.table.protocol import request_of
from mlflow_dynamodbstore.table.request_checks import (
    check_distinct,
    check_filter,
    check_limit,
    check_segment,
    check_transaction,
    key_of,
)
from mlflow_dynamodbstore.table.schema import Schema
from mlflow_dynamodbstore.table.values import Key

_TRANSACTION_PARTS: dict[type, str] = {
    Put: "Put",
    Patch: "Update",
    Delete: "Delete",
    Check: "ConditionCheck",
}
_RETURN_VALUES: dict[Returns, str] = {"old": "ALL_OLD", "new": "ALL_NEW"}


def get(table: str, schema: Schema, key: Key, *, consistent: bool) -> Body:
    """A GetItem."""
    request: Body = {"TableName": table, "Key": encode_key(schema, key)}
    if consistent:
        request["ConsistentRead"] = True
    return request


def batch_get(table: str, schema: Schema, keys: Sequence[Key], *, consistent: bool) -> Body:
    """A BatchGetItem."""
    wanted: Body = {"Keys": [encode_key(schema, key) for key in keys]}
    if consistent:
        wanted["ConsistentRead"] = True
    return {"RequestItems": {table: wanted}}


def single_write(table: str, schema: Schema, write: Write) -> tuple[str, Body]:
    """The operation that does one write, and its request."""
    request = _write(table, schema, write)
    if write.returns != "none":
        if write.returns == "new" and not isinstance(write, Patch):
            raise InvalidRequest("only a patch can return the new item")
        request["ReturnValues"] = _RETURN_VALUES[write.returns]
    return request_of(write), request


def batch_write(table: str, schema: Schema, writes: Sequence[Write]) -> Body:
    """A BatchWriteItem of puts and deletes that have no condition."""
    entries: list[Body] = []
    for write in writes:
        if isinstance(write, Put):
            entries.append({"PutRequest": {"Item": encode_item(write.item)}})
        else:
            entries.append({"DeleteRequest": {"Key": encode_key(schema, write.key)}})
    return {"RequestItems": {table: entries}}


def transact(table: str, schema: Schema, writes: Sequence[TransactWrite], token: str) -> Body:
    """A TransactWriteItems."""
    check_transaction(len(writes), token)
    check_distinct([key_of(schema, write) for write in writes])
    parts = [{_TRANSACTION_PARTS[type(w)]: _write(table, schema, w)} for w in writes]
    return {"TransactItems": parts, "ClientRequestToken": token}


def query(table: str, schema: Schema, query: Query) -> Body:
    """A Query."""
    index = None
    if query.index is not None:
        index = schema.by_name.get(query.index)
        if index is None:
            raise InvalidRequest(f"the table has no index {query.index!r}")
    pk, sk = (index.pk or schema.pk, index.sk) if index else (schema.pk, schema.sk)

    check_filter(schema, index, query.filter)
    expressions = Expressions()
    request: Body = {
        "TableName": table,
        "KeyConditionExpression": expressions.key_condition(pk, query.partition, sk, query.where),
    }
    if index is not None:
        request["IndexName"] = index.name
    if query.consistent and (index is None or index.is_local):
        request["ConsistentRead"] = True
    if query.descending:
        request["ScanIndexForward"] = False
    if query.keys_only:
        names = dict.fromkeys((schema.pk, schema.sk, pk, sk))
        request["ProjectionExpression"] = expressions.projection(tuple(names))
    elif index is not None and index.is_local and index.projection != "ALL":
        request["Select"] = "ALL_ATTRIBUTES"
    start = cursors.start_of_query(schema, query)
    _page(request, expressions, query.limit, query.filter, start)
    return request


def scan(table: str, schema: Schema, scan: Scan) -> Body:
    """A Scan."""
    check_segment(scan)
    request: Body = {"TableName": table, "ConsistentRead": True}
    if scan.segments > 1:
        request["Segment"], request["TotalSegments"] = scan.segment, scan.segments
    start = cursors.start_of_scan(schema, scan)
    _page(request, Expressions(), scan.limit, scan.filter, start)
    return request


def _write(table: str, schema: Schema, write: TransactWrite) -> Body:
    request: Body = {"TableName": table, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    expressions = Expressions()
    if isinstance(write, Put):
        request["Item"] = encode_item(write.item)
    else:
        request["Key"] = encode_key(schema, write.key)
    if isinstance(write, Patch) and (text := expressions.update(write.update)):
        request["UpdateExpression"] = text
    if write.condition is not None:
        request["ConditionExpression"] = expressions.condition(write.condition)
    add_placeholders(request, expressions)
    return request


def _page(
    request: Body,
    expressions: Expressions,
    limit: int | None,
    condition: ConditionBase | None,
    start: Body | None,
) -> None:
    check_limit(limit)
    if limit is not None:
        request["Limit"] = limit
    if condition is not None:
        request["FilterExpression"] = expressions.condition(condition)
    if start is not None:
        request["ExclusiveStartKey"] = start
    add_placeholders(request, expressions)


def add_placeholders(request: Body, expressions: Expressions) -> None:
    """Put the names and values of a request's expressions into it."""
    if expressions.names:
        names = {placeholder: name for name, placeholder in expressions.names.items()}
        request["ExpressionAttributeNames"] = names
    if expressions.values:
        values = {placeholder: encode(value) for placeholder, value in expressions.values.items()}
        request["ExpressionAttributeValues"] = values
