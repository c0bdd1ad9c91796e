"""Putting content and publishing versions.

Each is: store the bytes, then one transaction on what was read before. A crash between the two
leaves bytes that nothing refers to, which the next try uses and ``gc`` removes. When somebody else
was faster, the transaction is refused as a whole and everything is looked at again.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from versioned import blobs
from versioned.content import Content, Progress, Source, staged
from versioned.errors import ArtifactNotFound, ContentChanged, ContentMissing, VersionDeleted
from versioned.home import Home
from versioned.keys import encode_version_sk
from versioned.names import LATEST, check_metadata, check_name
from versioned.plan import Plan, Seen, look
from versioned.rows import Artifact


def put(
    home: Home, name: str, source: Source, metadata: Mapping[str, str] | None, progress: Progress
) -> Artifact:
    """Make content the LATEST of an artifact."""
    with _offered(name, source, metadata) as content:
        plan = _bring_in(home, name, content, metadata, progress, publishing=False)
    return plan.latest


def publish(
    home: Home,
    name: str,
    source: Source,
    metadata: Mapping[str, str] | None,
    expected_sha256: str | None,
    progress: Progress,
) -> Artifact:
    """Make content LATEST and a version: the one that has this content, or else the next."""
    with _offered(name, source, metadata) as content:
        if expected_sha256 not in (None, content.sha256):
            raise ContentChanged(
                f"the content has the sha256 {content.sha256} instead of {expected_sha256}, and "
                "was not stored"
            )
        plan = _bring_in(home, name, content, metadata, progress, publishing=True)
    return plan.version


def publish_latest(home: Home, name: str, expected_sha256: str | None) -> Artifact:
    """Make LATEST a version: the one that has its content, or else the next."""
    check_name(name)
    for attempt in home.attempts():
        latest = _latest_to_publish(home, name, expected_sha256)
        seen = look(home, name, str(latest.sha256))
        if seen.latest != latest:
            continue
        plan = Plan(home, seen, latest, again=attempt > 0)
        plan.publish()
        if plan.carry_out():
            return plan.version
    raise AssertionError("attempts end by raising")


def _offered(
    name: str, source: Source, metadata: Mapping[str, str] | None
) -> AbstractContextManager[Content]:
    """The content, after all that is checked before anything is read or written."""
    check_name(name)
    check_metadata(metadata)
    return staged(source)


def _bring_in(
    home: Home,
    name: str,
    content: Content,
    metadata: Mapping[str, str] | None,
    progress: Progress,
    *,
    publishing: bool,
) -> Plan:
    home.claim()
    stored: set[int] = set()  # what we have stored stays, unless its row says otherwise
    for attempt in home.attempts():
        seen = look(home, name, content.sha256)
        generation = blobs.next_generation(seen.blob)
        if generation not in stored:
            blobs.ensure_stored(home, content, seen.blob, progress)
            stored.add(generation)
        latest = _latest(home, name, content, metadata, generation, seen)
        plan = Plan(home, seen, latest, again=attempt > 0)
        if publishing:
            plan.publish()
        if plan.carry_out():
            return plan
    raise AssertionError("attempts end by raising")


def _latest(
    home: Home,
    name: str,
    content: Content,
    metadata: Mapping[str, str] | None,
    generation: int,
    seen: Seen,
) -> Artifact:
    """LATEST as it should be: as it is, when that is the same."""
    row = Artifact(
        home.keys.versions(name),
        encode_version_sk(LATEST),
        update_at=home.now,
        sha256=content.sha256,
        size=content.size,
        filename=content.filename,
        is_folder=content.is_folder,
        generation=generation,
        metadata=check_metadata(metadata),
        by=home.actor,
    )
    return seen.latest if seen.latest is not None and _same(seen.latest, row) else row


def _same(one: Artifact, other: Artifact) -> bool:
    """Whether two rows say the same but for when and by whom."""
    ignored = {"update_at", "by"}
    return all(
        getattr(one, name) == getattr(other, name)
        for name in Artifact.DEFAULTS
        if name not in ignored
    )


def _latest_to_publish(home: Home, name: str, expected_sha256: str | None) -> Artifact:
    item = home.table.get(home.keys.version(name, None))
    if item is None:
        raise ArtifactNotFound(
            f"nothing was put under {name!r} yet: put content first, or give it to publish"
        )
    latest = Artifact.from_item(item)
    if latest.is_deleted:
        raise VersionDeleted(f"LATEST of {name!r} is deleted: put content again, or undelete it")
    if not latest.is_counted:
        raise ContentMissing(
            f"LATEST of {name!r} was written by another program, and its content is not in this "
            "repository: put it again"
        )
    if expected_sha256 is not None and latest.sha256 != expected_sha256:
        raise ContentChanged(
            f"LATEST of {name!r} is {latest.sha256}, not {expected_sha256}: somebody has put other "
            "content since; to publish your own whatever others do, give the content to publish"
        )
    return latest
