"""Point 9: repositories that share a table do not see each other, and share no state."""

from __future__ import annotations

import threading
from datetime import timedelta

import boto3
import pytest

from tests.versioned.conftest import Backing
from versioned import Repository
from versioned.errors import ArtifactNotFound, InvalidName


def fill(repo: Repository, content: bytes) -> None:
    repo.publish("app", content)
    repo.put_alias("app", "prod", 1)


def assert_apart(one: Repository, other: Repository) -> None:
    fill(one, b"one")
    assert other.list_names().items == []
    assert other.list_versions("app").items == []
    assert other.list_aliases("app").items == []
    assert other.history("app", "prod").items == []
    with pytest.raises(ArtifactNotFound):
        other.show("app")
    fill(other, b"other")
    assert (one.read("app", 1), other.read("app", 1)) == (b"one", b"other")
    assert one.read(one.resolve("app", "prod")) == b"one"
    other.publish("mine", b"one")
    one.delete_alias("app", "prod")
    one.purge_artifact("app")
    one.gc(grace=timedelta(0))
    assert other.list_names().items == ["app", "mine"]
    assert other.read("mine", 1) == b"one"
    assert one.verify().ok
    assert other.verify().ok


def test_two_storages_on_one_table_are_two_repositories(backing: Backing):
    assert_apart(backing.open(), backing.open(storage=backing.other_storage()))


def test_two_namespaces_on_one_table_and_one_storage_are_two_repositories(backing: Backing):
    assert_apart(backing.open(namespace="one"), backing.open(namespace="other"))


def test_a_namespace_and_none_are_two_repositories(backing: Backing):
    assert_apart(backing.open(), backing.open(namespace="other"))


def test_two_tables_on_one_storage_are_two_repositories(backing: Backing):
    assert_apart(backing.open(), backing.open(table=backing.table_uri.replace("artifacts", "rest")))


def test_whoever_opens_the_same_table_and_storage_sees_the_same(backing: Backing):
    fill(backing.open(), b"one")
    assert backing.open().read("app", 1) == b"one"
    fill(backing.open(namespace="team"), b"two")
    assert backing.open(namespace="team").read("app", 1) == b"two"


def test_the_first_repository_of_a_table_has_the_plain_keys_and_the_others_a_prefix(
    backing: Backing,
):
    first = backing.open()
    second = backing.open(storage=backing.other_storage())
    named = backing.open(namespace="team")
    for repo in (first, second, named):
        repo.publish("app", b"x")
    assert first._home.keys.versions("app") == "app"
    assert second._home.keys.versions("app").startswith("~")
    assert named._home.keys.versions("app") == "team:app"
    assert {repo.show("app", 1).name for repo in (first, second, named)} == {"app"}


def test_a_folder_can_be_moved(local: Backing, tmp_path):
    """The identity lies in the folder, not in its path."""
    folder = tmp_path / "before"
    fill(local.open(storage=str(folder)), b"one")
    folder.rename(tmp_path / "after")
    assert local.open(storage=str(tmp_path / "after")).read("app", 1) == b"one"


def test_repositories_that_start_at_once_agree_on_their_places(backing: Backing):
    storages = [backing.storage_uri, backing.other_storage()]
    repos = [backing.open(storage=storages[number % 2]) for number in range(6)]
    start, places = threading.Barrier(6, timeout=20), []

    def begin(number: int) -> None:
        repo = repos[number]
        start.wait()
        repo.publish(f"app-{number}", b"x")
        places.append((number % 2, repo._home.find()))

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(places) == 6
    assert len(set(places)) == 2
    assert sorted(backing.open().list_names()) == ["app-0", "app-2", "app-4"]


@pytest.mark.parametrize("namespace", ["", "a:b", "~x", "a/b", "é", "x" * 129])
def test_a_bad_namespace_is_refused(namespace, local: Backing):
    with pytest.raises(InvalidName, match="cannot name a namespace"):
        local.open(namespace=namespace)


def test_two_sets_of_credentials_in_two_threads_do_not_mix(backing: Backing):
    """Each repository signs with its own, however their calls are interleaved."""
    if backing.session is None:
        pytest.skip("a file and a folder have no credentials")
    seen: dict[str, set[str]] = {}
    repos: dict[str, Repository] = {}
    for user in ("ALICE", "BOB"):
        session = boto3.session.Session(user, "secret", region_name="us-east-1")
        repos[user] = backing.open(session=session, namespace=user)
        seen[user] = set()

        def note(request, user=user, **_):
            seen[user].add(request.headers["Authorization"].decode())

        repos[user].storage._client.meta.events.register("before-send.s3", note)  # type: ignore[attr-defined]

    def work(user: str) -> None:
        for number in range(5):
            repos[user].publish("app", f"{user}{number}".encode())

    threads = [threading.Thread(target=work, args=(user,)) for user in repos]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for user, repo in repos.items():
        assert seen[user]
        assert all(f"Credential={user}/" in header for header in seen[user])
        assert repo.read("app", 1) == f"{user}0".encode()


def test_opening_a_repository_leaves_boto3s_default_session_alone(backing: Backing):
    before = boto3.DEFAULT_SESSION
    backing.open(session=None).publish("app", b"x")
    assert boto3.DEFAULT_SESSION is before
