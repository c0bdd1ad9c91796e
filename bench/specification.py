"""What the layouts of the decision records 0120 to 0124 cost, beside the layouts they replace.

``python -m bench.specification`` prints requests, read units and write units by DynamoDB's rules.
The replaced layouts are written and read as plain items, by the fewest requests that can do it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mlflow.entities import Metric, RunTag, TraceInfo, TraceLocation, TraceState

from mlflow_dynamodbstore.auth.store import DynamoDBAuthStore
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.shared.places import RunPlace
from mlflow_dynamodbstore.table.contract import Put, Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine, Usage
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore

EXPERIMENTS = 1_000
GRANTS = 50
POINTS = 100
TAGS = 10


class Bench:
    """Stores on one new table, and the meter of its requests."""

    def __init__(self, uri: str) -> None:
        self.engine = MeteredEngine(open_engine(uri))
        self.ahead = 0.0
        self.table = Table(self.engine, clock=lambda: time.time() + self.ahead)
        self.tracking = DynamoDBTrackingStore(uri, "/tmp", table=self.table)
        self.registry = DynamoDBRegistryStore(uri, table=self.table)
        self.auth = DynamoDBAuthStore(uri, table=self.table)

    def tell(self, what: str, do: Callable[[], object]) -> None:
        with self.engine.meter.measure() as usage:
            do()
        print(f"{what:<68}{_shown(usage)}")

    def place(self) -> RunPlace:
        return RunPlace("0", ids.new_id("0"))


def _shown(usage: Usage) -> str:
    return f"{usage.total_requests:>5} / {usage.read_units:g} / {usage.write_units:g}"


def runs(bench: Bench) -> None:
    """A run and its first tags: apart, and in one transaction."""
    tags = [RunTag(f"tag {n}", "value") for n in range(TAGS)]
    bench.tracking.create_run("0", "ada", 1, [], "warm")
    bench.tell(
        "create_run, 10 tags: tags, then the run",
        lambda: bench.tracking.create_run("0", "ada", 1, tags, "name"),
    )
    place = bench.place()
    own = {
        "PK": place.pk,
        "SK": place.key.sk,
        **dict.fromkeys(("name", "user", "status", "lifecycle", "state"), "a short text"),
        "artifact_uri": f"/tmp/0/{place.run_id}/artifacts",
        **index_keys.run_index(
            run_id=place.run_id,
            experiment_id="0",
            lifecycle="active",
            start_time=1,
            status="RUNNING",
            name="name",
            live=True,
        ),
    }
    items = [own, *(place.tag(tag.key, "value") for tag in tags), place.tag("mlflow.runName", "n")]
    bench.tell(
        "  one transaction, and the look at the experiment",
        lambda: (
            bench.table.transact([Put(item) for item in items]),
            bench.table.get(experiment_keys.experiment_key("0")),
        ),
    )


def history(bench: Bench) -> None:
    """A hundred points of one metric in a call: one item, and one item a point."""
    run_id = bench.tracking.create_run("0", "ada", 1, [], "name").info.run_id
    points = [Metric("loss", 1 / (n + 1), 1_700_000_000_000 + n, n) for n in range(POINTS)]
    bench.tell(
        "log_batch, 100 points of one metric",
        lambda: bench.tracking.log_batch(run_id, points, [], []),
    )
    place = bench.place()
    items: list[Item] = [
        place.child(
            run_keys.run_metric_point(place.run_id, "loss", m.step, m.timestamp),
            "loss",
            {"value": m.value, "ttl": 1_800_000_000},
        )
        for m in points
    ]
    bench.tell(
        "  one item a point, without the checks of the run",
        lambda: bench.table.write([Put(item) for item in items]),
    )
    bench.tell(
        "get_metric_history of 100 points",
        lambda: bench.tracking.get_metric_history(run_id, "loss"),
    )
    where = run_keys.metric_history(place.run_id, "loss").on()
    bench.tell(
        "  one item a point",
        lambda: list(bench.table.items(Query(place.pk, where=where))),
    )


def traces(bench: Bench) -> None:
    """A trace with ten tags: on its own item, and as items."""
    info = TraceInfo(
        trace_id="tr-" + "a" * 32,
        trace_location=TraceLocation.from_experiment_id("0"),
        request_time=1_700_000_000_000,
        execution_duration=5,
        state=TraceState.OK,
        tags={f"tag {n}": "value" for n in range(TAGS)},
    )
    bench.tell("start_trace, 10 tags on the trace", lambda: bench.tracking.start_trace(info))
    items: list[Item] = [
        {"PK": "EXP#0", "SK": f"T#tr-b#TAG#tag%20{n}", "value": "value"} for n in range(TAGS)
    ]
    bench.tell(
        "  the ten tags as items, in addition",
        lambda: bench.table.write([Put(item) for item in items]),
    )


def lists(bench: Bench) -> None:
    """Names and lists: by guards, and by global indexes."""
    for n in range(EXPERIMENTS):
        bench.tracking.create_experiment(f"experiment {n:04}")
    bench.tell(
        "get_experiment_by_name, by the guard",
        lambda: bench.tracking.get_experiment_by_name("experiment 0500"),
    )
    bench.tell(
        "  by GSI3",
        lambda: _by_name(bench, "experiment 0500"),
    )
    bench.tell(
        "search_experiments, 10 of 1,000 by name, by guards",
        lambda: bench.tracking.search_experiments(max_results=10, order_by=["name"]),
    )
    bench.tell("  by GSI5, whose entries name no stage", lambda: _listed(bench, 10))
    by_end = "name LIKE '%t 0500'"
    bench.tell(
        "search_experiments by the end of a name, 1 of 1,000, by guards",
        lambda: bench.tracking.search_experiments(filter_string=by_end),
    )
    bench.ahead = 7200.0  # the names are no longer new
    bench.tell(
        "  by GSI5 and LSI2",
        lambda: bench.tracking.search_experiments(filter_string=by_end),
    )
    bench.tell("create_experiment", lambda: bench.tracking.create_experiment("one more"))
    names = [f"model {n:04}" for n in range(100)]
    for name in names:
        bench.registry.create_registered_model(name)
    bench.tell(
        "search_registered_models, 10 of 100, by guards",
        lambda: bench.registry.search_registered_models(max_results=10),
    )
    bench.tell(
        "search_model_versions of one model, by its partition",
        lambda: bench.registry.search_model_versions("name = 'model 0001'"),
    )


def _by_name(bench: Bench, name: str) -> None:
    query = Query("EXPNAME#" + name.replace(" ", "%20"), index="GSI3", limit=1)
    (found,) = bench.table.query(query).items
    bench.table.get(Key(str(found["PK"]), str(found["SK"])))


def _listed(bench: Bench, count: int) -> None:
    query = Query("WS#default#EXP", index="GSI5", limit=count)
    found = bench.table.query(query).items
    bench.table.get_many(Key(str(item["PK"]), str(item["SK"])) for item in found)


def versions(bench: Bench) -> None:
    """A model version, and what a place in a local index would add."""
    bench.registry.create_registered_model("iris")
    bench.tell(
        "create_model_version",
        lambda: bench.registry.create_model_version("iris", "s3://m", None),
    )
    for index, what in (("lsi2sk", "by time, an index of keys"), ("lsi1sk", "in LSI1, whole")):
        plain: Item = {"PK": "RM#iris", "SK": f"M#V#{index}", "source": "s3://m" * 20}
        bench.table.put(plain)
        bench.tell(
            f"  a version put again {what}",
            lambda item={**plain, index: "V#2023-11-14T22:13:20.000Z#1"}: bench.table.put(item),
        )


def grants(bench: Bench) -> None:
    """Who may use an experiment: by GRANT items, and by GSI4."""
    for n in range(GRANTS):
        bench.auth.create_user(f"user{n}", "a long enough password")
        bench.auth.create_experiment_permission("7", f"user{n}", "READ")
    bench.tell(
        "list the 50 grants of an experiment, by GRANT#",
        lambda: list(bench.table.items(Query("GRANT#experiment#7"))),
    )
    query = Query("EXPPERM#7", index="GSI4")
    bench.tell("  by GSI4, keys only", lambda: list(bench.table.items(query)))
    bench.auth.create_user("late", "a long enough password")
    bench.tell(
        "create_experiment_permission",
        lambda: bench.auth.create_experiment_permission("7", "late", "READ"),
    )


@contextmanager
def new_table() -> Iterator[Bench]:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(f"dynamodb:///{folder}/bench.ddb?synchronous=NORMAL")
        yield bench
        bench.table.close()


def main() -> None:
    """Print all figures."""
    with new_table() as bench:
        for part in (runs, history, traces, versions, grants, lists):
            print(f"\n{(part.__doc__ or '').strip()}")
            part(bench)


if __name__ == "__main__":
    main()
