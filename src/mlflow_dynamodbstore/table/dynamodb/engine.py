"""The DynamoDB engine: each operation of the contract is one request, or several in parallel."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import botocore.session

from mlflow_dynamodbstore.table.contract import (
    MAX_BATCH_GET,
    Capabilities,
    Got,
    Observer,
    Outcome,
    Page,
    Patch,
    Put,
    Query,
    Scan,
    TableState,
    TransactWrite,
    Write,
)
from mlflow_dynamodbstore.table.dynamodb import cursors, requests
from mlflow_dynamodbstore.table.dynamodb.admin import Admin
from mlflow_dynamodbstore.table.dynamodb.bulk import BulkWrite
from mlflow_dynamodbstore.table.dynamodb.codec import decode_item
from mlflow_dynamodbstore.table.dynamodb.collection_sizes import CollectionSizes
from mlflow_dynamodbstore.table.dynamodb.connection import Connection, Connector
from mlflow_dynamodbstore.table.dynamodb.errors import REQUEST_ERRORS, translate
from mlflow_dynamodbstore.table.dynamodb.transport import Body, ServiceError
from mlflow_dynamodbstore.table.errors import (
    InvalidRequest,
    ItemTooLarge,
    Refusal,
    RefusalCode,
    TableError,
    TransactionCancelled,
)
from mlflow_dynamodbstore.table.location import LOCAL_REGION, Location
from mlflow_dynamodbstore.table.request_checks import check_size
from mlflow_dynamodbstore.table.schema import Schema
from mlflow_dynamodbstore.table.sizes import item_size
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.table.workers import parallel_requests, process_workers


class DynamoDBEngine:
    """One table on AWS, or on anything that speaks DynamoDB's protocol.

    - ``region``: of AWS; for another endpoint, the region for which requests are signed.
    - ``endpoint_url``: where requests go, if not to AWS's own address of the region.
    - ``session``: a botocore session with credentials; by default one from the environment.
    - ``max_connections``: connections kept open; by default enough for the threads of the pool and
      for as many callers, whose own threads send requests too.
    - ``transport``: see :mod:`~mlflow_dynamodbstore.table.dynamodb.transport`.

    When ``observer`` is set, it is called after each request for data with the operation's name,
    the answer, which includes the consumed capacity, and the request. If the request failed, the
    answer is ``{"Error": {"Code": ..., "Message": ...}}``. Several threads may call it at once.
    """

    def __init__(
        self,
        table_name: str,
        schema: Schema,
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
        session: botocore.session.Session | None = None,
        max_connections: int | None = None,
        transport: Literal["direct", "botocore"] = "direct",
    ) -> None:
        self.schema = schema
        self.observer: Observer | None = None
        self._collection_sizes = CollectionSizes(schema)
        self.capabilities = Capabilities(
            waits_on_network=True,
            collection_share=self._collection_sizes.share,
            observable=self,
            state=self.state,
        )
        self._location = _location(table_name, region, endpoint_url)
        self._table = table_name
        kept = 2 * parallel_requests() if max_connections is None else max_connections
        self._connector = Connector(self._location, session, kept, transport)
        self._connection: Connection | None = None
        self._connecting = threading.Lock()

    @property
    def uri(self) -> str:
        return str(self._location)

    def prepare(self, *, create: bool) -> None:
        with self._admin() as admin:
            admin.prepare(create=create)

    def remove(self) -> None:
        """Delete the table with all its data, for ``destroy``."""
        with self._admin(write=True) as admin:
            admin.remove()

    def state(self) -> TableState:
        """The settings of the table, for ``doctor``."""
        with self._admin() as admin:
            return admin.state()

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        request = requests.get(self._table, self.schema, key, consistent=consistent)
        item = self._call("GetItem", request).get("Item")
        return decode_item(item) if item else None

    def get_many(self, keys: Sequence[Key], *, consistent: bool = True) -> Got:
        if not keys:
            return Got()
        if len(keys) > MAX_BATCH_GET:
            raise InvalidRequest(f"a batch read takes up to {MAX_BATCH_GET} keys, not {len(keys)}")
        request = requests.batch_get(self._table, self.schema, keys, consistent=consistent)
        answer = self._call("BatchGetItem", request)
        items = map(decode_item, answer.get("Responses", {}).get(self._table, ()))
        left = (answer.get("UnprocessedKeys") or {}).get(self._table, {}).get("Keys", ())
        return Got(
            {self.schema.key_of(item): item for item in items},
            [self.schema.key_of(decode_item(key)) for key in left],
        )

    def apply(self, write: Write) -> Item | None:
        operation, request = requests.single_write(self._table, self.schema, write)
        image = self._call(operation, request, write=True).get("Attributes")
        return decode_item(image) if image else None

    def apply_many(self, writes: Sequence[Write]) -> list[Outcome]:
        bulk = BulkWrite(self._table, self.schema, writes, apply=self.apply, call=self._call_write)
        return bulk.run(process_workers())

    def transact(self, writes: Sequence[TransactWrite], token: str) -> None:
        request = requests.transact(self._table, self.schema, writes, token)
        try:
            self._call("TransactWriteItems", request, write=True)
        except ItemTooLarge as error:
            # A put that is too large is refused before the transaction begins, and is not named.
            reasons = _too_large(self.schema, writes, str(error))
            raise TransactionCancelled(reasons) from error

    def query(self, query: Query) -> Page:
        answer = self._call("Query", requests.query(self._table, self.schema, query))
        last = answer.get("LastEvaluatedKey")
        return Page(
            [decode_item(item) for item in answer["Items"]],
            cursors.after_query(self.schema, query, last),
        )

    def scan(self, scan: Scan) -> Page:
        answer = self._call("Scan", requests.scan(self._table, self.schema, scan))
        last = answer.get("LastEvaluatedKey")
        return Page(
            [decode_item(item) for item in answer["Items"]],
            cursors.after_scan(self.schema, scan, last),
        )

    def close(self) -> None:
        """Release connections; a later call opens new ones."""
        with self._connecting:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @contextmanager
    def _admin(self, *, write: bool = False) -> Iterator[Admin]:
        try:
            yield Admin(self._connected().transport, self.schema, self._location)
        except REQUEST_ERRORS as error:
            raise translate(error, self._location, write=write) from error

    def _call(self, operation: str, request: Body, *, write: bool = False) -> Body:
        observer = self.observer
        if observer is not None:
            request["ReturnConsumedCapacity"] = "INDEXES"
        if write:
            self._collection_sizes.ask(request)
        try:
            answer = self._connected().transport.call(operation, request)
        except REQUEST_ERRORS as error:
            failure = translate(error, self._location, write=write)
            if observer is not None:
                observer(operation, _error_answer(error, failure), request)
            raise failure from error
        if observer is not None:
            observer(operation, answer, request)
        if write:
            self._collection_sizes.note(answer)
        return answer

    def _call_write(self, operation: str, request: Body) -> Body:
        return self._call(operation, request, write=True)

    def _connected(self) -> Connection:
        connection = self._connection
        if connection is not None and connection.pid == os.getpid():
            return connection
        with self._connecting:
            connection = self._connection
            if connection is None or connection.pid != os.getpid():
                connection = self._connection = self._connector.connect()
            return connection


def _location(table: str, region: str | None, endpoint_url: str | None) -> Location:
    if endpoint_url is not None:
        return Location("endpoint", table, region or LOCAL_REGION, endpoint_url.rstrip("/"))
    if region is None:
        raise InvalidRequest("a table on AWS needs a region; write dynamodb://us-east-1/mlflow")
    return Location("aws", table, region)


def _too_large(
    schema: Schema, writes: Sequence[TransactWrite], message: str
) -> list[Refusal | None]:
    """Reasons that name the puts that are too large; if none is, all patches, or all puts."""
    blamed = (
        [isinstance(write, Put) and _is_too_large(schema, write.item) for write in writes],
        [isinstance(write, Patch) for write in writes],
        [isinstance(write, Put) for write in writes],
    )
    chosen = next(some for some in blamed if any(some))
    return [Refusal(RefusalCode.ITEM_TOO_LARGE, message) if one else None for one in chosen]


def _is_too_large(schema: Schema, item: Item) -> bool:
    try:
        check_size(schema, item, item_size(item))
    except ItemTooLarge:
        return True
    return False


def _error_answer(error: Exception, failure: TableError) -> Body:
    if not isinstance(error, ServiceError):
        return {"Error": {"Code": type(failure).__name__, "Message": str(failure)}}
    answer: Body = {"Error": {"Code": error.code, "Message": str(failure)}}
    if (reasons := error.body.get("CancellationReasons")) is not None:
        answer["CancellationReasons"] = reasons
    return answer
