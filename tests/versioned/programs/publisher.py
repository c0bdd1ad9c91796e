"""Publishes versions and says of each what it got: arguments are table, storage, label, count."""

# ruff: noqa: T201 - speaks to the test that started it

from __future__ import annotations

import sys

from versioned import Repository


def main(table: str, storage: str, label: str, count: str) -> None:
    with Repository(table, storage, actor=label) as repo:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(int(count)):
            own = repo.publish("app", f"{label}-{number}".encode())
            print(f"own {own.version} {label}-{number}", flush=True)
            shared = repo.publish("app", f"shared-{number}".encode())
            print(f"shared {shared.version} shared-{number}", flush=True)


main(*sys.argv[1:])
