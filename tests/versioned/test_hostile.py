"""Rows and archives that somebody else wrote: nothing is written or read outside the target."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.table.contract import Query
from tests.versioned.conftest import Backing
from tests.versioned.test_content import tree
from versioned import Repository, mlflow_artifacts, times
from versioned.content import staged
from versioned.errors import Corrupt, InvalidName, VersionedError
from versioned.folders import pack, unpack
from versioned.keys import NUMBERED
from versioned.names import check_filename

HOSTILE = [
    "", ".", "..", "../x", "../../x", "/x", "/", "a/b", "a/", "./a", "a\\b", "..\\x", "\\\\host\\x",
    "C:", "c:x", "C:\\x", "a\0b", "\0", "x" * 256, "é" * 128, "\ud800",
]  # fmt: skip
PLAIN = ["a", "model.bin", "...", ".hidden", "..x", "a b", "é", "data:2024.csv", "x" * 255]


def rewrite(backing: Backing, name: str, **attributes: Any) -> None:
    """Change the row of version 1 behind the repository's back."""
    home = backing.opened[-1]._home
    (item,) = home.table.items(Query(home.keys.versions(name), where=NUMBERED))
    home.table.put({**item, **attributes})


# --- file names ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLAIN, ids=lambda name: name[:12])
def test_a_plain_file_name_is_taken(name):
    assert check_filename(name) == name


@pytest.mark.parametrize("name", [*HOSTILE, None, 7, b"a", ["a"]], ids=repr)
def test_a_name_that_could_leave_a_folder_is_refused_with_the_rule(name):
    with pytest.raises(InvalidName, match="without '/'"):
        check_filename(name)


@given(st.text(alphabet=st.sampled_from("/\\.:aC\0 é"), max_size=6))
def test_a_name_that_is_taken_stays_in_every_folder_it_is_put_into(name):
    try:
        check_filename(name)
    except InvalidName:
        return
    folder = Path("/some/folder")
    assert (folder / name).parent == folder
    assert (folder / name).name == name


@pytest.mark.parametrize("name", ["a\\b", "C:x", "..\\x"])
def test_a_file_with_such_a_name_is_not_stored(name, local: Backing, tmp_path: Path):
    repo = local.open()
    (tmp_path / name).write_bytes(b"content")
    for call in (repo.put, repo.publish):
        with pytest.raises(InvalidName, match="cannot name a file"):
            call("app", tmp_path / name)
    assert repo.list_names().items == []
    assert repo.storage.identity() is None


def test_a_file_whose_name_is_not_utf_8_is_not_stored(local: Backing, tmp_path: Path):
    source = tmp_path / "caf\udce9"
    source.write_bytes(b"content")
    with pytest.raises(InvalidName, match="cannot name a file"):
        local.open().put("app", source)


@pytest.mark.parametrize("name", [*HOSTILE[:-1], 7, ["x"]], ids=repr)
@pytest.mark.parametrize("is_folder", [False, True], ids=["file", "folder"])
def test_a_row_with_such_a_name_writes_nothing(name, is_folder, local: Backing, tmp_path: Path):
    repo = local.open()
    source = tmp_path / "source"
    source.mkdir()
    repo.publish("app", source if is_folder else b"content")
    rewrite(local, "app", filename=name)
    source.rmdir()
    (tmp_path / "a" / "b" / "into").mkdir(parents=True)
    before = tree(tmp_path)
    with pytest.raises(Corrupt, match="cannot name a file"):
        repo.get("app", 1, to=tmp_path / "a" / "b" / "into")
    assert tree(tmp_path) == before
    assert repo.get("app", 1, to=tmp_path / "named").exists()


