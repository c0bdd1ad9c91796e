"""Measures ``versioned`` of this repository; run by ``bench.versioned``.

Arguments: table, storage, the number of operations.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

from versioned import Repository


def main(table: str, storage: str, count: str) -> None:
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

    repo = Repository(table, storage)
    repo.publish("app", b"warm")

    def list_all(_: int) -> int:
        cursor, found = None, 0
        while True:
            page = repo.list_versions("many", limit=10_000, cursor=cursor)
            found, cursor = found + len(page), page.cursor
            if cursor is None:
                return found

    measure("publish new content", n, lambda number: repo.publish("app", b"%d" % number * 300))
    measure(
        "publish the same content again", n, lambda _: repo.publish("app", b"%d" % (n - 1) * 300)
    )
    repo.put_alias("app", "prod", 1, 2, 20)
    measure("resolve an alias", n, lambda number: repo.resolve("app", "prod", str(number)))
    measure(
        "get content by alias",
        n,
        lambda number: repo.read(repo.resolve("app", "prod", str(number))),
    )
    measure(
        "list the newest 100 of 10,000 versions", 5, lambda _: repo.list_versions("many", limit=100)
    )
    measure("list all 10,000 versions", 5, list_all)
    print("times " + json.dumps(times), flush=True)


main(*sys.argv[1:])
