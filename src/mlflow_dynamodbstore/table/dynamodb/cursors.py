"""The position at which a query or scan continues, as an opaque string.

A cursor names the index and the position in it, so that the cursor of another query is refused.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from mlflow_dynamodbstore.table.contract import Query, Scan
from mlflow_dynamodbstore.table.dynamodb.codec import Wire
from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.schema import Schema


def after_query(schema: Schema, query: Query, last: Wire | None) -> str | None:
    """The cursor for the page after the one that ended at ``last``."""
    return (
        _write([query.index or "", *_position(_query_names(schema, query), last)]) if last else None
    )


def start_of_query(schema: Schema, query: Query) -> Wire | None:
    """The key after which a query starts."""
    if query.cursor is None:
        return None
    names = _query_names(schema, query)
    index, *position = _read(query.cursor, 1 + len(names))
    start = dict(zip(names, position, strict=True))
    partition = schema.by_name[query.index].pk if query.index else None
    if index != (query.index or "") or start[partition or schema.pk] != query.partition:
        raise _foreign(query.cursor)
    return {name: {"S": value} for name, value in start.items()}


def after_scan(schema: Schema, scan: Scan, last: Wire | None) -> str | None:
    """The cursor for the page of this segment after the one that ended at ``last``."""
    return _write([_segment(scan), *_position((schema.pk, schema.sk), last)]) if last else None


def start_of_scan(schema: Schema, scan: Scan) -> Wire | None:
    """The key after which a scan starts."""
    if scan.cursor is None:
        return None
    segment, pk, sk = _read(scan.cursor, 3)
    if segment != _segment(scan):
        raise _foreign(scan.cursor)
    return {schema.pk: {"S": pk}, schema.sk: {"S": sk}}


def _query_names(schema: Schema, query: Query) -> tuple[str, ...]:
    """The attributes that make a position: the key of the table, and that of the index."""
    if query.index is None:
        return (schema.pk, schema.sk)
    index = schema.by_name[query.index]
    return (schema.pk, schema.sk, *((index.pk,) if index.pk else ()), index.sk)


def _segment(scan: Scan) -> str:
    return f"scan {scan.segment}/{scan.segments}"


def _position(names: tuple[str, ...], last: Wire) -> list[str]:
    return [last[name]["S"] for name in names]


def _write(parts: list[str]) -> str:
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read(cursor: str, length: int) -> list[str]:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        parts: Any = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, binascii.Error) as error:
        raise _foreign(cursor) from error
    strings = isinstance(parts, list) and all(isinstance(part, str) for part in parts)
    if not strings or len(parts) != length:
        raise _foreign(cursor)
    return list(parts)


def _foreign(cursor: str) -> InvalidRequest:
    return InvalidRequest(f"the cursor {cursor!r} belongs to another query")
