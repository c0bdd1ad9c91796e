"""Tables to move: with something of everything, and with values of every kind."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from typing import Any

from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunStatus, RunTag
from mlflow.entities.model_registry import RegisteredModelTag

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.shared.policies import TEXT_FIELDS, Policies
from mlflow_dynamodbstore.table.contract import Put, Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.transfer.archive.lines import item_line
from mlflow_dynamodbstore.transfer.archive.sources import ItemFilter, TableSource
from mlflow_dynamodbstore.upkeep import backfill, cleanup
from tests.stores import ARTIFACTS
from tests.traces.making import NOON, make_info, make_spans, trace_id

ODD = (0.1, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan)
FOREIGN_RUN = "5" * 32
EXPIRED, MOVING = 3, 2


def populate(table: Table) -> None:
    """Fill a table through the stores, then by hand with what is rare."""
    Policies(table).set(TEXT_FIELDS, {"run.name": {"levels": ["word"], "complete": True}})
    _track(DynamoDBTrackingStore("", ARTIFACTS, table=table))
    _register(DynamoDBRegistryStore(table.engine.uri, table=table))
    table.write([Put(item) for item in rare_items(int(table.clock()))])


def rare_items(now: int) -> list[Item]:
    """Odd values, forms of the future, what has expired, and what belongs to this table alone."""
    pk = experiment_keys.experiment_pk("77")
    some: list[Item] = [
        {
            "PK": pk,
            "SK": "X#values",
            "whole": [10**38 - 1, -(10**38) + 1, 0, True, False],
            "doubles": list(ODD),
            "bytes": {"none": b"", "some": b"\x00\x01\xff"},
            "nothing": None,
            "text": {"empty": "", "odd": '\u2028 \x00 \U0001f600 "\\'},
        },
        {"PK": pk, "SK": "R#later", "v": 99, "form": "of a release to come"},
        {"PK": pk, "SK": "T#earlier", "value": "of version 1"},
        {"PK": "NEW#area", "SK": "N#1", "value": 1},
        {"PK": pk, "SK": "X#soon", "ttl": now + 3600},
        {"PK": pk, "SK": "X#large", "value": random.Random(1).randbytes(100_000)},
    ]
    some += [{"PK": pk, "SK": f"X#gone{n}", "ttl": now - n} for n in range(EXPIRED)]
    for place in (cleanup.POSITION, f"{backfill.POSITION}fts"):
        key = access_keys.setting_key(place)
        some.append({"PK": key.pk, "SK": key.sk, "value": {"cursors": ["here"]}})
    return some


def _track(store: DynamoDBTrackingStore) -> None:
    number = store.create_experiment("churn")
    for n in range(12):
        run = store.create_run(number, "ada", NOON + n, [RunTag("team", "blue")], f"owl-{n % 3}")
        run_id = str(run.info.run_id)
        store.log_batch(
            run_id,
            [Metric("auc", ODD[n % len(ODD)] * (n + 1), NOON, step) for step in range(3)],
            [Param("depth", str(n % 5)), Param("long", "x" * 5_000)],
            [],
        )
        if n % 4:
            store.update_run_info(run_id, RunStatus.FINISHED, NOON + 100, None)
        if n == 5:
            store.delete_run(run_id)
    store.log_inputs(run_id, [_dataset()])
    _log_foreign_run(store, number)
    for n in range(4):
        store.start_trace(make_info(trace_id(n), number, start=NOON + n, tags={"n": str(n)}))
        store.log_spans(number, make_spans(trace_id(n), 4, start=NOON + n))
    store.create_logged_model(number, "tree", run_id, [], [], "agent")


def _dataset() -> DatasetInput:
    profile = random.Random(2).randbytes(300_000).hex()  # in parts
    data = Dataset("mnist", "9f", "local", "{}", "{}", profile)
    return DatasetInput(data, [InputTag("mlflow.data.context", "training")])


def _log_foreign_run(store: DynamoDBTrackingStore, number: str) -> None:
    """A run whose id does not name its experiment: it is found by GSI1."""
    made, ids.new_id = ids.new_id, lambda *_args, **_options: FOREIGN_RUN
    try:
        store.create_run(number, "eve", NOON, [], "from elsewhere")
    finally:
        ids.new_id = made


def _register(store: DynamoDBRegistryStore) -> None:
    for name in ("iris", "ising"):
        store.create_registered_model(name, [RegisteredModelTag("team", "blue")], "it is a model")
        for _ in range(2):
            store.create_model_version(name, f"s3://bucket/{name}", FOREIGN_RUN)
    store.set_registered_model_alias("iris", "champion", "2")


# --- what a table answers -----------------------------------------------------------------------


def lines_of(table: Table) -> set[bytes]:
    """All items that are to be moved, as they are stored."""
    sieve = ItemFilter(table.clock())
    return {item_line(i) for items, _ in TableSource(table).pages() for i in sieve.keep(items)}


def index_answers(table: Table) -> dict[tuple[str, str], list[bytes]]:
    """What every index says of every partition that it has."""
    raw = TableSource(table)._table
    asked: dict[tuple[str, str], None] = {}
    for items, _ in TableSource(table).pages():
        for item in ItemFilter(table.clock()).keep(items):
            for index in table.schema.indexes:
                if (place := table.schema.index_key(index, item)) is not None:
                    asked[index.name, place[0]] = None
    return {
        (index, partition): sorted(map(item_line, raw.items(Query(partition, index=index))))
        for index, partition in asked
    }


def store_answers(table: Table) -> list[str]:
    """What stores on a table say, when asked by every way into it, as text that can be compared."""
    return [json.dumps(one, sort_keys=True, default=str) for one in _store_answers(table)]


def _store_answers(table: Table) -> Iterator[tuple[str, Any]]:
    store = DynamoDBTrackingStore("", ARTIFACTS, table=table)
    registry = DynamoDBRegistryStore(table.engine.uri, table=table)
    found = store.get_experiment_by_name("churn")
    assert found is not None
    number = [found.experiment_id]
    yield "experiments", [dict(e) for e in store.search_experiments()]
    for order in ("metrics.auc DESC", "params.depth", "attributes.run_name", "start_time ASC"):
        yield (
            order,
            [run.to_dictionary() for run in store.search_runs(number, "", 1, order_by=[order])],
        )
    for words in ("status = 'FINISHED'", "run_name LIKE '%owl-1%'", "params.depth = '3'"):
        yield words, [run.to_dictionary() for run in store.search_runs(number, words, 3)]
    run = store.get_run(FOREIGN_RUN)
    yield "run", run.to_dictionary()
    some = store.search_runs(number, "", 3)
    yield (
        "histories",
        [[dict(m) for m in store.get_metric_history(r.info.run_id, "auc")] for r in some],
    )
    yield "inputs", [d.to_dictionary() for r in some for d in r.inputs.dataset_inputs]
    traces, _ = store.search_traces(locations=number, filter_string="tags.n = '2'")
    yield "traces", [t.to_dict() for t in traces]
    yield "spans", [t.to_dict() for t in store.batch_get_traces([trace_id(1), trace_id(3)])]
    yield "models", [dict(m) for m in registry.search_registered_models("name LIKE 'i%'")]
    yield "versions", [dict(v) for v in registry.search_model_versions(f"run_id = '{FOREIGN_RUN}'")]
    yield "alias", dict(registry.get_model_version_by_alias("iris", "champion"))
