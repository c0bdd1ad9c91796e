"""Whether a password is right. Neither the answer nor the time it takes tells who exists."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

from werkzeug.security import check_password_hash, generate_password_hash

FAILURES = 10
"""So many wrong passwords for one name within :data:`WINDOW_SECONDS` are answered by a hash."""
WINDOW_SECONDS = 60.0
LONGEST_PASSWORD = 4096
VERIFIED = 1_000
NAMES = 10_000


K = TypeVar("K")
V = TypeVar("V")


@dataclass
class _Failures:
    count: int
    until: float


class Passwords:
    """Checks passwords, remembers those that were right, and counts those that were wrong.

    A right password is remembered as a keyed digest beside the very hash it was checked against,
    so a changed hash is always checked anew. Counts are kept for this process; ``on_wrong`` is
    told the name for which a password was tried and was wrong.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        on_wrong: Callable[[str], None] = lambda _: None,
    ):
        self._clock = clock
        self._on_wrong = on_wrong
        self._secret = secrets.token_bytes(32)
        self._nobodys = generate_password_hash(secrets.token_hex())
        self._verified: OrderedDict[tuple[str, bytes], str] = OrderedDict()
        self._failures: OrderedDict[str, _Failures] = OrderedDict()
        self._lock = Lock()

    def once_right(self, username: str, password: str) -> bool:
        """Whether this very password was found right before, for whatever hash the name had."""
        with self._lock:
            return self._proof(username, password) in self._verified

    def were_right(self, username: str, password: str, stored: str) -> bool:
        """Whether this very password was found right before, against this very hash."""
        proof = self._proof(username, password)
        with self._lock:
            if self._verified.get(proof) != stored:
                return False
            self._verified.move_to_end(proof)
            return True

    def are_right(self, username: str, password: str, stored: str | None) -> bool:
        """Whether this is the password of a user, whose ``stored`` hash is None for nobody."""
        if len(password) > LONGEST_PASSWORD:
            return False
        with self._lock:
            if self._is_blocked(username):
                return False
        # For nobody a hash is computed all the same: it is what takes the time.
        right = check_password_hash(stored or self._nobodys, password) and stored is not None
        if not right:
            with self._lock:
                self._count_failure(username)
            self._on_wrong(username)
            return False
        with self._lock:
            self._failures.pop(username, None)
            proof = self._proof(username, password)
            _remember(self._verified, proof, stored or "", VERIFIED)
        return True

    def _proof(self, username: str, password: str) -> tuple[str, bytes]:
        digest = hmac.new(self._secret, password.encode(), hashlib.sha256).digest()
        return (username, digest)

    def _is_blocked(self, username: str) -> bool:
        failed = self._failures.get(username)
        return failed is not None and failed.count >= FAILURES and self._clock() < failed.until

    def _count_failure(self, username: str) -> None:
        now = self._clock()
        failed = self._failures.get(username)
        if failed is None or now >= failed.until:
            failed = _Failures(0, now + WINDOW_SECONDS)
        failed.count += 1
        _remember(self._failures, username, failed, NAMES)


def _remember(memory: OrderedDict[K, V], key: K, value: V, size: int) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > size:
        memory.popitem(last=False)