@pytest.mark.parametrize("name", ["..", "../x", "/etc/x", ""])
def test_mlflow_refuses_a_row_with_such_a_name(
    name, local: Backing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    local.open().publish("app", b"content")
    rewrite(local, "app", filename=name)
    monkeypatch.setenv("VERSIONED_TABLE", local.table_uri)
    monkeypatch.setenv("VERSIONED_STORAGE", local.storage_uri)
    (tmp_path / "into").mkdir()
    artifacts = mlflow_artifacts.VersionedArtifactRepository("versioned:/app/1")
    for call in (
        lambda: artifacts.download_artifacts("", str(tmp_path / "into")),
        artifacts.list_artifacts,
    ):
        with pytest.raises(MlflowException, match="cannot name a file"):
            call()
    assert [path.name for path in tmp_path.rglob("*")] == ["into"]


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127, "\U0001f642" * 63], ids=lambda one: one[0])
@pytest.mark.parametrize("is_folder", [False, True], ids=["file", "folder"])
def test_the_longest_names_come_back(name, is_folder, local: Backing, tmp_path: Path):
    repo = local.open()
    source = tmp_path / "source" / name
    source.parent.mkdir()
    if is_folder:
        source.mkdir()
        (source / "inside").write_bytes(b"content")
    else:
        source.write_bytes(b"content")
    repo.publish("app", source)
    (tmp_path / "into").mkdir()
    got = repo.get("app", 1, to=tmp_path / "into")
    assert got.name == name
    assert [path.name for path in (tmp_path / "into").iterdir()] == [name]


@pytest.mark.parametrize("time", ["", "yesterday", "2024-13-01T00:00:00.000000+0000", "+0000", 7])
def test_a_row_with_an_unreadable_time_can_be_read(time, local: Backing):
    repo = local.open()
    repo.publish("app", b"content")
    rewrite(local, "app", update_at=time)
    assert repo.show("app", 1).update_at == times.BEGINNING


# --- digests and sizes ---------------------------------------------------------------------------


@pytest.mark.parametrize("sha256", ["../../secret", "/etc/passwd", "A" * 64, "a" * 63, 7, ""])
def test_a_digest_that_is_none_reads_nothing(sha256, local: Backing, tmp_path: Path):
    repo = local.open()
    repo.publish("app", b"content")
    rewrite(local, "app", sha256=sha256)
    for call in _readings(repo, tmp_path):
        with pytest.raises(Corrupt):
            call()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("generation", ["/../../x", -1, 1.5, None])
def test_a_generation_that_is_none_reads_nothing(generation, local: Backing, tmp_path: Path):
    repo = local.open()
    repo.publish("app", b"content")
    rewrite(local, "app", generation=generation)
    for call in _readings(repo, tmp_path):
        with pytest.raises(Corrupt):
            call()


@pytest.mark.parametrize("size", [0, 1, 10**12, -1, "7"])
def test_content_that_is_not_as_long_as_its_row_says_is_refused(
    size, local: Backing, tmp_path: Path
):
    repo = local.open()
    repo.publish("app", b"content")
    rewrite(local, "app", size=size)
    for call in _readings(repo, tmp_path):
        with pytest.raises(Corrupt, match="bytes"):
            call()
    assert list(tmp_path.iterdir()) == []


def test_reading_stops_at_the_size_of_the_row(local: Backing):
    repo = local.open()
    repo.publish("app", b"content")
    read = 0

    def endless(key: str) -> Iterator[bytes]:
        nonlocal read
        while True:
            read += 1
            yield b"x" * 1024

    repo.storage.read = endless  # type: ignore[method-assign]
    with pytest.raises(Corrupt, match="more than the 7 bytes"):
        repo.read("app", 1)
    assert read == 1


def test_verify_reports_a_row_that_leads_elsewhere(local: Backing):
    repo = local.open()
    repo.publish("app", b"content")
    rewrite(local, "app", sha256="../../secret")
    assert any("is not a sha256" in problem.what for problem in repo.verify().problems)


def _readings(repo: Repository, tmp_path: Path) -> list[Callable[[], Any]]:
    return [
        lambda: repo.get("app", 1, to=tmp_path / "new" / "copy"),
        lambda: repo.read("app", 1),
        lambda: repo.open("app", 1).read(),
    ]


# --- archives ------------------------------------------------------------------------------------


def packed(tmp_path: Path, *members: tarfile.TarInfo, content: bytes = b"") -> Path:
    made = tmp_path / "packed"
    with tarfile.open(made, "w", format=tarfile.PAX_FORMAT) as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(content) if member.size else None)
    return made


def member(name: str, kind: bytes = tarfile.REGTYPE, **attributes: Any) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type = kind
    for attribute, value in attributes.items():
        setattr(made, attribute, value)
    return made


