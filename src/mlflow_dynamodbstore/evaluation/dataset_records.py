"""The records of evaluation datasets: upsert, list, delete.

Ids of records sort by creation time, so a page is a range of keys. Inputs are unique in a dataset:
each record has a guard named by the hash of its inputs. Record, guard and the dataset's count of
records are written in one transaction. A transaction holds 49 records, so a hundred thousand take
two thousand transactions; each leaves the dataset consistent.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from boto3.dynamodb.conditions import Attr
from mlflow.entities.dataset_record import DatasetRecord
from mlflow.store.tracking import LOAD_DATASET_RECORDS_MAX_RESULTS
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.evaluation.attributes import CONTENTS, REVISION
from mlflow_dynamodbstore.evaluation.dataset_items import (
    RECORDS,
    dataset_digest,
    grown_schema,
    schema_key,
    schema_text,
)
from mlflow_dynamodbstore.evaluation.dataset_reader import DatasetReader, dataset_not_found
from mlflow_dynamodbstore.evaluation.record_items import Given, Record, input_hash, user_of
from mlflow_dynamodbstore.keys import evaluation as evaluation_keys
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.conditions import ABSENT, PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.optimistic import Outdated, optimistically
from mlflow_dynamodbstore.shared.search.ordering import bad_token
from mlflow_dynamodbstore.table.contract import (
    MAX_TRANSACTION,
    Delete,
    Patch,
    Put,
    Query,
    TransactWrite,
)
from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

_logger = logging.getLogger(__name__)

RECORDS_PER_TRANSACTION = (MAX_TRANSACTION - 1) // 2
"""Each record is written with its guard, and all with the dataset's own item."""
RECORDS_PER_LOOKUP = 1000
"""Records whose guards are read at a time."""
PAGE = 1000


@dataclass
class _Batch:
    """The writes of one transaction, the parts to put before it and those to delete after it."""

    writes: list[TransactWrite] = field(default_factory=list)
    parts: list[Put] = field(default_factory=list)
    obsolete: list[Delete] = field(default_factory=list)
    inserted: int = 0
    updated: int = 0

    def insert(self, record: Record) -> None:
        stored = record.to_store()
        self.parts += stored.parts
        self.writes.append(Put(stored.attributes))
        self.writes.append(Put(record.guard, condition=ABSENT))
        self.inserted += 1

    def replace(self, record: Record) -> None:
        stored = record.to_store()
        self.parts += stored.parts
        same = Attr(REVISION).eq(record.revision)
        self.writes.append(Put(stored.attributes, condition=same))
        self.obsolete += large_values.removal(record.stored, CONTENTS)

    def delete(self, record: Record) -> None:
        self.writes.append(Delete(record.key, condition=PRESENT))
        own = Attr("record_id").eq(record.record_id)
        self.writes.append(Delete(record.guard_key, condition=own))
        self.obsolete += large_values.removal(record.stored, CONTENTS)
        self.inserted -= 1


