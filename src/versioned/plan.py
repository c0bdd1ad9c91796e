"""What a put or a publish changes, as one transaction on what was read before."""

from __future__ import annotations

from dataclasses import dataclass

from boto3.dynamodb.conditions import Attr, ConditionBase

from mlflow_dynamodbstore.table.contract import Check, Patch, Put, TransactWrite
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item
from versioned import blobs
from versioned.blobs import Blob
from versioned.home import ABSENT, Home, unchanged
from versioned.keys import encode_version_sk
from versioned.rows import Artifact
from versioned.versions import highest_number


@dataclass(frozen=True)
class Seen:
    """What the table says about an artifact and about content that it may get."""

    name: str
    last_version: int | None  # the highest number ever used
    listed: bool
    latest: Artifact | None
    blob: Blob | None
    published: Artifact | None  # the version that has the content

    @property
    def latest_is_unchanged(self) -> ConditionBase:
        if self.latest is None:
            return ABSENT
        same = unchanged("sha256", self.latest.sha256)
        return same & Attr("is_deleted").eq(self.latest.is_deleted)


def look(home: Home, name: str, sha256: str) -> Seen:
    """Read all that a change depends on: one request, and a second for content that is known."""
    keys = home.keys
    state, latest, blob, digest = (
        keys.state(name),
        keys.version(name, None),
        keys.blob(sha256),
        keys.digest(name, sha256),
    )
    found = home.table.get_many([state, latest, blob, digest])
    version = found[digest]["version"] if digest in found else None
    published = home.table.get(keys.version(name, str(version))) if version else None
    last_version = found.get(state, {}).get("last_version")
    return Seen(
        name,
        last_version if isinstance(last_version, int) else None,
        found.get(state, {}).get("listed") is True,
        Artifact.from_item(found[latest]) if latest in found else None,
        Blob.from_item(sha256, found.get(blob)),
        Artifact.from_item(published) if published else None,
    )


class Plan:
    """Collects what is to be true, then writes all of it or nothing.

    ``again``: an earlier plan was refused, perhaps for a number that another program has used.
    """

    def __init__(self, home: Home, seen: Seen, latest: Artifact, *, again: bool):
        self.home = home
        self.seen = seen
        self.latest = latest
        self.version = latest
        self._number: int | None = None
        self._revives = False
        self._publishes = False
        self._again = again

    def publish(self) -> None:
        """Let the content have a version: the one that has it, brought back if it was deleted."""
        self._publishes = True
        if self.seen.published is not None:
            self.version = self.seen.published
            self._revives = self.version.is_deleted
            return
        self._number = self._last_version() + 1
        self.version = Artifact.from_item(self.latest.to_item())
        self.version.sk = encode_version_sk(self._number)
        self.version.update_at, self.version.by = self.home.now, self.home.actor

    def carry_out(self) -> bool:
        """Write it all. False when the table has changed since: look again, and plan again."""
        if not (self._changes_latest or self._revives or self._number):
            return True
        writes = [self._state_write(), self._latest_write(), *self._version_writes()]
        writes += self._listing() + self._references()
        return self.home.changed(writes) is None

    @property
    def _changes_latest(self) -> bool:
        return self.latest is not self.seen.latest

    @property
    def _changes_content(self) -> bool:
        before = self.seen.latest
        return before is None or before.sha256 != self.latest.sha256

    def _last_version(self) -> int:
        """The highest number used. Rows that other programs have written are not counted."""
        counted = self.seen.last_version
        if counted is not None and not self._again:
            return counted
        return max(counted or 0, highest_number(self.home, self.seen.name))

    def _state_write(self) -> TransactWrite:
        """Count the version, and hold off a purge of the whole artifact meanwhile."""
        key, listed = self.home.keys.state(self.seen.name), Attr("listed")
        condition: ConditionBase = listed.eq(True)
        if not self.seen.listed:
            condition = listed.not_exists() | listed.eq(False)
        changes: Item = {} if self.seen.listed else {"listed": True}
        if self._number is not None:
            condition &= unchanged("last_version", self.seen.last_version)
            changes["last_version"] = self._number
        return Patch(key, Update(set=changes), condition) if changes else Check(key, condition)

    def _latest_write(self) -> TransactWrite:
        if self._changes_latest:
            return Put(self.latest.to_item(), self.seen.latest_is_unchanged)
        return Check(self.home.keys.version(self.seen.name, None), self.seen.latest_is_unchanged)

    def _version_writes(self) -> list[TransactWrite]:
        if self._number is not None:
            digest = self.home.keys.digest(self.seen.name, str(self.version.sha256))
            points_at: Item = {"pk": digest.pk, "sk": digest.sk, "version": self.version.sk}
            return [Put(self.version.to_item(), ABSENT), Put(points_at, ABSENT)]
        if not self._publishes:
            return []
        key = self.home.keys.version(self.seen.name, self.version.version)
        as_seen = Attr("is_deleted").eq(self._revives) & Attr("sha256").eq(self.version.sha256)
        if not self._revives:
            return [Check(key, as_seen)]
        self.version.is_deleted, self.version.update_at = False, self.home.now
        return [Put(self.version.to_item(), as_seen)]

    def _listing(self) -> list[TransactWrite]:
        if self.seen.listed:
            return []
        key = self.home.keys.listed(self.seen.name)
        return [Put({"pk": key.pk, "sk": key.sk})]

    def _references(self) -> list[TransactWrite]:
        writes: list[TransactWrite] = []
        more = (self._number is not None) + self._changes_content
        if more:
            writes.append(blobs.refer(self.home, self.latest, self.seen.blob, more))
        before = self.seen.latest
        if before is not None and self._changes_content and before.is_counted:
            writes.append(blobs.release(self.home, str(before.sha256)))
        return writes