def refuse(archive: Path, tmp_path: Path) -> None:
    """Unpack an archive into a new folder, which must leave nothing."""
    before = tree(tmp_path)
    with pytest.raises(Corrupt):
        unpack(archive, tmp_path / "new" / "target")
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "made",
    [
        member("link", tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("link", tarfile.SYMTYPE, linkname="ok"),
        member("link", tarfile.LNKTYPE, linkname="ok"),
        member("link", tarfile.LNKTYPE, linkname="/etc/passwd"),
        member("device", tarfile.CHRTYPE, devmajor=1, devminor=3),
        member("device", tarfile.BLKTYPE, devmajor=8),
        member("pipe", tarfile.FIFOTYPE),
        member("/absolute"),
        member("../outside"),
        member("ok/.."),
        member("."),
        member("no/parent"),
        member("ok/below-a-file"),
        member("ok"),
        member("ok", tarfile.DIRTYPE),
        member("unknown", b"Z"),
        member("nul", pax_headers={"path": "a\0b"}),
        member("renamed", pax_headers={"path": "../outside"}),
        member("sparse", pax_headers={"GNU.sparse.map": "0,1", "GNU.sparse.size": "1"}),
        member("huge", pax_headers={"size": str(10**15)}),
        member("negative", pax_headers={"size": "-512"}),
    ],
    ids=lambda made: f"{made.name}-{made.type.decode()}",
)
def test_an_archive_with_anything_that_pack_never_writes_is_refused(made, tmp_path: Path):
    refuse(packed(tmp_path, member("ok", size=2), made, content=b"ok"), tmp_path)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_archive_is_refused(compress, tmp_path: Path):
    archive = packed(tmp_path, member("zeros", size=1 << 20), content=bytes(1 << 20))
    archive.write_bytes(compress(archive.read_bytes()))
    refuse(archive, tmp_path)


def test_an_archive_of_many_headers_for_one_file_is_refused(tmp_path: Path):
    with io.BytesIO() as stream:
        pax = member("x", tarfile.XHDTYPE, size=20).tobuf(tarfile.USTAR_FORMAT)
        for _ in range(5_000):
            stream.write(pax + b"20 comment=0123456\n\n".ljust(512, b"\0"))
        (tmp_path / "packed").write_bytes(stream.getvalue())
    refuse(tmp_path / "packed", tmp_path)


def test_files_get_plain_modes_and_no_owner(tmp_path: Path):
    archive = packed(tmp_path, member("ok", size=2, mode=0o6777, uid=1, gid=1), content=b"ok")
    unpack(archive, tmp_path / "target")
    assert (tmp_path / "target" / "ok").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "target" / "ok").stat().st_uid == tmp_path.stat().st_uid


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_archive_is_unpacked_or_refused_and_leaves_nothing_else(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
):
    here = tmp_path_factory.mktemp("damaged")
    source = here / "source"
    (source / "folder").mkdir(parents=True)
    (source / "folder" / ("long" * 60)).write_bytes(b"long")
    (source / "file").write_bytes(b"file")
    with io.BytesIO() as stream:
        pack(source, stream)
        content = bytearray(stream.getvalue())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    header = data.draw(st.integers(0, len(content) // 512 - 1)) * 512
    _sign(content, header)
    (here / "packed").write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        unpack(here / "packed", here / "target")
    except VersionedError:
        assert {path.name for path in here.iterdir()} == {"source", "packed"}
    else:
        assert {path.name for path in here.iterdir()} == {"source", "packed", "target"}
        assert not any(path.is_symlink() for path in (here / "target").rglob("*"))


def _sign(content: bytearray, header: int) -> None:
    """Give a damaged header the checksum that makes it look right."""
    content[header + 148 : header + 156] = b" " * 8
    total = sum(content[header : header + 512])
    content[header + 148 : header + 156] = b"%06o\0 " % total


def test_the_archive_of_a_row_is_refused_as_a_whole(local: Backing, tmp_path: Path):
    """From end to end: another program stored an archive with a link under a folder's row."""
    repo = local.open()
    (tmp_path / "source").mkdir()
    repo.publish("app", tmp_path / "source")
    hostile = packed(tmp_path, member("link", tarfile.SYMTYPE, linkname="/etc")).read_bytes()
    with staged(hostile) as content:
        place = repo._home.claim()
        repo.storage.write(f"{place.folder}/{content.sha256[:2]}/{content.sha256}", content)
        rewrite(local, "app", sha256=content.sha256, size=content.size)
    before = tree(tmp_path)
    with pytest.raises(Corrupt, match="which pack never writes"):
        repo.get("app", 1, to=tmp_path / "new" / "target")
    assert tree(tmp_path) == before
