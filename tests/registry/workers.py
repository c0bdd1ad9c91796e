"""What the processes do that registry tests start: ``python -m tests.registry.workers``."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from multiprocessing.synchronize import Barrier
from pathlib import Path

from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore

ROOT = Path(__file__).resolve().parents[2]


def answer_of(job: str, *arguments: str) -> str:
    """Do one of the jobs below in a process of its own, and return what it says."""
    command = [sys.executable, "-m", "tests.registry.workers", job, *arguments]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def create_versions(uri: str, name: str, processes: str, each: str) -> None:
    """Let so many processes create versions of a model at once; says each one's numbers.

    They are forked here, where there are no threads yet and the imports are done.
    """
    count = int(processes)
    fork = multiprocessing.get_context("fork")
    barrier = fork.Barrier(count)
    with fork.Pool(count, _remember, (barrier,)) as pool:
        jobs = [(uri, name, int(each), n) for n in range(count)]
        sys.stdout.write(json.dumps(pool.starmap(_create, jobs, chunksize=1)))


_barriers: list[Barrier] = []


def _remember(barrier: Barrier) -> None:
    _barriers.append(barrier)


def _create(uri: str, name: str, each: int, worker: int) -> list[int]:
    store = DynamoDBRegistryStore(uri)
    _barriers[0].wait()
    made = [
        int(store.create_model_version(name, f"s3://bucket/{n}", f"run-{worker}").version)
        for n in range(each)
    ]
    store.table.close()
    return made


JOBS = {"create_versions": create_versions}

if __name__ == "__main__":
    JOBS[sys.argv[1]](*sys.argv[2:])
