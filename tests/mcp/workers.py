"""The processes that tests of MCP servers start: ``python -m tests.mcp.workers``."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from multiprocessing.synchronize import Barrier
from pathlib import Path

from mlflow.entities.mcp_server import MCPStatus
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore

ROOT = Path(__file__).resolve().parents[2]


def created_by_processes(uri: str, name: str, processes: int, each: int) -> list[list[str]]:
    """The versions that each of several processes has created; they all try the same ones."""
    command = [sys.executable, "-m", "tests.mcp.workers", uri, name, str(processes), str(each)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    made: list[list[str]] = json.loads(done.stdout)
    return made


_barriers: list[Barrier] = []


def _create(uri: str, name: str, each: int, worker: int) -> list[str]:
    store = DynamoDBTrackingStore(uri)
    _barriers[0].wait()
    made = []
    for n in range(each):
        version = f"1.{(n + worker) % each}.0"
        try:
            store.create_mcp_server_version(
                {"name": name, "version": version}, status=MCPStatus.ACTIVE
            )
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        else:
            made.append(version)
    store.table.close()
    return made


def main(uri: str, name: str, processes: str, each: str) -> None:
    """Fork the processes here, where there are no threads yet and the imports are done."""
    count = int(processes)
    fork = multiprocessing.get_context("fork")
    barrier = fork.Barrier(count)
    with fork.Pool(count, _barriers.append, (barrier,)) as pool:
        jobs = [(uri, name, int(each), n) for n in range(count)]
        sys.stdout.write(json.dumps(pool.starmap(_create, jobs, chunksize=1)))


if __name__ == "__main__":
    main(*sys.argv[1:])