class DatasetRecords:
    """The records of evaluation datasets."""

    def __init__(self, context: Context, dataset_reader: DatasetReader) -> None:
        self.table = context.table
        self.dataset_reader = dataset_reader

    def upsert_dataset_records(
        self, dataset_id: str, records: list[dict[str, Any]]
    ) -> dict[str, int]:
        meta = self.dataset_reader.get(dataset_id)
        now = get_current_time_millis()
        by_inputs: dict[str, list[Given]] = {}
        for given in records:
            by_inputs.setdefault(input_hash(given), []).append(given)
        if records:
            self._grow_schema(meta, records)
        self._mark_updated(meta, dataset_id, records, now)
        inserted = updated = 0
        for chunk in batched(by_inputs.items(), RECORDS_PER_LOOKUP):
            hashes = [hash_ for hash_, _ in chunk] if meta[RECORDS] else []
            known = self._find_by_hashes(dataset_id, hashes)
            for some in batched(chunk, RECORDS_PER_TRANSACTION):
                done = self._upsert(dataset_id, dict(some), known, now)
                inserted += done.inserted
                updated += done.updated
        return {"inserted": inserted, "updated": updated}

    def delete_dataset_records(self, dataset_id: str, dataset_record_ids: list[str]) -> int:
        self.dataset_reader.get(dataset_id)
        deleted = sum(
            self._delete(dataset_id, some)
            for some in batched(dict.fromkeys(dataset_record_ids), RECORDS_PER_TRANSACTION)
        )
        if not deleted:
            _logger.warning("No records found to delete for dataset %s.", dataset_id)
        return deleted

    def load_dataset_records(
        self, dataset_id: str, max_results: int | None = None, page_token: str | None = None
    ) -> tuple[list[DatasetRecord], str | None]:
        self.dataset_reader.get(dataset_id)
        where = evaluation_keys.DATASET_RECORDS
        if page_token:
            where = evaluation_keys.dataset_records_after(_record_of_token(page_token))
        size = LOAD_DATASET_RECORDS_MAX_RESULTS if max_results == 0 else max_results
        limit = PAGE if size is None else min(size, PAGE) + 1
        items = self.table.items(
            Query(evaluation_keys.dataset_pk(dataset_id), where.on(), limit=limit)
        )
        heads = (item for item in items if evaluation_keys.is_dataset_record(str(item["SK"])))
        if size is None:
            return [record.to_entity() for record in self._read(dataset_id, heads)], None
        wanted = list(islice(heads, size + 1))
        found = list(self._read(dataset_id, wanted[:size]))
        token = _token_after(found[-1]) if len(wanted) > size else None
        return [record.to_entity() for record in found], token

    # --- reading --------------------------------------------------------------------------------

    def _read(self, dataset_id: str, heads: Iterable[Item]) -> Iterator[Record]:
        for some in batched(heads, PAGE):
            contents = large_values.load_many(self.table, some, CONTENTS)
            for head, text in zip(some, contents, strict=True):
                yield Record.of(dataset_id, head, text)

    def _find_by_ids(self, dataset_id: str, record_ids: Iterable[str]) -> list[Record]:
        pk = evaluation_keys.dataset_pk(dataset_id)
        found = self.table.get_many(
            Key(pk, evaluation_keys.dataset_record(one)) for one in record_ids
        )
        return list(self._read(dataset_id, found.values()))

    def _find_by_hashes(self, dataset_id: str, hashes: Sequence[str]) -> dict[str, Record]:
        """The records of a dataset with these hashes of inputs, by hash."""
        pk = evaluation_keys.dataset_pk(dataset_id)
        guards = self.table.get_many(Key(pk, evaluation_keys.dataset_input(one)) for one in hashes)
        named = [str(guard["record_id"]) for guard in guards.values()]
        return {one.input_hash: one for one in self._find_by_ids(dataset_id, named)}

    # --- writing --------------------------------------------------------------------------------

    def _upsert(
        self,
        dataset_id: str,
        given: dict[str, list[Given]],
        known: dict[str, Record] | None,
        now: int,
    ) -> _Batch:
        """Write records, by the hashes of their inputs; ``known`` are those that exist already."""

        def attempt() -> _Batch:
            nonlocal known
            existing = self._find_by_hashes(dataset_id, list(given)) if known is None else known
            known = None  # a second attempt reads them again
            batch = _Batch()
            for hash_, some in given.items():
                record = existing.get(hash_)
                batch.updated += len(some) - (record is None)
                if record is None:
                    first, *others = some
                    batch.insert(Record.new(dataset_id, first, now).merged_with(others, now))
                else:
                    batch.replace(record.merged_with(some, now))
            self._commit(dataset_id, batch)
            return batch

        return optimistically(f"Dataset '{dataset_id}'", attempt)

    def _delete(self, dataset_id: str, record_ids: Sequence[str]) -> int:
        def attempt() -> int:
            batch = _Batch()
            for record in self._find_by_ids(dataset_id, record_ids):
                batch.delete(record)
            if batch.writes:
                self._commit(dataset_id, batch)
            return -batch.inserted

        return optimistically(f"Dataset '{dataset_id}'", attempt)

    def _commit(self, dataset_id: str, batch: _Batch) -> None:
        """Write a batch; refused when the table has changed since it was planned."""
        count: list[TransactWrite] = []
        if batch.inserted:
            change = Update(add={RECORDS: batch.inserted})
            count = [Patch(evaluation_keys.dataset_key(dataset_id), change, condition=PRESENT)]
        self.table.write(batch.parts)
        try:
            self.table.transact([*batch.writes, *count])
        except TransactionCancelled as cancelled:
            self.table.write([Delete(self.table.schema.key_of(put.item)) for put in batch.parts])
            if count and cancelled.refused(len(batch.writes)):
                raise dataset_not_found(dataset_id) from cancelled
            raise
        self.table.write(batch.obsolete)

    def _mark_updated(
        self, meta: Item, dataset_id: str, records: Sequence[Given], now: int
    ) -> None:
        """Set time and digest before the records: nobody sees new records with the old digest."""
        users = [user for user in map(user_of, records) if user]
        changes: Item = {
            "updated": now,
            "updated_by": users[-1] if users else None,
            "digest": dataset_digest(str(meta["name"]), now),
        }
        try:
            key = self.table.schema.key_of(meta)
            self.table.update(key, Update(set=changes), condition=PRESENT)
        except ConditionFailed as error:
            raise dataset_not_found(dataset_id) from error

    def _grow_schema(self, meta: Item, records: Sequence[Given]) -> None:
        """Add the fields of more records to the schema of a dataset."""
        key = schema_key(meta)

        def attempt() -> None:
            item = self.table.get(key)
            before = schema_text(self.table, item)
            after = grown_schema(before, records)
            if after == before:
                return
            stored = large_values.store(key, CONTENTS, after)
            revision = 0 if item is None else int(item[REVISION])
            head = {"PK": key.pk, "SK": key.sk, REVISION: revision + 1, **stored.attributes}
            same = ABSENT if item is None else Attr(REVISION).eq(revision)
            (outcome,) = self.table.write(stored.parts, then=[Put(head, condition=same)])[-1:]
            if outcome.status != "applied":
                self.table.write(large_values.removal(head, CONTENTS))
                raise Outdated
            self.table.write([] if item is None else large_values.removal(item, CONTENTS))

        optimistically(f"The schema of dataset '{meta['name']}'", attempt)


def _token_after(record: Record) -> str:
    """A page token in MLflow's own form."""
    return base64.b64encode(f"{record.created}:{record.record_id}".encode()).decode()


def _record_of_token(token: str) -> str:
    try:
        text = base64.b64decode(token, validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise bad_token("could not be decoded") from error
    created, _, record_id = text.partition(":")
    if not created.isdigit() or not record_id:
        raise bad_token("names no record")
    return record_id
