"""Points 4 and 5: aliases are compare-and-set and recorded; a canary is sticky."""

from __future__ import annotations

import itertools
import threading
from collections import Counter

import pytest

from tests.versioned.conftest import Backing, Clock
from versioned import AliasState, Repository
from versioned.errors import (
    AliasChanged,
    AliasNotFound,
    ArtifactNotFound,
    InvalidCanary,
    NoCanary,
    RevisionNotFound,
    VersionDeleted,
    VersionNotFound,
)


@pytest.fixture
def repo(backing: Backing) -> Repository:
    made = backing.open()
    for content in (b"one", b"two", b"three"):
        made.publish("app", content)
    return made


def states(repo: Repository) -> list[tuple[str, str | None]]:
    return [(change.action, str(change.after)) for change in repo.history("app", "prod")]


def test_an_alias_points_at_a_version_and_says_at_which_revision_it_is(repo: Repository):
    assert repo.put_alias("app", "prod", 1).revision == 1
    assert repo.put_alias("app", "prod", 2).revision == 2
    alias = repo.get_alias("app", "prod")
    assert (alias.revision, alias.to_dict()["version"]) == (2, "2")
    assert repo.read(repo.resolve("app", "prod")) == b"two"


def test_a_change_is_refused_when_the_alias_is_not_at_the_expected_revision(repo: Repository):
    with pytest.raises(AliasChanged, match="does not exist") as caught:
        repo.put_alias("app", "prod", 1, expected_revision=1)
    assert caught.value.actual == 0
    repo.put_alias("app", "prod", 1, expected_revision=0)
    repo.put_alias("app", "prod", 2, expected_revision=1)
    changes = [
        lambda: repo.put_alias("app", "prod", 3, expected_revision=1),
        lambda: repo.put_alias("app", "prod", 3, expected_revision=0),
        lambda: repo.delete_alias("app", "prod", expected_revision=1),
        lambda: repo.canary("app", "prod", 3, 10, expected_revision=1),
        lambda: repo.rollback("app", "prod", expected_revision=1),
    ]
    for change in changes:
        with pytest.raises(AliasChanged, match="is at revision 2") as caught:
            change()
        assert caught.value.actual == 2
    assert repo.get_alias("app", "prod").revision == 2


