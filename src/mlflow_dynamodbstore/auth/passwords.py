"""Whether a password is right. Neither the answer nor the time it takes tells which users exist."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from threading import Lock

from werkzeug.security import check_password_hash, generate_password_hash

from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache

MOST_FAILURES = 10
"""After so many wrong passwords for one name within a window no more are tried in that window."""
WINDOW_SECONDS = 60.0
LONGEST_PASSWORD = 4096
VERIFIED = 1_000
NAMES = 10_000


class Passwords:
    """Checks passwords, remembers the right ones, and counts the wrong ones.

    A right password is remembered as a keyed digest together with the hash it was checked against,
    so after a change of the hash it is checked again. The counts are those of this process;
    ``on_wrong`` is called with the name for which a password was tried and was wrong.
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
        self._verified: BoundedCache[tuple[str, bytes], str] = BoundedCache(
            VERIFIED, name="passwords"
        )
        self._failures: BoundedCache[str, tuple[int, float]] = BoundedCache(NAMES)
        self._counting = Lock()

    def once_right(self, username: str, password: str) -> bool:
        """Whether this password was found right before, against any hash."""
        return self._verified.get(self._proof(username, password)) is not None

    def were_right(self, username: str, password: str, stored: str) -> bool:
        """Whether this password was found right before, against this hash."""
        proof = self._proof(username, password)
        if self._verified.get(proof) != stored:
            return False
        self._verified.put(proof, stored)  # those used most recently are kept
        return True

    def are_right(self, username: str, password: str, stored: str | None) -> bool:
        """Whether this is the password of a user; ``stored`` is None for a name nobody has."""
        if len(password) > LONGEST_PASSWORD or self._is_blocked(username):
            return False
        # A hash is computed also for a name nobody has: it is what takes the time.
        if not check_password_hash(stored or self._nobodys, password) or stored is None:
            self._count_failure(username)
            self._on_wrong(username)
            return False
        self._failures.forget(username)
        self._verified.put(self._proof(username, password), stored)
        return True

    def _proof(self, username: str, password: str) -> tuple[str, bytes]:
        digest = hmac.new(self._secret, password.encode(), hashlib.sha256).digest()
        return (username, digest)

    def _is_blocked(self, username: str) -> bool:
        count, until = self._failures.get(username) or (0, 0.0)
        return count >= MOST_FAILURES and self._clock() < until

    def _count_failure(self, username: str) -> None:
        with self._counting:
            now = self._clock()
            count, until = self._failures.get(username) or (0, 0.0)
            if now >= until:
                count, until = 0, now + WINDOW_SECONDS
            self._failures.put(username, (count + 1, until))
