"""Queries and scans: from a request to rows, and from rows to a page."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterable
from contextlib import closing
from functools import partial

from mlflow_dynamodbstore.table.conditions import Predicate, holds, predicate
from mlflow_dynamodbstore.table.contract import (
    MAX_PAGE_BYTES,
    MAX_PK_BYTES,
    Page,
    Query,
    Scan,
)
from mlflow_dynamodbstore.table.embedded.codec import read_cursor, write_cursor
from mlflow_dynamodbstore.table.embedded.file import File
from mlflow_dynamodbstore.table.embedded.index_lag import IndexLag
from mlflow_dynamodbstore.table.embedded.layout import SIZED_COLUMNS, Layout
from mlflow_dynamodbstore.table.embedded.ranges import after_cursor, range_of
from mlflow_dynamodbstore.table.embedded.views import Reading, View
from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.request_checks import (
    check_filter,
    check_limit,
    check_segment,
    check_text,
)
from mlflow_dynamodbstore.table.sizes import item_size, text_size
from mlflow_dynamodbstore.table.values import Item

SizedItem = tuple[int, Item]

_ALL = -1
_SCAN = "*"


class Reader:
    """Reads pages from a file."""

    def __init__(self, file: File, layout: Layout, lag: IndexLag | None) -> None:
        self._file = file
        self._layout = layout
        self._schema = layout.schema
        self._lag = lag
        self._views: dict[str | None, View] = {None: View.of(layout, None)}
        for index in layout.schema.indexes:
            self._views[index.name] = View.of(layout, index)

    def query(self, query: Query) -> Page:
        """One page of a partition."""
        view = self._views.get(query.index)
        if view is None:
            raise InvalidRequest(f"the table has no index {query.index!r}")
        check_text(query.partition, "partition key", MAX_PK_BYTES)
        check_limit(query.limit)
        check_filter(self._schema, view.index, query.filter)
        judge = None if query.filter is None else predicate(query.filter)
        reading = _plan(query, view)
        lag = self._lag if view.is_global else None

        def read(connection: sqlite3.Connection) -> Page:
            rows = _current_items if lag is None else partial(_lagging_items, lag)
            with closing(rows(connection, query, view, reading)) as found:
                items, last = _cut_page(found, query.limit, judge)
            if query.keys_only:
                items = [view.only_keys(item) for item in items]
            return Page(items, None if last is None else view.cursor(last))

        return self._file.read(read) if lag is None else self._file.snapshot(read)

    def scan(self, scan: Scan) -> Page:
        """One page of the whole table, in the order of keys."""
        check_limit(scan.limit)
        check_segment(scan)
        judge = None if scan.filter is None else predicate(scan.filter)
        terms, values = _scan_terms(scan)
        sql = f"SELECT {SIZED_COLUMNS} FROM items {terms} ORDER BY pk, sk"  # noqa: S608 - our own terms

        def read(connection: sqlite3.Connection) -> Page:
            with closing(connection.execute(sql, values)) as rows:
                items, last = _cut_page(map(self._layout.sized_item, rows), scan.limit, judge)
            if last is None:
                return Page(items)
            return Page(items, write_cursor(_SCAN, self._schema.key_of(last)))

        return self._file.read(read)


def _plan(query: Query, view: View) -> Reading:
    after = None if query.cursor is None else view.position(query.cursor, query.partition)
    wanted = range_of(query.where, view.sort_key)
    if after is not None:
        wanted = after_cursor(wanted, after[0], descending=query.descending)
    entries = view.shows_entries(query)
    bare = entries or (query.keys_only and query.filter is None)
    return Reading(wanted, after, query.descending, bare, entries)


def _current_items(
    connection: sqlite3.Connection, query: Query, view: View, reading: Reading
) -> Generator[SizedItem, None, None]:
    """The items that the table or index holds now."""
    limit = _ALL if query.limit is None else query.limit
    sql = view.statement(reading)
    with closing(connection.execute(sql, reading.values(query.partition, limit))) as rows:
        if not reading.keys_only:
            yield from map(view.layout.sized_item, rows)
            return
        names = view.keys
        for size, *keys in rows:
            # An entry of an index has no size column: its size is that of its keys and their names.
            entry = view.names_size + sum(map(text_size, keys)) if reading.index_only else size
            yield entry, dict(zip(names, keys, strict=True))


def _lagging_items(
    lag: IndexLag, connection: sqlite3.Connection, query: Query, view: View, reading: Reading
) -> Generator[SizedItem, None, None]:
    """The items that a lagging index shows."""
    whole = reading._replace(keys_only=False, index_only=False)
    belongs = _is_in_range(query, view, reading)
    sql = view.statement(whole)
    with closing(connection.execute(sql, whole.values(query.partition, _ALL))) as rows:
        current = (item for _, item in map(view.layout.sized_item, rows))
        for item in lag.merged(connection, current, belongs, view, query):
            seen = view.only_keys(item) if reading.index_only else item
            yield item_size(seen), seen


def _is_in_range(query: Query, view: View, reading: Reading) -> Predicate:
    """A function that tells whether an item is in the range that a query reads."""

    def judge(item: Item) -> bool:
        if item.get(view.partition) != query.partition or view.sort_key not in item:
            return False
        if query.where is not None and not holds(query.where, item):
            return False
        if reading.after is None:
            return True
        here = [str(item[name]) for name in view.sort_attributes]
        return here < reading.after if query.descending else here > reading.after

    return judge


def _cut_page(
    found: Iterable[SizedItem], limit: int | None, judge: Predicate | None
) -> tuple[list[Item], Item | None]:
    """The items of a page that pass the filter, and the last item read if more may follow.

    A page ends after ``limit`` items read, or before the item that would exceed 1 MB, whether or
    not they pass the filter.
    """
    items: list[Item] = []
    used = 0
    last: Item | None = None
    for count, (size, item) in enumerate(found, 1):
        used += size
        if used > MAX_PAGE_BYTES:
            return items, last
        last = item
        if judge is None or judge(item):
            items.append(item)
        if count == limit:
            return items, last
    return items, None


def _scan_terms(scan: Scan) -> tuple[str, list[str | int]]:
    terms: list[str] = []
    values: list[str | int] = []
    if scan.cursor is not None:
        terms.append("(pk, sk) > (?, ?)")
        values += read_cursor(_SCAN, 2, scan.cursor)
    if scan.segments > 1:
        terms.append("crc32(pk) % ? = ?")
        values += [scan.segments, scan.segment]
    return (f"WHERE {' AND '.join(terms)}" if terms else ""), values
