"""Content by its digest: one row that counts who refers to it, and bytes in the storage.

Bytes are written before the row, and the row is changed in the same transaction as the version
that refers to it. Bytes are removed only after the row has been *condemned*, which is possible only
while nothing refers to it. A condemned digest is stored anew under the next *generation*, that is
under another key, so that a removal which is still under way cannot hit it (docs/adr/0022).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from boto3.dynamodb.conditions import Attr, ConditionBase

from mlflow_dynamodbstore.table.contract import Patch
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item
from versioned import times
from versioned.content import Content, Progress
from versioned.errors import ContentMissing, Corrupt
from versioned.home import ABSENT, Home
from versioned.rows import Artifact

STORED, CONDEMNED = "stored", "condemned"
WORTH_LOOKING = 8 * 1024 * 1024
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"([0-9a-f]{64})(?:\.([0-9]+))?")


@dataclass(frozen=True)
class Blob:
    """The row of a digest."""

    sha256: str
    generation: int
    state: str
    refs: int
    update_at: str

    @classmethod
    def from_item(cls, sha256: str, item: Item | None) -> Blob | None:
        if item is None:
            return None
        return cls(
            sha256,
            int(item["generation"]),
            str(item["state"]),
            int(item["refs"]),
            str(item["update_at"]),
        )

    @property
    def unchanged(self) -> ConditionBase:
        """Holds while the row says which bytes to use as it does here; the count may differ."""
        return Attr("generation").eq(self.generation) & Attr("state").eq(self.state)


def storage_key(folder: str, sha256: str, generation: int) -> str:
    """Where the bytes of a digest are."""
    return f"{folder}/{sha256[:2]}/{sha256}" + (f".{generation}" if generation else "")


def parse_storage_key(key: str) -> tuple[str, int] | None:
    """The digest and generation of a key in the storage, None for a key that is not ours."""
    found = _NAME.fullmatch(key.rpartition("/")[2])
    return (found[1], int(found[2] or 0)) if found else None


def ensure_stored(home: Home, content: Content, blob: Blob | None, progress: Progress) -> None:
    """Make sure that the bytes are in the storage, in the generation that comes next."""
    key = storage_key(home.claim().folder, content.sha256, next_generation(blob))
    # Content that no row knows is hardly ever there: looking first is for what takes long to send.
    worth_looking = blob is not None or content.size > WORTH_LOOKING
    if worth_looking and home.storage.size(key) == content.size:
        progress(content.size)
    else:
        home.storage.write(key, content, progress)


def refer(home: Home, artifact: Artifact, blob: Blob | None, count: int) -> Patch:
    """The write that adds references to content which is stored as the artifact says."""
    return Patch(
        home.keys.blob(str(artifact.sha256)),
        Update(
            set={
                "state": STORED,
                "generation": artifact.generation,
                "size": artifact.size,
                "update_at": times.to_text(home.now),
            },
            add={"refs": count},
        ),
        blob.unchanged if blob else ABSENT,
    )


def release(home: Home, sha256: str) -> Patch:
    """The write that takes one reference away."""
    return Patch(
        home.keys.blob(sha256),
        Update(set={"update_at": times.to_text(home.now)}, add={"refs": -1}),
        Attr("refs").gt(0),
    )


def chunks(home: Home, artifact: Artifact) -> Iterator[bytes]:
    """The bytes of an artifact, not verified. Raises ``ContentMissing``."""
    return home.storage.read(key_of(home, artifact))


def key_of(home: Home, artifact: Artifact) -> str:
    """Where the bytes of an artifact are. As long as it refers to them, that does not change."""
    place = home.find()
    if place is None or not artifact.sha256:
        raise ContentMissing(f"no content of {artifact.name} was ever stored in this repository")
    _check(artifact)
    return storage_key(place.folder, artifact.sha256, artifact.generation)


def _check(artifact: Artifact) -> None:
    """Raises ``Corrupt`` for a row whose content would be looked for outside the storage."""
    row = f"the row of version {artifact.version} of {artifact.name!r} is damaged"
    if not (isinstance(artifact.sha256, str) and _DIGEST.fullmatch(artifact.sha256)):
        raise Corrupt(f"{row}: {artifact.sha256!r:.100} is not a sha256")
    if not _is_count(artifact.generation):
        raise Corrupt(f"{row}: {artifact.generation!r:.100} is not a generation")
    if artifact.size is not None and not _is_count(artifact.size):
        raise Corrupt(f"{row}: {artifact.size!r:.100} is not a number of bytes")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def condemn(home: Home, sha256: str, generation: int, blob: Blob | None) -> bool:
    """Declare bytes that nothing refers to dead; returns whether they are.

    Whoever is about to refer to them finds the row changed and stores them under a new key.
    """
    unchanged = ABSENT
    if blob is not None:
        unchanged = blob.unchanged & Attr("refs").eq(0) & Attr("update_at").eq(blob.update_at)
    try:
        home.table.update(
            home.keys.blob(sha256),
            Update(
                set={
                    "state": CONDEMNED,
                    "generation": generation,
                    "refs": 0,
                    "update_at": times.to_text(home.now),
                }
            ),
            condition=unchanged,
        )
    except ConditionFailed:
        return False
    return True


def fate(generation: int, blob: Blob | None, before: datetime) -> Literal["dead", "idle", "used"]:
    """What may be done with bytes.

    - ``dead``: nobody can come to use them any more; they may be removed.
    - ``idle``: nothing has referred to them since before a time; they may be condemned.
    - ``used``: leave them alone.
    """
    if blob is not None and generation < next_generation(blob):
        return "dead"
    if blob is None or blob.state == CONDEMNED:
        return "idle"  # stored by somebody who did not come to refer to them
    same = blob.generation == generation and blob.refs == 0
    return "idle" if same and times.from_text(blob.update_at) < before else "used"


def next_generation(blob: Blob | None) -> int:
    """The generation that whoever stores this digest now will use."""
    if blob is None:
        return 0
    return blob.generation + (blob.state == CONDEMNED)
