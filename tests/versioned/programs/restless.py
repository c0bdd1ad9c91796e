"""Publishes, deletes, purges and collects for ever, and says of each version that it has it.

Arguments are table and storage. Each line is written only after the call has returned.
"""

# ruff: noqa: T201 - speaks to the test that started it

from __future__ import annotations

import random
import sys
from datetime import timedelta

from versioned import Repository


def main(table: str, storage: str) -> None:
    rng = random.Random()
    with Repository(table, storage) as repo:
        while True:
            content = rng.randbytes(rng.choice([10, 100_000]))
            row = repo.publish("app", content)
            print(f"published {row.version} {row.sha256}", flush=True)
            if rng.random() < 0.3:
                # Said before it is begun: from now on it may be gone.
                print(f"removing {row.version}", flush=True)
                repo.delete("app", row.version)
                repo.purge("app", row.version)
            if rng.random() < 0.2:
                repo.gc(grace=timedelta(0))


main(*sys.argv[1:])
