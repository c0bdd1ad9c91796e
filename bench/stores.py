"""The stores that are compared: MLflow's on SQLite and PostgreSQL, ours on a file and on dynoxide.

They stand on tmpfs where there is one, so that what is measured is the software and not the disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.contract import TMPFS
from bench.delay import delaying_proxy
from bench.populations import by_rows, copied_from
from bench.postgres import postgres_server
from bench.tracking import Bench
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.engines import dynoxide_server, find_dynoxide

SQLITE = "MLflow, SQLite"
POSTGRES = "MLflow, PostgreSQL"
EMBEDDED = "ours, embedded"
DYNAMODB = "ours, dynoxide"
ARTIFACTS = "s3://bucket/root"


@contextmanager
def all_benches(say: Callable[[str], None], *, postgres: bool) -> Iterator[list[Bench]]:
    """Every store that can be had here, each empty."""
    with ExitStack() as stack:
        memory = TMPFS if TMPFS.is_dir() else None
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=memory)))
        found = [sql_bench(SQLITE, f"sqlite:///{folder}/mlflow.db")]
        if postgres:
            address = stack.enter_context(postgres_server(say))
            found += [sql_bench(POSTGRES, address)] if address else []
        embedded = our_bench(EMBEDDED, f"dynamodb:///{folder}/ours.ddb?synchronous=FULL")
        found.append(embedded)
        if find_dynoxide() is None:
            say("dynoxide is not installed: requests and units are left out")
        else:
            host = stack.enter_context(dynoxide_server())
            found.append(our_bench(DYNAMODB, f"dynamodb://{host}/bench", metered=True))
            found[-1].fill = copied_from(embedded)
            found[-1].far = stack.enter_context(far_bench(found[-1], host))
        yield found


def sql_bench(name: str, uri: str) -> Bench:
    # Imported here, since it takes a second and a half that ours does without.
    from mlflow.store.model_registry.sqlalchemy_store import (  # noqa: PLC0415
        SqlAlchemyStore as SqlRegistry,
    )
    from mlflow.store.tracking.sqlalchemy_store import (  # noqa: PLC0415
        SqlAlchemyStore as SqlTracking,
    )

    return Bench(name, SqlTracking(uri, ARTIFACTS), registry=SqlRegistry(uri), fill=by_rows)


def our_bench(name: str, uri: str, *, metered: bool = False) -> Bench:
    engine = open_engine(uri)
    counted = MeteredEngine(engine) if metered else None
    table = Table(counted or engine)
    return Bench(
        name,
        DynamoDBTrackingStore(uri, ARTIFACTS, table=table),
        counted.meter if counted else None,
        DynamoDBRegistryStore(uri, table=table),
        table.engine,
    )


@contextmanager
def far_bench(near: Bench, host: str) -> Iterator[Bench]:
    """The same table as ``near``, through a proxy that delays each request."""
    with delaying_proxy(host) as address:
        far = our_bench("far", f"dynamodb://{address}/bench")
        far.state = near.state  # what was prepared near is there
        yield far
        far.engine.close()
