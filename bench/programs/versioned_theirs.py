"""Measures the public package ``versioned`` 1.0.1; run by ``bench.versioned`` in its own Python.

Arguments: the bucket, the table, the number of operations. The endpoints are in the environment.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

from boto_session_manager import BotoSesManager

from versioned.api import s3_and_dynamodb_backend


def main(bucket: str, table: str, count: str) -> None:
    times: dict[str, float] = {}
    n = int(count)

    def measure(what: str, operations: int, call: Callable[[int], object]) -> None:
        print(f"begin {what}", flush=True)
        sys.stdin.readline()
        taken = []
        for number in range(operations):
            start = time.perf_counter()
            call(number)
            taken.append(time.perf_counter() - start)
        times[what] = statistics.median(taken)
        print(f"end {what} {operations}", flush=True)
        sys.stdin.readline()

    bsm = BotoSesManager(region_name="us-east-1")
    repo = s3_and_dynamodb_backend.Repository(
        aws_region="us-east-1", s3_bucket=bucket, s3_prefix="theirs", dynamodb_table_name=table
    )
    repo.bootstrap(bsm)
    repo.put_artifact("app", b"warm")
    repo.publish_artifact_version("app")

    def publish(number: int) -> None:
        repo.put_artifact("app", b"%d" % number * 300)
        repo.publish_artifact_version("app")

    def resolve(_: int) -> object:
        alias = repo.get_alias("app", "prod")
        version = alias.secondary_version if alias.random_artifact() is None else alias.version
        return repo.get_artifact_version("app", version)

    measure("publish new content", n, publish)
    measure("publish the same content again", n, lambda _: publish(n - 1))
    repo.put_alias("app", "prod", version=1, secondary_version=2, secondary_version_weight=20)
    measure("resolve an alias", n, resolve)
    measure(
        "get content by alias",
        n,
        lambda _: repo.get_alias("app", "prod").get_version_content(bsm),
    )
    measure(
        "list the newest 100 of 10,000 versions",
        5,
        lambda _: repo.list_artifact_versions("many")[:100],
    )
    measure("list all 10,000 versions", 5, lambda _: len(repo.list_artifact_versions("many")))
    print("times " + json.dumps(times), flush=True)


main(*sys.argv[1:])
