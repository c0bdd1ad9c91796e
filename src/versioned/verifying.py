"""Checking that rows, counts and bytes agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mlflow_dynamodbstore.table.contract import Query
from versioned import blobs, times
from versioned.blobs import Blob
from versioned.content import Progress, no_progress, verified
from versioned.errors import Corrupt
from versioned.home import Home
from versioned.keys import decode_version_sk
from versioned.names import LATEST, check_name
from versioned.rows import Alias, Artifact

PAGE = 100


@dataclass(frozen=True)
class Problem:
    """Something that is not as it should be."""

    name: str
    version: str
    what: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}: {self.what}"


@dataclass
class Verification:
    """What was looked at, and what was wrong with it."""

    versions: int = 0
    contents: int = 0
    bytes: int = 0
    problems: list[Problem] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(
    home: Home, name: str | None, *, read_content: bool, progress: Progress = no_progress
) -> Verification:
    """Check one artifact, or all of them and also how often each content is referred to.

    With ``read_content`` every byte is read and hashed; without it only sizes are compared.
    """
    started = home.now
    report = Verification()
    names = [check_name(name)] if name is not None else _names(home)
    references: Counter[str] = Counter()
    for one in names:
        rows = list(_rows(home, one))
        report.versions += len(rows)
        for row in rows:
            if row.is_counted:
                references[str(row.sha256)] += 1
                if references[str(row.sha256)] == 1:
                    _check_content(home, row, report, read_content, progress)
            _check_digest(home, row, report)
        _check_aliases(home, one, {str(row.sk): row for row in rows}, report)
    if name is None:
        _check_counts(home, references, started.timestamp(), report)
    return report


def _names(home: Home) -> Iterator[str]:
    for item in home.table.items(Query(home.keys.names, limit=PAGE)):
        yield str(item["sk"])


def _rows(home: Home, name: str) -> Iterator[Artifact]:
    for item in home.table.items(Query(home.keys.versions(name), limit=PAGE)):
        yield Artifact.from_item(item)


def _check_content(
    home: Home, row: Artifact, report: Verification, read_content: bool, progress: Progress
) -> None:
    report.contents += 1
    try:
        key = blobs.key_of(home, row)
    except Corrupt as error:
        report.problems.append(Problem(row.name, row.version, str(error)))
        return
    size = home.storage.size(key)
    if size != row.size:
        found = "is not there" if size is None else f"has {size} bytes instead of {row.size}"
        report.problems.append(Problem(row.name, row.version, f"{key} {found}"))
    elif read_content:
        try:
            for chunk in verified(home.storage.read(key), str(row.sha256), row.size, key):
                report.bytes += len(chunk)
                progress(len(chunk))
        except Corrupt as error:
            report.problems.append(Problem(row.name, row.version, str(error)))


def _check_digest(home: Home, row: Artifact, report: Verification) -> None:
    """Content that has a version must lead to it, or it would be published twice."""
    if row.version == LATEST or not row.is_counted:
        return
    item = home.table.get(home.keys.digest(row.name, str(row.sha256)))
    if item is None or item["version"] != row.sk:
        what = f"the row that leads from {row.sha256} to this version is missing or wrong"
        report.problems.append(Problem(row.name, row.version, what))


def _check_aliases(home: Home, name: str, rows: dict[str, Artifact], report: Verification) -> None:
    for item in home.table.items(Query(home.keys.aliases(name), limit=PAGE)):
        alias = Alias.from_item(item)
        for sk in alias.points_at:
            row = rows.get(sk)
            if row is None or row.is_deleted:
                state = "is not there" if row is None else "is deleted"
                what = f"alias {alias.alias!r} points at it, and it {state}"
                report.problems.append(Problem(name, decode_version_sk(sk), what))


def _check_counts(
    home: Home, references: Counter[str], started: float, report: Verification
) -> None:
    for digests in _in_batches(sorted(references)):
        rows = home.table.get_many(home.keys.blob(sha256) for sha256 in digests)
        for sha256 in digests:
            blob = Blob.from_item(sha256, rows.get(home.keys.blob(sha256)))
            if blob is not None and times.from_text(blob.update_at).timestamp() >= started:
                continue  # changed while we looked: the count belongs to another moment
            if blob is None or blob.state != blobs.STORED or blob.refs != references[sha256]:
                counted = "nothing" if blob is None else f"{blob.refs} ({blob.state})"
                what = f"{references[sha256]} versions refer to it, and the table counts {counted}"
                report.problems.append(Problem("content", sha256, what))


def _in_batches(digests: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    for sha256 in digests:
        batch.append(sha256)
        if len(batch) == PAGE:
            yield batch
            batch = []
    if batch:
        yield batch
