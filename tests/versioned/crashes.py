"""A storage that dies at a chosen step, as :class:`CrashingEngine` does for the table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from tests.faults import SimulatedCrash
from versioned.content import Content, Progress, no_progress
from versioned.storage import Storage, StoredObject


class CrashingStorage:
    """Dies before or after its ``at``-th change (counted from 1); with None it only counts."""

    def __init__(
        self, inner: Storage, at: int | None = None, when: Literal["before", "after"] = "after"
    ):
        self.inner = inner
        self.changes = 0
        self.dead = False
        self._at = at
        self._when = when

    @property
    def uri(self) -> str:
        return self.inner.uri

    def identity(self) -> str | None:
        self._check()
        return self.inner.identity()

    def claim(self, identity: str) -> str:
        self._step("before")
        claimed = self.inner.claim(identity)
        self._step("after")
        return claimed

    def size(self, key: str) -> int | None:
        self._check()
        return self.inner.size(key)

    def write(self, key: str, content: Content, progress: Progress = no_progress) -> None:
        self._step("before")
        self.inner.write(key, content, progress)
        self._step("after")

    def read(self, key: str) -> Iterator[bytes]:
        self._check()
        return self.inner.read(key)

    def delete(self, key: str) -> None:
        self._step("before")
        self.inner.delete(key)
        self._step("after")

    def list(self, folder: str) -> Iterator[StoredObject]:
        self._check()
        return self.inner.list(folder)

    def unfinished(self, folder: str, before: datetime) -> Iterator[str]:
        self._check()
        return self.inner.unfinished(folder, before)

    def discard(self, unfinished: str) -> None:
        self._step("before")
        self.inner.discard(unfinished)
        self._step("after")

    def _check(self) -> None:
        if self.dead:
            raise SimulatedCrash("this process is dead already")

    def _step(self, when: Literal["before", "after"]) -> None:
        self._check()
        self.changes += when == "before"
        if self.changes == self._at and when == self._when:
            self.dead = True
            raise SimulatedCrash(f"died {when} change {self.changes} of the storage")
