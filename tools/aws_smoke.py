"""Try the package on AWS: five minutes, a few cents, a table of its own that is deleted at the end.

    python tools/aws_smoke.py --region us-east-1

It deploys a table with CloudFormation, uses every store on it, compares the units that AWS reports
with those that our metering computes for the same calls on a file, runs ``doctor``, and destroys
the table with its stack. Run it in a checkout with the extra ``dev``, with credentials that may do
what ``iam-policy operator`` and ``iam-policy writer`` print. With ``--uri`` it uses another
endpoint instead of AWS and deploys nothing. It ends with 1 when something failed.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # for tests

from boto3.dynamodb.conditions import Attr  # noqa: E402
from mlflow.entities import Metric, Param, RunStatus, RunTag, ViewType, Workspace  # noqa: E402

from mlflow_dynamodbstore.auth.store import DynamoDBAuthStore  # noqa: E402
from mlflow_dynamodbstore.jobs.store import DynamoDBJobStore  # noqa: E402
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore  # noqa: E402
from mlflow_dynamodbstore.table.contract import Check, Delete, Patch, Put, Query  # noqa: E402
from mlflow_dynamodbstore.table.errors import TableMissing  # noqa: E402
from mlflow_dynamodbstore.table.table import Table  # noqa: E402
from mlflow_dynamodbstore.table.update import Update  # noqa: E402
from mlflow_dynamodbstore.table.uri import open_engine  # noqa: E402
from mlflow_dynamodbstore.table.values import Key  # noqa: E402
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine, Usage  # noqa: E402
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore  # noqa: E402
from mlflow_dynamodbstore.upkeep.prices import READ_PRICE, WRITE_PRICE  # noqa: E402
from mlflow_dynamodbstore.workspaces.store import DynamoDBWorkspaceStore  # noqa: E402
from tests.traces.making import make_info, make_spans, trace_id  # noqa: E402
from tests.workspaces.everything import fill  # noqa: E402

PREFIX = "mlflow-smoke-"
ARTIFACTS = "s3://no-such-bucket/root"
MOST_DIFFERENT = 0.1


class Place:
    """A table, all stores on it, and what its requests consumed."""

    def __init__(self, uri: str) -> None:
        self.engine = MeteredEngine(open_engine(uri))
        self.meter = self.engine.meter
        self.table = Table(self.engine)
        self.tracking = DynamoDBTrackingStore(uri, ARTIFACTS, table=self.table)
        self.registry = DynamoDBRegistryStore(uri, table=self.table)
        self.auth = DynamoDBAuthStore(uri, table=self.table)
        self.jobs = DynamoDBJobStore(uri, table=self.table)
        self.workspaces = DynamoDBWorkspaceStore(uri, table=self.table)
        self.made: dict[str, Any] = {}


# --- what is tried ------------------------------------------------------------------------------


def begin_a_run(place: Place) -> None:
    """Tags, params, metrics and a NaN."""
    store = place.tracking
    experiment = place.made["experiment"] = store.create_experiment("smoke")
    run = store.create_run(experiment, "smoke", 1, [RunTag("a", "b")], "a run").info.run_id
    store.log_batch(run, [Metric(f"m{n}", n / 7, 1, 0) for n in range(10)], [Param("p", "q")], [])
    store.log_metric(run, Metric("m0", float("nan"), 2, 1))
    assert store.get_run(run).data.params == {"p": "q"}
    place.made["run"] = run


def end_and_search_runs(place: Place) -> None:
    """By time, by a metric, by a param and a tag."""
    store, run = place.tracking, place.made["run"]
    store.update_run_info(run, RunStatus.FINISHED, 9, None)
    for text in ("", "metrics.m3 > 0.1", "params.p = 'q' AND tags.a = 'b'"):
        found = store.search_runs([place.made["experiment"]], text, ViewType.ACTIVE_ONLY, 10)
        assert [one.info.run_id for one in found] == [run], text
    assert len(store.get_metric_history(run, "m0")) == 2


def delete_and_restore_a_run(place: Place) -> None:
    """All that belongs to it goes and comes back."""
    place.tracking.delete_run(place.made["run"])
    place.tracking.restore_run(place.made["run"])
    assert place.tracking.get_run(place.made["run"]).info.lifecycle_stage == "active"


def models_and_aliases(place: Place) -> None:
    """Versions, an alias, a new name."""
    store = place.registry
    store.create_registered_model("smoke")
    for n in range(3):
        store.create_model_version("smoke", f"s3://bucket/{n}", place.made["run"])
    store.set_registered_model_alias("smoke", "champion", "2")
    assert store.get_model_version_by_alias("smoke", "champion").source == "s3://bucket/1"
    assert len(store.search_model_versions("name = 'smoke'")) == 3
    store.rename_registered_model("smoke", "smoke again")
    store.delete_registered_model("smoke again")


def traces(place: Place) -> None:
    """Spans, tags, a search, a deletion."""
    store, experiment = place.tracking, place.made["experiment"]
    for n in range(3):
        store.log_spans(experiment, make_spans(trace_id(n)))
        store.start_trace(make_info(trace_id(n), experiment, tags={"n": str(n)}))
    found, _ = store.search_traces([experiment], "tags.n = '1'")
    assert [one.trace_id for one in found] == [trace_id(1)]
    assert len(store.get_trace(trace_id(1)).data.spans) == 10
    assert store.delete_traces(experiment, trace_ids=[trace_id(0)]) == 1


def one_of_everything(place: Place) -> None:
    """Datasets, scorers, issues, review queues, the gateway, MCP servers, webhooks, prompts."""
    fill(place.tracking, place.registry)


def users_and_roles(place: Place) -> None:
    """A user with a role, and its password."""
    store = place.auth
    store.create_user("smoke", "a long password 12")
    role = store.create_role("smokers", "default")
    store.add_role_permission(role.id, "experiment", "1", "EDIT")
    store.assign_role_to_user(store.get_user("smoke").id, role.id)
    assert store.authenticate_user("smoke", "a long password 12")
    store.delete_user("smoke")


def jobs(place: Place) -> None:
    """A job from its creation to its result."""
    job = place.jobs.create_job("smoke", "{}")
    place.jobs.start_job(job.job_id)
    place.jobs.finish_job(job.job_id, '"done"')
    assert place.jobs.get_job(job.job_id).parsed_result == "done"


def workspaces(place: Place) -> None:
    """One that comes and goes."""
    place.workspaces.create_workspace(Workspace("smoke"))
    assert "smoke" in {one.name for one in place.workspaces.list_workspaces()}
    place.workspaces.delete_workspace("smoke")


def single_operations(place: Place) -> None:
    """Every operation of the contract, on items with index keys and large ones."""
    engine, absent = place.engine, Attr("PK").not_exists()
    whole = {"PK": "SMOKE", "SK": "1", "body": "x" * 2500, "lsi1sk": "a", "lsi2sk": "b"}
    engine.apply(Put({**whole, "gsi1pk": "SMOKE", "gsi1sk": "c"}, absent))
    engine.apply(Patch(Key("SMOKE", "1"), Update(set={"lsi1sk": "z"}, add={"n": 1})))
    engine.apply_many([Put({**whole, "SK": f"{n}"}) for n in range(2, 30)])
    for index, partition in ((None, "SMOKE"), ("LSI1", "SMOKE"), ("LSI2", "SMOKE")):
        assert engine.query(Query(partition, index=index)).items
    engine.query(Query("nobody"))
    keys = [Key("SMOKE", str(n)) for n in range(1, 40)]
    assert len(engine.get_many(keys).items) == 29
    engine.get(Key("SMOKE", "nobody"), consistent=False)
    engine.transact(
        [
            Put({**whole, "SK": "t"}, absent),
            Check(keys[1], Attr("PK").exists()),
            Delete(keys[2]),
            Patch(keys[3], Update(set={"a": 1})),
        ],
        secrets.token_hex(16),
    )
    engine.apply_many([Delete(Key("SMOKE", sk)) for sk in ("t", *map(str, range(1, 30)))])


STEPS: tuple[Callable[[Place], None], ...] = (
    single_operations,
    begin_a_run,
    end_and_search_runs,
    delete_and_restore_a_run,
    models_and_aliases,
    traces,
    one_of_everything,
    users_and_roles,
    jobs,
    workspaces,
)


# --- trying it ----------------------------------------------------------------------------------


class Tried(NamedTuple):
    """One step: what it consumed there and by our metering, and what went wrong."""

    name: str
    seconds: float
    there: Usage
    here: Usage
    error: str

    @property
    def difference(self) -> float:
        """By how much the units differ, as a part of ours."""
        ours = self.here.read_units + self.here.write_units
        theirs = self.there.read_units + self.there.write_units
        return abs(theirs - ours) / max(1.0, ours)

    def __str__(self) -> str:
        if self.error:
            return f"  FAILED  {self.name}: {self.error}"
        told, computed = (
            f"{one.total_requests} requests, {one.read_units:g} RCU, {one.write_units:g} WCU"
            for one in (self.there, self.here)
        )
        verdict = "ok" if self.difference <= MOST_DIFFERENT else "UNITS"
        return f"  {verdict:<8}{self.name}: {self.seconds:.2f} s; {told}; computed: {computed}"


@dataclass
class Report:
    """Everything that was tried."""

    steps: list[Tried] = field(default_factory=list)
    is_healthy: bool = True  # by ``doctor``

    @property
    def dollars(self) -> float:
        used = [step.there for step in self.steps]
        units = sum(u.read_units * READ_PRICE + u.write_units * WRITE_PRICE for u in used)
        return units / 1_000_000

    @property
    def failed(self) -> bool:
        return not self.is_healthy or any(
            step.error or step.difference > MOST_DIFFERENT for step in self.steps
        )


def try_all(there: Place, here: Place, report: Report) -> None:
    """Do every step on the table, and on a file for comparison."""
    for step in STEPS:
        name, error = step.__name__.replace("_", " "), ""
        began = time.perf_counter()
        with there.meter.measure() as used:
            try:
                step(there)
            except Exception as raised:  # noqa: BLE001 - told, and the next step goes on
                error = f"{type(raised).__name__}: {raised}"
                traceback.print_exc()
        seconds = time.perf_counter() - began
        with here.meter.measure() as computed:
            step(here)
        report.steps.append(Tried(name, seconds, used, computed, error))
        print(report.steps[-1], flush=True)


def command(*arguments: str, check: bool = True) -> bool:
    """Run our command line; whether it worked."""
    print("$ mlflow-dynamodbstore", *arguments, flush=True)
    code = "from mlflow_dynamodbstore.cli.main import main; main()"
    return not subprocess.run([sys.executable, "-c", code, *arguments], check=check).returncode


@contextmanager
def deployed(name: str, region: str, report: Report, *, keep: bool) -> Iterator[str]:
    """A table from ``deploy`` to ``doctor`` and ``destroy``; gives its URI."""
    uri = f"dynamodb://{region}/{name}"
    try:
        open_engine(uri).close()
    except TableMissing:
        pass
    else:
        raise SystemExit(f"{uri} is there already; this script deletes its table at the end")
    options = ("--name", name, "--region", region)
    command("deploy", *options)
    try:
        yield uri
        report.is_healthy = command("doctor", *options, check=False)
    finally:
        if keep:
            print(f"{uri} stays; later: mlflow-dynamodbstore destroy --delete-data", *options)
        else:
            command("destroy", "--delete-data", "--yes", *options)


@contextmanager
def at_endpoint(uri: str) -> Iterator[str]:
    """A table that opening it makes."""
    yield uri


def main() -> int:
    """Try everything; 0 when it all worked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--region", default=os.environ.get("AWS_REGION", "us-east-1"))
    parser.add_argument("--name", default=PREFIX + secrets.token_hex(4))
    parser.add_argument("--keep", action="store_true", help="leave the table where it is")
    parser.add_argument("--uri", help="another endpoint: dynamodb://localhost:8000/smoke")
    given = parser.parse_args()
    if not given.name.startswith(PREFIX):
        parser.error(f"the name must begin with {PREFIX}: the table is deleted at the end")
    os.environ.setdefault("MLFLOW_CRYPTO_KEK_PASSPHRASE", secrets.token_hex(16))
    report = Report()
    if given.uri:
        place = at_endpoint(given.uri)
    else:
        place = deployed(given.name, given.region, report, keep=given.keep)
    with place as uri, tempfile.TemporaryDirectory() as folder:
        here = Place(f"dynamodb:///{folder}/smoke.ddb?synchronous=NORMAL")
        try_all(Place(uri), here, report)
    print(f"{len(report.steps)} steps, about ${report.dollars:.4f} of units")
    return int(report.failed)


if __name__ == "__main__":
    sys.exit(main())