def test_of_two_who_saw_the_same_revision_one_wins(backing: Backing, repo: Repository):
    repo.put_alias("app", "prod", 1)
    repos = {version: backing.open() for version in (2, 3)}
    start, outcomes = threading.Barrier(2, timeout=20), []

    def change(version: int) -> None:
        mine = repos[version]
        start.wait()
        try:
            outcomes.append(mine.put_alias("app", "prod", version, expected_revision=1).version)
        except AliasChanged:
            outcomes.append("lost")

    threads = [threading.Thread(target=change, args=(version,)) for version in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    won, lost = sorted(outcomes)
    assert lost == "lost"
    assert repo.get_alias("app", "prod").version == won
    assert repo.get_alias("app", "prod").revision == 2


def test_without_an_expected_revision_all_changes_are_made_and_recorded(
    backing: Backing, repo: Repository
):
    repos = [backing.open(actor=f"actor-{number}") for number in range(3)]

    def change(number: int) -> None:
        mine = repos[number]
        for version in (1, 2, 3):
            mine.put_alias("app", "prod", version, reason=f"{number}-{version}")

    threads = [threading.Thread(target=change, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    changes = list(reversed(repo.history("app", "prod").items))
    assert [change.revision for change in changes] == list(range(1, len(changes) + 1))
    for earlier, later in itertools.pairwise(changes):
        assert later.before == earlier.after
    assert str(changes[-1].after) == repo.get_alias("app", "prod").to_dict()["version"]


def test_every_change_is_recorded_who_when_why_before_and_after(backing: Backing, clock: Clock):
    repo = backing.open(actor="ann", clock=clock)
    repo.publish("app", b"one")
    repo.publish("app", b"two")
    repo.put_alias("app", "prod", 1, reason="first release")
    clock.pass_days(1)
    repo.canary("app", "prod", 2, 20, by="bob", reason="try it")
    newest, oldest = repo.history("app", "prod")
    assert (oldest.by, oldest.reason, oldest.action) == ("ann", "first release", "put")
    assert (newest.by, newest.reason, newest.action) == ("bob", "try it", "canary")
    assert newest.at.timestamp() - oldest.at.timestamp() == 86_400
    assert (oldest.before, oldest.after) == (None, AliasState("1"))
    assert (newest.before, newest.after) == (AliasState("1"), AliasState("1", "2", 20))
    alias = repo.get_alias("app", "prod")
    assert (alias.by, alias.reason) == ("bob", "try it")


def test_a_change_that_changes_nothing_is_not_recorded(repo: Repository):
    repo.put_alias("app", "prod", 1)
    assert repo.put_alias("app", "prod", "000001").revision == 1
    assert len(repo.history("app", "prod")) == 1


@pytest.mark.parametrize(
    ("versions", "error"),
    [((4,), VersionNotFound), ((1, 4, 10), VersionNotFound), ((3,), VersionDeleted)],
)
def test_the_targets_are_checked(versions, error, repo: Repository):
    repo.delete("app", 3)
    with pytest.raises(error):
        repo.put_alias("app", "prod", *versions)
    with pytest.raises(AliasNotFound):
        repo.get_alias("app", "prod")
    assert len(repo.history("app", "prod")) == 0


def test_a_target_that_is_deleted_at_the_last_moment_is_noticed(backing: Backing, repo: Repository):
    """The check is in the same transaction: between looking and writing nothing slips through."""
    other = backing.open()
    real = repo._home.table.transact

    def delete_first(writes):
        repo._home.table.transact = real  # type: ignore[method-assign]
        other.delete("app", 2)
        real(writes)

    repo._home.table.transact = delete_first  # type: ignore[method-assign]
    with pytest.raises(VersionDeleted, match="undelete it first"):
        repo.put_alias("app", "prod", 2)
    assert repo.list_aliases("app").items == []


def test_an_alias_of_an_artifact_that_does_not_exist_is_refused(repo: Repository):
    with pytest.raises(ArtifactNotFound):
        repo.put_alias("other", "prod", 1)


def test_an_alias_of_latest_follows_it(repo: Repository):
    repo.put_alias("app", "dev")
    assert repo.resolve("app", "dev").version == "LATEST"
    repo.put("app", b"newer")
    assert repo.read(repo.resolve("app", "dev")) == b"newer"


def test_rollback_undoes_the_last_change_and_is_recorded_itself(repo: Repository):
    repo.put_alias("app", "prod", 1)
    repo.put_alias("app", "prod", 2, 3, 50)
    back = repo.rollback("app", "prod", reason="errors")
    assert back is not None
    assert (back.revision, back.to_dict()["version"]) == (3, "1")
    again = repo.rollback("app", "prod")
    assert again is not None
    assert again.to_dict()["secondary_version_weight"] == 50
    assert [change.action for change in repo.history("app", "prod")] == [
        "rollback", "rollback", "put", "put",
    ]  # fmt: skip


def test_rollback_goes_to_any_recorded_state_even_across_a_deletion(repo: Repository):
    repo.put_alias("app", "prod", 1)
    repo.put_alias("app", "prod", 2, 3, 10)
    repo.delete_alias("app", "prod")
    repo.put_alias("app", "prod", 3)
    for revision, expected in [(1, "1"), (2, "2, 10 % to 3"), (4, "3")]:
        repo.rollback("app", "prod", revision)
        assert str(repo.history("app", "prod", limit=1).items[0].after) == expected
    assert repo.rollback("app", "prod", 3) is None
    with pytest.raises(AliasNotFound):
        repo.get_alias("app", "prod")
    assert repo.rollback("app", "prod") is not None


def test_rollback_to_what_never_was_is_refused(repo: Repository):
    with pytest.raises(RevisionNotFound):
        repo.rollback("app", "prod")
    repo.put_alias("app", "prod", 1)
    for revision in (None, 2, 0, -1):
        with pytest.raises(RevisionNotFound):
            repo.rollback("app", "prod", revision)


def test_rollback_to_a_version_that_is_deleted_since_is_refused(repo: Repository):
    repo.put_alias("app", "prod", 1)
    repo.put_alias("app", "prod", 2)
    repo.delete("app", 1)
    with pytest.raises(VersionDeleted, match="version 1"):
        repo.rollback("app", "prod")
    assert repo.get_alias("app", "prod").to_dict()["version"] == "2"


def test_a_deleted_alias_keeps_its_history_and_its_numbers_go_on(repo: Repository):
    repo.put_alias("app", "prod", 1)
    repo.delete_alias("app", "prod", reason="not needed")
    with pytest.raises(AliasNotFound):
        repo.resolve("app", "prod")
    with pytest.raises(AliasNotFound):
        repo.delete_alias("app", "prod")
    assert repo.put_alias("app", "prod", 2).revision == 3
    assert states(repo) == [("put", "2"), ("delete", "None"), ("put", "1")]


# --- canary --------------------------------------------------------------------------------------


def test_a_canary_gives_about_its_weight_of_the_keys_the_secondary_version(repo: Repository):
    repo.put_alias("app", "prod", 1)
    repo.canary("app", "prod", 2, 20)
    given = Counter(repo.resolve("app", "prod", f"user-{n}").version for n in range(500))
    assert set(given) == {"1", "2"}
    assert 60 <= given["2"] <= 140


def test_the_same_key_gets_the_same_answer_from_every_repository(
    backing: Backing, repo: Repository
):
    repo.put_alias("app", "prod", 1, 2, 50)
    other = backing.open()
    keys = [f"user-{n}" for n in range(30)] + ["", "é\0", "\ud800"]
    answers = [repo.resolve("app", "prod", key).version for key in keys]
    assert [other.resolve("app", "prod", key).version for key in keys] == answers
    assert [repo.resolve("app", "prod", key).version for key in keys] == answers


def test_raising_the_weight_takes_nobody_out_of_the_canary(repo: Repository):
    repo.put_alias("app", "prod", 1)
    keys = [f"user-{n}" for n in range(60)]
    inside: set[str] = set()
    for weight in (5, 25, 60, 99):
        repo.canary("app", "prod", 2, weight)
        now = {key for key in keys if repo.resolve("app", "prod", key).version == "2"}
        assert inside <= now
        inside = now


def test_the_next_canary_does_not_meet_the_same_keys_first(repo: Repository):
    keys = [f"user-{n}" for n in range(200)]
    met = []
    for version in (2, 3):
        repo.put_alias("app", "prod", 1, version, 10)
        met.append({key for key in keys if repo.resolve("app", "prod", key).version != "1"})
    assert met[0] != met[1]


def test_a_weight_of_zero_gives_nobody_the_secondary_version(repo: Repository):
    repo.put_alias("app", "prod", 1, 2, 0)
    assert {repo.resolve("app", "prod", f"{n}").version for n in range(50)} == {"1"}
    assert {repo.resolve("app", "prod").version for _ in range(20)} == {"1"}


def test_without_a_key_the_version_is_drawn_by_weight(repo: Repository):
    repo.put_alias("app", "prod", 1, 2, 50)
    assert {repo.resolve("app", "prod").version for _ in range(60)} == {"1", "2"}


def test_promote_gives_everybody_the_secondary_version(repo: Repository):
    repo.put_alias("app", "prod", 1, 2, 20)
    assert repo.promote("app", "prod").to_dict()["version"] == "2"
    assert {repo.resolve("app", "prod", f"{n}").version for n in range(20)} == {"2"}
    assert repo.get_alias("app", "prod").secondary_version is None


def test_abort_gives_everybody_the_primary_version(repo: Repository):
    repo.put_alias("app", "prod", 1, 2, 20)
    assert repo.abort("app", "prod").to_dict()["version"] == "1"
    assert {repo.resolve("app", "prod", f"{n}").version for n in range(20)} == {"1"}


def test_there_is_nothing_to_promote_or_abort_without_a_canary(repo: Repository):
    for end in (repo.promote, repo.abort):
        with pytest.raises(AliasNotFound):
            end("app", "prod")
    repo.put_alias("app", "prod", 1)
    for end in (repo.promote, repo.abort):
        with pytest.raises(NoCanary, match="no secondary version"):
            end("app", "prod")


@pytest.mark.parametrize("weight", [-1, 100, 1.5, True, "20"])
def test_a_bad_weight_is_refused_with_and_without_a_secondary_version(weight, repo: Repository):
    repo.put_alias("app", "prod", 1)
    for call in (
        lambda: repo.put_alias("app", "prod", 1, 2, weight),
        lambda: repo.put_alias("app", "prod", 1, None, weight),
        lambda: repo.canary("app", "prod", 2, weight),
    ):
        with pytest.raises(InvalidCanary):
            call()
    assert repo.get_alias("app", "prod").revision == 1


def test_a_canary_with_the_version_that_is_there_already_is_refused(repo: Repository):
    repo.put_alias("app", "prod", 1)
    with pytest.raises(InvalidCanary, match="two different versions"):
        repo.canary("app", "prod", 1, 10)


def test_resolving_a_numbered_version_is_one_read(backing: Backing, repo: Repository):
    """What the row of a version says is kept with the alias: it cannot change meanwhile."""
    repo.put_alias("app", "prod", 2)
    reads: list[object] = []
    real = repo._home.table.engine.get
    repo._home.table.engine.get = lambda *a, **k: reads.append(a) or real(*a, **k)  # type: ignore[method-assign,func-returns-value]
    assert repo.resolve("app", "prod", "key") == repo.show("app", 2)
    assert len(reads) == 2
